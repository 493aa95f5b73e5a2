"""`buffer_memory` with the broker stopped: never exceeded, callers wait in turn and time out."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import BufferExhausted, KafkaError
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.buffer_pool import Permit
from pykafka2.producer.options import PRODUCER_OPTIONS
from pykafka2.records.column_encoder import ListColumns
from pykafka2.testing import KafkaCluster, Simulation
from tests.producer.rows import a_row

MEMORY_BYTES = 100_000
PATIENCE = 30.0
"""Seconds after which a thread counts as blocked."""


def stopped(simulation: Simulation, **options: object) -> tuple[KafkaCluster, KafkaProducer]:
    cluster = simulation.cluster(brokers=1, topics={"orders": 1})
    producer = simulation.producer(cluster, buffer_memory=MEMORY_BYTES, **options)
    producer.send("orders", b"first").result(10)
    cluster.controls.pause_broker(0)
    return cluster, producer


def available(producer: KafkaProducer) -> float:
    return producer.metrics()["buffer-available-bytes"]


def test_buffer_memory_is_never_exceeded_and_send_raises_at_max_block_ms(simulation: Simulation) -> None:
    cluster, producer = stopped(simulation, max_block_ms=3000, delivery_timeout_ms=60_000)
    least = float(MEMORY_BYTES)
    began = simulation.now
    with pytest.raises(BufferExhausted, match="buffer_memory of 100000 bytes is full"):  # noqa: PT012
        for _ in range(1000):
            began = simulation.now
            producer.send("orders", b"x" * 1000)
            least = min(least, available(producer))
    assert simulation.now - began == pytest.approx(3, abs=0.1)
    assert least >= 0
    cluster.controls.resume_broker(0)
    producer.flush(timeout=60)
    assert available(producer) == MEMORY_BYTES


def test_waiting_sends_get_memory_in_order_and_all_of_it_is_released(simulation: Simulation) -> None:
    cluster, producer = stopped(simulation, max_block_ms=60_000)
    with contextlib.suppress(BufferExhausted):
        while available(producer) > 20_000:
            producer.send("orders", b"x" * 15_000)
    served: list[int] = []

    def send(number: int, size: int) -> None:
        producer.send("orders", b"y" * size)
        served.append(number)

    waiting = []
    # No two neighbours fit in at a time: threads that are granted theirs together go on in any order.
    for number, size in enumerate((60_000, 45_000, 90_000, 17_000)):
        waiting.append(simulation.spawn(lambda number=number, size=size: send(number, size)))
        simulation.run_for(0.01)
    assert producer.health()["senders_waiting_for_memory"] == 4
    cluster.controls.resume_broker(0)
    for one in waiting:
        one.result()
    assert served == [0, 1, 2, 3], "however small the later ones are"
    producer.close(timeout=60)
    assert available(producer) == MEMORY_BYTES


@pytest.mark.parametrize("where", [{}, {"key": b"k"}, {"partition": 1}], ids=["sticky", "key", "partition"])
def test_small_records_join_the_open_batch_while_a_large_record_waits_for_memory(
    simulation: Simulation, where: dict[str, Any]
) -> None:
    """A batch that a large record does not fit stays open until that record's batch joins behind it."""
    cluster = simulation.cluster(brokers=1, topics={"orders": 2})
    producer = simulation.producer(
        cluster, buffer_memory=MEMORY_BYTES, max_block_ms=60_000, max_in_flight_requests_per_connection=1
    )
    producer.send("orders", b"first", **where).result(10)
    cluster.controls.pause_broker(0)
    producer.send("orders", b"in flight" + b"x" * 20_000, **where)
    simulation.run_for(0.1)
    producer.send("orders", b"opens a batch", **where)
    large = simulation.spawn(lambda: producer.send("orders", b"large" + b"y" * 90_000, **where))
    simulation.run_for(0.1)
    assert producer.health()["senders_waiting_for_memory"] == 1
    began = simulation.now
    small = [
        simulation.spawn(lambda number=number: producer.send("orders", b"small %d" % number, **where).done())
        for number in range(20)
    ]
    assert not any(one.result() for one in small)
    assert simulation.now - began < 0.01
    assert producer.health()["senders_waiting_for_memory"] == 1
    cluster.controls.resume_broker(0)
    large.result()
    producer.send("orders", b"last", **where)
    producer.flush(timeout=60)
    records = [record for partition in range(2) for record in cluster.log("orders", partition).records()]
    assert len({record.partition for record in records}) == 1
    values = [(record.value or b"")[:13].rstrip(b"xy") for record in records]
    assert values[:3] == [b"first", b"in flight", b"opens a batch"]
    assert sorted(values[3:23]) == sorted(b"small %d" % number for number in range(20))
    assert values[23:] == [b"large", b"last"]


@pytest.mark.parametrize("is_open_before", [True, False])
@pytest.mark.parametrize("by_column", [False, True])
def test_small_append_continues_while_another_thread_waits_for_memory_of_the_same_partition(
    by_column: bool,
    is_open_before: bool,
) -> None:
    """The lock of a partition's queue is not held while a thread waits, so records join its open batch."""

    def wait_until(predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        while not predicate():
            time.sleep(0.001)
        return True

    accumulator = Accumulator(
        PRODUCER_OPTIONS.parse(None, {"batch_size": 1000, "buffer_memory": 10_000}),
        monotonic=lambda: 0.0,
        wait_until=wait_until,
        wake=lambda: None,
    )
    queue, pool = accumulator.queue("orders", 0), accumulator.pool
    first, second = Permit(2000), Permit(8000)
    pool.request(first)
    pool.request(second)

    def send(value: bytes, timestamp: int) -> None:
        if by_column and len(value) > 1000:
            records = ListColumns([value], timestamps=timestamp).encode(0, 1)
            accumulator.append_columns(queue, records, 60, lambda outcome: None)
            return
        row = a_row(value, timestamp=timestamp)
        if queue.try_append(*row) is None:
            accumulator.append_waiting(queue, *row, timeout=60)

    def started(value: bytes, waiting: int, timestamp: int = 5) -> threading.Thread:
        thread = threading.Thread(target=send, args=(value, timestamp), daemon=True)
        thread.start()
        while len(pool.waiters) < waiting:
            time.sleep(0.001)
        return thread

    if is_open_before:
        pool.deallocate(first)
        opens = started(b"opens a batch", 0)
        opens.join(PATIENCE)
        large = started(b"x" * 7000, 1)
    else:
        opens, large = started(b"opens a batch", 1), started(b"x" * 7000, 2)
        pool.deallocate(first)  # enough for the first in line, and too little for the large record behind it
        opens.join(PATIENCE)
    # Without the queue's lock, and with it: the later timestamp takes more bytes in the batch.
    small = [started(b"small", 1), started(b"much later", 1, timestamp=1_000_000)]
    for thread in small:
        thread.join(PATIENCE)
    assert not opens.is_alive()
    assert not any(thread.is_alive() for thread in small)
    assert [batch.size for batch in queue.batches] == [3]
    assert large.is_alive()
    assert len(pool.waiters) == 1
    pool.deallocate(second)
    large.join(PATIENCE)
    assert [batch.size for batch in queue.batches] == [3, 1]


def test_memory_of_dropped_records_is_released(simulation: Simulation) -> None:
    _, producer = stopped(simulation, max_block_ms=1000)
    for _ in range(5):
        producer.send("orders", b"x" * 10_000)
    with pytest.raises(KafkaError):
        producer.close(timeout=1)
    assert available(producer) == MEMORY_BYTES
