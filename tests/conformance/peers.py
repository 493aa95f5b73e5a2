"""Clients that can produce and consume, behind one face: ours, and those of Java, librdkafka and Python.

A record here is a Row: timestamp in milliseconds, key, value, headers. All work on partition 0 by default,
and without a consumer group.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from typing import Any, Protocol

from .bridge import Bridge, b64, unb64

Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

TIMEOUT = 60.0
"""Seconds for all records of a test to be acknowledged, or to arrive."""


class Peer(Protocol):
    """One client library."""

    def produce(self, bootstrap_servers: str, topic: str, rows: list[Row], codec: str) -> None:
        """Send the rows in order, and return when all are acknowledged by all replicas."""

    def consume(self, bootstrap_servers: str, topic: str, count: int) -> list[Row]:
        """The first `count` records of partition 0."""


class Ours:
    """pykafka2."""

    def produce(self, bootstrap_servers: str, topic: str, rows: list[Row], codec: str) -> None:
        from pykafka2 import KafkaProducer

        with KafkaProducer(
            bootstrap_servers=bootstrap_servers, compression_type=codec, linger_ms=20
        ) as producer:
            deliveries = [
                producer.send(topic, value, key=key, headers=headers, partition=0, timestamp_ms=timestamp)
                for timestamp, key, value, headers in rows
            ]
            for delivery in deliveries:
                delivery.result(timeout=TIMEOUT)

    def consume(self, bootstrap_servers: str, topic: str, count: int) -> list[Row]:
        from pykafka2 import KafkaConsumer, TopicPartition

        rows: list[Row] = []
        deadline = time.monotonic() + TIMEOUT
        with KafkaConsumer(bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            while len(rows) < count:
                assert time.monotonic() < deadline, f"only {len(rows)} of {count} records arrived"
                for records in consumer.poll(timeout_ms=200).values():
                    rows += [(one.timestamp, one.key, one.value, one.headers) for one in records]
        return rows


class Java:
    """kafka-clients 4.4.0, in the bridge's JVM."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def produce(self, bootstrap_servers: str, topic: str, rows: list[Row], codec: str) -> None:
        records = [
            {"timestamp": timestamp, "key": b64(key), "value": b64(value), "headers": as_pairs(headers)}
            for timestamp, key, value, headers in rows
        ]
        config = {"compression.type": codec, "linger.ms": "20"}
        self._bridge(
            "produce",
            [{"bootstrap_servers": bootstrap_servers, "topic": topic, "records": records, "config": config}],
        )

    def consume(self, bootstrap_servers: str, topic: str, count: int) -> list[Row]:
        item = {"bootstrap_servers": bootstrap_servers, "topic": topic, "count": count}
        (records,) = self._bridge("consume", [item])
        return [
            (
                record["timestamp"],
                unb64(record["key"]),
                unb64(record["value"]),
                [(name, unb64(data)) for name, data in record["headers"]],
            )
            for record in records
        ]


class Confluent:
    """confluent-kafka, that is librdkafka."""

    def produce(self, bootstrap_servers: str, topic: str, rows: list[Row], codec: str) -> None:
        from confluent_kafka import Producer

        failures: list[Any] = []
        producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "compression.type": codec, "linger.ms": 20}
        )

        def on_delivery(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(error)

        for timestamp, key, value, headers in rows:
            producer.produce(
                topic,
                value,
                key,
                partition=0,
                timestamp=timestamp,
                headers=[*headers],
                on_delivery=on_delivery,
            )
        assert producer.flush(TIMEOUT) == 0, "records are left in the queue"
        assert not failures

    def consume(self, bootstrap_servers: str, topic: str, count: int) -> list[Row]:
        from confluent_kafka import Consumer, TopicPartition

        rows: list[Row] = []
        deadline = time.monotonic() + TIMEOUT
        # It wants a group's name even where no group is joined and nothing committed.
        consumer = Consumer(
            {"bootstrap.servers": bootstrap_servers, "group.id": "unused", "enable.auto.commit": False}
        )
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while len(rows) < count:
                assert time.monotonic() < deadline, f"only {len(rows)} of {count} records arrived"
                for message in consumer.consume(count, timeout=0.2):
                    assert message.error() is None, message.error()
                    _, timestamp = message.timestamp()
                    headers: Any = message.headers() or []
                    rows.append((timestamp, message.key(), message.value(), headers))
        finally:
            consumer.close()
        return rows


class KafkaPython:
    """kafka-python."""

    def produce(self, bootstrap_servers: str, topic: str, rows: list[Row], codec: str) -> None:
        kafka = _kafka_python()
        compression = None if codec == "none" else codec
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap_servers, compression_type=compression, linger_ms=20
        )
        try:
            futures = [
                producer.send(topic, value, key, headers, partition=0, timestamp_ms=timestamp)
                for timestamp, key, value, headers in rows
            ]
            producer.flush(TIMEOUT)
            for future in futures:
                future.get(TIMEOUT)
        finally:
            producer.close(TIMEOUT)

    def consume(self, bootstrap_servers: str, topic: str, count: int) -> list[Row]:
        kafka = _kafka_python()
        rows: list[Row] = []
        deadline = time.monotonic() + TIMEOUT
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", enable_auto_commit=False
        )
        try:
            consumer.assign([kafka.TopicPartition(topic, 0)])
            while len(rows) < count:
                assert time.monotonic() < deadline, f"only {len(rows)} of {count} records arrived"
                for records in consumer.poll(timeout_ms=200).values():
                    rows += [(one.timestamp, one.key, one.value, list(one.headers)) for one in records]
        finally:
            consumer.close()
        return rows


class Aiokafka:
    """aiokafka."""

    def produce(self, bootstrap_servers: str, topic: str, rows: list[Row], codec: str) -> None:
        from aiokafka import AIOKafkaProducer

        async def produce() -> None:
            async with AIOKafkaProducer(
                bootstrap_servers=bootstrap_servers,
                compression_type=None if codec == "none" else codec,
                linger_ms=20,
                enable_idempotence=True,
            ) as producer:
                futures = [
                    await producer.send(topic, value, key, 0, timestamp, headers)
                    for timestamp, key, value, headers in rows
                ]
                await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT)

        asyncio.run(produce())

    def consume(self, bootstrap_servers: str, topic: str, count: int) -> list[Row]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def consume() -> list[Row]:
            rows: list[Row] = []
            async with AIOKafkaConsumer(
                bootstrap_servers=bootstrap_servers, auto_offset_reset="earliest", enable_auto_commit=False
            ) as consumer:
                consumer.assign([TopicPartition(topic, 0)])
                while len(rows) < count:
                    for records in (await consumer.getmany(timeout_ms=200)).values():
                        rows += [(one.timestamp, one.key, one.value, list(one.headers)) for one in records]
            return rows

        return asyncio.run(asyncio.wait_for(consume(), TIMEOUT))


def _kafka_python() -> Any:
    """The module; what it deprecates is not our matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import kafka

        return kafka


def as_pairs(headers: list[tuple[str, bytes | None]]) -> list[list[str | None]]:
    return [[name, b64(data)] for name, data in headers]
