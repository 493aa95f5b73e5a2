"""A batch alone: how it is filled, its bytes, and what it keeps for callbacks and futures."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.compression import codec
from pykafka2.errors import IllegalState, KafkaError, MessageTooLarge
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.accumulator.batch_records import RowRecords
from pykafka2.producer.accumulator.batch_sizes import (
    BATCH_OVERHEAD_BYTES,
    LARGEST_STEP_BYTES,
    LONGER_OVERHEAD_BYTES,
    SMALLEST_RECORD_BYTES,
    BatchPlan,
)
from pykafka2.producer.accumulator.buffer_pool import BufferPool, Permit
from pykafka2.producer.accumulator.open_batch import NS_PER_MS, append_unlocked, note_time
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.delivery.batch_outcome import BatchOutcome
from pykafka2.producer.delivery.callbacks import LISTENERS_BYTES
from pykafka2.records.batch import HEADER_BYTES, batches
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import SHORT, encode_headers
from pykafka2.types import RecordMetadata
from tests.driver.interleave import at_every_line, at_line
from tests.producer.rows import HOOKS, PLAN, a_batch, a_row, appended
from tests.records.strategies import NOW, RECORDS, Input

SIZES = st.sampled_from([HEADER_BYTES + 1, 1000, 16384, 1 << 20])


def a_plan(max_bytes: int) -> BatchPlan:
    return BatchPlan(codec("none"), None, max_bytes)


def a_queue(max_bytes: int, wakes: list[str] | None = None) -> PartitionQueue:
    """With an open batch of this size."""
    queue = PartitionQueue("orders", 3, lambda: None if wakes is None else wakes.append("wake"))
    batch = a_batch(plan=a_plan(max_bytes))
    queue.tail = batch.open
    queue.batches.append(batch)
    return queue


def rows_of(one: Input) -> tuple[tuple[bytes | None, bytes | None, int, bytes, None], int]:
    row, size_bytes = a_row(one.value, one.key, max(0, one.timestamp), encode_headers(one.headers))
    return (*row[:4], None), size_bytes


@pytest.mark.gate
@pytest.mark.slow
@given(st.lists(RECORDS, min_size=1, max_size=60), SIZES)
def test_a_batch_is_never_larger_than_it_may_be_but_for_a_single_record(
    records: list[Input], max_bytes: int
) -> None:
    queue = a_queue(max_bytes)
    [batch] = queue.batches
    taken = [one for one in records if queue.try_append(*rows_of(one)) is not None]
    assert taken[:1] == records[:1], "a first record is taken whatever its size"
    estimate = batch.size_estimate
    batch.seal()
    encoded = batch.bytes()
    assert len(encoded) <= estimate
    assert len(encoded) <= max_bytes or len(taken) == 1
    [read] = batches(encoded)
    assert [(key, value) for _, _, key, value, _ in decode_tuples(read)] == [
        (one.key, one.value) for one in taken
    ]


@pytest.mark.parametrize(("key_bytes", "value_bytes", "later_ms"), [(0, 0, 0), (0, 1, 0), (70, 70, 70)])
def test_bounds_hold_for_more_records_than_short_offsets(
    key_bytes: int, value_bytes: int, later_ms: int
) -> None:
    max_bytes = HEADER_BYTES + 2 * SHORT * (SMALLEST_RECORD_BYTES + key_bytes + value_bytes)
    queue = a_queue(max_bytes)
    [batch] = queue.batches
    queue.try_append(*a_row(timestamp=NOW))
    row = a_row(b"x" * value_bytes, b"k" * key_bytes or None, timestamp=NOW + later_ms)
    while queue.try_append(*row) is not None:
        pass
    assert batch.size > 1.6 * SHORT
    estimate = batch.size_estimate  # before `bytes`, after which it is exact
    batch.seal()
    assert len(batch.bytes()) <= estimate <= max_bytes


def test_size_estimate_holds_for_records_with_long_varint_lengths() -> None:
    data = b"x" * (SHORT + 1)
    row = a_row(data, data, timestamp=NOW + 70)
    queue = a_queue(HEADER_BYTES + 100 * row[1])  # of which some numbers take a byte more
    [batch] = queue.batches
    queue.try_append(*a_row(data, data, timestamp=NOW))
    while queue.try_append(*row) is not None:
        pass
    assert 90 < batch.size < 100
    estimate = batch.size_estimate
    batch.seal()
    assert len(batch.bytes()) <= estimate <= HEADER_BYTES + 100 * row[1]


def test_size_estimate_holds_for_a_single_record_with_long_varint_lengths() -> None:
    data = b"x" * (SHORT + 1)
    batch = a_batch()
    appended(batch, key=data, value=data)
    batch.seal()
    estimate = batch.size_estimate
    assert len(batch.bytes()) <= estimate


def test_callbacks_count_as_memory_when_the_batch_is_sealed() -> None:
    pool = BufferPool(1 << 20)
    permit = Permit(16384, BATCH_OVERHEAD_BYTES)
    pool.request(permit)
    batch = a_batch(hooks=attrs.evolve(HOOKS, charge=pool.charge), permit=permit)
    appended(batch).add_callback(print)
    batch.seal()
    assert pool.overhead_bytes > BATCH_OVERHEAD_BYTES + LISTENERS_BYTES


def test_sealed_batch_leaves_nothing_in_its_open_end() -> None:
    """The producer keeps the open end of each topic's last batch, maybe for hours."""
    batch = a_batch()
    appended(batch, value=b"large")
    tail = batch.open
    assert tail is not None
    fields, outcome = tail.fields, tail.outcome
    assert batch.seal() > 0
    assert batch.open is None
    assert (tail.fields, tail.outcome) == ([], None)
    assert batch.fields is fields
    assert batch.outcome is outcome is not None


