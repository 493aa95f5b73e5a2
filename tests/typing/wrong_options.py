"""One wrong option in each statement, for the type checkers; never run.

Each line must give one short error (test_typing.py for mypy, with_pyright.py for pyright).
"""

from __future__ import annotations

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer

KafkaProducer(linger=5)
KafkaProducer(acks="some")
KafkaProducer({"bootstrap.servers": "localhost:9092"}, compression_type="zip")
KafkaProducer(value_serializer=str.encode, security_protocol="TLS")
KafkaProducer(key_serializer=str.encode, value_serializer=str.encode, batch_size="large")
KafkaConsumer("orders", auto_offset_rest="latest")
KafkaConsumer("orders", auto_offset_reset="begin")
KafkaConsumer("orders", value_deserializer=bytes.decode, isolation_level="committed")
KafkaConsumer({"bootstrap.servers": "localhost:9092"}, partition_assignment_strategy="stickiest")
KafkaAdminClient(bootstrap_server="localhost:9092")
KafkaAdminClient(security_protocol="TLS")
