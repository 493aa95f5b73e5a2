"""Benches of the transaction coordinator, on both hosts or on a cluster alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pykafka2.testing.simulation import Simulation
from tests.broker.support.transactions import ClusterTransactions, ShardTransactions, TransactionBench


@pytest.fixture
def simulated() -> Iterator[Simulation]:
    with Simulation(seed=49) as simulation:
        yield simulation


@pytest.fixture(params=[1, 2], ids=["version 1", "version 2"])
def cluster_bench(simulated: Simulation, request: pytest.FixtureRequest) -> ClusterTransactions:
    return ClusterTransactions(simulated, transaction_version=request.param)


@pytest.fixture
def old(simulated: Simulation) -> ClusterTransactions:
    return ClusterTransactions(simulated, transaction_version=1)


@pytest.fixture
def new(simulated: Simulation) -> ClusterTransactions:
    return ClusterTransactions(simulated, transaction_version=2)


@pytest.fixture(params=["shard", "cluster"])
def make_bench(request: pytest.FixtureRequest) -> Callable[[int], TransactionBench]:
    """Return a function that makes a bench of a transaction.version, of a shard and of a cluster."""
    if request.param == "shard":
        return lambda version: ShardTransactions(transaction_version=version)
    simulation: Simulation = request.getfixturevalue("simulated")
    return lambda version: ClusterTransactions(simulation, transaction_version=version)


@pytest.fixture
def bench(make_bench: Callable[[int], TransactionBench]) -> TransactionBench:
    return make_bench(2)
