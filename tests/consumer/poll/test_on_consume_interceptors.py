"""Interceptors of consumers see, and may change, what is handed over; what they raise breaks nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pykafka2.consumer.interceptors import ConsumerInterceptor, Records
from pykafka2.errors import ConfigurationError
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)


class Odd(ConsumerInterceptor):
    """Keeps records with odd offsets; remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.closed = 0

    def on_consume(self, records: Records) -> Records:
        self.seen += [one.offset for some in records.values() for one in some]
        return {partition: [one for one in some if one.offset % 2] for partition, some in records.items()}

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def cluster() -> LogCluster:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    cluster.append("orders", 0, *[b"%d" % number for number in range(10)])
    return cluster


def test_interceptors_see_every_record_and_decide_which_are_returned(cluster: LogCluster) -> None:
    odd, after = Odd(), Odd()
    with cluster.consumer("orders", interceptors=[odd, after], max_poll_records=4) as consumer:
        found = [one.offset for _ in range(3) for one in consumer.poll(1000)[ORDERS_0]]
        assert found == [1, 3, 5, 7, 9]
        assert consumer.position(ORDERS_0) == 10
    assert odd.seen == list(range(10))
    assert after.seen == found
    consumer.close()
    assert odd.closed == 1


def test_iteration_passes_records_through_interceptors_once(cluster: LogCluster) -> None:
    odd = Odd()
    with cluster.consumer("orders", interceptors=[odd], consumer_timeout_ms=500) as consumer:
        assert [one.offset for one in consumer] == [1, 3, 5, 7, 9]
    assert odd.seen == list(range(10))


def test_columns_and_ranges_do_not_call_on_consume(cluster: LogCluster) -> None:
    odd = Odd()
    with cluster.consumer("orders", interceptors=[odd]) as consumer:
        columns = consumer.poll_columns(1000, max_records=100)[ORDERS_0]
        pieces = list(consumer.read_range(ORDERS_0, 2, 5))
    assert [*columns.offsets] == list(range(10))
    assert [offset for piece in pieces for offset in piece.offsets] == [2, 3, 4]
    assert odd.seen == []


@pytest.mark.parametrize("way", ["poll", "iteration"])
def test_polls_of_which_nothing_is_left_are_not_waited_after(cluster: LogCluster, way: str) -> None:
    class Last(ConsumerInterceptor):
        def on_consume(self, records: Records) -> Records:
            return {
                partition: [one for one in some if one.offset == 9] for partition, some in records.items()
            }

    options = {"interceptors": [Last()], "max_poll_records": 1, "consumer_timeout_ms": 500}
    with cluster.consumer("orders", **options) as consumer:
        consumer.poll()
        began = cluster.now
        if way == "poll":
            assert [one.offset for one in consumer.poll(1000)[ORDERS_0]] == [9]
        else:
            assert [one.offset for one in consumer] == [9]
        assert cluster.now - began < 0.9


def test_records_held_by_interceptors_are_not_returned_after_an_empty_iteration(cluster: LogCluster) -> None:
    class Later(Odd):
        def on_consume(self, records: Records) -> Records:
            super().on_consume(records)
            return {
                partition: [one for one in some if one.offset >= 10] for partition, some in records.items()
            }

    later = Later()
    with cluster.consumer("orders", interceptors=[later], consumer_timeout_ms=500) as consumer:
        assert list(consumer) == []
        assert consumer.position(ORDERS_0) == 10, "they have dealt with these"
        cluster.append("orders", 0, b"10", b"11")
        assert [one.offset for one in consumer] == [10, 11]
    assert later.seen == list(range(12)), "each once"


def test_exception_of_an_interceptor_is_logged_and_changes_nothing(
    cluster: LogCluster, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def on_consume(self, records: Records) -> Any:
            raise ValueError("no")

        def close(self) -> None:
            raise ValueError("never")

    class Wrong:
        def on_consume(self, records: Records) -> Any:
            return 7

    class OnlyCommits:
        def on_commit(self, offsets: Any) -> None:
            pass

    chain = [Broken(), Wrong(), OnlyCommits()]
    with caplog.at_level(logging.ERROR), cluster.consumer("orders", interceptors=chain) as consumer:
        assert len(consumer.poll(1000)[ORDERS_0]) == 10
    assert "the records stay unchanged" in caplog.text
    assert "returned an int" in caplog.text
    assert "close of" in caplog.text


@pytest.mark.parametrize(
    "interceptor", ["tracing.Tracer", [Odd], ["tracing.Tracer"]], ids=["text", "class", "name"]
)
def test_invalid_interceptor_is_rejected(interceptor: Any) -> None:
    with pytest.raises(ConfigurationError, match="interceptors"):
        LogCluster({}).consumer(interceptors=interceptor)


def test_a_poll_ends_although_interceptors_drop_every_record() -> None:
    class DropAll(ConsumerInterceptor):
        def __init__(self) -> None:
            self.calls = 0

        def on_consume(self, records: Records) -> Records:
            self.calls += 1
            cluster.runtime.run_for(1)  # the deadline passes
            return {}

    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    for partition in (0, 1):
        cluster.append("orders", partition, *[b"x"] * 20)
    drop_all = DropAll()
    with cluster.consumer("orders", interceptors=[drop_all], max_poll_records=1) as consumer:
        assert consumer.poll(500) == {}
        assert drop_all.calls == 1
        assert consumer.poll(10_500) == {}
        assert 10 <= drop_all.calls <= 13
