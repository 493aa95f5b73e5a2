"""Connections to an address that belongs to another broker or cluster by now (KIP-1242)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.link import Purpose
from pykafka2.cluster.snapshot import Node
from pykafka2.driver.pollable import GROUP, ToCoordinator, ToNode
from pykafka2.errors import MisroutedConnection
from pykafka2.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from pykafka2.protocol.registry import API_KEYS
from tests.cluster.scripted import Answer, ScriptedBroker, ScriptedCluster
from tests.cluster.test_router import Sent

RANGES = [
    ApiVersion(api_key=key, min_version=api.min_version, max_version=api.max_version)
    for key, api in API_KEYS.items()
]


def checks_as(node_id: int, cluster_id: str) -> Callable[[ApiVersionsRequest, ScriptedBroker], Answer]:
    """Answer ApiVersions as this node of this cluster."""

    def answer(request: ApiVersionsRequest, broker: ScriptedBroker) -> Answer:
        if request.cluster_id is None or (request.node_id, request.cluster_id) == (node_id, cluster_id):
            return ApiVersionsResponse(api_keys=RANGES)
        return ApiVersionsResponse(error_code=129, api_keys=[])

    return answer


@pytest.fixture
def world() -> ScriptedCluster:
    """Three brokers that check ApiVersions, behind a name of their own for the bootstrap."""
    cluster = ScriptedCluster(brokers=3, topics={"orders": [0, 1, 2]})
    cluster.on(HeartbeatRequest, lambda request, broker: HeartbeatResponse())
    for broker in cluster.brokers:
        broker.handlers[ApiVersionsRequest] = checks_as(broker.id, "scripted")
    cluster.network.brokers["alias", 9092] = cluster.brokers[0]
    return cluster


def client_of(world: ScriptedCluster, **options: Any) -> ClusterClient:
    client = world.client(bootstrap_servers="alias:9092", **options)
    client.wait_for_topic("orders", 10)
    return client


def swap(world: ScriptedCluster) -> tuple[ScriptedBroker, ScriptedBroker]:
    """Move broker 1 to another address; at the old one is a broker of another cluster."""
    moved = world.brokers[1]
    stranger = ScriptedBroker(world, 1)
    stranger.handlers[ApiVersionsRequest] = checks_as(1, "another")
    moved.host = "broker-1-moved"
    world.network.brokers["broker-1", 9092] = stranger
    world.network.brokers["broker-1-moved", 9092] = moved
    return moved, stranger


def expectations(broker: ScriptedBroker) -> list[tuple[str | None, int]]:
    requests = broker.requests(ApiVersionsRequest)
    return [(request.cluster_id, request.node_id) for request in requests]


def test_connections_name_the_broker_of_the_metadata_but_not_of_the_bootstrap_address(
    world: ScriptedCluster,
) -> None:
    client = client_of(world)
    for node_id in (0, 1):
        Sent(client, ToNode(node_id))
    world.runtime.run_for(1)
    assert expectations(world.brokers[0]) == [(None, -1), ("scripted", 0)]
    assert expectations(world.brokers[1]) == [("scripted", 1)]
    client.close()


def test_stranger_at_a_brokers_address_gets_no_request_and_the_broker_is_found_again(
    world: ScriptedCluster,
) -> None:
    client = client_of(world)
    moved, stranger = swap(world)
    early = Sent(client, ToNode(1), timeout=20)
    world.runtime.run_for(2)
    assert isinstance(early.error, MisroutedConnection)
    assert early.error.retriable
    later = Sent(client, ToNode(1), timeout=20)
    world.runtime.run_for(2)
    assert isinstance(later.response, HeartbeatResponse)
    assert [type(one.request) for one in stranger.seen] == [ApiVersionsRequest]
    assert len(moved.requests(HeartbeatRequest)) == 1
    client.close()


def test_misrouted_address_is_forgotten_until_metadata_names_it_again(world: ScriptedCluster) -> None:
    client = client_of(world)
    _, stranger = swap(world)
    for broker in world.brokers:
        broker.stop()
    for _ in range(20):
        Sent(client, ToNode(1), timeout=1)
        world.runtime.run_for(1)
    assert len(stranger.requests(ApiVersionsRequest)) == 1
    assert (client.metadata.node(0) is None, client.metadata.node(1)) == (False, None)
    assert client.metadata.snapshot.cluster_id == "scripted"
    client.close()


def test_address_that_has_changed_meanwhile_is_kept(world: ScriptedCluster) -> None:
    client = client_of(world)
    Sent(client, ToNode(1))
    hinted = Node(7, "broker-7", 9092)
    client.nodes.hint(hinted)
    world.runtime.run_for(1)
    for node_id in (1, 7):
        for before in (Node(node_id, "before", 9092), Node(node_id, f"broker-{node_id}", 9093)):
            client.nodes.forget_address(before)
    known = client.metadata.node(1)
    assert known is not None
    assert (known.host, known.port) == ("broker-1", 9092)
    link = client.nodes.link(1, world.now)
    assert link is not None
    assert not link.is_misrouted
    sent = Sent(client, ToNode(1), timeout=20)
    world.runtime.run_for(1)
    assert isinstance(sent.response, HeartbeatResponse)
    found = client.nodes.link(7, world.now, Purpose.COORDINATOR)
    assert found is not None
    assert found.node == hinted
    client.nodes.forget_address(hinted)
    assert client.nodes.link(7, world.now) is None
    client.close()


def test_other_endpoints_of_a_misrouted_address_are_not_tried(world: ScriptedCluster) -> None:
    client = client_of(world)
    _, stranger = swap(world)
    resolve = world.network.resolve
    world.network.resolve = lambda host, port, **options: resolve(host, port, **options) * 2  # type: ignore[method-assign]
    sent = Sent(client, ToNode(1), timeout=20)
    world.runtime.run_for(2)
    assert isinstance(sent.error, MisroutedConnection)
    assert len(stranger.requests(ApiVersionsRequest)) == 1
    client.close()


def test_requests_find_the_coordinator_after_its_address_was_taken(world: ScriptedCluster) -> None:
    """Another connection of the node finds out, while the coordinator's own is closed."""
    coordinator = world.brokers[1]

    def find(request: FindCoordinatorRequest, broker: ScriptedBroker) -> Answer:
        found = [
            Coordinator(key=key, node_id=coordinator.id, host=coordinator.host, port=coordinator.port)
            for key in request.coordinator_keys
        ]
        return FindCoordinatorResponse(coordinators=found)

    world.on(FindCoordinatorRequest, find)
    client = client_of(world, connections_max_idle_ms=2000)
    groups = [ToCoordinator(GROUP, "g"), ToCoordinator(GROUP, "h")]
    before = [Sent(client, group) for group in groups]
    world.runtime.run_for(10)
    assert [one.send.sent_to for one in before] == [1, 1]
    moved, _ = swap(world)
    moved.is_up = False
    coordinator = world.brokers[2]
    Sent(client, ToNode(1), timeout=20)
    world.runtime.run_for(2)
    after = [Sent(client, group, timeout=20) for group in groups]
    world.runtime.run_for(2)
    assert [one.send.sent_to for one in after if one.response] == [2, 2]
    client.close()


