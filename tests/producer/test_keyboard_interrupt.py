"""Ctrl-C at any moment of a loop of sends: no record half in, no memory gone, no lock held."""

from __future__ import annotations

import gc
import random
import signal
from collections.abc import Callable, Iterator

import pytest

from pykafka2 import KafkaProducer, RecordMetadata
from pykafka2.errors import KafkaError
from pykafka2.testing import KafkaCluster

MOMENTS = 500
MOST_SENDS = 20_000
"""In the four milliseconds at most until an interrupt: some hundreds."""
PARTITIONS = 3


class Loop:
    """Sends numbers, and knows which sends returned and which numbers were acknowledged."""

    def __init__(self, producer: KafkaProducer[bytes, bytes]) -> None:
        self._producer = producer
        self.number = 0
        self.returned: list[bytes] = []
        self.written: dict[bytes, RecordMetadata] = {}
        self.failed: list[KafkaError] = []

    def run(self) -> None:
        """Until it is interrupted."""
        for _ in range(MOST_SENDS):
            self.number += 1
            value = b"%d" % self.number
            self._producer.send(
                "orders",
                value,
                key=value if self.number % 4 == 0 else None,
                partition=self.number % PARTITIONS if self.number % 3 == 0 else None,
                headers=[("n", value)] if self.number % 5 == 0 else None,
                on_delivery=self.note(value),
            )
            self.returned.append(value)

    def note(self, value: bytes) -> Callable[[RecordMetadata | None, KafkaError | None], None]:
        def on_delivery(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            if metadata is not None:
                self.written[value] = metadata
            if error is not None:
                self.failed.append(error)

        return on_delivery


@pytest.fixture
def no_callbacks_of_the_collector() -> Iterator[None]:
    """Hypothesis has one, and earlier tests leave sockets; an exception that strikes in either is lost."""
    gc.collect()
    before = gc.callbacks[:]
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = before


@pytest.mark.gate
@pytest.mark.usefixtures("no_callbacks_of_the_collector")
@pytest.mark.parametrize("buffer_memory", [20_000, 1 << 25])
def test_ctrl_c_at_random_moments_of_a_loop_of_sends(buffer_memory: int) -> None:
    seeded = random.Random(7)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with KafkaCluster(brokers=1, topics={"orders": PARTITIONS}) as cluster:
            cluster.history.is_on = False
            producer: KafkaProducer[bytes, bytes] = KafkaProducer(
                bootstrap_servers=cluster.bootstrap_servers,
                buffer_memory=buffer_memory,
                batch_size=1000,
                linger_ms=1,
            )
            loop = Loop(producer)
            producer.partitions_for("orders")
            for _ in range(MOMENTS):
                # A timer's signal with SIGINT's handler: it comes once, and when it is wanted.
                with pytest.raises(KeyboardInterrupt):
                    interrupted(loop.run, seeded.uniform(1e-5, 4e-3))
            producer.flush(timeout=60)
            check(cluster, producer, loop)
            producer.close(timeout=10)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupted(run: Callable[[], None], after: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, after)
    run()


def check(cluster: KafkaCluster, producer: KafkaProducer[bytes, bytes], loop: Loop) -> None:
    assert loop.failed == []
    assert loop.number > MOMENTS
    logs = [cluster.log("orders", partition).values() for partition in range(PARTITIONS)]
    found = [value for log in logs for value in log]
    assert len(found) == len(set(found)), "none is there twice"
    assert {*loop.returned} <= loop.written.keys() == {*found}
    for value, metadata in loop.written.items():
        assert logs[metadata.partition][metadata.offset] == value
    accumulator = producer._core.accumulator
    pool = accumulator.pool
    assert (pool.available_bytes, pool.overhead_bytes, len(pool.waiters)) == (pool.total_bytes, 0, 0)
    assert not accumulator.incomplete
    assert not pool._lock.locked()
    assert not any(accumulator.queue("orders", partition).lock.locked() for partition in range(PARTITIONS))
