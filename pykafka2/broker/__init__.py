"""A Kafka broker inside this process, without test controls.

`Broker` (broker.py) is one of a cluster; docs/architecture.md defines which folder can import which. Tests
use `pykafka2.testing`, which starts and controls these brokers.
"""
