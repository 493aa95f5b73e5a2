"""Calls that a newcomer gets wrong say what to write; nothing waits for what cannot come."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from pykafka2 import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    KafkaConsumer,
    OffsetAndTimestamp,
    TopicPartition,
)
from pykafka2.errors import ConcurrentUse, IllegalArgument, IllegalState
from tests.consumer.logs import LogCluster

ORDERS_0 = TopicPartition("orders", 0)
RECORD = ConsumerRecord("orders", 0, 5, 1000, 0, None, b"not for logs", [])


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
def test_read_without_subscription_or_assignment_raises_at_once(cluster: LogCluster, read: str) -> None:
    with cluster.consumer() as consumer:
        with pytest.raises(
            IllegalState, match=r"no topic is subscribed and no partition is assigned.* subscribe\(\) or assi"
        ):
            READS[read](consumer)
        consumer.subscribe(["orders"])
        assert next(consumer).value == b"a"
        consumer.unsubscribe()
        with pytest.raises(IllegalState, match="no topic is subscribed and no partition is assigned"):
            READS[read](consumer)


WRONG: dict[str, tuple[Call, str]] = {
    "assign": (
        lambda c: c.assign(ORDERS_0),
        r"a list, such as \[TopicPartition\(topic='orders', partition=0\)\]",
    ),
    "assign a topic": (lambda c: c.assign("orders"), "partitions must be a list.* not 'orders'"),
    "assign nothing": (lambda c: c.assign(None), "partitions must be a list.* not None"),
    "end_offsets": (lambda c: c.end_offsets(ORDERS_0), "partitions must be a list"),
    "pause": (lambda c: c.pause([ORDERS_0]), r"pass each as an argument: f\(\*partitions\)"),
    "seek_to_end": (lambda c: c.seek_to_end({ORDERS_0}), r"pass each as an argument: f\(\*partitions\)"),
    "times": (
        lambda c: c.offsets_for_times([ORDERS_0]),
        r"must be a dict \{TopicPartition: milliseconds\}, not \[",
    ),
    "no timeout": (lambda c: c.poll(None), "timeout_ms=None: it must be a number of milliseconds"),
    "a timedelta": (lambda c: c.poll(timedelta(1)), "timeout_ms=datetime.timedelta.*number of milliseconds"),
    "position": (lambda c: c.position("orders"), r"TopicPartition\(topic, number\), not 'orders'"),
    "lag": (lambda c: c.lag("orders"), r"TopicPartition\(topic, number\), not 'orders'"),
    "time": (
        lambda c: c.offsets_for_times({ORDERS_0: datetime(2026, 11, 23)}),
        r"write int\(when.timestamp\(\) \* 1000",
    ),
    "seconds": (lambda c: c.offsets_for_times({ORDERS_0: 1.5}), r"not 1.5; write int\(\.\.\.\)"),
    "close": (lambda c: c.close(timedelta(1)), r"close\(\): timeout=datetime.timedelta.* number of seconds"),
    "close_ms": (lambda c: c.close(timeout_ms="1"), r"close\(\): timeout_ms='1': .* number of milliseconds"),
    "commit": (lambda c: c.commit(RECORD), r"not a ConsumerRecord; write \{TopicPartition\(record"),
    "commit of one": (
        lambda c: c.commit({ORDERS_0: RECORD}),
        r"not a ConsumerRecord; write record.offset \+ 1",
    ),
    "a callback": (lambda c: c.commit_async(print), r"not <built-in function print>; write callback="),
    "no callback": (
        lambda c: c.commit_async(callback=5),
        r"callback=5 is not callable; pass f\(offsets, error",
    ),
    "marks": (lambda c: c.store_offsets({ORDERS_0: 1}), r"not a dict; write store_offsets\(offsets=\.\.\.\)"),
    "records": (
        lambda c: c.store_offsets([RECORD]),
        "not a list that contains a ConsumerRecord; call it for each record",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_argument_of_a_wrong_type_names_the_right_call(cluster: LogCluster, what: str) -> None:
    call, words = WRONG[what]
    with cluster.consumer("orders", group_id="g", enable_auto_offset_store=False) as consumer:
        consumer.unsubscribe()
        consumer.assign([ORDERS_0])
        with pytest.raises(TypeError, match=words) as caught:
            call(consumer)
        assert "not for logs" not in str(caught.value)


PLACES: dict[str, tuple[object, str]] = {
    "the end": (-1, r"; write seek_to_end\(partition\)"),
    "the beginning": (-2, r"; write seek_to_beginning\(partition\)"),
    "none": (None, r"; for a partition without an offset call seek_to_beginning\(\) or seek_to_end\(\)"),
    "of a time": (OffsetAndTimestamp(1, 2), "; pass the .offset of the OffsetAndTimestamp"),
    "text": ("5", "must be an integer from 0 to 9223372036854775807$"),
}


@pytest.mark.parametrize("what", PLACES)
def test_invalid_seek_target_names_the_right_seek_call(cluster: LogCluster, what: str) -> None:
    place: Any
    place, words = PLACES[what]
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(ValueError, match=words):
            consumer.seek(ORDERS_0, place)


def test_a_negative_partition_is_refused_at_once(cluster: LogCluster) -> None:
    with (
        cluster.consumer() as consumer,
        pytest.raises(ValueError, match="must be from 0 to 2147483647, not -1"),
    ):
        consumer.assign([TopicPartition("orders", -1)])


TOPICS: dict[str, tuple[tuple[Any, ...], str]] = {
    "a list": ((["orders"],), r"topics must be separate arguments: KafkaConsumer\(\*topics\)"),
    "an address": (("localhost:9092",), "not a valid topic name; .* bootstrap_servers='localhost:9092'"),
    "options behind": (("orders", {"sasl.password": "x"}), "a mapping of options must be the first argument"),
}


@pytest.mark.parametrize("what", TOPICS)
def test_invalid_topics_argument_names_the_right_form(cluster: LogCluster, what: str) -> None:
    topics, words = TOPICS[what]
    with pytest.raises(IllegalArgument, match=words):
        cluster.consumer(*topics)


def test_a_password_among_the_topics_is_not_shown(cluster: LogCluster) -> None:
    topics: Any = [{"sasl.password": "kept-to-oneself"}]
    with cluster.consumer() as consumer:
        with pytest.raises(IllegalArgument, match="a topic must be a str, not a dict") as caught:
            consumer.subscribe(topics)
        assert "kept" not in str(caught.value)


class Totals(ConsumerRebalanceListener):
    """A listener that the test passes as a class, not as an object."""


def test_listener_class_instead_of_an_object_is_rejected(cluster: LogCluster) -> None:
    with cluster.consumer(group_id="g") as consumer:
        with pytest.raises(IllegalArgument, match=r"is the class Totals; give an object: Totals\(\)"):
            consumer.subscribe(["orders"], listener=Totals)
        consumer.subscribe(["orders"], listener=Totals())


def test_a_compiled_pattern_instead_of_names(cluster: LogCluster) -> None:
    pattern: Any = re.compile("orders")
    words = r"write subscribe\(pattern=re.compile\('orders'\)\)"
    with cluster.consumer() as consumer, pytest.raises(IllegalArgument, match=words):
        consumer.subscribe(pattern)


def test_pattern_among_topic_names_recommends_the_pattern_argument(cluster: LogCluster) -> None:
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
        ("consume", r"no attribute 'consume'\. Use poll\(timeout_ms=..., max_records=...\)"),
        ("get_watermark_offsets", r"\. Use beginning_offsets\(\[partition\]\) and end_offsets"),
        ("pol", "'KafkaConsumer' object has no attribute 'pol'$"),
    ],
)
def test_method_of_another_client_names_the_equivalent(cluster: LogCluster, name: str, words: str) -> None:
    with cluster.consumer("orders") as consumer:
        assert not hasattr(consumer, name)
        with pytest.raises(AttributeError, match=words):
            getattr(consumer, name)


def test_attribute_of_an_unfinished_consumer_raises_attribute_error() -> None:
    half_built = KafkaConsumer.__new__(KafkaConsumer)
    with pytest.raises(AttributeError, match="_core"):
        half_built._core  # noqa: B018


SEEKS: dict[str, Call] = {
    "seek_to_beginning": lambda consumer: consumer.seek_to_beginning(),
    "seek_to_end": lambda consumer: consumer.seek_to_end(),
    "seek": lambda consumer: consumer.seek(ORDERS_0, 1),
    "pause": lambda consumer: consumer.pause(ORDERS_0),
}


@pytest.mark.parametrize("call", SEEKS)
def test_seek_before_an_assignment_recommends_poll(cluster: LogCluster, call: str) -> None:
    """seek_to_beginning() did nothing, and reading began where it would have begun anyway."""
    with cluster.consumer("orders", auto_offset_reset="latest") as consumer:
        with pytest.raises(
            IllegalState, match=r"after subscribe\(\), reads .* assign partitions\. Read first"
        ):
            SEEKS[call](consumer)
        consumer.unsubscribe()
        with pytest.raises(IllegalState, match=r"call assign\(\) first, or subscribe\(\) and poll\(\)"):
            SEEKS[call](consumer)
        consumer.assign([ORDERS_0])
        SEEKS[call](consumer)


def test_seek_of_an_unassigned_partition_recommends_assignment(cluster: LogCluster) -> None:
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(IllegalState, match=r"orders-7 is not assigned .* see assignment\(\)"):
            consumer.seek(TopicPartition("orders", 7), 1)


def test_group_metadata_with_own_commits_warns_before_a_transaction(
    cluster: LogCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Offsets read in an aborted transaction would be committed all the same, and those records never read
    again.
    """
    for options in ({"enable_auto_commit": False}, {"enable_auto_offset_store": False}, {}):
        with cluster.consumer("orders", group_id="g", **options) as consumer:
            assert consumer.group_metadata() == consumer.group_metadata()
    (warning,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "'g' also commits automatically" in warning
    assert "set enable_auto_commit=False" in warning


@pytest.mark.parametrize(
    ("time_ms", "year"),
    [(1_795_445_263, 1970), (1_795_445_263_000_000, 58865), (1_795_445_263_000, None), (5, None)],
)
def test_a_time_in_another_unit_is_warned_of(
    cluster: LogCluster, caplog: pytest.LogCaptureFixture, time_ms: int, year: int | None
) -> None:
    """Seconds find the first record there is, microseconds none at all."""
    with cluster.consumer() as consumer:
        consumer.offsets_for_times({ORDERS_0: time_ms})
    warnings = [one.getMessage() for one in caplog.records if "offsets_for_times" in one.getMessage()]
    assert warnings == ([] if year is None else [warnings[0]])
    assert year is None or warnings[0].endswith(f"{time_ms} ms is in the year {year}")


def test_monitoring_calls_are_allowed_from_another_thread(cluster: LogCluster) -> None:
    """The guide said that nothing but wakeup() may."""
    seen: list[object] = []

    def look(consumer: KafkaConsumer) -> None:
        seen.extend(
            [consumer.health()["state"], consumer.explain(), consumer.metrics(), consumer.highwater(ORDERS_0)]
        )
        with pytest.raises(ConcurrentUse, match=r"poll\(\) cannot run.* wakeup\(\), .*health\(\)"):
            consumer.poll()
        consumer.wakeup()

    def inside_a_poll(data: bytes) -> bytes:
        other = threading.Thread(target=look, args=(consumer,))
        other.start()
        other.join(30)
        return data

    with cluster.consumer("orders", value_deserializer=inside_a_poll, max_poll_records=1) as consumer:
        assert next(consumer).value == b"a"
    assert seen[0] == "open"
    assert seen[-1] == 3