def test_next_metadata_come_from_a_bootstrap_address(world: ScriptedCluster) -> None:
    """The other known brokers can be those of a cluster that was left behind."""
    client = client_of(world)
    for node_id in (0, 2):
        Sent(client, ToNode(node_id))
    world.runtime.run_for(1)
    swap(world)
    Sent(client, ToNode(1), timeout=20)
    world.runtime.run_for(2)
    assert [endpoint.host for endpoint in world.network.connects].count("alias") == 2
    assert expectations(world.brokers[0]) == [(None, -1), ("scripted", 0), (None, -1)]
    client.close()


@pytest.mark.parametrize(
    "options", [{"metadata_cluster_check_enable": False}, {"metadata_recovery_strategy": "none"}]
)
def test_nothing_is_checked_without_the_option_or_without_rebootstrap(
    world: ScriptedCluster, options: dict[str, Any]
) -> None:
    client = client_of(world, **options)
    Sent(client, ToNode(1))
    world.runtime.run_for(1)
    assert expectations(world.brokers[1]) == [(None, -1)]
    client.close()


def test_two_brokers_that_swapped_their_addresses_are_both_found_again(world: ScriptedCluster) -> None:
    client = client_of(world)
    first, second = world.brokers[1:]
    first.host, second.host = second.host, first.host
    world.network.brokers["broker-2", 9092], world.network.brokers["broker-1", 9092] = first, second
    for node_id in (1, 2):
        Sent(client, ToNode(node_id), timeout=20)
    world.runtime.run_for(3)
    sent = [Sent(client, ToNode(node_id), timeout=20) for node_id in (1, 2)]
    world.runtime.run_for(3)
    assert [type(one.response) for one in sent] == [HeartbeatResponse] * 2
    assert [one.send.sent_to for one in sent] == [1, 2]
    assert len(first.requests(HeartbeatRequest)) == len(second.requests(HeartbeatRequest)) == 1
    client.close()


def test_address_that_metadata_keep_naming_is_tried_about_once_a_second(world: ScriptedCluster) -> None:
    """The wait of reconnect_backoff_max_ms bounds the attempts, such as behind a proxy that changes ids."""
    client = client_of(world)
    stranger = ScriptedBroker(world, 1)
    stranger.handlers[ApiVersionsRequest] = checks_as(1, "another")
    world.network.brokers["broker-1", 9092] = stranger
    for _ in range(60):
        sent = Sent(client, ToNode(1), timeout=1)
        world.runtime.run_for(1)
    assert isinstance(sent.error, MisroutedConnection)
    assert len(stranger.requests(ApiVersionsRequest)) < 75
    client.close()
