"""A partition's log: segments, indexes, leader epochs, producer states (Kafka's UnifiedLog)."""
