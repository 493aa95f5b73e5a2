"""Producers in virtual time: one world per test, seeded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.testing import KafkaCluster, Simulation
from tests.internal_topics import FEW_PARTITIONS


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=7) as simulation:
        yield simulation


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    """Three brokers; `orders` has one partition, `spread` six."""
    return simulation.cluster(brokers=3, topics={"orders": 1, "spread": 6}, config=FEW_PARTITIONS)
