"""Benches of the group coordinator, on both hosts or on a cluster alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pykafka2.testing.simulation import Simulation
from tests.broker.support.bench import Bench, ClusterBench, ShardBench


@pytest.fixture(params=["shard", "cluster"])
def make_bench(request: pytest.FixtureRequest) -> Callable[..., Bench]:
    """Return a function that makes a bench, of a shard in memory and of a cluster."""
    if request.param == "shard":
        return lambda config=None, brokers=1: ShardBench(config=config)
    simulation: Simulation = request.getfixturevalue("simulation")

    def make(config: Mapping[str, Any] | None = None, brokers: int = 1) -> Bench:
        return ClusterBench(simulation, brokers, config)

    return make


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    """Make a bench with Kafka's defaults; its cluster has one broker."""
    return make_bench()


@pytest.fixture
def cluster_bench(simulation: Simulation) -> ClusterBench:
    """Make a cluster of one broker, with Kafka's defaults."""
    return ClusterBench(simulation)
