"""Health, metrics and explanations of the admin client, in virtual time."""

from __future__ import annotations

import pytest

from pykafka2 import TopicPartition
from pykafka2.errors import KafkaError
from pykafka2.testing import Simulation
from tests.admin.worlds import World


def test_health_of_an_open_and_a_closed_client(world: World) -> None:
    admin = world.new_admin("second")
    before = admin.health()
    assert (before["state"], before["connected"], before["metadata_version"]) == ("open", False, 0)
    assert "No call is in progress." in admin.explain()
    admin.list_topics()
    assert admin.health()["connected"] is True
    assert admin.metrics()["connection-count"] >= 1
    admin.close()
    assert admin.health()["state"] == "closed"
    assert admin.explain() == "The admin client is closed."


def test_requests_to_leaders_are_among_the_calls(simulation: Simulation, world: World) -> None:
    admin = world.new_admin("second")
    world.cluster.controls.rule(api="ListOffsets", then="swallow")
    partition = TopicPartition("orders", 0)
    calling = simulation.spawn(lambda: admin.list_offsets({partition: "latest"}, timeout=3))
    simulation.sleep(1)
    assert admin.health()["calls"] == ["ListOffsetsRequest"]
    assert admin.explain() == "Calls in progress: ListOffsetsRequest."
    with pytest.raises(KafkaError):
        calling.result()
    assert admin.health()["calls"] == []
    admin.close()


def test_calls_and_unreachable_brokers_are_explained(simulation: Simulation, world: World) -> None:
    admin = world.new_admin("second")
    admin.list_topics()
    for broker in range(2):
        world.cluster.controls.crash_broker(broker)
    calling = simulation.spawn(lambda: admin.describe_groups(["g"], timeout=5, raise_errors=False))
    simulation.sleep(2)
    assert admin.health()["calls"] != []
    assert admin.metrics()["calls-in-progress"] >= 1
    assert "Calls in progress: " in admin.explain()
    assert "broker-0" in admin.explain() or "broker-1" in admin.explain()
    with pytest.raises(KafkaError, match="broker-"):
        calling.result()
    admin.close()
