"""Calls that a newcomer gets wrong say what to write; nothing waits for what cannot come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.errors import IllegalState
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> LogCluster:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, b"a", b"b", b"c")
    return cluster


Call = Callable[[Any], object]
READS: dict[str, Call] = {
    "poll": lambda consumer: consumer.poll(timeout_ms=100),
    "poll_columns": lambda consumer: consumer.poll_columns(timeout_ms=100),
    "next": next,
    "iteration": list,
}


@pytest.mark.parametrize("read", READS)
def test_who_reads_nothing_is_told_and_waits_for_nothing(cluster: LogCluster, read: str) -> None:
    with cluster.consumer() as consumer:
        with pytest.raises(
            IllegalState, match=r"nothing is subscribed to or assigned.* subscribe\(\) or assi"
        ):
            READS[read](consumer)
        consumer.subscribe(["orders"])
        assert next(consumer).value == b"a"
        consumer.unsubscribe()
        with pytest.raises(IllegalState, match="nothing is subscribed to or assigned"):
            READS[read](consumer)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("consume", r"no attribute 'consume'; here it is poll\(timeout_ms=..., max_records=...\)"),
        ("get_watermark_offsets", r"; here it is beginning_offsets\(\[partition\]\) and end_offsets"),
        ("pol", "'KafkaConsumer' object has no attribute 'pol'$"),
    ],
)
def test_a_call_of_another_client_is_told_ours(cluster: LogCluster, name: str, words: str) -> None:
    with cluster.consumer("orders") as consumer:
        assert not hasattr(consumer, name)
        with pytest.raises(AttributeError, match=words):
            getattr(consumer, name)


def test_a_consumer_that_could_not_be_made_says_why_and_no_more() -> None:
    half_made = KafkaConsumer.__new__(KafkaConsumer)
    with pytest.raises(AttributeError, match="_options"):
        repr(half_made)
