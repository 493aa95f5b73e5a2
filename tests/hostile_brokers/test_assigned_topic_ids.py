"""The coordinator assigns topics by their ids: a wrong name for one is corrected by its next response."""

from __future__ import annotations

import pytest

from pykafka2.testing import QUICK, Simulation
from tests.hostile_brokers.lies import Lie, setting
from tests.hostile_brokers.worlds import BAD, GOOD, World, poll_for

pytestmark = pytest.mark.slow


def test_a_topic_that_had_another_name_for_a_while_is_read(simulation: Simulation) -> None:
    world = World(simulation, everywhere=True, config=QUICK)
    with world.producer() as producer:
        for partition in (BAD, GOOD):
            producer.send("orders", b"v", partition=partition.partition).result(5)
    consumer = world.consumer("orders", group_id="g", group_protocol="consumer")
    with world.lied_to(Lie("another name", "Metadata", setting(("topics.*.name", "others")))):
        poll_for(world, consumer, 4.0)
    poll_for(world, consumer, 20.0, lambda: all(world.read.values()))
    assert world.read == {BAD: [b"v"], GOOD: [b"v"]}
    consumer.close()
