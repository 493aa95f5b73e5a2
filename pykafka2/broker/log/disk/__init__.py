"""Apache Kafka's formats of the files in a log directory, as functions between bytes and values."""
