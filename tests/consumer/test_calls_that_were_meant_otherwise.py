"""Calls that a newcomer gets wrong say what to write; nothing waits for what cannot come."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.errors import IllegalArgument, IllegalState
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


WRONG: dict[str, tuple[Call, str]] = {
    "assign": (
        lambda c: c.assign(ORDERS_0),
        r"a list, such as \[TopicPartition\(topic='orders', partition=0\)\]",
    ),
    "assign a topic": (lambda c: c.assign("orders"), "partitions are given as a list.* not 'orders'"),
    "assign nothing": (lambda c: c.assign(None), "partitions are given as a list.* not None"),
    "end_offsets": (lambda c: c.end_offsets(ORDERS_0), "partitions are given as a list"),
    "pause": (lambda c: c.pause([ORDERS_0]), r"give them one by one: f\(\*partitions\)"),
    "seek_to_end": (lambda c: c.seek_to_end({ORDERS_0}), r"give them one by one: f\(\*partitions\)"),
    "times": (lambda c: c.offsets_for_times([ORDERS_0]), r"as \{TopicPartition: milliseconds\}, not \["),
    "no timeout": (lambda c: c.poll(None), "timeout_ms=None: it must be a number of milliseconds"),
    "a timedelta": (lambda c: c.poll(timedelta(1)), "timeout_ms=datetime.timedelta.*number of milliseconds"),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_argument_of_another_kind_says_what_to_write(cluster: LogCluster, what: str) -> None:
    call, words = WRONG[what]
    with cluster.consumer("orders") as consumer, pytest.raises(TypeError, match=words):
        call(consumer)


def test_a_pattern_among_the_names_says_how_patterns_are_given(cluster: LogCluster) -> None:
    with cluster.consumer() as consumer:
        with pytest.raises(IllegalArgument, match=r"write subscribe\(pattern='\^orders\.\*'\)"):
            consumer.subscribe(["^orders.*"])
        assert consumer.subscription() == set()


@pytest.mark.filterwarnings("ignore:a KafkaConsumer:ResourceWarning")
def test_a_range_keeps_the_consumer_that_reads_it(cluster: LogCluster) -> None:
    pieces = cluster.consumer().read_range(ORDERS_0, 0, 3)
    gc.collect()
    assert [value for piece in pieces for value in piece.values] == [b"a", b"b", b"c"]
    del pieces
    gc.collect()


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
