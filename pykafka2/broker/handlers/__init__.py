"""Handlers of the broker's APIs: one file for each API, registered by `api.py` (Kafka's KafkaApis)."""