def test_abandoned_batch_has_no_records_and_takes_none() -> None:
    batch = a_batch()
    for _ in range(2):
        appended(batch)
    tail = batch.open
    assert tail is not None
    assert tail.room_bytes > 0
    batch.abandon()
    assert append_unlocked(tail, *a_row()) is None
    assert (tail.fields, tail.outcome, batch.open) == ([], None, None)
    assert (batch.records, batch.count, batch.size) == (None, 0, 0)
    assert batch.is_done
    assert batch.is_finished


def test_abandoned_batch_of_ready_records_keeps_none() -> None:
    fields = list(a_row()[0])
    batch = ProducerBatch(
        "orders", 3, PLAN, HOOKS, permit=Permit(0), created_at=0.0, records=RowRecords(fields, 100)
    )
    assert batch.size == 1
    batch.abandon()
    assert (batch.records, batch.size) == (None, 0)


def test_append_to_a_sealed_batch_raises_illegal_state() -> None:
    batch = a_batch()
    appended(batch)
    tail = batch.open
    assert tail is not None
    batch.seal()
    with pytest.raises(IllegalState, match="sealed batch"):
        tail.append(*a_row())


def test_batch_takes_no_record_without_memory_for_it() -> None:
    has_memory = [True]
    hooks = attrs.evolve(HOOKS, charge=lambda permit, overhead_bytes: has_memory[0])
    batch = a_batch(hooks=hooks)
    assert batch.open is not None
    appended(batch)
    appended(batch)
    has_memory[0] = False
    assert batch.open.append(*a_row()) is None
    assert batch.size == 2


@pytest.mark.parametrize(("later_ms", "longer_bytes"), [(SHORT - 1, 0), (SHORT, 1), (-1, 1)])
def test_bound_of_a_record_with_a_long_timestamp_delta_is_larger(later_ms: int, longer_bytes: int) -> None:
    batch = a_batch()
    tail = batch.open
    assert tail is not None
    row, size_bytes = a_row(timestamp=NOW)
    tail.append(row, size_bytes)
    tail.append(a_row(timestamp=NOW + later_ms)[0], size_bytes)
    assert tail.shut() == 2 * size_bytes + longer_bytes * LONGER_OVERHEAD_BYTES


def test_bound_of_a_record_with_a_long_offset_delta_is_larger() -> None:
    row, size_bytes = a_row(timestamp=NOW)
    bound_bytes = 2 * size_bytes + LONGER_OVERHEAD_BYTES
    tail = a_batch(plan=a_plan(HEADER_BYTES + bound_bytes)).open
    assert tail is not None
    tail.append(row, size_bytes)
    tail.count = SHORT
    tail.append(row, size_bytes)
    assert tail.shut() == bound_bytes


def test_bytes_beyond_the_permit_are_charged() -> None:
    charged: list[int] = []

    def charge(permit: Permit, overhead_bytes: int) -> bool:
        charged.append(overhead_bytes)
        return True

    batch = a_batch(hooks=attrs.evolve(HOOKS, charge=charge), permit=Permit(100))
    appended(batch)
    assert batch.open is not None
    for bound_bytes in (0, 100, 130):
        batch.open.charge_memory(bound_bytes)
    assert [each - charged[0] for each in charged] == [0, 0, 30]


