"""Errors while reading: moved leaders, lost brokers, damaged batches, transactions, interrupts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.errors import (
    CorruptData,
    CorruptMessage,
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    RecordTooLarge,
    SerializationError,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicId,
    UnsupportedVersion,
)
from pykafka2.protocol.messages.fetch import FetchRequest, FetchResponse, LeaderIdAndEpoch
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykafka2.records.encoder import BatchBuilder
from pykafka2.types import TopicPartition
from tests.cluster.scripted import Answer, Drop, Hold, ScriptedBroker
from tests.consumer.logs import LogCluster
from tests.gate import examples

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)

EACH_THIRD = pytest.mark.parametrize(
    "first", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)]
)
"""An interrupt at each third line in the gate, at the others in `nox -s long`."""


@pytest.fixture
def cluster() -> LogCluster:
    return LogCluster({"orders": [0, 1, 2]})


def offsets(consumer: KafkaConsumer, timeout_ms: float = 5000) -> list[int]:
    """The offsets read from partition 0 until nothing comes."""
    found: list[int] = []
    while records := consumer.poll(timeout_ms):
        found += [record.offset for record in records.get(ORDERS_0, [])]
    return found


def fill(cluster: LogCluster, count: int, partition: int = 0) -> None:
    for number in range(count):
        cluster.append("orders", partition, b"%d" % number)


# ---------------------------------------------------------------------------------------- leaders


def test_a_moved_leader_is_followed_without_loss_or_repetition(cluster: LogCluster) -> None:
    fill(cluster, 10)
    with cluster.consumer("orders") as consumer:
        assert offsets(consumer) == list(range(10))
        cluster.move_leader("orders", 0, 2)
        fill(cluster, 10)
        before = cluster.now
        assert len(consumer.poll(5000)[ORDERS_0]) > 0
        assert cluster.now - before < 1
        offsets(consumer)
        assert consumer.position(ORDERS_0) == 20


def test_leader_hint_replaces_a_metadata_request(cluster: LogCluster) -> None:
    fill(cluster, 1)
    with cluster.consumer("orders") as consumer:
        offsets(consumer)
        before = len(cluster.requests(MetadataRequest))
        cluster.gives_hints = True
        cluster.move_leader("orders", 0, 2)
        fill(cluster, 1)
        assert offsets(consumer) == [1]
        assert len(cluster.requests(MetadataRequest)) == before


@pytest.mark.parametrize(
    "error",
    [
        NotLeaderOrFollower,
        FencedLeaderEpoch,
        UnknownLeaderEpoch,
        OffsetNotAvailable,
        UnknownTopicId,
        KafkaStorageError,
        UnknownServerError,
    ],
)
def test_an_error_that_passes_delays_and_nothing_more(cluster: LogCluster, error: type[KafkaError]) -> None:
    fill(cluster, 3)
    assert error.code is not None
    cluster.log("orders").error_code = error.code
    with cluster.consumer("orders") as consumer:
        assert offsets(consumer, 1000) == []
        fetches = len(cluster.brokers[0].requests(FetchRequest))
        cluster.runtime.run_for(10)
        assert len(cluster.brokers[0].requests(FetchRequest)) - fetches < 16, "with back-off"
        cluster.log("orders").error_code = 0
        assert offsets(consumer) == [0, 1, 2]


def test_a_broker_that_fails_for_no_reason_it_can_name_is_waited_for(cluster: LogCluster) -> None:
    """It says so of a whole fetch, where it said so of a partition before version 13."""
    fill(cluster, 3)
    broken = FetchResponse(error_code=UnknownServerError.code or 0, responses=[])
    cluster.brokers[0].on(FetchRequest, lambda request, broker: broken)
    with cluster.consumer("orders") as consumer:
        assert offsets(consumer, 10_000) == []
        assert len(cluster.brokers[0].requests(FetchRequest)) < 16, "with back-off"
        assert "the last error: node 0: The broker failed" in consumer.explain()
        del cluster.brokers[0].handlers[FetchRequest]
        assert offsets(consumer) == [0, 1, 2]
        assert "node 0" not in consumer.explain()


def test_unknown_leader_epoch_causes_a_metadata_request(cluster: LogCluster) -> None:
    """It may be a wrong hint's: only metadata can say so.  For places in the log as for records."""
    fill(cluster, 1)
    refused = ListOffsetsPartitionResponse(partition_index=0, error_code=UnknownLeaderEpoch.code or 0)
    topics = [ListOffsetsTopicResponse(name="orders", partitions=[refused])]
    cluster.on(ListOffsetsRequest, lambda request, broker: ListOffsetsResponse(topics=topics))
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        for _ in range(2):
            before = len(cluster.requests(MetadataRequest))
            assert offsets(consumer, 1000) == []
            assert len(cluster.requests(MetadataRequest)) > before + 1
            cluster.log("orders").error_code = UnknownLeaderEpoch.code or 0
            cluster.on(ListOffsetsRequest, cluster.list_offsets)
        cluster.log("orders").error_code = 0
        assert offsets(consumer) == [0]


