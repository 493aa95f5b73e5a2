"""Metadata of all topics is built once for each image, and is equal to a newly built response.

A change of one response (by a fault rule, a throttle or a test that reads the history) changes no other.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pykafka2.broker.base.metadata_cache import MAX_BODIES, MetadataCache
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from pykafka2.testing import KafkaCluster
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

VERSIONS = range(14)
one_broker = pytest.mark.kafka(brokers=1, topics={"orders": 3, "audit": 1})


def about_all(version: int, *, operations: bool = False) -> MetadataRequest:
    request = MetadataRequest(topics=[] if version == 0 else None)
    if 8 <= version <= 10:
        request.include_cluster_authorized_operations = operations
    if version >= 8:
        request.include_topic_authorized_operations = operations
    return request


def metadata_of_all(wire: RawClient) -> MetadataResponse:
    """Return the response, which may name any broker as the controller."""
    responses = [wire.call(about_all(12), 12) for _ in range(8)]
    assert all(one.topics == responses[0].topics and one.brokers == responses[0].brokers for one in responses)
    return responses[0]


def names(response: MetadataResponse) -> list[str | None]:
    return [topic.name for topic in response.topics]


@one_broker
@pytest.mark.parametrize("operations", [False, True])
def test_cached_metadata_response_equals_a_new_one(live: LiveCluster, operations: bool) -> None:
    """The response to a request that a fault rule matched is not taken from the cache."""
    wire = live.connect()
    for version in VERSIONS:
        first, known = (wire.call(about_all(version, operations=operations), version) for _ in range(2))
        rule = live.controls.rule(api="Metadata", then="delay:0")
        rebuilt = wire.call(about_all(version, operations=operations), version)
        assert rule.fired == 1
        live.controls.remove_rule(rule)
        assert first == known == rebuilt, f"v{version}"


@one_broker
def test_cluster_authorized_operations_are_returned_only_on_request(wire: RawClient) -> None:
    """The operations of the cluster alone are returned, too, whatever the first request wanted."""
    for wanted in (False, True, False):
        request = MetadataRequest(topics=None, include_cluster_authorized_operations=wanted)
        assert (wire.call(request, 9).cluster_authorized_operations > 0) is wanted


@pytest.mark.kafka(brokers=3, topics={"orders": 3})
def test_metadata_names_the_controller_shown_in_the_history(live: LiveCluster) -> None:
    """Each response names one of the live brokers (KIP-590)."""
    wire = live.connect()
    named = [wire.call(about_all(12), 12).controller_id for _ in range(30)]
    shown = [entry.response.controller_id for entry in live.history.entries("Metadata")]
    assert named == shown
    assert set(named) == {0, 1, 2}


@pytest.mark.kafka(brokers=3, topics={"orders": 3})
def test_cached_metadata_follows_topic_changes(live: LiveCluster) -> None:
    wire = live.connect()
    before = metadata_of_all(wire)
    assert names(before) == ["orders"]
    live.cluster.create_topic("audit", partitions=1)
    assert sorted(map(str, names(metadata_of_all(wire)))) == ["audit", "orders"]
    live.controls.crash_broker(2)
    after = metadata_of_all(wire)
    assert [broker.node_id for broker in after.brokers] == [0, 1]
    (orders,) = (topic for topic in after.topics if topic.name == "orders")
    assert {partition.leader_id for partition in orders.partitions} == {0, 1}
    live.cluster.delete_topic("audit")
    assert names(metadata_of_all(wire)) == ["orders"]


@pytest.mark.kafka(brokers=2, topics={"orders": 1})
def test_broker_with_an_old_image_responds_from_its_own_image(live: LiveCluster) -> None:
    """The brokers share the cache, which has an entry for each image."""
    early, late = live.connect(), live.connect(1)
    live.controls.hold_metadata(1)
    live.cluster.create_topic("audit", partitions=1)
    for _ in range(2):
        assert len(names(metadata_of_all(early))) == 2
        assert names(metadata_of_all(late)) == ["orders"]
    live.controls.release_metadata()
    assert len(names(metadata_of_all(late))) == 2


@one_broker
def test_rule_that_replaces_a_response_does_not_change_the_cached_one(live: LiveCluster) -> None:
    def emptied(request: Any, response: MetadataResponse) -> MetadataResponse:
        for topic in response.topics:
            topic.name = "changed"
            topic.partitions.clear()
        del response.brokers[:]
        return response

    wire = live.connect()
    before = wire.call(about_all(12), 12)
    live.controls.rule(api="Metadata", times=1, then="replace_reply", reply=emptied)
    assert names(wire.call(about_all(12), 12)) == ["changed", "changed"]
    assert wire.call(about_all(12), 12) == before
    assert wire.call(about_all(11), 11).topics[0].partitions


@one_broker
def test_throttle_time_is_only_in_the_throttled_response(live: LiveCluster, wire: RawClient) -> None:
    for seconds in (0.001, 0.0):
        before = wire.call(about_all(12), 12)
        live.controls.throttle("wire", "Metadata", seconds, times=1)
        throttled, after = wire.call(about_all(12), 12), wire.call(about_all(12), 12)
        assert throttled.throttle_time_ms == 1000 * seconds
        assert before.throttle_time_ms == after.throttle_time_ms == 0
        assert throttled.topics == before.topics == after.topics
    shown = [entry.response.throttle_time_ms for entry in live.history.entries("Metadata")]
    assert shown == [0, 1, 0, 0, 0, 0]


@one_broker
def test_requests_of_two_connections_share_the_cached_topics(live: LiveCluster) -> None:
    for broker in (0, 0):
        live.connect(broker).call(about_all(12), 12)
    first, second = (entry.response.topics for entry in live.history.entries("Metadata"))
    assert first is not second
    assert all(one is other for one, other in zip(first, second, strict=True))


@one_broker
def test_changing_a_history_entry_does_not_change_later_responses(live: LiveCluster, wire: RawClient) -> None:
    before = wire.call(about_all(12), 12)
    for version in (12, 11, 12):
        for entry in live.history.entries("Metadata"):
            for topic in entry.response.topics:
                topic.name = "changed"
            entry.response.topics.clear()
        assert wire.call(about_all(version), version).topics == before.topics


def test_metadata_response_is_built_once_for_each_image_and_encoded_once_for_each_version(
    kafka_cluster: KafkaCluster,
) -> None:
    known = MetadataCache()
    image = kafka_cluster.brokers[0].image
    built: list[int] = []

    def build() -> list[MetadataResponseTopic]:
        built.append(1)
        return [MetadataResponseTopic(name="orders", partitions=[])]

    def fill(version: int, controller: int = 0, of: Any = image) -> bytes:
        response = MetadataResponse(brokers=[], topics=[], controller_id=controller)
        body = known.fill(response, of, (version, False, False, controller), build)
        assert body == response.encode(version)
        return body

    assert fill(12) is fill(12)
    assert len(built) == 1
    assert fill(12, controller=1) != fill(12)
    assert fill(8) != fill(12)
    assert len(built) == 3
    fill(12, of=attrs.evolve(image))
    assert len(built) == 4
    for controller in range(3 * MAX_BODIES):
        fill(12, controller)
    assert len(known._bodies) <= MAX_BODIES
