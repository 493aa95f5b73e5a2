"""Committed records of a topic as an independent reader sees them: confluent-kafka with read_committed."""

from __future__ import annotations

import time
from collections import Counter

from confluent_kafka import Consumer, TopicPartition

PATIENCE = 90.0
"""Seconds for open transactions to be over."""


def committed(
    bootstrap_servers: str, topic: str, isolation: str = "read_committed", *, waits: bool = True
) -> Counter[str]:
    """How often each value is there, up to the end of the logs as it is now.

    waits: for open transactions to end; otherwise what comes before them is counted.
    Raises AssertionError if transactions stay open.
    """
    # The end offsets are those of all records: a moment after a producer's commit has returned, markers may
    # be missing, and a reader of committed records gets end offsets before the records that it is to show.
    ends = _ends(bootstrap_servers, topic, "read_uncommitted" if waits else isolation)
    consumer = _consumer(bootstrap_servers, isolation)
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in ends])
        found: Counter[str] = Counter()
        deadline = time.monotonic() + PATIENCE
        while True:
            for message in consumer.consume(5_000, timeout=0.1):
                assert message.error() is None, message.error()
                value = message.value()
                found[value.decode() if value is not None else "null"] += 1
            reached = {one.partition: one.offset for one in consumer.position(list(consumer.assignment()))}
            if all(reached[number] >= end for number, end in ends.items() if end):
                return found
            assert time.monotonic() < deadline, f"open transactions hold back readers: {reached} of {ends}"
    finally:
        consumer.close()


def _ends(bootstrap_servers: str, topic: str, isolation: str) -> dict[int, int]:
    consumer = _consumer(bootstrap_servers, isolation)
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=60)[1]
            for number in partitions
        }
    finally:
        consumer.close()


def _consumer(bootstrap_servers: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "never-joined",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "auto.offset.reset": "earliest",
        }
    )