def test_a_leader_that_moves_with_every_answer_is_not_followed_as_fast_as_brokers_answer(
    cluster: LogCluster,
) -> None:
    fill(cluster, 1)
    epochs = count(1)

    def moved(request: FetchRequest, broker: ScriptedBroker) -> Answer:
        response = cluster.fetch_now(request, broker)
        for topic in response.responses:
            for one in topic.partitions:
                one.error_code = NotLeaderOrFollower.code or 0
                one.current_leader = LeaderIdAndEpoch(leader_id=1 - broker.id, leader_epoch=next(epochs))
        return response

    cluster.on(FetchRequest, moved)
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        assert offsets(consumer, 4000) == []
        assert 5 < len(cluster.requests(FetchRequest)) < 30, "with back-off"
        cluster.on(FetchRequest, cluster.fetch)
        assert offsets(consumer, 30_000) == [0]


def test_fatal_error_is_raised_and_reading_continues_when_it_is_gone(cluster: LogCluster) -> None:
    fill(cluster, 3)
    cluster.append("orders", 1, b"other")
    cluster.log("orders").error_code = TopicAuthorizationFailed.code or 0
    with cluster.consumer("orders") as consumer:
        raised: list[str] = []
        seen = 0
        for _ in range(10):
            try:
                seen += len(consumer.poll(500).get(ORDERS_1, []))
            except TopicAuthorizationFailed as error:
                raised.append(str(error))
        assert len(raised) >= 2
        assert all("orders-0" in words for words in raised)
        assert seen == 1, "the other partition is read meanwhile"
        cluster.log("orders").error_code = 0
        found: list[int] = []
        for _ in range(5):
            try:
                found += [record.offset for record in consumer.poll(500).get(ORDERS_0, [])]
            except TopicAuthorizationFailed:
                pass
        assert found == [0, 1, 2]


def test_broker_that_crashes_and_returns_is_read_on(cluster: LogCluster) -> None:
    fill(cluster, 5)
    with cluster.consumer("orders") as consumer:
        assert offsets(consumer) == [0, 1, 2, 3, 4]
        cluster.brokers[0].stop()
        cluster.topics["orders"].leaders[0] = -1
        assert consumer.poll(3000) == {}
        cluster.brokers[0].is_up = True
        cluster.move_leader("orders", 0, 0)
        fill(cluster, 5)
        assert offsets(consumer) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("nth", range(6))
def test_the_nth_fetch_loses_its_connection(cluster: LogCluster, nth: int) -> None:
    fill(cluster, 30)
    count = 0

    def dropping(request: FetchRequest, broker: ScriptedBroker) -> Answer:
        nonlocal count
        count += 1
        return Drop() if count == nth + 1 else cluster.fetch(request, broker)

    cluster.brokers[0].on(FetchRequest, dropping)
    with cluster.consumer("orders", max_partition_fetch_bytes=300) as consumer:
        assert offsets(consumer) == list(range(30))
    assert count > nth