@pytest.mark.parametrize(("permit_bytes", "is_charged"), [(100, True), (1 << 20, False)])
def test_encoded_bytes_beyond_the_permit_are_charged(permit_bytes: int, is_charged: bool) -> None:
    charged: list[int] = []

    def charge(permit: Permit, overhead_bytes: int) -> bool:
        charged.append(overhead_bytes)
        return True

    batch = a_batch(hooks=attrs.evolve(HOOKS, charge=charge), permit=Permit(permit_bytes))
    appended(batch, value=b"x" * 5000)
    batch.seal()
    before = max(charged, default=0)
    charged.clear()
    encoded = batch.bytes()
    assert bool(charged) is is_charged
    assert not charged or charged[0] - before >= len(encoded) - permit_bytes


def test_no_moment_of_note_time_gives_a_record_the_timestamp_of_another_time() -> None:
    def attempt(number: int) -> bool:
        tail = a_batch().open
        assert tail is not None
        for timestamp in (5, 3):
            note_time(tail, timestamp)
        seen: list[tuple[int, int, int]] = []

        def look() -> None:
            seen.append((tail.since_ns, tail.until_ns, tail.timestamp))

        was_reached = at_line(note_time.__code__, number, look, lambda: note_time(tail, 4))
        look()
        for since_ns, until_ns, timestamp in seen:
            assert since_ns >= until_ns or {since_ns, until_ns - NS_PER_MS} == {timestamp * NS_PER_MS}
        return was_reached

    assert len(list(at_every_line(attempt))) > 5


@pytest.mark.parametrize(("later_ms", "fits"), [(-1, False), (0, True), (SHORT - 1, True), (SHORT, False)])
def test_batch_accepts_only_timestamps_with_a_short_delta(later_ms: int, fits: bool) -> None:
    batch = a_batch()
    appended(batch, NOW)
    assert batch.open is not None
    assert note_time(batch.open, NOW + later_ms) is fits
    assert (batch.open.timestamp == NOW + later_ms) is fits


def test_a_time_far_from_the_first_is_counted_as_long_as_it_is() -> None:
    queue = a_queue(16384)
    [batch] = queue.batches
    count = 0
    data = b"x" * 64  # its length takes two bytes, so that nothing makes up for the timestamp's
    while queue.try_append(*a_row(data, data, timestamp=NOW if count % 2 else 0)) is not None:
        count += 1
    batch.seal()
    assert len(batch.bytes()) <= 16384


def test_a_record_that_fills_a_batch_exactly_wakes_the_io_thread() -> None:
    wakes: list[str] = []
    queue = a_queue(HEADER_BYTES + 3 * (SMALLEST_RECORD_BYTES + 100), wakes)
    tail = queue.tail
    assert tail is not None
    for expected in ([], [], ["wake"]):
        assert queue.try_append(*a_row(b"x" * 100)) is not None
        assert wakes == expected
        assert tail.is_full == bool(expected)


def test_batch_that_had_no_room_for_a_record_stays_full_though_smaller_ones_join() -> None:
    """It is sent without lingering; a step of small records must not make it wait again."""
    queue = a_queue(16384)
    tail = queue.tail
    assert tail is not None
    for _ in range(3):
        assert queue.try_append(*a_row(b"x" * 100)) is not None
    assert queue.try_append(*a_row(b"x" * 20_000)) is None
    for _ in range(60):
        assert queue.try_append(*a_row(b"x" * 100)) is not None
        assert tail.is_full


def test_most_records_join_without_a_check_of_the_batch_size() -> None:
    queue = a_queue(16384)
    tail = queue.tail
    assert tail is not None
    visited = []
    for number in range(140):
        before = tail._granted_bytes
        assert queue.try_append(*a_row(b"x" * 100)) is not None
        if tail._granted_bytes != before:
            visited.append(number)
    assert visited == [0]
    assert tail.room_bytes <= LARGEST_STEP_BYTES


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("size", [SHORT - 11, SHORT, SHORT + 1, 16_000])
def test_batch_with_a_long_record_in_each_step_is_never_larger_than_estimated(part: str, size: int) -> None:
    queue = a_queue(1 << 20)
    tail, batch = queue.tail, queue.batches[-1]
    assert tail is not None
    # No number takes one byte, but for the offsets of the first records.
    numbers: dict[str, Any] = {"value": b"x" * 64, "key": b"x" * 64, "timestamp": 64}
    small, long = a_row(**numbers), a_row(**{**numbers, part: b"x" * size})
    queue.try_append(*a_row())
    longs = 0
    while queue.try_append(*(small if (is_small := tail.room_bytes < long[1]) else long)):
        longs += not is_small
    assert longs > 30
    bound_bytes = tail.bound_bytes
    assert len(queue.take().bytes()) - HEADER_BYTES <= bound_bytes <= (1 << 20) - HEADER_BYTES
    assert batch.size_estimate <= 1 << 20


