"""The conformance stage: pykafka2 held against Apache Kafka's own jars, its server and other clients."""
