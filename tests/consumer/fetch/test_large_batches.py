"""Batches of very many records are opened and decoded step by step, so a poll returns in time."""

from __future__ import annotations

import importlib
import random
import time
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.log.batch import parse_batch, with_log_append_time
from pykafka2.compression import codec
from pykafka2.consumer.fetch.fetched_data import FetchedData
from pykafka2.errors import CorruptData, KafkaError
from pykafka2.protocol.messages.fetch import AbortedTransaction
from pykafka2.records.columns import Columns, GrowingColumns
from pykafka2.records.encoder import BatchBuilder
from pykafka2.types import ConsumerRecord, TopicPartition
from tests.consumer.logs import LogCluster
from tests.gate import examples
from tests.records.test_legacy import message

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MANY = 200_000


def large_batch(values: list[bytes], base_offset: int = 0, compression: str = "none") -> bytes:
    builder = BatchBuilder(compression, max_bytes=1 << 30)
    for value in values:
        builder.append(1000, None, value)
    return builder.build(base_offset=base_offset)


@pytest.fixture(scope="module")
def many() -> bytes:
    """The first records are laid out alike, so they are looked for among the others, in vain."""
    return large_batch([b""] * 20 + [b"", b"x"] * (MANY // 2 - 10), compression="zstd")


def set_steps(monkeypatch: pytest.MonkeyPatch, records: int, size_bytes: int) -> None:
    for place in ("records.batch_reader", "records.legacy"):
        monkeypatch.setattr(f"pykafka2.{place}.STEP_RECORDS", records)
    for place in ("records.column_group", "consumer.fetch.fetched_data"):
        monkeypatch.setattr(f"pykafka2.{place}.MOST_AT_ONCE", records)
    for name in ("codec", "gzip", "snappy", "zstd"):
        # By its module's name: the package has a function of the name `codec`.
        module = importlib.import_module(f"pykafka2.compression.{name}")
        monkeypatch.setattr(module, "STEP_BYTES", size_bytes)


# ------------------------------------------------------------------------------------- a step is short


def processor_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@pytest.mark.gate
def test_first_records_of_a_large_batch_do_not_wait_for_the_last(many: bytes) -> None:
    data = FetchedData(ORDERS_0, 0, 0, memoryview(many))
    first: list[ConsumerRecord[Any, Any]] = []
    rest: list[ConsumerRecord[Any, Any]] = []

    def take_first() -> None:
        position = 0
        while len(first) < 10:
            position = data.take(position, 10, first, True)

    to_first = processor_seconds(take_first)
    to_last = processor_seconds(lambda: data.take(10, MANY, rest, True))
    assert [record.offset for record in first] == list(range(10))
    assert len(rest) == MANY - 10
    assert to_first < to_last / 5


@pytest.mark.gate
def test_a_poll_into_the_middle_of_a_large_batch_returns_after_one_step(many: bytes) -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    log = cluster.log("orders", 0)
    log.batches, log.end = [many], MANY
    cluster.append("orders", 1, b"other")
    wanted = MANY - 5
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])
        consumer.seek(ORDERS_0, wanted)
        consumer.poll()
        cluster.runtime.run_for(1)
        empty, found = 0, consumer.poll(max_records=3)
        assert list(found) == [ORDERS_1], "another partition need not wait"
        while not found.get(ORDERS_0):
            assert consumer.position(ORDERS_0) == wanted
            found = consumer.poll(max_records=3)
            empty += not found
        assert empty > 5
        assert [record.offset for record in found[ORDERS_0]] == [wanted, wanted + 1, wanted + 2]
        assert len(consumer.poll(60_000)[ORDERS_0]) == 2
        consumer.seek(ORDERS_0, wanted)
        found = consumer.poll(60_000, max_records=3)
        assert [record.offset for record in found[ORDERS_0]] == [wanted, wanted + 1, wanted + 2]


def test_calls_between_steps_into_a_large_batch_take_effect(many: bytes) -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    log = cluster.log("orders", 0)
    log.batches, log.end = [many], MANY
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])
        consumer.seek(ORDERS_0, MANY - 1)
        consumer.poll()
        cluster.runtime.run_for(1)
        assert consumer.poll() == {}
        consumer.pause(ORDERS_0)
        assert consumer.poll(50) == {}, "nor does a paused partition keep a poll from waiting"
        consumer.resume(ORDERS_0)
        assert consumer.poll() == {}
        consumer.wakeup()
        assert consumer.poll(60_000) == {}
        consumer.seek(ORDERS_0, 7)
        assert [record.offset for record in consumer.poll(60_000, max_records=1)[ORDERS_0]] == [7]
        peeked = consumer.poll(60_000, max_records=2, update_offsets=False)
        assert [record.offset for record in peeked[ORDERS_0]] == [8, 9]
        assert [record.offset for record in consumer.poll(60_000, max_records=2)[ORDERS_0]] == [8, 9]


