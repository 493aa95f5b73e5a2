"""Unencodable arguments are rejected by the call, and reading continues."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from pykafka2 import OffsetAndMetadata
from pykafka2.consumer.calls.arguments import checked_range, checked_timeout
from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)
PLAIN: Any = ("orders", 0)
"""A partition as a plain tuple, which equals a TopicPartition."""


@pytest.fixture
def cluster() -> LogCluster:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, b"a", b"b", b"c")
    return cluster


def offsets(consumer: KafkaConsumer) -> list[int]:
    found: list[int] = []
    for _ in range(4):
        for records in consumer.poll(300).values():
            found += [record.offset for record in records]
    return found


PLAIN_CALLS: dict[str, Callable[[KafkaConsumer], object]] = {
    "seek": lambda consumer: consumer.seek(PLAIN, 1),
    "seek_to_beginning": lambda consumer: consumer.seek_to_beginning(PLAIN),
    "seek_to_end": lambda consumer: consumer.seek_to_end(PLAIN),
    "pause": lambda consumer: (consumer.pause(PLAIN), consumer.resume(PLAIN)),
    "position": lambda consumer: consumer.position(PLAIN),
    "lag": lambda consumer: consumer.lag(PLAIN),
}


@pytest.mark.parametrize("call", PLAIN_CALLS)
def test_a_plain_tuple_names_a_partition_in_every_call(cluster: LogCluster, call: str) -> None:
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        PLAIN_CALLS[call](consumer)
        read = offsets(consumer)
        assert read == {"seek": [1, 2], "seek_to_end": []}.get(call, [0, 1, 2])
        assert consumer.health()["state"] == "open"
        assert {type(one) for one in consumer._core.subscription.positions} == {TopicPartition}


REFUSED: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "seek": (lambda consumer: consumer.seek(ORDERS_0, 2**63), ValueError, "offset=9223372036854775808"),
    "no seek": (lambda consumer: consumer.seek("orders", 1), TypeError, "TopicPartition"),
    "no pause": (lambda consumer: consumer.pause("orders"), TypeError, "TopicPartition"),
    "late": (lambda consumer: consumer.offsets_for_times({ORDERS_0: 2**63}), ValueError, "the time"),
    "time": (lambda consumer: consumer.offsets_for_times({ORDERS_0: 1.5}), TypeError, "not 1.5"),
    "range": (lambda consumer: consumer.read_range(ORDERS_0, 0, 2**63), ValueError, "end=922337203"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_unencodable_argument_is_rejected_by_the_call(cluster: LogCluster, what: str) -> None:
    call, error, words = REFUSED[what]
    with cluster.consumer("orders") as consumer:
        assert offsets(consumer) == [0, 1, 2]
        with pytest.raises(error, match=words):
            call(consumer)
        cluster.append("orders", 0, b"d")
        assert offsets(consumer) == [3]


COMMITS: dict[str, tuple[object, type[Exception], str]] = {
    "epoch": (OffsetAndMetadata(1, "", 2**31), ValueError, "leader epoch must be .*not 2147483648"),
    "no epoch": (OffsetAndMetadata(1, "", "1"), TypeError, "leader epoch must be an int"),  # type: ignore[arg-type]
    "surrogate": (OffsetAndMetadata(1, "\ud800"), ValueError, "not valid Unicode"),
    "long": (OffsetAndMetadata(1, "x" * 40_000), ValueError, "40000 bytes"),
}


@pytest.mark.parametrize("what", COMMITS)
@pytest.mark.parametrize("call", ["commit", "commit_async", "store_offsets"])
def test_a_commit_that_cannot_be_written_down_is_refused(cluster: LogCluster, call: str, what: str) -> None:
    argument, error, words = COMMITS[what]
    with cluster.consumer(group_id="g", enable_auto_offset_store=False) as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(error, match=f"orders-0: .*{words}"):
            getattr(consumer, call)(offsets={ORDERS_0: argument})


def test_only_records_are_marked_as_done(cluster: LogCluster) -> None:
    with cluster.consumer(group_id="g", enable_auto_offset_store=False) as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(TypeError, match="a record that poll"):
            consumer.store_offsets(ORDERS_0)  # type: ignore[arg-type]


TIMED_CALLS: dict[str, Callable[[KafkaConsumer, Any], object]] = {
    "poll": lambda consumer, timeout_ms: consumer.poll(timeout_ms),
    "position": lambda consumer, timeout_ms: consumer.position(ORDERS_0, timeout_ms),
    "end_offsets": lambda consumer, timeout_ms: consumer.end_offsets([ORDERS_0], timeout_ms),
    "offsets_for_times": lambda consumer, timeout_ms: consumer.offsets_for_times({ORDERS_0: 0}, timeout_ms),
}


@pytest.mark.parametrize("call", list(TIMED_CALLS))
@pytest.mark.parametrize(
    ("argument", "kind"), [("5", TypeError), (float("nan"), ValueError), (-1, ValueError)]
)
def test_a_time_that_is_none_is_named(
    cluster: LogCluster, call: str, argument: object, kind: type[Exception]
) -> None:
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(kind, match=f"timeout_ms={argument!r}: it must"):
            TIMED_CALLS[call](consumer, argument)
        assert offsets(consumer) == [0, 1, 2]


def test_arguments_at_their_bounds_are_taken_and_beyond_them_refused() -> None:
    checked_range(0, 2**63 - 1, 2**31 - 1, None)
    with pytest.raises(ValueError, match="max_bytes=2147483648"):
        checked_range(0, 1, 2**31, bytes(16))
    with pytest.raises(ValueError, match="topic_id=b'1': it must be the 16 bytes"):
        checked_range(0, 1, 1, b"1")
    assert checked_timeout(0) == 0
    assert checked_timeout(Fraction(500)) == 0.5, "as numpy's numbers, neither an int nor a float"  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout_ms=nan"):
        checked_timeout(float("nan"))
    cluster = LogCluster({"orders": [0]}, brokers=1)
    with cluster.consumer(enable_auto_commit=False, group_protocol="classic") as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek(TopicPartition("orders", 0), 2**63 - 1)
        assert consumer.position(TopicPartition("orders", 0)) == 2**63 - 1