def test_unanswered_fetch_is_retried_after_the_request_timeout(cluster: LogCluster) -> None:
    fill(cluster, 1)
    cluster.brokers[0].on(FetchRequest, lambda request, broker: Hold())
    with cluster.consumer("orders", request_timeout_ms=2000) as consumer:
        assert consumer.poll(2000) == {}
        del cluster.brokers[0].handlers[FetchRequest]
        assert offsets(consumer) == [0]


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_reads_the_same(cluster: LogCluster, version: int) -> None:
    fill(cluster, 10)
    for broker in cluster.brokers:
        broker.versions[1] = (0, version)
    with cluster.consumer("orders") as consumer:
        assert offsets(consumer) == list(range(10))
    assert {one.version for one in cluster.brokers[0].seen if isinstance(one.request, FetchRequest)} == {
        version
    }


def test_cluster_without_topic_ids_is_fetched_by_name(cluster: LogCluster) -> None:
    fill(cluster, 3)
    for broker in cluster.brokers:
        broker.versions[3] = (0, 9)
    with cluster.consumer("orders") as consumer:
        assert offsets(consumer) == [0, 1, 2]
    assert max(one.version for one in cluster.brokers[0].seen if isinstance(one.request, FetchRequest)) == 12


def test_a_broker_that_cannot_fetch_is_named(cluster: LogCluster) -> None:
    for broker in cluster.brokers:
        broker.versions[1] = (30, 31)
    with cluster.consumer("orders") as consumer, pytest.raises(UnsupportedVersion, match="Fetch"):
        consumer.poll(5000)


def test_an_answer_for_an_old_generation_is_dropped(cluster: LogCluster) -> None:
    fill(cluster, 10)
    hold = Hold()
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        cluster.brokers[0].on(FetchRequest, lambda request, broker: hold)
        consumer.poll(100)
        old: FetchResponse = cluster.fetch_now(
            cluster.brokers[0].requests(FetchRequest)[-1], cluster.brokers[0]
        )
        consumer.seek(ORDERS_0, 7)
        del cluster.brokers[0].handlers[FetchRequest]
        hold.release(old)
        assert offsets(consumer) == [7, 8, 9]


# ---------------------------------------------------------------------------------------- damage


def corrupt(cluster: LogCluster, index: int) -> None:
    """Flip a byte in the last record of one batch."""
    batch = bytearray(cluster.log("orders").batches[index])
    batch[-2] ^= 0xFF
    cluster.log("orders").batches[index] = bytes(batch)


def test_records_before_a_damaged_batch_come_first_and_the_position_stays_at_it(cluster: LogCluster) -> None:
    fill(cluster, 6)
    cluster.append("orders", 1, b"fine")
    corrupt(cluster, 3)
    with cluster.consumer("orders") as consumer:
        consumer.poll()
        cluster.runtime.run_for(1)
        consumer.poll()
        cluster.runtime.run_for(1)
        found: list[int] = []
        raised: list[str] = []
        fine = 0
        for _ in range(6):
            try:
                records = consumer.poll(1000)
            except CorruptMessage as error:
                raised.append(str(error))
            else:
                found += [record.offset for record in records.get(ORDERS_0, [])]
                fine += len(records.get(ORDERS_1, []))
        assert found == [0, 1, 2]
        assert consumer.position(ORDERS_0) == 3
        assert len(raised) >= 2, "it does not go away by itself"
        assert all("orders-0 at offset 3" in words for words in raised)
        assert fine == 1
        consumer.seek(ORDERS_0, 4)
        assert offsets(consumer) == [4, 5]


