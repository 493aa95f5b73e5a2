"""How fast Spark's sinks and sources on Kafka are, side by side in one run."""
