"""Columns arrive as the records they stand for: written by `send_many`, read by confluent-kafka."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.producer.partitioning.murmur2 import murmur2, positive

from .brokers import TIMEOUT, Cluster

PARTITIONS = 3
COUNT = 12_000

Read = dict[int, list[tuple[Any, ...]]]


def read_by_confluent(cluster: Cluster, topic: str, count: int) -> Read:
    """Key, value, timestamp and headers of each record, by partition in order."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reads-columns",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    found: Read = {partition: [] for partition in range(PARTITIONS)}
    left = count
    while left:
        messages = consumer.consume(min(left, 5000), timeout=TIMEOUT)
        assert messages, f"{left} records are missing"
        left -= len(messages)
        for message in messages:
            assert message.error() is None
            found[message.partition()].append(
                (message.key(), message.value(), message.timestamp()[1], message.headers() or [])
            )
    consumer.close()
    return found


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("form", ["lists", "arrow"])
@pytest.mark.parametrize("lengths", ["fixed", "varying"])
def test_columns_are_read_as_records(cluster: Cluster, form: str, codec: str, lengths: str) -> None:
    chance = random.Random(3)
    is_fixed = lengths == "fixed"
    values: list[bytes | None] = [
        b"%030d" % row if is_fixed else None if row % 11 == 0 else chance.randbytes(chance.randrange(120))
        for row in range(COUNT)
    ]
    keys = [b"%036d" % (row % 700) if is_fixed else b"%d" % (row % 700) for row in range(COUNT)]
    times = (
        [1_700_000_000_000] * COUNT if is_fixed else [1_700_000_000_000 + row // 2 for row in range(COUNT)]
    )
    headers = [("trace", b"1")]
    columns: tuple[Any, Any] = (values, keys)
    if form == "arrow":
        pa = pytest.importorskip("pyarrow")
        columns = (pa.array(values, pa.binary()), pa.array(keys, pa.binary()))
    topic = cluster.new_topic(PARTITIONS)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, compression_type=codec) as producer:
        delivery = producer.send_many(
            topic, columns[0], keys=columns[1], timestamps_ms=times, headers=headers
        )
        batches = delivery.result(TIMEOUT)
    found = read_by_confluent(cluster, topic, COUNT)
    for partition in range(PARTITIONS):
        rows = [row for row in range(COUNT) if positive(murmur2(keys[row])) % PARTITIONS == partition]
        assert found[partition] == [(keys[row], values[row], times[row], headers) for row in rows]
        assert [row for batch in batches if batch.partition == partition for row in batch.rows] == rows
