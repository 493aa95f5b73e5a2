"""Handlers of the broker's APIs: one file for each family, declared with `@api` (Kafka's KafkaApis)."""
