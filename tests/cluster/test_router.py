"""The way of requests to nodes: connections, back-off, failures; in virtual time with scripted brokers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast

import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.link import LEGAL_MOVES, LinkState, NodeLink, Purpose
from pykafka2.cluster.retrying_calls import RetryingCall
from pykafka2.driver.pollable import (
    GROUP,
    TRANSACTION,
    AnyNode,
    Destination,
    PollResult,
    Send,
    ToController,
    ToCoordinator,
    ToLeader,
    ToNode,
)
from pykafka2.errors import (
    ClientClosed,
    Disconnected,
    GroupAuthorizationFailed,
    IllegalTransition,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    RequestTimeout,
)
from pykafka2.events import LookupEnded, LookupStarted
from pykafka2.protocol.messages.coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from pykafka2.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from pykafka2.types import Node
from tests.cluster.scripted import Answer, Drop, Hold, ScriptedBroker, ScriptedCluster

GROUP_G = ToCoordinator(GROUP, "g")
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Sent:
    """One request given to the router, and what came of it."""

    def __init__(self, client: ClusterClient, to: Destination, timeout: float | None = None) -> None:
        self.response: Any = None
        self.error: KafkaError | None = None
        self.outcomes = 0
        self.send = send = Send(BEAT, to, self.on_response, self.on_failure, timeout=timeout)
        client.driver.call_soon(lambda now: client.router.route(send, now))

    def on_response(self, response: Any, now: float) -> None:
        self.response = response
        self.outcomes += 1

    def on_failure(self, error: KafkaError, now: float) -> None:
        self.error = error
        self.outcomes += 1


def beats(cluster: ScriptedCluster) -> list[int]:
    return [len(broker.requests(HeartbeatRequest)) for broker in cluster.brokers]


@pytest.mark.parametrize(("to", "node_id"), [(ToNode(2), 2), (ToLeader("orders", 1), 1), (ToController(), 0)])
def test_a_request_reaches_the_node_it_is_for(
    cluster: ScriptedCluster, client: ClusterClient, to: Destination, node_id: int
) -> None:
    sent = Sent(client, to)
    cluster.runtime.run_for(1)
    assert isinstance(sent.response, HeartbeatResponse)
    assert [index for index, count in enumerate(beats(cluster)) if count] == [node_id]


def test_each_turn_polls_managers_then_calls_then_the_router(
    cluster: ScriptedCluster, client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An OffsetFetch follows a commit of the same turn, and timeouts of new requests count in that turn."""
    polled: list[str] = []

    class Manager:
        def __init__(self, name: str, poll: Callable[[float], PollResult] | None = None) -> None:
            self.name = name
            self._poll = poll

        def poll(self, now: float) -> PollResult:
            polled.append(self.name)
            return PollResult.idle() if self._poll is None else self._poll(now)

    monkeypatch.setattr(client.calls, "poll", Manager("calls").poll)
    client.calls.work[cast("RetryingCall", "a call")] = None
    monkeypatch.setattr(client.router, "poll", Manager("router", client.router.poll).poll)
    for name in ("committer", "membership"):
        client.add(Manager(name))
        cluster.runtime.run_for(1)
    polled.clear()
    client.driver.wake()
    cluster.runtime.run_for(0.01)
    client.calls.work.clear()
    assert polled[:4] == ["committer", "membership", "calls", "router"]


