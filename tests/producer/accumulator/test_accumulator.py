"""The accumulator alone: what is appended is in a batch, what is not appended costs nothing."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import BufferExhausted, ClientClosed, KafkaError, RecordTooLarge
from pykafka2.producer.accumulator.accumulator import ORDER_STEP, Accumulator
from pykafka2.producer.accumulator.batch import BatchState, ProducerBatch
from pykafka2.producer.accumulator.buffer_pool import Permit
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.delivery.delivery import Delivery, OnDelivery
from pykafka2.producer.options import PRODUCER_OPTIONS
from pykafka2.records.column_encoder import EncodedRecords, ListColumns
from pykafka2.types import RecordMetadata
from tests.driver.interleave import at_line
from tests.gate import rest_in_gate
from tests.producer.rows import a_row

Built = tuple[Accumulator, PartitionQueue, list[str]]


def build(
    *,
    admit: Callable[[], object] = lambda: None,
    wait_until: Callable[..., bool] = lambda predicate, timeout, *queues: predicate(),
    **options: object,
) -> Built:
    """An accumulator whose waits end at once, its only queue, and its calls to the IO thread."""
    calls: list[str] = []
    accumulator = Accumulator(
        PRODUCER_OPTIONS.parse(None, {"batch_size": 1000, "buffer_memory": 3000, **options}),
        monotonic=lambda: 0.0,
        wait_until=wait_until,
        admit=lambda: void(admit()),
        wake=lambda: calls.append("wake"),
    )
    return accumulator, accumulator.queue("orders", 0), calls


def append(built: Built, value: bytes = b"v") -> Delivery:
    accumulator, queue, _ = built
    row = a_row(value)
    return queue.try_append(*row) or accumulator.append_waiting(queue, *row, timeout=0)


def void(_: object) -> None:
    """Append, for use in a lambda whose value is ignored."""


def test_failed_batch_is_raised_once_and_only_after_its_callbacks() -> None:
    """Waiters are woken when the outcome is known, and again when all callbacks have run."""
    accumulator, queue, _ = built = build()
    append(built)
    [batch] = queue.batches
    found: list[list[ProducerBatch]] = []

    class Flush:
        def unpark(self) -> None:
            found.append(accumulator.take_failed())

    batch.waiters.join(Flush())
    accumulator.fail(batch, KafkaError("no"))
    found.append(accumulator.take_failed())
    assert found == [[], [batch], []]


def test_a_first_record_needs_permission_and_the_next_ones_do_not() -> None:
    accumulator, queue, calls = built = build()
    assert queue.try_append(*a_row(b"v")) is None
    append(built)
    assert queue.try_append(*a_row(b"w")) is not None
    assert accumulator.pool.available_bytes == 2000
    assert calls == ["wake"]


def test_queue_of_a_known_partition_is_found_without_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    accumulator, queue, _ = build()
    monkeypatch.setattr(accumulator, "_lock", None)
    assert accumulator.queue("orders", 0) is queue
    with pytest.raises(TypeError):  # None is no lock
        accumulator.queue("orders", 1)


def test_many_records_into_one_batch_wake_the_io_thread_once() -> None:
    built = build(batch_size=16384, buffer_memory=20_000)
    for _ in range(100):
        append(built)
    assert built[2] == ["wake"]


def test_a_full_batch_is_closed_and_the_next_one_begun() -> None:
    _, queue, calls = built = build()
    for _ in range(3):
        append(built, b"x" * 400)
    assert [(batch.state, batch.size) for batch in queue.batches] == [
        (BatchState.QUEUED, 2),
        (BatchState.OPEN, 1),
    ]
    assert calls == ["wake", "wake"]


def test_a_record_larger_than_a_batch_gets_its_own_and_its_own_memory() -> None:
    accumulator, queue, _ = built = build()
    append(built, b"x" * 2000)
    [batch] = queue.batches
    assert batch.permit.size_bytes > 2000
    assert accumulator.pool.available_bytes == 3000 - batch.permit.size_bytes


def test_a_record_larger_than_everything_leaves_no_trace() -> None:
    accumulator, queue, _ = built = build()
    with pytest.raises(RecordTooLarge, match="buffer_memory=3000"):
        append(built, b"x" * 3000)
    assert (accumulator.pool.available_bytes, len(queue.batches)) == (3000, 0)


def test_full_memory_raises_and_leaves_the_queue_of_waiters() -> None:
    accumulator, _, _ = built = build()
    for _ in range(3):
        append(built, b"x" * 800)
    with pytest.raises(BufferExhausted):
        append(built, b"x" * 800)
    assert not accumulator.pool.waiters
    assert accumulator.unsent_records() == 3


def fill(
    accumulator: Accumulator,
    queue: PartitionQueue,
    value: bytes,
    on_delivery: Callable[[], OnDelivery | None],
) -> None:
    """Append copies of the value, each with a callback, until there is no memory."""
    for number in range(1_000_000):
        row = a_row(bytes(bytearray(value)), timestamp=1000 + number, on_delivery=on_delivery())
        if queue.try_append(*row) is None:
            accumulator.append_waiting(queue, *row, timeout=0)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("batch_size", rest_in_gate([0, 16_384]))
@pytest.mark.parametrize("has_callback", rest_in_gate([False, True]))
@pytest.mark.parametrize("value_bytes", rest_in_gate([10, 100, 10_000]))
def test_memory_of_records_and_their_objects_stays_within_the_accounted_bytes(
    value_bytes: int, has_callback: bool, batch_size: int
) -> None:
    buffer_memory = 1 << 20
    accumulator, queue, _ = build(batch_size=batch_size, buffer_memory=buffer_memory)
    on_delivery = (lambda metadata, error: None) if has_callback else None
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        with pytest.raises(BufferExhausted):
            fill(accumulator, queue, b"x" * value_bytes, lambda: on_delivery)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # As much again as buffer_memory for small ones; with the default of 32 MiB that is below 64 MiB more.
    assert after - before <= 2 * buffer_memory * 1.05
    used_bytes = buffer_memory - accumulator.pool.available_bytes
    assert after - before <= (used_bytes + accumulator.pool.overhead_bytes) * 1.05


def callback_of_its_own() -> OnDelivery:
    outcomes: list[RecordMetadata | None] = []
    return lambda metadata, error: outcomes.append(metadata)


@pytest.mark.slow
def test_callbacks_made_for_one_record_each_are_accounted() -> None:
    buffer_memory = 1 << 20
    accumulator, queue, _ = build(batch_size=16_384, buffer_memory=buffer_memory)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        with pytest.raises(BufferExhausted):
            fill(accumulator, queue, b"v" * 10, callback_of_its_own)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    used_bytes = buffer_memory - accumulator.pool.available_bytes
    assert after - before <= (used_bytes + accumulator.pool.overhead_bytes) * 1.05


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_releasing_a_batch_returns_its_bytes_and_overhead(codec: str) -> None:
    accumulator, queue, _ = built = build(batch_size=2000, buffer_memory=100_000, compression_type=codec)
    for _ in range(1000):
        append(built)
    assert accumulator.pool.overhead_bytes > 0
    while queue.batches:
        batch = queue.take()
        batch.move_to(BatchState.IN_FLIGHT)
        batch.bytes()
        accumulator.pool.deallocate(batch.permit)
        accumulator.complete(batch, 0, -1)
    assert accumulator.pool.overhead_bytes == 0
    assert accumulator.pool.available_bytes == 100_000


def test_unneeded_memory_of_a_concurrent_append_is_returned() -> None:
    accumulator, queue, _ = build()
    accumulator.append_waiting(queue, *a_row(b"1"), timeout=0)
    accumulator.append_waiting(queue, *a_row(b"2"), timeout=0)
    assert accumulator.pool.available_bytes == 2000
    assert [batch.size for batch in queue.batches] == [2]


def test_a_failing_append_gives_its_memory_back() -> None:
    accumulator, queue, _ = build()
    with pytest.raises(TypeError):
        accumulator.append_waiting(queue, (b"v", None, None, b"", None), 13, timeout=0)  # type: ignore[arg-type]
    assert accumulator.pool.available_bytes == 3000
    assert not queue.batches
    assert not accumulator.incomplete


def test_batch_is_ready_when_lingered_full_or_flushed() -> None:
    accumulator, queue, _ = built = build(linger_ms=5000)
    append(built, b"x" * 800)
    assert accumulator.ready_at(queue, 1.0, accumulator.is_flushing) == 5.0
    flusher = object()
    accumulator.begin_flush(flusher)
    assert accumulator.ready_at(queue, 1.0, accumulator.is_flushing) == 1.0
    accumulator.end_flush(flusher)
    append(built, b"x" * 800)
    assert accumulator.ready_at(queue, 1.0, accumulator.is_flushing) == 1.0


def test_batches_linger_again_when_the_last_of_two_flushes_has_ended() -> None:
    accumulator, queue, _ = built = build(linger_ms=5000)
    append(built)
    first, second = object(), object()
    ready_at = [5.0]
    for change in (
        lambda: accumulator.begin_flush(first),
        lambda: accumulator.begin_flush(second),
        lambda: accumulator.end_flush(first),
        lambda: accumulator.end_flush(second),
    ):
        change()
        ready_at.append(accumulator.ready_at(queue, 1.0, accumulator.is_flushing))
    assert ready_at == [5.0, 1.0, 1.0, 1.0, 5.0]


@pytest.mark.parametrize("change", ["nothing", "put back", "split"])
def test_queues_without_batches_are_forgotten_and_the_others_kept(change: str) -> None:
    accumulator, _, _ = build(buffer_memory=1_000_000)
    queues = [accumulator.queue("orders", number) for number in range(40)]
    for queue in queues:
        for _ in range(2):
            accumulator.append_waiting(queue, *a_row(b"v"), timeout=0)
    taken = [queue.take() for queue in queues[2:]]
    assert {*accumulator.active_queues()} == {*queues[:2]}
    assert {*accumulator._active} == {*queues[:2]}, "the others are not checked again"
    for batch in taken[:2]:
        batch.bytes()
        batch.move_to(BatchState.IN_FLIGHT)
        if change == "put back":
            accumulator.put_back(batch)
        elif change == "split":
            accumulator.split(batch)
    assert {*accumulator.active_queues()} == {*queues[: 2 if change == "nothing" else 4]}


def test_close_wakes_each_thread_that_waits_for_memory() -> None:
    woken = []

    class Waiter:
        def unpark(self) -> None:
            woken.append(self)

    def wait_until(predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        waiter = Waiter()
        for queue in queues:
            queue.join(waiter)
        if len(waiting) < 2:
            waiting.append(waiter)
            append_large(1)
        else:
            accumulator.close()
        return predicate()

    waiting: list[Waiter] = []
    accumulator, _, _ = build(wait_until=wait_until)
    accumulator.pool.request(Permit(3000))

    def append_large(partition: int) -> None:
        queue = accumulator.queue("orders", partition)
        with pytest.raises(ClientClosed):
            accumulator.append_waiting(queue, *a_row(b"x" * 2000), timeout=60)

    append_large(0)
    assert {*waiting} <= {*woken}


@pytest.mark.parametrize(("batch_size", "value"), [(1000, b"x" * 2000), (0, b"v")])
def test_a_first_record_that_leaves_no_room_for_another_does_not_linger(
    batch_size: int, value: bytes
) -> None:
    accumulator, queue, _ = built = build(linger_ms=5000, batch_size=batch_size)
    append(built, value)
    assert accumulator.ready_at(queue, 1.0, accumulator.is_flushing) == 1.0


def test_batches_are_ready_when_memory_is_short() -> None:
    accumulator, queue, _ = built = build(linger_ms=5000)
    append(built)
    permit = Permit(2500)
    accumulator.pool.request(permit)
    assert accumulator.ready_at(queue, 1.0, accumulator.is_flushing) == 1.0
    accumulator.pool.deallocate(permit)
    assert accumulator.ready_at(queue, 1.0, accumulator.is_flushing) == 5.0


def test_batches_put_back_keep_their_order() -> None:
    accumulator, queue, _ = built = build(batch_size=0, buffer_memory=30_000)
    for _ in range(4):
        append(built)
    batches = [queue.take() for _ in range(3)]
    for batch in batches:
        batch.move_to(BatchState.IN_FLIGHT)
    for index in (1, 0, 2):
        accumulator.put_back(batches[index])
    assert [batch.order // ORDER_STEP for batch in queue.batches] == [0, 1, 2, 3]


def test_completed_batches_behind_an_incomplete_one_are_removed() -> None:
    accumulator, _, _ = built = build(batch_size=0, buffer_memory=1_000_000)
    for _ in range(401):
        append(built)
    stuck, *others = accumulator.incomplete
    for batch in others:
        accumulator.complete(batch, 0, -1)
    assert [*accumulator.incomplete] == [stuck]
    assert accumulator.oldest() is stuck


@pytest.mark.parametrize("line", range(1, 5))
def test_batch_appended_during_the_search_for_the_oldest_does_not_change_it(line: int) -> None:
    accumulator, _, _ = built = build(batch_size=0)
    append(built)
    [first] = accumulator.incomplete
    found: list[ProducerBatch | None] = []
    at_line(
        Accumulator.oldest.__code__,
        line,
        lambda: void(append(built)),
        lambda: found.append(accumulator.oldest()),
    )
    assert found == [first]


class JoinsWhenHashed(ProducerBatch):
    """Runs `joins` once when a snapshot hashes it, which stands for what another thread does meanwhile."""

    joins: Callable[[], object] | None = None
    __slots__ = ()

    def __hash__(self) -> int:
        joins, JoinsWhenHashed.joins = JoinsWhenHashed.joins, None
        if joins is not None:
            joins()
        return object.__hash__(self)


@pytest.mark.parametrize(
    "look",
    [
        lambda accumulator: accumulator.begin_flush("me"),
        lambda accumulator: accumulator.unsent_records(),
        lambda accumulator: accumulator.waiting_queues(),
        lambda accumulator: accumulator.open_batches(),
    ],
    ids=["begin_flush", "unsent_records", "waiting_queues", "open_batches"],
)
def test_snapshot_survives_batches_that_join_during_it(look: Callable[[Accumulator], object]) -> None:
    accumulator, _, _ = built = build(batch_size=0)
    for _ in range(2):
        append(built)
    for batch in [*accumulator.incomplete]:
        batch.__class__ = JoinsWhenHashed
    JoinsWhenHashed.joins = lambda: append(built)
    try:
        look(accumulator)
    finally:
        JoinsWhenHashed.joins = None


@pytest.mark.slow
@pytest.mark.usefixtures("often_switched")
def test_snapshots_and_appends_of_several_threads_run_at_once() -> None:
    """On free-threaded builds this fails with any mapping whose iteration is not atomic."""
    accumulator, _, _ = built = build(batch_size=0, buffer_memory=50_000_000)
    workers = [threading.Thread(target=lambda: [append(built) for _ in range(500)]) for _ in range(2)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        accumulator.begin_flush(accumulator)
        accumulator.unsent_records()
        for batch in accumulator.open_batches()[:3]:
            if accumulator.remove(batch):
                accumulator.fail(batch, KafkaError("no"))
    for worker in workers:
        worker.join()


def test_after_close_nothing_is_appended_and_everything_before_it_is_kept() -> None:
    accumulator, queue, _ = built = build()
    append(built)
    accumulator.close()
    with pytest.raises(ClientClosed, match="orders-0"):
        append(built)
    with pytest.raises(ClientClosed):
        accumulator.append_waiting(accumulator.queue("orders", 1), *a_row(), timeout=0)
    assert [batch.size for batch in queue.batches] == [1]
    assert accumulator.pool.available_bytes == 2000


def test_a_batch_that_became_no_tail_is_taken_closed() -> None:
    # As if a Ctrl-C had come between the batch's joining and its becoming the tail.
    _, queue, _ = built = build()
    append(built)
    queue.tail = None
    batch = queue.take()
    assert (batch.state, batch.count) == (BatchState.QUEUED, 1)


@pytest.fixture
def often_switched() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def a_column() -> EncodedRecords:
    return ListColumns([b"v"] * 10).encode(0, 10)


def test_a_column_that_comes_after_close_is_refused_and_leaves_no_trace() -> None:
    accumulator, queue, _ = build()
    accumulator.close()
    with pytest.raises(ClientClosed):
        accumulator.append_columns(queue, a_column(), 0, void)
    assert (accumulator.pool.available_bytes, accumulator.unsent_records()) == (3000, 0)


def test_a_column_that_is_not_admitted_leaves_no_trace() -> None:
    """A commit began after `send_many` had looked: nothing may join the transaction any more."""

    def refuse() -> None:
        raise KafkaError("not now")

    accumulator, queue, _ = build(admit=refuse)
    with pytest.raises(KafkaError, match="not now"):
        accumulator.append_columns(queue, a_column(), 0, void)
    with pytest.raises(KafkaError, match="not now"):
        accumulator.append_waiting(queue, *a_row(), timeout=0)
    assert (accumulator.pool.available_bytes, accumulator.unsent_records()) == (3000, 0)
    assert not queue.batches


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("moment", ["while it waits", "at the append"])
def test_a_ctrl_c_that_keeps_a_batch_from_joining_gives_its_memory_back(by_column: bool, moment: str) -> None:
    def interrupt(*ignored: object) -> bool:
        raise KeyboardInterrupt

    if moment == "while it waits":
        accumulator, queue, _ = build(wait_until=interrupt)
        held = Permit(2990)
        accumulator.pool.request(held)
    else:
        accumulator, queue, _ = build(admit=interrupt)
        held = Permit(0)
        accumulator.pool.request(held)

    def append() -> None:
        if by_column:
            accumulator.append_columns(queue, a_column(), 0, void)
        else:
            accumulator.append_waiting(queue, *a_row(), timeout=0)

    with pytest.raises(KeyboardInterrupt):
        append()
    accumulator.pool.deallocate(held)
    pool = accumulator.pool
    assert (pool.available_bytes, pool.overhead_bytes, len(pool.waiters)) == (3000, 0, 0)


def test_failed_batch_with_called_callbacks_is_not_kept() -> None:
    """A program that has callbacks and never flushes does not collect its failed batches."""
    accumulator, queue, _ = build()
    row = a_row(on_delivery=lambda metadata, error: None)
    accumulator.append_waiting(queue, *row, timeout=0)
    [batch] = accumulator.incomplete
    accumulator.fail(batch, KafkaError("no"))
    assert not any(batch in found for found in gc.get_referrers(batch) if isinstance(found, deque))


@pytest.mark.slow
@pytest.mark.usefixtures("often_switched")
def test_threads_that_append_and_drain_at_once_lose_nothing() -> None:
    accumulator, queue, _ = built = build(batch_size=200, buffer_memory=10_000_000)
    threads = 4
    records = 2000
    drained: list[ProducerBatch] = []

    def append_some() -> None:
        for _ in range(records):
            append(built)

    workers = [threading.Thread(target=append_some) for _ in range(threads)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers) or queue.batches:
        if queue.batches:
            drained.append(queue.take())
    for worker in workers:
        worker.join()
    assert sum(batch.count for batch in drained) == threads * records
    assert [batch.order // ORDER_STEP for batch in drained] == list(range(len(drained)))
    for batch in drained:
        accumulator.pool.deallocate(batch.permit)
    assert accumulator.pool.available_bytes == 10_000_000


@pytest.mark.parametrize("line", range(1, 12))
def test_two_threads_may_take_the_failures_at_once(line: int) -> None:
    accumulator, _, _ = built = build()
    append(built)
    [batch] = accumulator.incomplete
    accumulator.fail(batch, KafkaError("no"))
    taken: list[ProducerBatch] = []
    others: list[ProducerBatch] = []
    at_line(
        Accumulator.take_failed.__code__,
        line,
        lambda: others.extend(accumulator.take_failed()),
        lambda: taken.extend(accumulator.take_failed()),
    )
    assert [*taken, *others] == [batch]


@pytest.mark.parametrize("line", range(1, 12))
def test_a_flush_may_take_a_failure_while_it_is_noted(line: int) -> None:
    accumulator, queue, _ = build()
    outcomes: list[KafkaError | None] = []
    row = a_row(on_delivery=lambda metadata, error: outcomes.append(error))
    accumulator.append_waiting(queue, *row, timeout=0)
    [batch] = accumulator.incomplete
    error = KafkaError("no")
    at_line(Accumulator.fail.__code__, line, accumulator.take_failed, lambda: accumulator.fail(batch, error))
    assert outcomes == [error]
    assert accumulator.take_failed() == []
