"""The fixture of a group coordinator on a cluster."""

from __future__ import annotations

import pytest

from pykafka2.testing.simulation import Simulation
from tests.broker.support.group_bench import GroupBench


@pytest.fixture
def bench(simulation: Simulation) -> GroupBench:
    """Create a cluster of one broker, with Kafka's defaults."""
    return GroupBench(simulation)
