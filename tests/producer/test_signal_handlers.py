"""A signal handler calls the producer whose thread it has interrupted: it never waits for that thread.

What is done under a lock without any call is not interrupted; in the steps that do call something a handler
is refused, by name.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import unwrap
from types import CodeType, FrameType
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import IllegalState
from pykafka2.metrics import Metrics
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.accumulator.buffer_pool import BufferPool, Permit
from pykafka2.producer.accumulator.open_batch import OpenBatch
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.options import PRODUCER_OPTIONS
from pykafka2.records.rows import rows_of
from pykafka2.testing import KafkaCluster
from tests.driver.interleave import at_every_line, at_line
from tests.producer.rows import a_row


class Stuck(Exception):
    """A thread waits for a lock that it holds itself."""


@contextmanager
def watched(seconds: float = 5.0) -> Iterator[None]:
    """Raise Stuck in the main thread, should it take so long."""

    def raise_stuck(number: int, frame: FrameType | None) -> None:
        raise Stuck

    before = signal.signal(signal.SIGALRM, raise_stuck)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Sends:
    """An accumulator with one queue, and sends into it."""

    def __init__(self) -> None:
        self.accumulator = Accumulator(
            PRODUCER_OPTIONS.parse(None, {"batch_size": 1000, "buffer_memory": 50_000}),
            monotonic=lambda: 0.0,
            wait_until=lambda predicate, timeout, *queues: predicate(),
            wake=lambda: None,
        )
        self.values: list[bytes] = []
        self.refused = 0

    def send(self, value: bytes) -> None:
        queue, row = self.accumulator.queue("orders", 0), a_row(value)
        queue.try_append(*row) or self.accumulator.append_waiting(queue, *row, timeout=0)
        self.values.append(value)

    def send_in_a_handler(self, value: bytes) -> None:
        try:
            self.send(value)
        except IllegalState:
            self.refused += 1

    def check(self) -> None:
        """Each record that was taken is there once, and what is left of memory is right."""
        queue, pool = self.accumulator.queue("orders", 0), self.accumulator.pool
        batches = [*queue.batches]
        assert sorted(row[0] or b"" for batch in batches for row in rows_of(batch.fields)) == sorted(
            self.values
        )
        assert pool.available_bytes == pool.total_bytes - sum(batch.permit.size_bytes for batch in batches)
        assert not queue.lock.locked()
        self.send(b"and on")


STEPS = [
    PartitionQueue._append_locked,
    OpenBatch.append,
    OpenBatch.charge_memory,
    Accumulator._append_with,
    Accumulator._create_queue,
    Accumulator._join,
    BufferPool.charge,
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__qualname__)
def test_a_send_between_any_two_lines_of_a_send_is_taken_or_refused(step: Callable[..., object]) -> None:
    code: CodeType = unwrap(step).__code__
    refused = 0

    def attempt(line: int) -> bool:
        nonlocal refused
        sends = Sends()

        def run() -> None:
            for number in range(9):
                sends.send(b"%d" % number * 150)

        with watched():
            has_line = at_line(code, line, lambda: sends.send_in_a_handler(b"x" * 70), run)
        sends.check()
        refused += sends.refused
        return has_line

    tried = list(at_every_line(attempt))
    assert len(tried) >= 3
    assert refused >= 1, "some lines run under a lock"


QUEUE_STEPS = [BufferPool._join_queue, BufferPool._leave_queue, BufferPool._serve_queue]


@pytest.mark.parametrize("step", QUEUE_STEPS, ids=lambda step: step.__name__)
def test_memory_is_granted_though_a_signal_handler_sends_meanwhile(step: Callable[..., object]) -> None:
    def attempt(line: int) -> bool:
        sends = Sends()
        sends.send(b"v")
        pool, batch, waiting = (
            sends.accumulator.pool,
            sends.accumulator.queue("orders", 0).take(),
            Permit(50_000),
        )

        def run() -> None:
            pool.request(waiting)
            assert not waiting.is_granted
            pool.deallocate(batch.permit)

        with watched():
            has_line = at_line(unwrap(step).__code__, line, lambda: sends.send_in_a_handler(b"x" * 2000), run)
        assert (waiting.is_granted, batch.permit.is_granted, len(pool.waiters)) == (True, False, 0)
        assert has_line == (sends.refused == 1)
        return has_line

    assert len(list(at_every_line(attempt))) >= 2


def take_out_all(accumulator: Accumulator) -> None:
    for batch in [*accumulator.incomplete]:
        accumulator.remove(batch)


IO_STEPS: list[tuple[Callable[[Accumulator], object], Callable[..., object]]] = [
    (Accumulator.close_tails, Accumulator._all_queues),
    (Accumulator.close_tails, PartitionQueue.end_tail),
    (Accumulator.close_tails, PartitionQueue.seal),
    (Accumulator.close_tails, ProducerBatch.seal),
    (Accumulator.active_queues, Accumulator._forget_if_empty),
    (take_out_all, PartitionQueue.remove),
]


@pytest.mark.parametrize(("call", "step"), IO_STEPS, ids=lambda one: one.__qualname__)
def test_finalizer_that_sends_during_an_io_thread_step_is_taken_or_refused(
    call: Callable[[Accumulator], object], step: Callable[..., object]
) -> None:
    code: CodeType = unwrap(step).__code__

    def attempt(line: int) -> bool:
        sends = Sends()
        accumulator = sends.accumulator
        for partition in range(1, 12):  # so many that have nothing are forgotten
            accumulator._active[accumulator.queue("orders", partition)] = None
        sends.send(b"v")
        with watched():
            return at_line(
                code,
                line,
                lambda: sends.send_in_a_handler(b"x" * 950),
                lambda: call(accumulator),
            )

    assert len(list(at_every_line(attempt))) >= 2


@pytest.mark.parametrize("what", ["request", "charge", "deallocate"])
def test_pool_without_waiters_calls_nothing_while_it_holds_the_lock(what: str) -> None:
    """They are not locked steps, so nothing refuses a finalizer that sends within them."""
    pool, permit = BufferPool(1000), Permit(100)
    if what != "request":
        pool.request(permit)
    called: list[str] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        name = frame.f_code.co_name if event == "call" else getattr(argument, "__name__", "")
        if event in ("call", "c_call") and pool._lock.locked() and name != "__exit__":
            called.append(name)

    sys.setprofile(profile)
    try:
        pool.charge(permit, 50) if what == "charge" else getattr(pool, what)(permit)
    finally:
        sys.setprofile(None)
    assert called == []


@pytest.mark.parametrize("call", ["send", "partitions_for"])
def test_a_handler_in_the_middle_of_a_send_does_not_wait_for_metadata(call: str) -> None:
    with KafkaCluster(
        brokers=1, topics={"orders": 1}, config={"auto.create.topics.enable": "false"}
    ) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=3_000)
        producer.partitions_for("orders")

        def handler() -> None:
            with pytest.raises(IllegalState, match="a signal handler or a finalizer"):
                getattr(producer, call)("unknown")

        with watched(2.0):
            assert at_line(
                unwrap(Accumulator._append_with).__code__, 2, handler, lambda: producer.send("orders", b"v")
            )
        producer.close()


@pytest.mark.parametrize("call", ["flush", "close", "result"])
def test_handler_send_that_would_block_during_a_send_is_refused(call: str) -> None:
    with KafkaCluster(brokers=1, topics={"orders": 2}) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=60_000)
        pending = producer.send("orders", b"v", partition=1)
        calls: dict[str, Callable[[], object]] = {
            "flush": producer.flush,
            "close": producer.close,
            "result": pending.result,
        }

        def handler() -> None:
            with pytest.raises(IllegalState, match="a signal handler or a finalizer"):
                calls[call]()

        def send() -> None:
            producer.send("orders", b"w", partition=0)

        with watched():
            assert at_line(unwrap(Accumulator._append_with).__code__, 2, handler, send)
        producer.close()
        assert [cluster.log("orders", partition).values() for partition in (0, 1)] == [[b"w"], [b"v"]]


def test_a_count_in_a_handler_waits_for_nothing() -> None:
    metrics, is_over = Metrics(), threading.Event()

    def interrupt() -> None:
        while not is_over.wait(0.0005):
            signal.raise_signal(signal.SIGUSR1)  # whose handler runs in the main thread

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: metrics.count("handled"))
    thread.start()
    try:
        with watched():
            for _ in range(20_000):
                metrics.count("sends")
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    assert metrics.main.totals["sends"] == 20_000


MOST_SENDS = 250_000
"""All values are compared in the end, and a fast machine would send a million in that time."""


class Handler:
    """Handler of a timer's signal: makes a call, and records its result."""

    def __init__(self, call: Callable[[int], object]) -> None:
        self._call = call
        self._depth = 0
        self.calls = 0
        self.refused = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._depth += 1
        if self._depth > 1000:
            raise Stuck
        if self._depth > 1:
            return
        self.calls += 1
        try:
            self._call(self.calls)
        except IllegalState:
            self.refused += 1
        self._depth = 0


@pytest.mark.gate
@pytest.mark.parametrize("call", ["send", "flush"])
def test_handlers_at_random_moments_of_a_loop_of_sends(call: str) -> None:
    with KafkaCluster(brokers=1, topics={"orders": 1}, process=True) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=1)
        producer.partitions_for("orders")
        sent: list[bytes] = []

        def send(value: bytes) -> None:
            producer.send("orders", value)
            sent.append(value)

        handler = Handler(
            (lambda number: send(b"h%d" % number)) if call == "send" else lambda _: producer.flush()
        )
        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.004, 0.004)
            until, number = time.monotonic() + 3, 0
            while time.monotonic() < until and number < MOST_SENDS:
                number += 1
                send(b"%d" % number)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        producer.close()
        assert handler.calls > 20
        assert handler.refused < handler.calls / 2
        assert sorted(cluster.log("orders", 0).values()) == sorted(sent)