def test_any_request_goes_to_the_connected_node_with_the_least_in_flight(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    for node_id in range(3):
        Sent(client, ToNode(node_id))
    cluster.runtime.run_for(1)
    for broker in cluster.brokers:
        broker.on(HeartbeatRequest, lambda request, broker: Hold())
    for _ in range(6):
        Sent(client, AnyNode(), timeout=5)
        cluster.runtime.run_for(0.01)
    assert beats(cluster) == [3, 3, 3]


def test_metadata_request_avoids_a_broker_in_doubt(cluster: ScriptedCluster, client: ClusterClient) -> None:
    doubted = cluster.brokers[0]
    Sent(client, ToNode(0))
    cluster.runtime.run_for(1)
    before = [len(broker.requests(MetadataRequest)) for broker in cluster.brokers]
    client.metadata.request_update(doubted=0)
    cluster.runtime.run_for(1)
    assert len(doubted.requests(MetadataRequest)) == before[0], "though it alone is connected"
    assert len(cluster.requests(MetadataRequest)) == sum(before) + 1
    for broker in cluster.brokers[1:]:
        broker.stop()
    client.metadata.request_update(doubted=0)
    cluster.runtime.run_for(5)
    assert len(doubted.requests(MetadataRequest)) > before[0]


def test_a_request_waits_while_its_connection_is_opened_and_in_flight_counts(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.brokers[1].on(HeartbeatRequest, lambda request, broker: Hold())
    assert not client.router.is_ready(1, cluster.now)
    cluster.runtime.run_for(0.1)
    assert client.router.is_ready(1, cluster.now)
    Sent(client, ToNode(1))
    cluster.runtime.run_for(0.1)
    assert client.router.in_flight(1) == 1


def test_lost_connection_fails_requests_in_flight_and_refreshes_the_metadata(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.brokers[1].on(HeartbeatRequest, lambda request, broker: Drop())
    before = client.metadata.version
    sent = Sent(client, ToNode(1))
    cluster.runtime.run_for(1)
    assert isinstance(sent.error, Disconnected)
    assert sent.outcomes == 1
    assert client.metadata.version > before


def test_a_request_that_is_not_answered_ends_its_connection(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.brokers[1].on(HeartbeatRequest, lambda request, broker: Hold())
    sent = Sent(client, ToNode(1), timeout=2)
    cluster.runtime.run_for(1.9)
    assert sent.outcomes == 0
    cluster.runtime.run_for(0.2)
    assert isinstance(sent.error, RequestTimeout)


def test_request_to_a_stopped_node_fails_with_the_connection_error(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.brokers[2].stop()
    sent = Sent(client, ToNode(2))
    cluster.runtime.run_for(1)
    assert isinstance(sent.error, Disconnected)
    assert "broker-2:9092" in str(sent.error)
    assert "refused" in str(sent.error)
    assert client.router.connection_failed_recently(2)
    assert client.router.connection_to(2, cluster.now) == f"a connection to node 2 ({sent.error})"
    assert client.router.connection_to(1, cluster.now) == "a connection to node 1"


def test_attempts_to_connect_are_further_and_further_apart(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.brokers[2].is_up = False
    attempts: list[float] = []
    for _ in range(3000):
        count = len(cluster.network.connects)
        client.router.is_ready(2, cluster.now)
        cluster.runtime.run_for(0.01)
        attempts += [cluster.now] * (len(cluster.network.connects) - count)
    gaps = [later - sooner for sooner, later in pairwise(attempts)]
    assert gaps[0] < 0.1
    assert all(0.75 < gap < 1.25 for gap in gaps[8:])
    cluster.brokers[2].is_up = True
    for _ in range(300):
        client.router.is_ready(2, cluster.now)
        cluster.runtime.run_for(0.01)
    assert client.router.is_ready(2, cluster.now), "it is found again when it is back"
    assert not client.router.connection_failed_recently(2)


def test_request_to_an_unknown_node_fails_after_the_timeout(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    sent = Sent(client, ToNode(77), timeout=3)
    cluster.runtime.run_for(2.9)
    assert sent.outcomes == 0
    cluster.runtime.run_for(0.2)
    assert isinstance(sent.error, KafkaTimeoutError)
    assert "node 77" in str(sent.error)


def test_a_request_to_a_leader_waits_for_the_election(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.topics["orders"].leaders[1] = -1
    client.wait_for_metadata(client.metadata.version, 10)
    sent = Sent(client, ToLeader("orders", 1), timeout=20)
    cluster.runtime.run_for(3)
    assert sent.outcomes == 0
    cluster.move_leader("orders", 1, 2)
    cluster.runtime.run_for(3)
    assert sent.response is not None
    assert beats(cluster) == [0, 0, 1]


def test_idle_connections_are_closed_and_opened_again_when_needed(cluster: ScriptedCluster) -> None:
    client = cluster.client(metadata_max_age_ms=10_000_000)  # a refresh would use the connection
    client.wait_for_topic("orders", 10)
    Sent(client, ToNode(1))
    cluster.runtime.run_for(539)
    assert any(not transport.is_closed for transport in cluster.brokers[1].transports)
    cluster.runtime.run_for(300)
    assert all(transport.is_closed for transport in cluster.brokers[1].transports)
    sent = Sent(client, ToNode(1))
    cluster.runtime.run_for(1)
    assert sent.response is not None
    client.close()


def test_idle_connection_is_closed_in_time_after_a_longer_request_timeout(
    cluster: ScriptedCluster,
) -> None:
    """While a request is awaited its timeout comes next; its answer must bring the other time forward."""
    client = cluster.client(
        metadata_max_age_ms=10_000_000, connections_max_idle_ms=5_000, request_timeout_ms=60_000
    )
    client.wait_for_topic("orders", 10)
    sent = Sent(client, ToNode(1))
    cluster.runtime.run_for(1)
    assert sent.response is not None
    link = client.nodes.known_link(1)
    assert link is not None
    assert link.is_connected
    cluster.runtime.run_for(4.5)
    assert not link.is_connected
    client.close()


def test_a_request_with_a_shorter_timeout_than_those_before_it_ends_at_its_own(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    Sent(client, ToNode(1))
    cluster.runtime.run_for(1)
    for broker in cluster.brokers:
        broker.on(HeartbeatRequest, lambda request, broker: Hold())
    long = Sent(client, ToNode(1), timeout=20)
    cluster.runtime.run_for(1)
    short = Sent(client, ToNode(1), timeout=2)
    cluster.runtime.run_for(1.9)
    assert (short.outcomes, long.outcomes) == (0, 0)
    cluster.runtime.run_for(0.2)
    assert isinstance(short.error, RequestTimeout)
    assert long.outcomes == 1, "the connection ended with it"


def test_bootstrap_connection_ends_when_a_broker_is_connected_by_its_name(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    """Until then it shows that the client reaches its cluster."""
    cluster.runtime.run_for(1)
    link = client.nodes.known_link(-1)
    assert link is not None
    assert client.health(is_closed=False)["connected"]
    client.request(MetadataRequest(topics=[]), ToNode(1))
    cluster.runtime.run_for(1)
    assert link.state is LinkState.IDLE
    assert client.nodes.connection_count == 1


def test_bootstrap_connection_stays_while_it_has_a_request_in_flight(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.runtime.run_for(1)
    link = client.nodes.known_link(-1)
    assert link is not None
    cluster.on(HeartbeatRequest, lambda request, broker: Hold())
    waiting = Sent(client, ToNode(-1))
    cluster.runtime.run_for(1)
    assert link.in_flight
    client.request(MetadataRequest(topics=[]), ToNode(1))
    cluster.runtime.run_for(1)
    assert client.nodes.connection_count == 2
    assert waiting.error is None


def test_rebootstrap_follows_when_every_known_node_is_unreachable(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    for broker in cluster.brokers:
        broker.stop()
    cluster.runtime.run_for(5)
    # The cluster has moved to other machines; only the bootstrap name still leads there.
    moved = ScriptedBroker(cluster, 9)
    cluster.brokers = [moved]
    cluster.network.brokers = {("broker-0", 9092): moved, ("broker-9", 9092): moved}
    client.metadata.request_update()
    cluster.runtime.run_for(10)
    assert set(client.metadata.snapshot.nodes) == {9}


@pytest.mark.parametrize(("strategy", "found"), [("rebootstrap", {9}), ("none", {0, 1, 2})])
def test_brokers_without_metadata_responses_cause_a_rebootstrap(
    cluster: ScriptedCluster, strategy: str, found: set[int]
) -> None:
    """KIP-1102: they still accept connections and take requests, but they were left behind."""
    cluster.network.brokers["alias", 9092] = cluster.brokers[0]
    client = cluster.client(
        bootstrap_servers="alias:9092",
        metadata_recovery_strategy=strategy,
        metadata_recovery_rebootstrap_trigger_ms=90_000,
    )
    client.wait_for_topic("orders", 10)
    for broker in cluster.brokers:
        broker.handlers[MetadataRequest] = lambda request, broker: Hold()
    moved = ScriptedBroker(cluster, 9)
    cluster.brokers = [moved]
    cluster.network.brokers["alias", 9092] = moved
    client.metadata.request_update()
    cluster.runtime.run_for(80)
    assert set(client.metadata.snapshot.nodes) == {0, 1, 2}
    cluster.runtime.run_for(50)
    assert set(client.metadata.snapshot.nodes) == found
    client.close()


@pytest.mark.parametrize(
    ("lookup", "name"),
    [
        ("use_all_dns_ips", "broker-0"),
        ("resolve_canonical_bootstrap_servers_only", "canonical.broker-0"),
    ],
)
def test_bootstrap_names_alone_are_made_canonical(cluster: ScriptedCluster, lookup: str, name: str) -> None:
    """KIP-235: an alias leads to many machines, whose certificates carry their own names."""
    client = cluster.client(bootstrap_servers="broker-0:9092", client_dns_lookup=lookup)
    client.wait_for_topic("orders", 10)
    assert cluster.network.server_names == [name]
    Sent(client, ToNode(1))
    cluster.runtime.run_for(1)
    assert cluster.network.server_names == [name, "broker-1"]
    client.close()


def test_a_broker_that_moved_is_found_at_its_new_address(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    Sent(client, ToNode(1))
    cluster.runtime.run_for(1)
    broker = cluster.brokers[1]
    broker.host = "elsewhere"
    cluster.network.brokers["elsewhere", 9092] = broker
    client.wait_for_metadata(client.metadata.version, 10)
    sent = Sent(client, ToNode(1))
    cluster.runtime.run_for(1)
    assert sent.response is not None
    assert cluster.network.connects[-1].host == "elsewhere"


def test_throttled_node_gets_no_request_for_the_throttle_time(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.brokers[1].on(HeartbeatRequest, lambda request, broker: HeartbeatResponse(throttle_time_ms=2000))
    Sent(client, ToNode(1))
    cluster.runtime.run_for(0.5)
    sent = Sent(client, ToNode(1))
    cluster.runtime.run_for(1)
    assert not client.router.is_ready(1, cluster.now)
    assert sent.outcomes == 0
    cluster.runtime.run_for(1)
    assert sent.response is not None


def coordinated_by(cluster: ScriptedCluster, node_id: int) -> None:
    node = cluster.brokers[node_id]

    def answer(request: FindCoordinatorRequest, broker: ScriptedBroker) -> Answer:
        reply = Coordinator(key="g", node_id=node.id, host=node.host, port=node.port, error_message=None)
        return FindCoordinatorResponse(coordinators=[reply])

    cluster.on(FindCoordinatorRequest, answer)


@pytest.mark.parametrize("moves_to", [2, 1], ids=["another node", "back to the same node"])
def test_late_error_of_an_old_coordinator_keeps_the_new_one(
    cluster: ScriptedCluster, client: ClusterClient, moves_to: int
) -> None:
    coordinated_by(cluster, 1)
    early = [Sent(client, GROUP_G) for _ in range(2)]
    cluster.runtime.run_for(1)
    client.driver.call_soon(lambda now: client.coordinators.forget_answerer(early[0].send))
    coordinated_by(cluster, moves_to)
    later = Sent(client, GROUP_G)
    cluster.runtime.run_for(1)
    assert later.send.sent_to == moves_to
    lookups = len(cluster.requests(FindCoordinatorRequest))
    client.driver.call_soon(lambda now: client.coordinators.forget_answerer(early[1].send))
    cluster.runtime.run_for(1)
    assert client.coordinators.node_of(GROUP_G) == moves_to
    assert len(cluster.requests(FindCoordinatorRequest)) == lookups == 2
    client.driver.call_soon(lambda now: client.coordinators.forget_answerer(later.send))
    cluster.runtime.run_for(1)
    assert client.coordinators.node_of(GROUP_G) is None


def test_throttle_time_is_capped_at_one_minute_and_explained(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.brokers[1].on(
        HeartbeatRequest, lambda request, broker: HeartbeatResponse(throttle_time_ms=2**31 - 1)
    )
    Sent(client, ToNode(1))
    cluster.runtime.run_for(0.5)
    ((name, seconds),) = client.nodes.throttled(cluster.now).items()
    assert (name, round(seconds)) == ("node 1 (broker-1:9092)", 60)
    (words,) = client.nodes.why_throttled(cluster.now)
    assert "no request is sent to it for another" in words
    overdue = Sent(client, ToNode(1), timeout=5)
    cluster.runtime.run_for(6)
    assert "throttles this client: no request is sent to it for another 54.5 s" in str(overdue.error)
    sent = Sent(client, ToNode(1), timeout=100)
    cluster.runtime.run_for(55)
    assert sent.response is not None


def test_no_broker_is_named_with_each_address_and_its_reason() -> None:
    cluster = ScriptedCluster(brokers=1)
    cluster.brokers[0].stop()
    cluster.network.unresolvable.add("nowhere")
    client = cluster.client(bootstrap_servers="broker-0:9092,nowhere:1234")
    with pytest.raises(NoBrokersAvailable) as caught:
        client.request(MetadataRequest(topics=[]), timeout=5)
    assert cluster.now <= 1005.001
    for words in ("broker-0:9092", "refused", "nowhere", "cannot resolve"):
        assert words in str(caught.value)
    client.close()


def test_requests_are_retried_by_their_traits_until_the_timeout(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    codes = iter([14, 14, 0])  # COORDINATOR_LOAD_IN_PROGRESS is retriable
    cluster.on(HeartbeatRequest, lambda request, broker: HeartbeatResponse(error_code=next(codes)))
    response = client.request(BEAT, ToNode(1), timeout=10, check=lambda r: _error(r))
    assert response.error_code == 0
    cluster.on(HeartbeatRequest, lambda request, broker: HeartbeatResponse(error_code=30))
    with pytest.raises(GroupAuthorizationFailed):
        client.request(BEAT, ToNode(1), timeout=10, check=lambda r: _error(r))
    cluster.on(HeartbeatRequest, lambda request, broker: Hold())
    with pytest.raises(KafkaTimeoutError, match="Heartbeat"):
        client.request(BEAT, ToNode(1), timeout=3)


def _error(response: HeartbeatResponse) -> KafkaError | None:
    from pykafka2.errors import error_of

    return error_of(response.error_code) if response.error_code else None


def test_close_fails_waiting_requests_and_those_in_flight(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.brokers[1].on(HeartbeatRequest, lambda request, broker: Hold())
    in_flight = [Sent(client, ToNode(1)) for _ in range(2)]
    waiting = [Sent(client, ToNode(node_id)) for node_id in (77, 78)]
    cluster.runtime.run_for(1)
    assert client.close()
    assert [type(one.error) for one in in_flight + waiting] == [ClientClosed] * 4
    assert {one.outcomes for one in in_flight + waiting} == {1}
    with pytest.raises(ClientClosed):
        client.request(BEAT, timeout=1)
    with pytest.raises(ClientClosed):
        client.wait_for_topic("orders", 1)
    assert client.close(), "closing again is fine"
    assert all(transport.is_closed for broker in cluster.brokers for transport in broker.transports)


# ---------------------------------------------------------------------------------------- coordinators


def found(node_id: int, error_code: int = 0) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key="g", node_id=node_id, host=f"broker-{node_id}", port=9092, error_code=error_code)
        ]
    )


def test_concurrent_requests_to_a_coordinator_cause_one_lookup(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.on(FindCoordinatorRequest, lambda request, broker: found(1))
    events: list[object] = []
    client.event_sink.subscribe(events.append)
    sent = [Sent(client, GROUP_G) for _ in range(50)]
    cluster.runtime.run_for(1)
    assert all(one.response is not None for one in sent)
    assert len(cluster.requests(FindCoordinatorRequest)) == 1
    assert beats(cluster) == [0, 50, 0]
    assert [type(event) for event in events if isinstance(event, LookupStarted | LookupEnded)] == [
        LookupStarted,
        LookupEnded,
    ]


def test_a_coordinator_has_a_connection_of_its_own(cluster: ScriptedCluster, client: ClusterClient) -> None:
    cluster.on(FindCoordinatorRequest, lambda request, broker: found(1))
    cluster.brokers[1].on(HeartbeatRequest, lambda request, broker: Hold())
    Sent(client, ToNode(0))  # an idle connection for the lookup itself
    Sent(client, ToNode(1))
    cluster.runtime.run_for(0.1)
    cluster.brokers[1].on(HeartbeatRequest, lambda request, broker: HeartbeatResponse())
    sent = Sent(client, GROUP_G)
    cluster.runtime.run_for(0.1)
    assert sent.response is not None
    link = client.nodes.known_link(1, Purpose.COORDINATOR)
    assert link is not None
    assert link is not client.nodes.known_link(1)


@pytest.mark.parametrize("ending", ["error", "disconnect", "timeout", "refused"])
def test_lookup_is_cleared_after_each_kind_of_failure(
    cluster: ScriptedCluster, client: ClusterClient, ending: str
) -> None:
    answers: dict[str, Answer] = {
        "error": found(-1, 15),
        "disconnect": Drop(),
        "timeout": Hold(),
        "refused": found(-1, 30),
    }
    cluster.on(FindCoordinatorRequest, lambda request, broker: answers[ending])
    first = Sent(client, GROUP_G, timeout=32)
    cluster.runtime.run_for(33)
    assert first.outcomes == 1
    if ending == "refused":
        assert isinstance(first.error, GroupAuthorizationFailed)
    cluster.on(FindCoordinatorRequest, lambda request, broker: found(2))
    cluster.runtime.run_for(31)
    second = Sent(client, GROUP_G)
    cluster.runtime.run_for(3)
    assert second.response is not None


def test_a_refused_lookup_fails_every_request_of_its_key_and_no_other(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    def find(request: FindCoordinatorRequest, broker: ScriptedBroker) -> Answer:
        (key,) = request.coordinator_keys
        refused = key == "g"
        reply = Coordinator(
            key=key, node_id=-1 if refused else 1, host="broker-1", port=9092, error_code=30 if refused else 0
        )
        return FindCoordinatorResponse(coordinators=[reply])

    cluster.on(FindCoordinatorRequest, find)
    cluster.brokers[1].on(HeartbeatRequest, lambda request, broker: HeartbeatResponse())
    elsewhere = Sent(client, ToNode(77), timeout=30)
    refused = [Sent(client, GROUP_G) for _ in range(3)]
    others = [Sent(client, ToCoordinator(GROUP, "h")) for _ in range(2)]
    cluster.runtime.run_for(3)
    assert [type(one.error) for one in refused] == [GroupAuthorizationFailed] * 3
    assert all(one.response is not None for one in others)
    assert elsewhere.outcomes == 0


def test_requests_to_several_unknown_nodes_each_end_at_their_own_timeout(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    late, early = Sent(client, ToNode(77), timeout=5), Sent(client, ToNode(78), timeout=2)
    cluster.runtime.run_for(2.1)
    assert isinstance(early.error, KafkaTimeoutError | RequestTimeout)
    assert late.error is None
    cluster.runtime.run_for(3)
    assert isinstance(late.error, KafkaTimeoutError | RequestTimeout)


def test_every_coordinator_on_a_lost_broker_is_looked_up_again(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    """Two groups and a transaction on one broker (KAFKA-13840)."""
    node = [1]

    def find(request: FindCoordinatorRequest, broker: ScriptedBroker) -> Answer:
        (key,) = request.coordinator_keys
        reply = Coordinator(key=key, node_id=node[0], host=f"broker-{node[0]}", port=9092)
        return FindCoordinatorResponse(coordinators=[reply])

    cluster.on(FindCoordinatorRequest, find)
    keys = [GROUP_G, ToCoordinator(GROUP, "h"), ToCoordinator(TRANSACTION, "g")]
    for to in keys:
        Sent(client, to)
    cluster.runtime.run_for(1)
    node[0] = 2
    cluster.brokers[1].stop()
    cluster.runtime.run_for(1)
    sent = [Sent(client, to) for to in keys]
    cluster.runtime.run_for(3)
    assert [one.send.sent_to for one in sent if one.response is not None] == [2, 2, 2]
    assert len(cluster.requests(FindCoordinatorRequest)) == 6


def test_lost_coordinator_is_looked_up_again(cluster: ScriptedCluster, client: ClusterClient) -> None:
    cluster.on(FindCoordinatorRequest, lambda request, broker: found(1))
    Sent(client, GROUP_G)
    cluster.runtime.run_for(1)
    cluster.brokers[1].stop()
    cluster.on(FindCoordinatorRequest, lambda request, broker: found(2))
    cluster.runtime.run_for(1)
    sent = Sent(client, GROUP_G)
    cluster.runtime.run_for(3)
    assert sent.response is not None
    assert beats(cluster) == [0, 1, 1]


def test_a_coordinator_on_a_broker_that_the_metadata_does_not_list_is_reached(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    late = ScriptedBroker(cluster, 5)
    cluster.network.brokers[late.host, late.port] = late
    cluster.on(FindCoordinatorRequest, lambda request, broker: found(5))
    sent = Sent(client, GROUP_G)
    cluster.runtime.run_for(1)
    assert sent.response is not None
    assert len(late.requests(HeartbeatRequest)) == 1


def test_brokers_before_3_0_get_one_coordinator_key_a_request(cluster: ScriptedCluster) -> None:
    for broker in cluster.brokers:
        broker.versions[10] = (0, 3)
    client = cluster.client()
    cluster.on(
        FindCoordinatorRequest,
        lambda request, broker: FindCoordinatorResponse(node_id=2, host="broker-2", port=9092),
    )
    sent = Sent(client, GROUP_G)
    cluster.runtime.run_for(1)
    assert sent.response is not None
    assert [request.key for request in cluster.requests(FindCoordinatorRequest)] == ["g"]
    client.close()


# ---------------------------------------------------------------------------------------- the link's table


@pytest.mark.parametrize("state", LinkState)
@pytest.mark.parametrize("target", LinkState)
def test_a_link_makes_only_the_moves_of_its_table(
    cluster: ScriptedCluster, client: ClusterClient, state: LinkState, target: LinkState
) -> None:
    link = NodeLink(
        Node(1, "h", 1), Purpose.MAIN, client.options, client.driver, None, on_lost=lambda link, error: None
    )
    link.state = state
    if target in LEGAL_MOVES[state]:
        link._move_to(target)
        assert link.state is target
    else:
        with pytest.raises(IllegalTransition):
            link._move_to(target)
        assert link.state is state


def named_anew(cluster: ScriptedCluster, count: list[int]) -> None:
    """Each Metadata response lists one more broker, at an address that refuses connections, and none of the
    earlier ones.
    """

    def reply(request: MetadataRequest, broker: ScriptedBroker) -> MetadataResponse:
        answer = cluster.metadata(request)
        count[0] += 1
        answer.brokers.append(MetadataResponseBroker(node_id=1_000 + count[0], host="nowhere", port=9092))
        return answer

    cluster.on(MetadataRequest, reply)


def test_links_of_brokers_missing_in_metadata_are_forgotten(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    count = [0]
    named_anew(cluster, count)
    links = client.nodes._links
    for _ in range(30):
        client.driver.call_soon(lambda now: client.metadata.request_update())
        Sent(client, ToNode(1_000 + count[0]), timeout=0.2)
        Sent(client, ToNode(0))
        cluster.runtime.run_for(10.0)
    assert count[0] > 25
    assert len([node_id for node_id, _ in links if node_id >= 1_000]) <= 8
    assert client.nodes.failures > 20, "what failed is counted although its link has gone"


def test_few_brokers_are_remembered_that_the_metadata_does_not_list(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    """A coordinator is another broker each time, say."""
    for number in range(1_000):
        client.nodes.hint(Node(1_000 + number, "nowhere", 9092))
    assert [client.nodes.link(node_id, cluster.now) is None for node_id in (1_899, 1_900, 1_999)] == [
        True,
        False,
        False,
    ]
