"""State that links keep about brokers, and state that they drop; in virtual time with scripted brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.nodes import MOST_HINTS
from pykafka2.cluster.port_diagnosis import PortDiagnosis
from pykafka2.driver.pollable import ToNode
from pykafka2.errors import Disconnected, KafkaError, RequestTimeout
from pykafka2.network.endpoint import Endpoint
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.group import HeartbeatResponse
from pykafka2.types import Node
from tests.cluster.scripted import Hold, ScriptedCluster
from tests.cluster.test_router import Sent


def test_setting_up_may_take_longer_after_each_failure_until_one_succeeds(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    slow = cluster.brokers[1]
    answer = slow.handlers.pop(ApiVersionsRequest, None)
    slow.on(ApiVersionsRequest, lambda request, broker: Hold())
    link: Any = client.nodes.link(1, cluster.now)
    failures = link.failures
    for _ in range(4):
        Sent(client, ToNode(1), timeout=60)
        cluster.runtime.run_for(30)
    assert link._setup_timeout.attempts == link.failures - failures > 1
    assert link.last_error is not None
    del slow.handlers[ApiVersionsRequest]
    if answer is not None:
        slow.handlers[ApiVersionsRequest] = answer
    sent = Sent(client, ToNode(1), timeout=200)
    cluster.runtime.run_for(200)
    assert isinstance(sent.response, HeartbeatResponse)
    assert link._setup_timeout.attempts == 0
    assert link.last_error is None, "of long ago"


def test_links_of_bootstrap_addresses_are_kept(cluster: ScriptedCluster, client: ClusterClient) -> None:
    """That another kind of port is behind it, say."""
    before = {key: link for key, link in client.nodes._links.items() if key[0] < 0}
    assert before
    client.metadata.request_update()
    cluster.runtime.run_for(200)
    client.metadata.request_update()
    cluster.runtime.run_for(1)
    assert {key: link for key, link in client.nodes._links.items() if key[0] < 0} == before


@pytest.mark.parametrize("strategy", ["none", "rebootstrap"])
def test_bootstrap_addresses_are_used_again_only_with_rebootstrap(
    cluster: ScriptedCluster, strategy: str
) -> None:
    client = cluster.client(metadata_recovery_strategy=strategy)
    client.wait_for_topic("orders", 10)
    for broker in cluster.brokers:
        Sent(client, ToNode(broker.id))
        cluster.runtime.run_for(1)
        broker.stop()
    for _ in range(10):
        client.metadata.request_update()
        cluster.runtime.run_for(1)
    chosen = {link.node.id for link in client.nodes._candidates(cluster.now)}
    assert any(node_id < 0 for node_id in chosen) is (strategy == "rebootstrap")
    client.close()


def test_metadata_know_a_brokers_address_better_than_a_hint(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    client.nodes.hint(Node(1, "of-old", 9))
    link = client.nodes.link(1, cluster.now)
    assert link is not None
    assert link.node == client.metadata.node(1)


def test_repeated_hint_counts_as_new(cluster: ScriptedCluster, client: ClusterClient) -> None:
    for number in range(MOST_HINTS):
        client.nodes.hint(Node(1_000 + number, "nowhere", 9092))
    client.nodes.hint(Node(1_000, "here", 9092))
    client.nodes.hint(Node(5_000, "nowhere", 9092))
    assert client.nodes.link(1_000, cluster.now) is not None
    assert client.nodes.link(1_001, cluster.now) is None


def test_finalized_feature_follows_the_latest_features_epoch(client: ClusterClient) -> None:
    def features_at(epoch: int, **features: int) -> Any:
        versions = SimpleNamespace(features_epoch=epoch, finalized_features=features)
        return SimpleNamespace(connection=SimpleNamespace(api_versions=versions))

    links: Any = {
        0: features_at(7, **{"group.version": 1}),
        1: features_at(9),
        2: features_at(8, **{"group.version": 2}),
    }
    nodes = client.nodes
    real, nodes._links = nodes._links, links
    try:
        assert nodes.finalized_feature("group.version") == 0
        links[1] = features_at(6, **{"group.version": 5})
        assert nodes.finalized_feature("group.version") == 2
    finally:
        nodes._links = real


@pytest.mark.parametrize(
    ("error", "is_doubted"), [(RequestTimeout("late"), False), (Disconnected("shut"), True)]
)
def test_missing_response_does_not_raise_doubts_about_the_port(error: KafkaError, is_doubted: bool) -> None:
    endpoint, doubts = Endpoint("10.0.0.1", 9092), PortDiagnosis(has_sasl=False)
    for _ in range(2):
        assert doubts.begin(endpoint) is None
        doubts.closed(error, was_unanswered=True)
    assert (doubts.begin(endpoint) is not None) is is_doubted
