"""The options of source and sink: one table each, read before anything is asked of Kafka."""