@pytest.mark.parametrize("call", ["poll", "poll_columns"])
def test_a_batch_that_decompresses_to_more_than_allowed_is_refused(cluster: LogCluster, call: str) -> None:
    log = cluster.log("orders")
    builder = BatchBuilder("gzip", max_bytes=200_000)
    builder.append(1000, None, b"x" * 100_000)
    log.batches.append(builder.build(log.end))
    log.end += 1
    with cluster.consumer(max_decompressed_bytes=50_000) as careful:
        careful.assign([ORDERS_0])
        with pytest.raises(CorruptData, match=r"orders-0 at offset 0.* 50000 .*max_decompressed_bytes"):
            getattr(careful, call)(5000)
    with cluster.consumer(max_decompressed_bytes=110_000) as bold:
        bold.assign([ORDERS_0])
        assert len(getattr(bold, call)(5000)[ORDERS_0]) == 1


def test_damaged_value_is_returned_without_check_crcs(cluster: LogCluster) -> None:
    fill(cluster, 2)
    corrupt(cluster, 1)
    with cluster.consumer("orders", check_crcs=False) as consumer:
        assert offsets(consumer) == [0, 1]


def test_a_batch_that_ends_the_readable_part_is_named_after_the_good_ones(cluster: LogCluster) -> None:
    fill(cluster, 3)
    batch = bytearray(cluster.log("orders").batches[2])
    batch[16] = 9  # no format of Kafka's
    cluster.log("orders").batches[2] = bytes(batch)
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        assert [record.offset for record in consumer.poll(1000)[ORDERS_0]] == [0, 1]
        fetches = len(cluster.requests(FetchRequest))
        for _ in range(2):
            with pytest.raises(CorruptData, match="orders-0 at offset 2"):
                consumer.poll(1000)
        assert len(cluster.requests(FetchRequest)) == fetches + 1, "read again before it is raised again"
        assert consumer.position(ORDERS_0) == 2
        cluster.runtime.run_for(1)  # position() looks again too
        fetches = len(cluster.requests(FetchRequest))
        cluster.runtime.run_for(10)
        assert len(cluster.requests(FetchRequest)) == fetches, "what cannot be read is not fetched by itself"


def test_truncated_batch_is_refetched_and_a_too_large_one_raises_record_too_large(
    cluster: LogCluster,
) -> None:
    fill(cluster, 2)

    def cutting(request: FetchRequest, broker: ScriptedBroker) -> Answer:
        response = cluster.fetch_now(request, broker)
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.records:
                    partition.records = memoryview(partition.records)[:-1]
        return response

    cluster.brokers[0].on(FetchRequest, cutting)
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        assert [record.offset for record in consumer.poll(1000)[ORDERS_0]] == [0]
        with pytest.raises(RecordTooLarge, match="max_partition_fetch_bytes"):
            consumer.poll(1000)


# ---------------------------------------------------------------------------------------- deserializers


def refuse_3(data: bytes) -> int:
    if data == b"3":
        raise ValueError("three is not welcome")
    return int(data)


def test_a_poison_record_is_named_and_can_be_skipped(cluster: LogCluster) -> None:
    cluster.append("orders", 0, *[b"%d" % number for number in range(6)])
    with cluster.consumer("orders", value_deserializer=refuse_3) as consumer:
        assert [record.value for record in consumer.poll(1000)[ORDERS_0]] == [0, 1, 2]
        for _ in range(3):
            with pytest.raises(
                SerializationError, match=r"orders-0 at offset 3: the value_deserializer"
            ) as caught:
                consumer.poll(1000)
            assert isinstance(caught.value.__cause__, ValueError)
            assert consumer.position(ORDERS_0) == 3
        consumer.seek(ORDERS_0, 4)
        assert [record.value for record in consumer.poll(1000)[ORDERS_0]] == [4, 5]


