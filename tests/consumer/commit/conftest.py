"""One world per test, seeded: three brokers, a topic of two partitions with twenty records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.testing import QUICK, KafkaCluster, Simulation
from tests.consumer.commit.stories import ORDERS, produce
from tests.internal_topics import FEW_PARTITIONS


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=11) as simulation:
        yield simulation


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    cluster = simulation.cluster(brokers=3, topics={"orders": 2}, config={**QUICK, **FEW_PARTITIONS})
    produce(simulation, cluster, 10, ORDERS)
    return cluster
