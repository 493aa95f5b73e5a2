"""What counts as left behind, where a pytest run of its own would be too slow."""

from __future__ import annotations

import pytest

from pykafka2.testing.fixtures.clusters import _open_transactions
from pykafka2.testing.simulation import Simulation
from tests.broker.transaction_wire import Producer, World


@pytest.mark.slow
def test_an_open_transaction_is_left_behind(simulation: Simulation) -> None:
    world = World(simulation, brokers=1)
    assert _open_transactions(world.cluster, ()) == []
    assert Producer(world).begin().add(("t", 0)) == [0]
    assert _open_transactions(world.cluster, ()) == ["open transaction 'tid' (Ongoing)"]
    assert _open_transactions(world.cluster, ("transactions",)) == []