def test_deserializers_see_topic_and_headers_and_none_stays_none(cluster: LogCluster) -> None:
    class Upper:
        def deserialize(self, topic: str, headers: list[Any], data: bytes) -> str:
            assert (topic, headers) == ("orders", [])
            return data.decode().upper()

    def never(data: bytes) -> None:
        raise AssertionError("a null key is not deserialized")

    cluster.append("orders", 0, b"a")
    with cluster.consumer("orders", value_deserializer=Upper(), key_deserializer=never) as consumer:
        (record,) = consumer.poll(1000)[ORDERS_0]
        assert (record.key, record.value, record.serialized_value_size) == (None, "A", 1)


@pytest.mark.parametrize("nth", range(0, 40, 3))
def test_an_interrupt_in_the_middle_of_a_poll_loses_and_repeats_nothing(
    cluster: LogCluster, nth: int
) -> None:
    for number in range(10):
        cluster.append("orders", number % 3, b"%d-a" % number, b"%d-b" % number)
    calls = 0

    def interrupted(data: bytes) -> bytes:
        nonlocal calls
        calls += 1
        if calls == nth + 1:
            raise KeyboardInterrupt
        return data

    with cluster.consumer("orders", value_deserializer=interrupted) as consumer:
        found: list[bytes] = []
        interrupts = 0
        for _ in range(30):
            try:
                for some in consumer.poll(1000, max_records=3).values():
                    found += [record.value for record in some]
            except KeyboardInterrupt:
                interrupts += 1
        assert sorted(found) == sorted(b"%d-%s" % (n, half) for n in range(10) for half in (b"a", b"b"))
        assert interrupts == (1 if nth < 20 else 0)


