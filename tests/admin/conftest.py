"""Fixtures of the admin client's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.testing import Simulation
from tests.admin.worlds import World


@pytest.fixture
def world(simulation: Simulation) -> Iterator[World]:
    """Two brokers in virtual time, and an admin client."""
    world = World(simulation)
    yield world
    world.close()