def test_peeks_at_a_small_batch_before_a_large_one_return_the_same_records_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = [b"%d" % number for number in range(203)]
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    for number in range(2):
        log = cluster.log("orders", number)
        log.batches = [large_batch(values[:3]), large_batch(values[3:], 3, compression="zstd")]
        log.end = 203
    set_steps(monkeypatch, records=20, size_bytes=50)
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])
        for _ in range(4):
            peeked = consumer.poll(60_000, max_records=10, update_offsets=False)
            assert {value for records in peeked.values() for value in [records[0].value]} == {b"0"}
        found: dict[TopicPartition, list[Any]] = {ORDERS_0: [], ORDERS_1: []}
        while min(map(len, found.values())) < 203:
            for partition, records in consumer.poll(60_000, max_records=10).items():
                found[partition] += [record.value for record in records]
    assert found == {ORDERS_0: values, ORDERS_1: values}


@pytest.mark.parametrize("queued_max_bytes", [5_000, 30_000])  # of one batch, or of all partitions' batches
def test_a_batch_that_is_opened_beyond_the_budget_is_read_before_another_is_opened(
    monkeypatch: pytest.MonkeyPatch, queued_max_bytes: int
) -> None:
    cluster = LogCluster({"orders": [0, 0, 0]}, brokers=1)
    values = [b"v" * 100] * 200
    for number in range(3):
        log = cluster.log("orders", number)
        log.batches, log.end = [large_batch(values, compression="zstd")], 200
    # A first step beyond the budget of one partition; some libraries decompress all in it, some not.
    set_steps(monkeypatch, records=1 << 14, size_bytes=12_000)
    opened: list[TopicPartition] = []
    advance = FetchedData._advance
    monkeypatch.setattr(
        FetchedData, "_advance", lambda self, opening: opened.append(self.partition) or advance(self, opening)
    )
    with cluster.consumer(queued_max_bytes=queued_max_bytes) as consumer:
        consumer.assign([TopicPartition("orders", number) for number in range(3)])
        peeks = [consumer.poll(60_000, max_records=10, update_offsets=False) for _ in range(3)]
        assert len({partition for records in peeks for partition in records}) == 3
        opened.clear()
        read: list[TopicPartition] = []
        while len(read) < 600:
            for partition, records in consumer.poll(60_000, max_records=10).items():
                read += [partition] * len(records)
    for order in (opened, read):
        assert [partition for partition, _ in groupby(order)] == [*dict.fromkeys(order)], "one by one"


