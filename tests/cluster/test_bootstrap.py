"""Invalid responses while a client starts: reported to callers, retried forever, and never believed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.errors import (
    BootstrapResolutionFailed,
    CorruptResponse,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    TlsError,
    UnsupportedVersion,
)
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.cluster.scripted import Answer, Hold, Raw, ScriptedBroker, ScriptedCluster


@pytest.fixture
def cluster() -> ScriptedCluster:
    return ScriptedCluster(brokers=2, topics={"orders": [0, 1]})


@pytest.fixture
def client(cluster: ScriptedCluster) -> Iterator[ClusterClient]:
    client = cluster.client()
    yield client
    client.close()


BAD_ANSWERS: dict[str, tuple[Answer, type[KafkaError], str]] = {
    "HTTP": (Raw(b"HTTP/1.1 503 Service Unavailable\r\n\r\n"), NoBrokersAvailable, "responds in HTTP"),
    "length": (Raw(b"\x7f\xff\xff\xff...."), NoBrokersAvailable, "announces a frame of 2147483647 bytes"),
    "correlation id": (Raw(b"\0\0\0\x06\0\0\0\x63\0\0"), NoBrokersAvailable, "correlation id 99"),
    "truncated": (Raw(b"\0\0\0\x05\0\0\0\0\0"), NoBrokersAvailable, "ApiVersions"),
    "error code": (
        ApiVersionsResponse(error_code=42, api_keys=[]),
        NoBrokersAvailable,
        "rejected ApiVersions",
    ),
    "TLS alert": (Raw(b"\x15\x03\x03\0\x02\x02\x28"), TlsError, "speaks TLS on this port"),
}


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_one_bad_answer_at_the_start_does_not_wedge_the_client(
    cluster: ScriptedCluster, client: ClusterClient, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer, error, words = BAD_ANSWERS[kind]
    cluster.on(ApiVersionsRequest, lambda request, broker: answer)
    started = cluster.now
    with pytest.raises(error, match=words):
        client.wait_for_topic("orders", 5)
    waited = cluster.now - started
    assert waited < 1 if error is TlsError else waited == pytest.approx(5)
    del cluster.handlers[ApiVersionsRequest]
    assert client.wait_for_topic("orders", 5).is_usable, "the next call tries again"


@pytest.mark.parametrize("kind", BAD_ANSWERS)
def test_bootstrap_continues_in_the_background(
    cluster: ScriptedCluster, client: ClusterClient, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer, error, _ = BAD_ANSWERS[kind]
    cluster.on(ApiVersionsRequest, lambda request, broker: answer)
    with pytest.raises(error):
        client.wait_for_topic("orders", 1)
    attempts = len(cluster.network.connects)
    cluster.runtime.run_for(70)
    assert len(cluster.network.connects) - attempts >= 40, "about one a second, at reconnect_backoff_max_ms"
    del cluster.handlers[ApiVersionsRequest]
    cluster.runtime.run_for(5)
    assert client.metadata.topic("orders") is not None


def test_request_to_any_node_raises_the_bootstrap_error(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    cluster.on(ApiVersionsRequest, lambda request, broker: BAD_ANSWERS["TLS alert"][0])
    for _ in range(3):
        started = cluster.now
        with pytest.raises(TlsError, match="speaks TLS on this port"):
            client.request(MetadataRequest(topics=[]))
        assert cluster.now - started < 2, "each call reports an attempt of its own"
    assert len(cluster.network.connects) >= 3
    del cluster.handlers[ApiVersionsRequest]
    assert client.request(MetadataRequest(topics=[])).brokers


BOTH = "broker-0:9092,broker-1:9092"


def test_a_peer_without_metadata_is_left_for_the_next_address() -> None:
    """A controller, say."""
    for seed in range(4):
        cluster = ScriptedCluster(brokers=2, topics={"orders": [1]}, seed=seed)
        del cluster.brokers[0].versions[MetadataRequest.API_KEY]
        client, started = cluster.client(bootstrap_servers=BOTH), cluster.now
        assert client.wait_for_topic("orders", 5).is_usable
        assert cluster.now - started < 1
        client.close()


def test_missing_metadata_api_on_all_nodes_raises_at_once(cluster: ScriptedCluster) -> None:
    for broker in cluster.brokers:
        del broker.versions[MetadataRequest.API_KEY]
    client, started = cluster.client(bootstrap_servers=BOTH), cluster.now
    with pytest.raises(UnsupportedVersion, match="Metadata"):
        client.request(MetadataRequest(topics=[]))
    assert cluster.now - started < 2
    client.close()


def test_untried_bootstrap_addresses_come_before_slow_failing_ones() -> None:
    addresses = ",".join(f"broker-{number}:9092" for number in range(4))
    for seed in range(6):
        cluster = ScriptedCluster(brokers=4, topics={"orders": [3]}, seed=seed)
        for broker in cluster.brokers[:3]:
            broker.handlers[ApiVersionsRequest] = lambda request, broker: Hold()
        client = cluster.client(bootstrap_servers=addresses)
        client.wait_for_topic("orders", 60)
        tried = [str(one) for one in cluster.network.connects]
        assert len(tried[:4]) == len(set(tried[:4])), tried
        client.close()


# ---------------------------------------------------------------------- metadata that cannot be


def metadata(
    indexes: list[int], *, port: int = 9092, node_id: int = 0, brokers: int = 1, leader: int = 0
) -> MetadataResponse:
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node_id + number, host="broker-0", port=port)
            for number in range(brokers)
        ],
        topics=[
            MetadataResponseTopic(
                name="orders",
                topic_id=b"t" * 16,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=index, leader_id=leader, replica_nodes=[], isr_nodes=[]
                    )
                    for index in indexes
                ],
            )
        ],
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (metadata([2**31 - 1]), "1 partitions .*among them the number 2147483647"),
        (metadata([-3]), "among them the number -3"),
        (metadata([0, 1, 3]), "3 partitions .*among them the number 3"),
        (metadata([0, 1, 1]), "3 partitions .*among them a duplicate"),
        (metadata([0], leader=-7), "names -7 as leader"),
        (metadata([0], port=70000), "port 70000"),
        (metadata([0], port=0), "port 0"),
        (metadata([0], node_id=-1), "id -1"),
        (metadata([0], brokers=10_001), "10001 brokers"),
    ],
)
def test_inconsistent_metadata_is_rejected_and_retried(
    cluster: ScriptedCluster, client: ClusterClient, answer: MetadataResponse, words: str
) -> None:
    def hostile(request: MetadataRequest, broker: ScriptedBroker) -> Answer:
        return answer

    cluster.on(MetadataRequest, hostile)
    with pytest.raises(KafkaTimeoutError, match=words) as caught:
        client.wait_for_topic("orders", 2)
    assert isinstance(caught.value.__cause__, CorruptResponse)
    assert client.metadata.version == 0
    assert 3 <= len(cluster.requests(MetadataRequest)) <= 20
    del cluster.handlers[MetadataRequest]
    assert client.wait_for_topic("orders", 2).is_usable


def test_bad_metadata_response_keeps_the_known_metadata(
    cluster: ScriptedCluster, client: ClusterClient
) -> None:
    client.wait_for_topic("orders", 5)
    known = client.metadata.snapshot
    cluster.on(MetadataRequest, lambda request, broker: metadata([7]))
    assert not client.wait_for_metadata(client.metadata.version, 2)
    assert client.metadata.snapshot is known


def test_former_failure_of_a_bootstrap_address_is_not_reported_for_ever(
    cluster: ScriptedCluster,
) -> None:
    """A bootstrap address is not tried again once the brokers have names."""
    client = cluster.client(bootstrap_servers="broker-0:9092,broker-1:9092,elsewhere:9092")
    for broker in cluster.brokers:
        broker.is_up = False
    client.metadata.want_topic("orders", cluster.now)
    cluster.runtime.run_for(5)
    assert set(client.nodes.failing(cluster.now)) == {"broker-0:9092", "broker-1:9092", "elsewhere:9092"}
    for broker in cluster.brokers:
        broker.is_up = True
    cluster.runtime.run_for(5)
    for node in (0, 1):
        client.router.is_ready(node, cluster.now)
    cluster.runtime.run_for(5)
    assert set(client.nodes.failing(cluster.now)) == {"elsewhere:9092"}, (
        "the same addresses are connected now"
    )
    cluster.runtime.run_for(60)
    assert client.nodes.failing(cluster.now) == {}
    client.close()


# ------------------------------------------------------------------ names that do not resolve (KIP-909)


def test_names_that_never_resolve_fail_calls_after_the_resolve_timeout(cluster: ScriptedCluster) -> None:
    cluster.network.unresolvable |= {"nowhere", "elsewhere"}
    client = cluster.client(
        bootstrap_servers="nowhere:9092,elsewhere:9092", bootstrap_resolve_timeout_ms=20_000
    )
    began = cluster.now
    with pytest.raises(BootstrapResolutionFailed, match=r"nowhere, elsewhere.*20 s") as caught:
        client.wait_for_topic("orders", 60)
    assert 20 <= cluster.now - began <= 22
    assert not caught.value.retriable
    client.close()


@pytest.mark.parametrize("timeout_ms", [0, 90_000])
def test_calls_before_the_resolve_timeout_end_with_their_own(
    cluster: ScriptedCluster, timeout_ms: int
) -> None:
    cluster.network.unresolvable.add("nowhere")
    client = cluster.client(bootstrap_servers="nowhere:9092", bootstrap_resolve_timeout_ms=timeout_ms)
    with pytest.raises(NoBrokersAvailable, match="cannot resolve 'nowhere'"):
        client.wait_for_topic("orders", 60)
    client.close()


def test_one_resolved_name_is_enough_even_if_its_broker_is_down(cluster: ScriptedCluster) -> None:
    cluster.network.unresolvable.add("nowhere")
    cluster.brokers[0].stop()
    client = cluster.client(
        bootstrap_servers="broker-0:9092,nowhere:9092", bootstrap_resolve_timeout_ms=5_000
    )
    with pytest.raises(NoBrokersAvailable):
        client.wait_for_topic("orders", 30)
    cluster.brokers[0].is_up = True
    assert client.wait_for_topic("orders", 30).is_usable
    client.close()


def test_client_recovers_if_the_name_resolves_later(cluster: ScriptedCluster) -> None:
    cluster.network.unresolvable.add("broker-0")
    client = cluster.client(bootstrap_resolve_timeout_ms=5_000)
    with pytest.raises(BootstrapResolutionFailed):
        client.wait_for_topic("orders", 30)
    cluster.network.unresolvable.clear()
    assert client.wait_for_topic("orders", 30).is_usable
    client.close()


@pytest.mark.parametrize("lead", [-0.01, 0.0, 0.01], ids=["call first", "together", "request first"])
@pytest.mark.parametrize("call", ["wait_for_topic", "bootstrap"])
def test_silent_broker_is_a_timeout_whether_the_call_or_its_request_ends_first(
    cluster: ScriptedCluster, call: str, lead: float
) -> None:
    """The request's timeout closes the only connection, but its broker was reached."""
    cluster.on(MetadataRequest, lambda request, broker: Hold())
    client = cluster.client(request_timeout_ms=3_000)
    calls = {
        "wait_for_topic": lambda timeout: client.wait_for_topic("orders", timeout),
        "bootstrap": client.bootstrap,
    }
    with pytest.raises(KafkaTimeoutError, match="no metadata"):
        calls[call](3 + lead)
    client.close()
