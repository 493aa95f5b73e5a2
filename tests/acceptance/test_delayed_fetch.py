"""A long poll ends at fetch_min_bytes or fetch_max_wait_ms; nothing at or above the high watermark is read.

tests/broker/handlers/test_fetch.py has the limits: the first batch comes whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2.protocol.messages.fetch import FetchRequest, PartitionData
from pykafka2.records.batch import batches
from pykafka2.testing import KafkaCluster, Simulation
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import data_of, fetch_request
from tests.broker.support.leaders import append
from tests.broker.support.raw_client import RawClient

KEY = ("t", 0)
SIZE = len(batch([b"0123456789"]))


class Scene:
    """Two brokers, one partition, a reader at its leader."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(brokers=2, topics={"t": 1})
        simulation.run_for(1)
        leader = self.cluster.partition(*KEY).leader
        self.wire = RawClient(self.cluster.brokers[leader].address, simulation=simulation)

    def append(self, count: int = 1) -> None:
        for _ in range(count):
            append(self.cluster, KEY, b"0123456789")

    def ask(self, offset: int, **options: Any) -> None:
        self.wire.send(fetch_request(*KEY, offset, **options), 12)

    def answer(self) -> PartitionData:
        return data_of(self.wire.receive(FetchRequest, 12)[1])

    def offsets(self) -> list[int]:
        return [one.base_offset for one in batches(self.answer().records or b"")]


@pytest.fixture
def scene(simulation: Simulation) -> Iterator[Scene]:
    made = Scene(simulation)
    yield made
    made.wire.close()


def test_waiting_fetch_ends_when_min_bytes_are_available(scene: Scene) -> None:
    started = scene.simulation.now
    scene.ask(0, max_wait_ms=30_000, min_bytes=3 * SIZE)
    for number in range(3):
        scene.simulation.run_for(2)
        assert not scene.wire.has_response(), f"after {number} batches"
        scene.append()
    assert scene.offsets() == [0, 1, 2]
    assert scene.simulation.now - started == pytest.approx(6, abs=0.1)


def test_fetch_ends_after_max_wait_with_the_available_records(scene: Scene) -> None:
    scene.append()
    scene.simulation.run_for(1)
    started = scene.simulation.now
    scene.ask(0, max_wait_ms=3000, min_bytes=3 * SIZE)
    assert scene.offsets() == [0]
    assert scene.simulation.now - started == pytest.approx(3, abs=0.1)
    scene.ask(1, max_wait_ms=2000)
    assert scene.offsets() == []
    assert scene.simulation.now - started == pytest.approx(5, abs=0.1)


def test_min_bytes_counts_at_most_partition_max_bytes(scene: Scene) -> None:
    scene.append(3)
    scene.simulation.run_for(1)
    scene.ask(0, max_wait_ms=2000, min_bytes=2 * SIZE, partition_max_bytes=SIZE)
    started = scene.simulation.now
    assert scene.offsets() == [0]
    assert scene.simulation.now - started == pytest.approx(2, abs=0.1)


def test_consumer_fetch_returns_no_record_at_or_above_the_high_watermark(scene: Scene) -> None:
    scene.append(2)
    scene.simulation.run_for(1)
    scene.cluster.controls.pause_followers()
    scene.simulation.run_for(1)
    scene.append(3)
    scene.ask(0)
    assert scene.offsets() == [0, 1]
    for offset in (2, 3, 5):
        scene.ask(offset, max_wait_ms=1000)
        answer = scene.answer()
        assert (answer.error_code, len(answer.records or b""), answer.high_watermark) == (0, 0, 2)
    scene.ask(2, max_wait_ms=30_000, min_bytes=1)
    scene.simulation.run_for(5)
    assert not scene.wire.has_response()
    scene.cluster.controls.resume_followers()
    assert scene.offsets() == [2, 3, 4]