@pytest.mark.gate
def test_polls_that_decode_a_large_batch_step_by_step_are_not_stalled(
    many: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_steps(monkeypatch, records=500, size_bytes=1000)
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    log = cluster.log("orders", 0)
    log.batches, log.end = [many], MANY
    with cluster.consumer() as consumer:
        consumer.assign([ORDERS_0, ORDERS_1])
        consumer.seek(ORDERS_0, MANY - 1)
        polls = 0
        while not (found := consumer.poll()):
            cluster.runtime.run_for(1)
            polls += 1
        assert polls > 200, "longer than a partition may stand still"
        assert [record.offset for record in found[ORDERS_0]] == [MANY - 1]


def test_open_bytes_of_a_legacy_wrapper_are_those_of_its_decompressed_messages() -> None:
    inner = b"".join(message(1, offset, 1000, None, b"x" * 1000) for offset in range(1000))
    wrapper = message(1, 999, 1000, None, codec("gzip").compress(inner), 1)
    data = FetchedData(ORDERS_0, 0, 0, memoryview(wrapper))
    records: list[ConsumerRecord[Any, Any]] = []
    position = 0
    while not records:
        position = data.take(position, 2, records, True)
    assert data.open_bytes == len(inner) > 100 * len(wrapper)
    while position < 1000:
        position = data.take(position, 2000, records, True)
    assert (len(records), data.open_bytes) == (1000, 0)


@pytest.mark.gate
def test_columns_of_a_large_batch_come_in_parts(many: bytes) -> None:
    cluster = LogCluster({"orders": [0, 0]}, brokers=1)
    log = cluster.log("orders", 0)
    log.batches, log.end = [many], MANY
    log.append(b"after")
    with cluster.consumer("orders") as consumer:
        sizes, offsets = [], 0
        while offsets < MANY + 1:
            columns = consumer.poll_columns(60_000, max_records=10)[ORDERS_0]
            assert columns.offsets[0] == offsets
            offsets = columns.offsets[-1] + 1
            sizes.append(len(columns))
        assert max(sizes) <= MANY / 2
        pieces = list(consumer.read_range(ORDERS_0, 100, MANY - 100))
    assert [offset for piece in pieces for offset in piece.offsets] == list(range(100, MANY - 100))
    assert max(map(len, pieces)) <= MANY / 2


def test_parts_of_two_large_batches_have_their_timestamp_types_and_count_their_bytes_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    log, values = cluster.log("orders"), [b"v" * (number % 7) for number in range(200)]
    create = large_batch(values[:100])
    append = bytes(with_log_append_time(parse_batch(large_batch(values[100:], 100)), 5000).buffer)
    log.batches, log.end = [create, append], 200
    set_steps(monkeypatch, 40, 50)
    with cluster.consumer("orders") as consumer:
        ranges = list(consumer.read_range(ORDERS_0, 0, 200))
        middles = list(consumer.read_range(ORDERS_0, 60, 160))
        polled = []
        while sum(map(len, polled)) < 200:
            polled.append(consumer.poll_columns(60_000, max_records=10)[ORDERS_0])
    types = [0] * 100 + [1] * 100
    for pieces, expected in ((ranges, types), (polled, types), (middles, types[60:160])):
        assert [one for piece in pieces for one in piece.timestamp_types] == expected
        assert sum(piece.size_bytes for piece in pieces) == len(create) + len(append)
        assert len(pieces) > 2


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_skipping_to_the_middle_of_a_batch_of_unlike_records_takes_a_step_for_every_few(
    monkeypatch: pytest.MonkeyPatch, is_wrapped: bool
) -> None:
    values = [b"v" * (number % 7) for number in range(500)]
    batch = large_batch(values)
    if is_wrapped:
        inner = b"".join(message(1, offset, 1000, None, value) for offset, value in enumerate(values))
        batch = message(1, 499, 1000, None, codec("gzip").compress(inner), 1)
    set_steps(monkeypatch, records=50, size_bytes=1 << 20)
    data = FetchedData(ORDERS_0, 0, 0, memoryview(batch))
    records: list[ConsumerRecord[Any, Any]] = []
    for start in (475, 330):
        steps = 0
        while not records:
            data.take(start, 2, records, True)
            steps += 1
        assert [record.offset for record in records] == [start, start + 1]
        # A wrapper is looked through to its end before that.
        assert steps >= start // 50 + 10 * is_wrapped
        records.clear()


@pytest.mark.parametrize(("start", "end"), [(0, 322), (5, 321), (150, 210), (209, 211), (161, 322)])
def test_read_range_returns_the_batches_behind_a_large_one_of_the_same_fetch(
    monkeypatch: pytest.MonkeyPatch, start: int, end: int
) -> None:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    log, values = cluster.log("orders"), [b"%d" % number for number in range(322)]
    for first, last in ((0, 10), (10, 160), (160, 161), (161, 210), (210, 320), (320, 322)):
        log.batches.append(large_batch(values[first:last], first))
        log.end = last
    set_steps(monkeypatch, 40, 50)
    with cluster.consumer() as consumer:
        pieces = list(consumer.read_range(ORDERS_0, start, end))
    found = [row for piece in pieces for row in zip(piece.offsets, piece.values, strict=True)]
    assert found == [(offset, values[offset]) for offset in range(start, end)]


def test_damage_in_a_large_batch_adds_no_records_behind_the_end_of_the_range(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = bytearray(large_batch([b"%03d" % number for number in range(100)]))
    batch[batch.index(b"035") - 1] = 0x7F  # the length of a value
    set_steps(monkeypatch, 40, 50)
    data, columns = FetchedData(ORDERS_0, 0, 0, memoryview(bytes(batch))), GrowingColumns()

    def take_all() -> None:
        position = 0
        while True:
            position = data.take_columns(position, 1000, columns, False, end=30)

    with pytest.raises(CorruptData):
        take_all()
    assert list(columns.offsets) == list(range(30))


# ------------------------------------------------------------------------- slices are as good as the whole


class Blob:
    """Batches of all sorts, one after the other, with aborted transactions among them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.parts: list[bytes] = []
        self.end = 0
        self.aborted: list[AbortedTransaction] = []
        for _ in range(self._random.randint(1, 5)):
            self._random.choice([self._alike, self._mixed, self._aborted, self._wrapped])()
        if self._random.random() < 0.3:
            self._damage()

    def _add(self, values: list[bytes], producer_id: int = -1) -> None:
        builder = BatchBuilder(self._random.choice(CODECS), max_bytes=1 << 30)
        for value in values:
            builder.append(1000, None, value)
        batch = builder.build(
            base_offset=self.end,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0 if producer_id >= 0 else -1,
            is_transactional=producer_id >= 0,
        )
        self.parts.append(batch)
        self.end += len(values)

    def _alike(self) -> None:
        self._add([b"value"] * self._random.randint(1, 200))

    def _mixed(self) -> None:
        sizes = [5] * self._random.randint(0, 30) + self._random.choices(range(300), k=40)
        self._add([b"v" * size for size in sizes])

    def _aborted(self) -> None:
        self.aborted.append(AbortedTransaction(producer_id=len(self.aborted), first_offset=self.end))
        self._add([b"aborted"] * self._random.randint(1, 50), len(self.aborted) - 1)

    def _wrapped(self) -> None:
        count = self._random.randint(1, 40)
        inner = b"".join(message(1, number, 1000, None, b"old") for number in range(count))
        compressed = codec("gzip").compress(inner)
        self.parts.append(message(1, self.end + count - 1, 1000, None, compressed, 1))
        self.end += count

    def _damage(self) -> None:
        last = bytearray(self.parts[-1])
        last[-1] ^= 0xFF
        self.parts[-1] = bytes(last)

    def data(self, position: int = 0) -> FetchedData:
        return FetchedData(ORDERS_0, 0, position, memoryview(b"".join(self.parts)), self.aborted)


Row = tuple[int, "bytes | None"]


def all_rows(
    data: FetchedData, start: int, limit: int, in_columns: bool, check_crcs: bool
) -> list[Row | str]:
    """Records read by takes of up to `limit` records, and the error behind them."""
    rows: list[Row | str] = []
    position = start
    while position < data.next_offset or data.error is not None:
        into: list[ConsumerRecord[Any, Any]] = []
        columns = GrowingColumns()
        try:
            if in_columns:
                position = data.take_columns(position, limit, columns, check_crcs)
            else:
                position = data.take(position, limit, into, check_crcs)
        except KafkaError as error:
            return [*rows, *_rows(into, columns), str(error)]
        rows += _rows(into, columns)
    return rows


def _rows(into: list[ConsumerRecord[Any, Any]], columns: Columns) -> list[Row]:
    return [(one.offset, one.value) for one in into] + list(zip(columns.offsets, columns.values, strict=True))


@pytest.mark.gate
@settings(max_examples=examples(100), deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    records=st.integers(1, 60),
    size=st.sampled_from([1, 50, 1000, 1 << 20]),
    limit=st.sampled_from([1, 7, 500]),
    start=st.integers(0, 100),
    in_columns=st.booleans(),
    check_crcs=st.booleans(),
)
def test_steps_of_any_size_give_the_records_and_the_error_of_the_whole(
    seed: int, records: int, size: int, limit: int, start: int, in_columns: bool, check_crcs: bool
) -> None:
    blob = Blob(seed)
    start = min(start, blob.end)
    whole = all_rows(blob.data(start), start, 1 << 30, False, check_crcs)
    with pytest.MonkeyPatch.context() as patch:
        set_steps(patch, records, size)
        assert all_rows(blob.data(start), start, limit, in_columns, check_crcs) == whole


@pytest.mark.gate
@pytest.mark.parametrize("uniform_records", [0, 40])
def test_records_of_many_headers_are_skipped_in_shorter_steps(uniform_records: int) -> None:
    count, header_count = 20_000, 30
    headers = [("a name", b"a value")] * header_count
    builder = BatchBuilder("none", max_bytes=1 << 30)
    for index in range(count):
        builder.append(1000, None, b"v", None if index < uniform_records else headers)
    data = FetchedData(ORDERS_0, 0, 0, memoryview(builder.build()))
    found: list[ConsumerRecord[Any, Any]] = []
    steps = 0
    while not found:
        data.take(count - 1, 1, found, True)
        steps += 1
    assert [record.offset for record in found] == [count - 1]
    assert steps > count * header_count // 100_000, "a step passes over 100,000 headers, some 50 ms of work"