class InterruptAtLine:
    """Ctrl-C at the n-th line that the consumer and the decoder run, as a signal handler would raise it."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def trace(self, frame: FrameType, event: str, argument: object) -> Any:
        name = frame.f_code.co_filename
        if "/pykafka2/consumer/" not in name and not name.endswith("decoder.py"):
            return None
        # Signals come after calls and at loops, where a `with` covers its lock; a trace function would also
        # raise where it does not, between the body's end and the release.
        if name.endswith("fetch_buffer.py"):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self.trace


def poll_interrupted(nth: int) -> tuple[list[bytes], bool, bool]:
    """The number of records read in all when the n-th line of one poll is interrupted; whether it was, and
    was too late.

    Too late: the positions have moved already, and the records are on their way out.
    """
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    for number in range(4):
        cluster.append("orders", number % 2, b"%d-a" % number, b"%d-b" % number)
    found: list[bytes] = []
    with cluster.consumer("orders", max_poll_records=3) as consumer:
        interrupt = InterruptAtLine(nth)
        polled: dict[TopicPartition, list[Any]] = {}
        before = {ORDERS_0: 0, ORDERS_1: 0}
        for _ in range(3):  # to find the partitions, to find where they begin, to read
            sys.settrace(interrupt.trace)
            try:
                polled = consumer.poll()
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(None)
            if not polled:
                cluster.runtime.run_for(0.1)
        positions = consumer._core.subscription.positions
        was_too_late = not polled and bool(positions) and positions != before
        for _ in range(10):
            for some in polled.values():
                found += [record.value for record in some]
            polled = consumer.poll(100)
    return found, interrupt.left <= 0, was_too_late


@pytest.mark.gate
@pytest.mark.slow
@EACH_THIRD
def test_a_ctrl_c_at_any_line_of_a_poll_loses_and_repeats_nothing(first: int) -> None:
    expected = sorted(b"%d-%s" % (number, half) for number in range(4) for half in (b"a", b"b"))
    too_late = 0
    for nth in range(first, 2000, 3):
        found, was_interrupted, was_too_late = poll_interrupted(nth)
        if not was_interrupted:
            break
        too_late += was_too_late
        assert was_too_late or sorted(found) == expected, f"interrupted at line {nth}"
    assert 200 < nth < 1990
    assert too_late <= 16, "lines between moving the positions and the return"


def seek_interrupted(nth: int) -> tuple[list[int], bool]:
    """The records read from 3 on when the n-th line of an assignment, a pause or a seek is interrupted."""
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    fill(cluster, 6)
    with cluster.consumer() as consumer:
        interrupt = InterruptAtLine(nth)
        steps: list[Callable[[], object]] = [
            lambda: consumer.assign([ORDERS_1]),
            lambda: consumer.assign([ORDERS_0, ORDERS_1]),
            consumer.poll,
            lambda: consumer.pause(ORDERS_0),
            lambda: consumer.seek_to_end(ORDERS_0),
            lambda: consumer.seek(ORDERS_0, 3),
            lambda: consumer.resume(ORDERS_0),
        ]
        for step in steps:
            sys.settrace(interrupt.trace)
            try:
                step()
            except KeyboardInterrupt:
                sys.settrace(None)
                step()  # as a user would who was interrupted in a shell
            finally:
                sys.settrace(None)
            cluster.runtime.run_for(0.01)
        return offsets(consumer, 1000), interrupt.left <= 0


@pytest.mark.gate
@pytest.mark.slow
@EACH_THIRD
def test_interrupted_seek_can_be_repeated(first: int) -> None:
    for nth in range(first, 2000, 3):
        found, was_interrupted = seek_interrupted(nth)
        if not was_interrupted:
            break
        assert found == [3, 4, 5], f"interrupted at line {nth}"
    assert 200 < nth < 1990


# ---------------------------------------------------------------------------------------- transactions


def test_read_committed_hides_aborted_records(cluster: LogCluster) -> None:
    log = cluster.log("orders")
    log.append(b"plain-0")
    first = log.append(b"aborted-1", b"aborted-2", producer_id=7, is_transactional=True)
    committed = log.append(b"committed-3", producer_id=8, is_transactional=True)
    log.end_transaction(7, first, committed=False)
    log.end_transaction(8, committed, committed=True)
    log.append(b"committed-6", producer_id=7, is_transactional=True)
    log.end_transaction(7, 6, committed=True)
    for isolation, values in (
        ("read_committed", [b"plain-0", b"committed-3", b"committed-6"]),
        ("read_uncommitted", [b"plain-0", b"aborted-1", b"aborted-2", b"committed-3", b"committed-6"]),
    ):
        with cluster.consumer(isolation_level=isolation) as consumer:
            consumer.assign([ORDERS_0])
            found = []
            while records := consumer.poll(1000, max_records=1):
                found += [record.value for record in records[ORDERS_0]]
            assert found == values
            assert consumer.position(ORDERS_0) == log.end, "past the markers, which are never returned"


@pytest.mark.gate
@pytest.mark.slow
@settings(max_examples=examples(60))
@given(
    st.lists(st.sampled_from(["plain", "a", "b", "end a", "end b", "abort a", "abort b"]), max_size=25),
    st.integers(1, 4),
)
def test_read_committed_agrees_with_a_simple_model(steps: list[str], max_records: int) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    log = cluster.log("orders")
    open_since: dict[str, tuple[int, list[bytes]]] = {}
    aborted: set[bytes] = set()
    written: list[bytes] = []
    for number, step in enumerate(steps):
        value = b"%d" % number
        verb, _, name = step.rpartition(" ")
        if step == "plain":
            log.append(value)
            written.append(value)
        elif not verb:
            offset = log.append(value, producer_id=ord(name), is_transactional=True)
            open_since.setdefault(name, (offset, []))[1].append(value)
            written.append(value)
        elif name in open_since:
            first, values = open_since.pop(name)
            log.end_transaction(ord(name), first, committed=verb == "end")
            if verb == "abort":
                aborted.update(values)
    for name, (first, _) in list(open_since.items()):  # a reader never sees beyond an open transaction
        log.end_transaction(ord(name), first, committed=True)
    with cluster.consumer("orders", isolation_level="read_committed") as consumer:
        found: list[bytes] = []
        while records := consumer.poll(1000, max_records=max_records):
            found += [record.value for record in records[ORDERS_0]]
    assert found == [value for value in written if value not in aborted]
