"""The options of source and sink, one table each; all are checked before the first request to Kafka."""