def test_completed_batch_releases_its_values_and_an_unreferenced_outcome() -> None:
    class Value(bytes):
        """Bytes that can be watched."""

    value = Value(b"value")
    batch = a_batch()
    kept = appended(batch, value=value)
    watched = weakref.ref(batch.outcome)
    batch.seal()
    batch.bytes()
    batch.complete(7, -1)
    count = len(gc.get_referrers(value))
    del value
    assert count <= 1, "this frame"
    assert kept.result() == RecordMetadata("orders", 3, 7, 1, 3, 5)
    assert watched() is not None
    del kept
    assert watched() is None


def test_unreferenced_outcome_is_freed_with_the_batch() -> None:
    batch = a_batch()
    appended(batch)
    watched = weakref.ref(batch.outcome)
    batch.seal()
    batch.complete(7, -1)
    assert watched() is None
    assert (batch.is_done, batch.is_finished, batch.outcome) == (True, True, None)


def test_callbacks_that_were_added_are_called_though_no_delivery_is_kept() -> None:
    calls: list[object] = []
    batch = a_batch()
    for index in range(3):
        appended(batch, index).add_callback(calls.append).add_errback(calls.append)
    batch.seal()
    batch.complete(7, -1)
    assert calls == [RecordMetadata("orders", 3, 7 + index, index, 3, -1) for index in range(3)]


def test_errback_is_called_and_counts_the_failure_as_reported() -> None:
    calls: list[object] = []
    batch = a_batch()
    first, _ = appended(batch), appended(batch)
    first.add_callback(calls.append).add_errback(calls.append)
    batch.seal()
    batch.fail(error := MessageTooLarge("no"))
    assert calls == [error]
    assert batch.unreported == 1


def test_callback_that_raises_does_not_keep_other_callbacks_from_being_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[object] = []

    def broken(*outcome: object) -> None:
        calls.append(outcome)
        raise ValueError("a bug")

    batch = a_batch()
    appended(batch, on_delivery=broken).add_callback(broken)
    appended(batch, on_delivery=broken).add_callback(broken)
    batch.seal()
    batch.complete(7, -1)
    assert len(calls) == 4
    assert caplog.text.count("a delivery callback for orders-3 failed") == 4


def test_outcomes_are_seen_before_callbacks_are_called() -> None:
    seen: list[bool] = []
    batch = a_batch()
    delivery = appended(batch, on_delivery=lambda metadata, error: seen.append(delivery.done()))
    batch.seal()
    batch.fail(KafkaError("no"))
    assert seen == [True]


def test_a_callback_that_is_added_while_another_adds_the_first_is_called() -> None:
    """Between any two lines, as another thread or the garbage collector may; no lock is there to be held."""
    called: list[tuple[int, int]] = []

    def attempt(line: int) -> bool:
        batch = a_batch()
        first, second = appended(batch), appended(batch)
        code = BatchOutcome.listeners.__code__

        def note(metadata: RecordMetadata) -> None:
            called.append((line, metadata.offset))

        has_line = at_line(code, line, lambda: second.add_callback(note), lambda: first.add_callback(note))
        batch.complete(0, -1)
        return has_line

    tried = list(at_every_line(attempt))
    assert len(tried) >= 4
    assert sorted(called) == [(line, offset) for line in tried for offset in (0, 1)] + [(len(tried) + 1, 0)]


class Unequal:
    """A callable whose `==` takes everything for one of its own kind."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def __call__(self, metadata: object, error: object = None) -> None:
        self.calls.append(metadata)

    def __eq__(self, other: object) -> bool:
        return self.calls is other.calls  # type: ignore[attr-defined]

    __hash__ = object.__hash__


class Equal(Unequal):
    """A callable that is equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


@pytest.mark.parametrize("kind", [Unequal, Equal])
def test_callback_is_called_for_each_kind_of_equality(kind: type[Unequal]) -> None:
    callback = kind()
    batch = a_batch()
    appended(batch)
    appended(batch, 2, on_delivery=callback)
    batch.seal()
    batch.complete(7, -1)
    assert callback.calls == [RecordMetadata("orders", 3, 8, 2, 3, -1)]


def test_callbacks_equal_to_each_other_are_all_called() -> None:
    callback, calls = Equal(), Equal()
    batch = a_batch()
    first, second = appended(batch), appended(batch)
    first.add_callback(calls.__call__)
    second.add_callback(callback)
    batch.seal()
    batch.complete(7, -1)
    assert (len(calls.calls), len(callback.calls)) == (1, 1)
