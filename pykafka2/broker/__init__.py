"""A Kafka broker in this process: what a broker is made of, nothing that only tests want.

`Broker` (broker.py) is the facade; docs/architecture.md says which folder may touch which.  Who writes tests
uses `pykafka2.testing`, which starts and steers these brokers.
"""
