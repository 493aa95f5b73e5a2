"""Data that cannot be read: read again before it is raised again, and freed at once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import numpy  # noqa: F401
import pytest

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.consumer.fetch.fetched_data import FetchedData
from pykafka2.errors import CorruptData, CorruptMessage, KafkaError, TopicAuthorizationFailed
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.encoder import BatchBuilder
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster
from tests.gate import rest_in_gate

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> LogCluster:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    for number in range(6):
        cluster.append("orders", 0, b"%d" % number)
    return cluster


def damage(batch: bytes, how: str) -> bytes:
    damaged = bytearray(batch)
    if how == "value":
        damaged[-2] ^= 0xFF
    elif how == "magic":
        damaged[16] = 9
    else:
        damaged[22] |= 7  # an unknown codec
    return bytes(damaged)


def lengths(consumer: KafkaConsumer, call: str) -> int:
    return sum(map(len, getattr(consumer, call)(1000).values()))


@pytest.mark.parametrize("call", ["poll", "poll_columns"])
@pytest.mark.parametrize("how", ["value", "magic", "codec"])
def test_poll_after_a_repair_at_the_broker_reads_the_damaged_batch(
    cluster: LogCluster, how: str, call: str
) -> None:
    log = cluster.log("orders")
    whole = log.batches[3]
    log.batches[3] = damage(whole, how)
    with cluster.consumer(check_crcs=how == "value") as consumer:
        consumer.assign([ORDERS_0])
        assert lengths(consumer, call) == 3
        for _ in range(3):
            with pytest.raises(KafkaError, match="orders-0 at offset 3"):
                lengths(consumer, call)
            assert consumer.position(ORDERS_0) == 3
        log.batches[3] = whole
        assert lengths(consumer, call) == 3
        assert consumer.position(ORDERS_0) == 6


@pytest.mark.parametrize("call", ["poll", "poll_columns"])
@pytest.mark.parametrize("has_healed", [True, False], ids=["healed", "passed over"])
def test_fetch_received_during_a_refetch_does_not_skip_the_damage(
    cluster: LogCluster, call: str, has_healed: bool
) -> None:
    """The fetch in flight was sent for the offset behind the position that is read again."""
    log = cluster.log("orders")
    whole = log.batches[3]
    log.batches[3] = damage(whole, "value")
    with cluster.consumer(on_bad_record="raise" if has_healed else "skip") as consumer:
        consumer.assign([ORDERS_0])
        assert lengths(consumer, call) == 3
        cluster.runtime.run_for(0.1)
        if has_healed:
            with pytest.raises(KafkaError, match="orders-0 at offset 3"):
                lengths(consumer, call)
            log.batches[3] = whole
        cluster.append("orders", 0, b"6")  # the answer is here, and not taken in yet
        found = sum(lengths(consumer, call) for _ in range(3))
        assert found == (4 if has_healed else 3)
        assert consumer.position(ORDERS_0) == 7


@pytest.mark.parametrize("call", ["poll", "poll_columns"])
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_damage_behind_a_full_poll_is_raised_by_the_next(cluster: LogCluster, limit: int, call: str) -> None:
    log = cluster.log("orders")
    log.batches[3] = damage(log.batches[3], "magic")
    with cluster.consumer(max_poll_records=limit) as consumer:
        consumer.assign([ORDERS_0])
        while consumer.position(ORDERS_0) < 3:
            lengths(consumer, call)
        with pytest.raises(KafkaError, match="orders-0 at offset 3"):
            lengths(consumer, call)


def test_only_the_damaged_one_of_several_batches_is_skipped() -> None:
    """Columns of several batches are made at once where numpy is loaded."""
    blob = b""
    for base_offset in (0, 60, 120):
        builder = BatchBuilder()
        for _ in range(60):
            builder.append(1000, None, b"value")
        blob += builder.build(base_offset=base_offset)
    damaged = bytearray(blob)
    damaged[len(blob) // 3 + 61] ^= 0xFF  # the length of its first record
    data = FetchedData(ORDERS_0, 0, 0, memoryview(damaged))
    columns = GrowingColumns()
    with pytest.raises(CorruptData, match="in the batch from 60"):
        data.take_columns(0, 1000, columns, check_crcs=False)
    assert columns.offsets == list(range(60))
    damage = data.damage(0, None)
    assert damage is not None
    assert (damage.offset, damage.next_offset) == (60, 120)


# ---------------------------------------------------------------------------------------- memory


@pytest.fixture
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def bomb(cluster: LogCluster) -> None:
    log = cluster.log("orders")
    builder = BatchBuilder("gzip", max_bytes=200_000)
    builder.append(1000, None, b"x" * 100_000)
    log.batches.append(builder.build(log.end))
    log.end += 1


def refuse(data: bytes) -> bytes:
    raise ValueError("not welcome")


def fetched_data() -> list[FetchedData]:
    return [one for one in gc.get_objects() if isinstance(one, FetchedData)]


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("call", ["poll", "poll_columns", "position"])
@pytest.mark.parametrize("what", ["bomb", "value", "magic", "refused", "deserializer"])
@pytest.mark.parametrize("has_records_before", rest_in_gate([True, False]))
def test_unreadable_data_is_freed_without_the_garbage_collector(
    cluster: LogCluster, what: str, call: str, has_records_before: bool
) -> None:
    others = fetched_data()  # of tests before, in garbage that was not collected
    log = cluster.log("orders")
    options = {"max_decompressed_bytes": 50_000}
    if what == "bomb":
        bomb(cluster)
    elif what == "refused":
        log.error_code = TopicAuthorizationFailed.code or 0
    elif what == "deserializer":
        options["value_deserializer"] = refuse  # type: ignore[assignment]
    else:
        log.batches[-1] = damage(log.batches[-1], what)
    raised: list[weakref.ref[KafkaError]] = []
    with cluster.consumer(**options) as consumer:
        consumer.assign([ORDERS_0])
        if not has_records_before:
            consumer.seek(ORDERS_0, len(log.batches) - 1)
        for _ in range(6):
            try:
                if call == "position":
                    consumer.poll(1000)
                    consumer.position(ORDERS_0, 1000)
                else:
                    getattr(consumer, call)(1000)
            except KafkaError as error:
                raised.append(weakref.ref(error))
        assert raised or (what, call) == ("deserializer", "poll_columns")
        assert [error() for error in raised if error() is not None] == []
    assert len(fetched_data()) - len(others) <= 1, "what the consumer holds itself"


def test_corrupt_data_error_keeps_its_cause(cluster: LogCluster) -> None:
    log = cluster.log("orders")
    log.batches[0] = damage(log.batches[0], "value")
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0])
        with pytest.raises(CorruptMessage, match="checksum"):
            consumer.poll(1000)
    bomb(cluster)
    with cluster.consumer(max_decompressed_bytes=50_000) as consumer:
        consumer.assign([ORDERS_0])
        consumer.seek(ORDERS_0, 6)
        with pytest.raises(CorruptData, match="max_decompressed_bytes") as caught:
            consumer.poll(1000)
        assert isinstance(caught.value.__cause__, CorruptData)
