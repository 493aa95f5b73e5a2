"""Kafka's options of brokers, topics and groups: as data, their values, and the layers they come from."""
