"""The fixture of a group coordinator on a cluster."""

from __future__ import annotations

import pytest

from pykafka2.testing.simulation import Simulation
from tests.broker.support.bench import ClusterBench


@pytest.fixture
def bench(simulation: Simulation) -> ClusterBench:
    """Create a cluster of one broker, with Kafka's defaults."""
    return ClusterBench(simulation)
