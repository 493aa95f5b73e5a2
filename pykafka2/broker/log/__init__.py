"""A partition's log: segments, indexes, leader epochs, what producers have written (Kafka's UnifiedLog)."""
