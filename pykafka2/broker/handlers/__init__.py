"""What the broker answers: one file an API, registered by `registry.py` (Kafka's KafkaApis)."""
