"""Handlers of the broker's APIs: one file for each API, registered by `registry.py` (Kafka's KafkaApis)."""
