"""`on_bad_record`: what cannot be read is raised, passed over, or handed to the application."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pykafka2 import BadRecord
from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.errors import (
    ConfigurationError,
    CorruptData,
    CorruptMessage,
    RecordTooLarge,
    SerializationError,
)
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster, build_batch
from tests.consumer.poll.test_corrupt_data import damage

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> LogCluster:
    return LogCluster({"orders": [0]}, brokers=1)


def refuse_threes(data: bytes) -> int:
    if b"3" in data:
        raise ValueError("three is not welcome")
    return int(data)


def offsets(consumer: KafkaConsumer, call: str = "poll", polls: int = 6) -> list[int]:
    found: list[int] = []
    for _ in range(polls):
        for some in getattr(consumer, call)(2000).values():
            found += some.offsets if call == "poll_columns" else [record.offset for record in some]
    return found


# ---------------------------------------------------------------------------------------- deserializers


def test_skip_passes_over_undeserializable_records_and_logs_them(
    cluster: LogCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.append("orders", 0, *[b"%d" % number for number in range(40)])
    with (
        caplog.at_level(logging.WARNING),
        cluster.consumer(
            "orders", value_deserializer=refuse_threes, on_bad_record="skip", max_poll_records=5
        ) as consumer,
    ):
        assert offsets(consumer) == [one for one in range(40) if "3" not in str(one)][:30]
        assert offsets(consumer) == []
        assert consumer.metrics()["bad-records-total"] == 13
        assert consumer.position(ORDERS_0) == 40
    assert "orders-0 at offset 3: the value_deserializer failed" in caplog.text
    assert "on_bad_record" not in caplog.text, "advice that does not apply"


def reader_of_fives(cluster: LogCluster, partitions: int, bad: list[BadRecord]) -> KafkaConsumer:
    """Return a consumer that skips threes, whose partitions are fetched."""
    consumer = cluster.consumer(
        value_deserializer=refuse_threes, on_bad_record=bad.append, max_poll_records=5
    )
    consumer.assign([TopicPartition("orders", number) for number in range(partitions)])
    for partition in consumer.assignment():
        consumer.seek(partition, 0)
    consumer.poll()
    cluster.runtime.run_for(1)
    return consumer


def test_a_poll_skips_up_to_max_poll_records_in_all_partitions_together() -> None:
    cluster = LogCluster({"orders": [0, 0, 0]}, brokers=1)
    for number in range(3):
        cluster.append("orders", number, *[b"3"] * 40)
    bad: list[BadRecord] = []
    with reader_of_fives(cluster, 3, bad) as consumer:
        for polls in range(1, 6):
            assert consumer.poll() == {}
            assert len(bad) == 5 * polls
        assert len({one.topic_partition for one in bad}) == 3, "each in its turn"


def test_records_that_an_earlier_poll_skipped_do_not_count_for_a_later_one() -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    for number in range(2):
        cluster.append("orders", number, *[b"3"] * 5)
    bad: list[BadRecord] = []
    with reader_of_fives(cluster, 2, bad) as consumer:
        for _ in range(3):
            assert consumer.poll() == {}
        assert len(bad) == 10
        for number in range(2):
            cluster.append("orders", number, b"1")
        cluster.runtime.run_for(1)
        assert len(consumer.poll()) == 2, "both partitions in one poll"


def test_bad_record_callable_receives_the_raw_record(cluster: LogCluster) -> None:
    log = cluster.log("orders")
    log.batches.append(build_batch([(b"k0", b"0"), (b"k3", b"3"), (b"k4", b"4")], timestamp=7))
    log.end = 3
    bad: list[BadRecord] = []
    with cluster.consumer(
        "orders", key_deserializer=bytes.decode, value_deserializer=refuse_threes, on_bad_record=bad.append
    ) as consumer:
        assert offsets(consumer, polls=3) == [0, 2]
    (one,) = bad
    assert (one.topic, one.partition, one.offset, one.next_offset) == ("orders", 0, 1, 2)
    assert (one.key, one.value, one.headers, one.timestamp, one.batch) == (b"k3", b"3", [], 7, None)
    assert isinstance(one.error, SerializationError)
    assert isinstance(one.error.__cause__, ValueError)


def test_the_deserializer_that_failed_is_named(cluster: LogCluster) -> None:
    log = cluster.log("orders")
    log.batches.append(build_batch([(b"0", b"0"), (b"3", b"1"), (b"1", b"3")]))
    log.end = 3
    bad: list[BadRecord] = []
    with cluster.consumer(
        "orders",
        key_deserializer=refuse_threes,
        value_deserializer=refuse_threes,
        on_bad_record=bad.append,
    ) as consumer:
        assert offsets(consumer) == [0]
    assert [str(one.error).split(" failed")[0] for one in bad] == [
        "orders-0 at offset 1: the key_deserializer",
        "orders-0 at offset 2: the value_deserializer",
    ]


def test_exception_of_the_bad_record_callable_keeps_the_position_at_the_record(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"1", b"2", b"3", b"4")
    is_open = False

    def route(bad: BadRecord) -> None:
        if not is_open:
            raise OSError("the dead-letter queue is closed")

    with cluster.consumer("orders", value_deserializer=refuse_threes, on_bad_record=route) as consumer:
        assert offsets(consumer, polls=1) == [0, 1]
        for _ in range(2):
            with pytest.raises(SerializationError, match=r"on_bad_record failed.*closed") as caught:
                consumer.poll(1000)
            assert isinstance(caught.value.__cause__, OSError)
            assert consumer.position(ORDERS_0) == 2
        is_open = True
        assert offsets(consumer, polls=2) == [3]


def test_raise_is_the_default(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"3")
    for more in ({}, {"on_bad_record": "raise"}):
        with (
            cluster.consumer("orders", value_deserializer=refuse_threes, **more) as consumer,
            pytest.raises(SerializationError),
        ):
            consumer.poll(1000)


# ---------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("call", ["poll", "poll_columns"])
@pytest.mark.parametrize("how", ["value", "magic"])
def test_unreadable_batches_are_skipped(cluster: LogCluster, how: str, call: str) -> None:
    for number in range(6):
        cluster.append("orders", 0, b"%d-a" % number, b"%d-b" % number)
    log = cluster.log("orders")
    for index in (2, 3, 5):
        log.batches[index] = damage(log.batches[index], how)
    bad: list[BadRecord] = []
    with cluster.consumer("orders", on_bad_record=bad.append) as consumer:
        assert offsets(consumer, call, polls=12) == [0, 1, 2, 3, 8, 9]
        assert consumer.position(ORDERS_0) == 12
    assert [(one.offset, one.next_offset) for one in bad] == [(4, 6), (6, 8), (10, 12)]
    assert [one.batch for one in bad] == [log.batches[2], log.batches[3], log.batches[5]]
    assert all(isinstance(one.error, CorruptData | CorruptMessage) for one in bad)
    assert all(one.value is None for one in bad)


def test_one_poll_skips_at_most_twice_as_many_records_as_it_may_return() -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    for partition in (0, 1):
        cluster.append("orders", partition, *[b"3"] * 300, b"4")
    bad: list[BadRecord] = []
    with cluster.consumer(
        "orders", value_deserializer=refuse_threes, on_bad_record=bad.append, max_poll_records=5
    ) as consumer:
        found: list[int] = []
        for _ in range(200):
            before = len(bad)
            found += [record.value for some in consumer.poll().values() for record in some]
            assert len(bad) - before <= 10
            cluster.runtime.run_for(0.1)
        assert (found, len(bad)) == ([4, 4], 600)


def test_damage_in_transit_is_fetched_again_before_it_is_skipped(cluster: LogCluster) -> None:
    for number in range(4):
        cluster.append("orders", 0, b"%d" % number)
    log = cluster.log("orders")
    whole, log.batches[2] = log.batches[2], damage(log.batches[2], "value")
    bad: list[BadRecord] = []
    with cluster.consumer("orders", on_bad_record=bad.append) as consumer:
        assert offsets(consumer, polls=1) == [0, 1]
        log.batches[2] = whole
        assert offsets(consumer, polls=2) == [2, 3]
    assert bad == []


def test_damage_met_without_position_updates_skips_no_earlier_record(cluster: LogCluster) -> None:
    for number in range(4):
        cluster.append("orders", 0, b"%d" % number)
    log = cluster.log("orders")
    log.batches[2] = damage(log.batches[2], "value")
    with cluster.consumer("orders", on_bad_record="skip") as consumer:
        for _ in range(6):
            kept = consumer.poll(500, update_offsets=False)
            assert [record.offset for record in kept.get(ORDERS_0, [])] in ([], [0, 1])
        assert consumer.position(ORDERS_0) == 0
        assert offsets(consumer) == [0, 1, 3]


def test_a_damaged_length_skips_nothing_that_can_be_read(cluster: LogCluster) -> None:
    for number in range(4):
        cluster.append("orders", 0, b"%d" % number)
    log = cluster.log("orders")
    for index in (1, 3):
        damaged = bytearray(log.batches[index])
        damaged[23:27] = (1 << 20).to_bytes(4, "big")  # the last offset's delta; the checksum tells
        log.batches[index] = bytes(damaged)
    del log.batches[2]  # a gap of compaction behind a batch whose end is not known
    log.append(b"4")
    with cluster.consumer("orders", on_bad_record="skip", auto_offset_reset="none") as consumer:
        consumer.unsubscribe()
        consumer.assign([ORDERS_0])
        consumer.seek(ORDERS_0, 0)
        assert offsets(consumer, polls=8) == [0, 4]


def test_damage_at_the_log_end_is_skipped_up_to_the_end(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"0")
    cluster.append("orders", 0, b"1")
    log = cluster.log("orders")
    damaged = bytearray(log.batches[1])
    damaged[23:27] = (1 << 20).to_bytes(4, "big")
    log.batches[1] = bytes(damaged)
    with cluster.consumer("orders", on_bad_record="skip") as consumer:
        assert offsets(consumer, polls=4) == [0]
        assert consumer.position(ORDERS_0) == 2
        cluster.append("orders", 0, b"2")
        assert offsets(consumer, polls=2) == [2]


def test_too_large_batch_is_raised_with_policy_skip(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"x" * 300)
    log = cluster.log("orders")
    whole = log.batches[0]
    log.batches[0] = whole[:100]
    with (
        cluster.consumer("orders", on_bad_record="skip") as consumer,
        pytest.raises(RecordTooLarge),
    ):
        offsets(consumer)


# ---------------------------------------------------------------------------------------- the option


@pytest.mark.parametrize("value", ["ignore", 7, object()], ids=["word", "number", "object"])
def test_invalid_bad_record_policy_is_rejected(cluster: LogCluster, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"on_bad_record.*'raise', 'skip' or a callable"):
        cluster.consumer(on_bad_record=value)


# ---------------------------------------------------------------------------------------- once each


@pytest.mark.parametrize(("values", "damaged"), [((b"3", b"13"), [0, 1, 2]), ((b"0", b"3"), [1, 2])], ids=str)
def test_skipped_record_before_a_damaged_batch_is_reported_once(
    cluster: LogCluster, values: tuple[bytes, bytes], damaged: list[int]
) -> None:
    cluster.append("orders", 0, *values)
    cluster.append("orders", 0, b"1")
    cluster.append("orders", 0, b"2")
    log = cluster.log("orders")
    log.batches[1] = damage(log.batches[1], "value")
    bad: list[int] = []
    with cluster.consumer(
        "orders", value_deserializer=refuse_threes, on_bad_record=lambda one: bad.append(one.offset)
    ) as consumer:
        assert offsets(consumer) == [one for one in (0, 3) if one not in damaged]
        assert bad == damaged


def test_skipped_record_is_not_reported_again_when_a_later_one_raises(cluster: LogCluster) -> None:
    cluster.append("orders", 0, b"3", b"13", b"23", b"0")
    bad: list[int] = []

    def route(one: BadRecord) -> None:
        bad.append(one.offset)
        if one.offset == 2 and len(bad) < 5:
            raise OSError("no call returns it now")

    with cluster.consumer("orders", value_deserializer=refuse_threes, on_bad_record=route) as consumer:
        for _ in range(2):
            with pytest.raises(SerializationError, match="orders-0 at offset 2"):
                offsets(consumer)
            assert consumer.position(ORDERS_0) == 2
        assert offsets(consumer) == [3]
        assert bad == [0, 1, 2, 2, 2]


def test_a_record_behind_a_hole_is_raised_for_each_time(cluster: LogCluster) -> None:
    """The record between the last good one and the bad one is a marker, which is never returned."""
    log = cluster.log("orders")
    log.append(b"0", b"1", producer_id=7, is_transactional=True)
    log.end_transaction(7, 0, committed=True)
    cluster.append("orders", 0, b"3", b"4")
    with cluster.consumer(
        "orders", value_deserializer=refuse_threes, max_partition_fetch_bytes=sum(map(len, log.batches[:2]))
    ) as consumer:
        for _ in range(2):  # to know the topic, then to have both parts fetched
            consumer.poll()
            cluster.runtime.run_for(0.3)
        assert offsets(consumer, polls=1) == [0, 1]
        for _ in range(3):
            with pytest.raises(SerializationError, match="orders-0 at offset 3"):
                consumer.poll(1000)
        assert consumer.position(ORDERS_0) == 3
        consumer.seek(ORDERS_0, 4)
        assert offsets(consumer, polls=1) == [4]
