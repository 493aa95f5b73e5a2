"""Fixtures of a simulated cluster with transactional producers, in either transaction.version."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.testing.simulation import Simulation
from tests.broker.support.transaction_clients import World


@pytest.fixture
def simulated() -> Iterator[Simulation]:
    with Simulation(seed=49) as simulation:
        yield simulation


@pytest.fixture(params=[1, 2], ids=["version 1", "version 2"])
def world(simulated: Simulation, request: pytest.FixtureRequest) -> World:
    return World(simulated, transaction_version=request.param)


@pytest.fixture
def old(simulated: Simulation) -> World:
    return World(simulated, transaction_version=1)


@pytest.fixture
def new(simulated: Simulation) -> World:
    return World(simulated, transaction_version=2)
