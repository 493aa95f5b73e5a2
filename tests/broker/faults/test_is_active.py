"""`Faults.is_active`, which each request reads, is set wherever the rules or the client links change."""

from __future__ import annotations

import pytest

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.faults.engine import Faults
from pykafka2.broker.faults.rule import Action
from pykafka2.broker.handlers.api import APIS
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing.simulation import Simulation
from tests.broker.support.raw_client import RawClient

METADATA = MetadataRequest(topics=None)


def check(faults: Faults, is_active: bool) -> None:
    """Compare the attribute with what it is computed from, and with what the test expects."""
    links = faults.client_links
    computed = bool(faults.rules.active) or bool(links.links or links._under_way)
    assert (links.is_active, faults.is_active) == (bool(links.links or links._under_way), computed)
    assert faults.is_active is is_active


def test_rules_are_active_until_removed_spent_released_or_cleared(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1)
    controls, faults = cluster.controls, cluster.running.faults
    check(faults, False)
    first, second = (controls.rule(api="Metadata", then="hold", client_id="absent") for _ in range(2))
    check(faults, True)
    controls.remove_rule(first)
    check(faults, True)
    controls.remove_rule(second)
    check(faults, False)
    controls.rule(api="Metadata", then="delay:1", times=1)
    check(faults, True)
    with RawClient(cluster.brokers[0].address, simulation=simulation) as client:
        client.call(METADATA, 12)
    check(faults, False)
    held = controls.hold(MetadataRequest)
    assert held.action is Action.HOLD
    check(faults, True)
    controls.release()
    check(faults, False)
    controls.rule(api="Metadata", then="hold", client_id="absent")
    controls.clear()
    check(faults, False)


def test_client_links_are_active_until_healed_and_their_requests_have_arrived(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2)
    controls, faults = cluster.controls, cluster.running.faults
    addresses = [broker.address for broker in cluster.brokers]
    with (
        RawClient(addresses[0], "one", simulation=simulation) as one,
        RawClient(addresses[1], "two", simulation=simulation) as two,
    ):
        controls.delay_client("absent", 1.0)
        check(faults, True)
        controls.heal()
        check(faults, False)
        controls.delay_client("one", 5.0)
        controls.delay_client("two", 600.0, broker=1)
        check(faults, True)
        one.send(METADATA, 12)
        two.send(METADATA, 12)
        simulation.run_for(1.0)
        controls.heal()
        check(faults, True)  # both requests still arrive at their time
        cluster.controls.crash_broker(1)
        check(faults, True)
        one.receive(MetadataRequest, 12)
        check(faults, False)
        controls.delay_client("one", 600.0)
        one.send(METADATA, 12)
        simulation.run_for(1.0)
        controls.heal()
        check(faults, True)
        cluster.controls.crash_broker(0)
        check(faults, False)  # requests to a stopped broker are forgotten


def test_rule_of_an_api_that_the_brokers_do_not_serve_is_refused(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1)
    rule = cluster.controls.rule(api="Produce", then="hold")
    served = {MetadataRequest.API_KEY: APIS[MetadataRequest.API_KEY]}
    faults = Faults(served, lambda *fired: None)
    with pytest.raises(ConfigurationError, match="ProduceRequest is not served; served are Metadata"):
        faults.add(rule, ClusterImage(0, "cluster", {}, {}, {}))
    check(faults, False)
