"""Framing, ApiVersions and the order of replies, over real sockets (rules 1 to 9 and §4.1)."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest, ProduceResponse
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.handlers.registry import APIS
from tests.testing.wire import Wire, batch, partition_of, produce, produce_request

Connect = Callable[..., Wire]
METADATA = MetadataRequest(topics=None)


def header(api_key: int, version: int, correlation_id: int = 1) -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, -1)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def assert_costs_one_connection(connect: Connect, data: bytes) -> None:
    """The sender's connection is closed; another one, opened before, goes on."""
    other, hostile = connect(), connect()
    other.call(METADATA, 12)
    hostile.socket.sendall(data)
    assert hostile.is_closed_by_broker()
    other.call(METADATA, 12)


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * 1024 * 1024 + 1, 2**31 - 1])
def test_rule_1_a_frame_of_an_illegal_size_closes_the_connection(connect: Connect, size: int) -> None:
    assert_costs_one_connection(connect, struct.pack(">i", size))


@pytest.mark.kafka(brokers=1, config={"socket.request.max.bytes": 1000})
def test_rule_1_socket_request_max_bytes_is_the_limit(connect: Connect) -> None:
    assert_costs_one_connection(connect, struct.pack(">i", 1001))


@pytest.mark.parametrize(
    "data",
    [
        framed(header(999, 0)),
        framed(header(-1, 0)),
        framed(b""),
        framed(b"\x00\x03"),
        framed(header(3, 99)),
        framed(header(0, 2) + b"\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"),
        framed(header(3, 8) + b"\x7f\xff\xff\xff"),
    ],
    ids=[
        "unknown key",
        "negative key",
        "empty",
        "short header",
        "unknown version",
        "produce v2",
        "body does not parse",
    ],
)
def test_rule_2_what_is_no_request_costs_its_one_connection(connect: Connect, data: bytes) -> None:
    assert_costs_one_connection(connect, data)


def test_rule_2_bytes_after_the_body_are_ignored(connect: Connect) -> None:
    """As in Kafka; librdkafka sends some after a Metadata request for all topics."""
    wire = connect()
    wire.socket.sendall(framed(header(3, 0, 7) + struct.pack(">i", 0) + b"more"))
    assert wire.receive(MetadataRequest, 0)[0] == 7
    wire.call(METADATA, 12)


def test_rule_2_a_frame_may_come_byte_by_byte(connect: Connect) -> None:
    wire = connect()
    wire.send(METADATA, 12)
    wire.receive(MetadataRequest, 12)
    for byte in framed(header(3, 0, 77) + struct.pack(">i", 0)):
        wire.socket.sendall(bytes((byte,)))
    assert wire.receive(MetadataRequest, 0)[0] == 77


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_rule_3_an_unknown_version_of_api_versions_is_answered_in_version_0(
    connect: Connect, version: int
) -> None:
    wire = connect()
    wire.socket.sendall(framed(header(18, version, 5) + b"\x00whatever this is"))
    frame = wire.receive_frame()
    response = ApiVersionsResponse.decode(frame[4:], 0)
    assert struct.unpack(">i", frame[:4]) == (5,)
    assert response.error_code == 35
    assert [(api.api_key, api.max_version) for api in response.api_keys] == [(18, 4)]
    # The connection goes on.
    wire.call(METADATA, 12)


def test_rule_4_the_header_of_an_api_versions_reply_is_always_version_0(connect: Connect) -> None:
    wire = connect()
    wire.send(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    frame = wire.receive_frame()
    # Header version 1 would put a byte for tagged fields behind the correlation id.
    assert ApiVersionsResponse.decode(frame[4:], 4).error_code == 0


@pytest.mark.parametrize("name", ["", "-x", "a b", "x-", "ü"])
def test_rule_5_the_name_of_the_software_must_match_the_pattern(connect: Connect, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    assert connect().call(request, 3).error_code == 42


def test_api_versions_offers_what_is_served_and_nothing_else(connect: Connect) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    offered = {api.api_key: (api.min_version, api.max_version) for api in connect().call(request, 4).api_keys}
    assert set(offered) == set(APIS)
    # Group coordination comes later; Produce says 0 for librdkafka's sake (KAFKA-18659).
    assert {8, 9, 11, 12, 14}.isdisjoint(offered)
    assert offered[0] == (0, 13)
    assert offered[1] == (4, 18)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_an_answer_that_cannot_be_encoded_costs_its_one_connection(
    kafka_cluster: KafkaCluster,
    leader: Callable[[str, int], Wire],
    wait_for: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where it is given late, from the purgatory."""
    kafka_cluster.controls.pause_followers()
    wire = leader("t", 0)
    wire.send(produce_request("t", 0, batch(), timeout_ms=60_000), 12)
    wait_for(lambda: kafka_cluster.log("t", 0).log_end_offset == 1)
    broken = ProduceResponse(responses=[])
    broken.throttle_time_ms = 2**40  # no int32
    monkeypatch.setattr("pykafka2.testing.handlers.produce._answer", lambda *_: broken)
    kafka_cluster.controls.resume_followers()
    assert wire.is_closed_by_broker()
    leader("t", 0).call(METADATA, 12)


@pytest.mark.parametrize("mode", ["serial", "pipelined"])
def test_rule_6_replies_leave_in_the_order_of_requests(mode: str) -> None:
    """A Metadata that is ready at once waits for the Produce before it (§4.1 h)."""
    with (
        KafkaCluster(brokers=2, topics={"t": 1}, config={"channel.mode": mode}) as cluster,
        Wire(cluster.brokers[cluster.partition("t", 0).leader].address) as wire,
    ):
        cluster.controls.pause_followers()
        cluster.runtime.wait_until(lambda: False, 0.0)
        produced = wire.send(produce_request("t", 0, batch(), timeout_ms=300), 12)
        asked = wire.send(METADATA, 12)
        assert wire.receive(ProduceRequest, 12)[0] == produced
        assert wire.receive(MetadataRequest, 12)[0] == asked


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_pipelined_produces_are_appended_before_the_first_is_answered(
    kafka_cluster: KafkaCluster, leader: Callable[[str, int], Wire], wait_for: Callable[..., None]
) -> None:
    """Append order is receive order (§4.1 b), and each request keeps its own timeout (§4.1 d)."""
    kafka_cluster.controls.pause_followers()
    wire = leader("t", 0)
    for value in (b"1", b"2", b"3"):
        wire.send(produce_request("t", 0, batch([value]), timeout_ms=5000), 12)
    wait_for(lambda: kafka_cluster.log("t", 0).values() == [b"1", b"2", b"3"])
    assert kafka_cluster.history.in_flight_max("Produce") == 3
    kafka_cluster.controls.resume_followers()
    offsets = [partition_of(wire.receive(ProduceRequest, 12)[1]).base_offset for _ in range(3)]
    assert offsets == [0, 1, 2]


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"channel.mode": "serial"})
def test_serial_mode_takes_the_next_request_when_the_reply_has_left(
    kafka_cluster: KafkaCluster, leader: Callable[[str, int], Wire], wait_for: Callable[..., None]
) -> None:
    kafka_cluster.controls.pause_followers()
    wire = leader("t", 0)
    for value in (b"1", b"2"):
        wire.send(produce_request("t", 0, batch([value]), timeout_ms=5000), 12)
    wait_for(lambda: len(kafka_cluster.log("t", 0).values()) == 1)
    assert kafka_cluster.history.in_flight_max("Produce") == 1
    kafka_cluster.controls.resume_followers()
    offsets = [partition_of(wire.receive(ProduceRequest, 12)[1]).base_offset for _ in range(2)]
    assert offsets == [0, 1]
    assert kafka_cluster.history.in_flight_max("Produce") == 1


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_each_pipelined_request_keeps_its_own_timeout(
    kafka_cluster: KafkaCluster, leader: Callable[[str, int], Wire]
) -> None:
    """The second times out first, and its reply still waits for its turn (§4.1 d)."""
    kafka_cluster.controls.pause_followers()
    wire = leader("t", 0)
    wire.send(produce_request("t", 0, batch([b"1"]), timeout_ms=200), 12)
    wire.send(produce_request("t", 0, batch([b"2"]), timeout_ms=20), 12)
    codes = [partition_of(wire.receive(ProduceRequest, 12)[1]).error_code for _ in range(2)]
    assert codes == [7, 7]
    entries = kafka_cluster.history.entries("Produce")
    assert [entry.answered_at is not None for entry in entries] == [True, True]
    first, second = (entry.latency or 0.0 for entry in entries)
    assert second < 0.2 <= first


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"max.pipelined.requests": 2})
def test_a_connection_is_muted_at_its_cap_of_pipelined_requests(
    kafka_cluster: KafkaCluster, leader: Callable[[str, int], Wire], wait_for: Callable[..., None]
) -> None:
    kafka_cluster.controls.pause_followers()
    wire = leader("t", 0)
    for number in range(5):
        wire.send(produce_request("t", 0, batch([b"%d" % number])), 12)
    wait_for(lambda: len(kafka_cluster.log("t", 0).values()) == 2)
    kafka_cluster.controls.resume_followers()
    assert [partition_of(wire.receive(ProduceRequest, 12)[1]).base_offset for _ in range(5)] == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert kafka_cluster.history.in_flight_max("Produce") == 2


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_a_closed_connection_leaves_nothing_in_the_purgatory(
    kafka_cluster: KafkaCluster, leader: Callable[[str, int], Wire], wait_for: Callable[..., None]
) -> None:
    """§4.1 g."""
    kafka_cluster.controls.pause_followers()
    broker = kafka_cluster.brokers[kafka_cluster.partition("t", 0).leader]
    wire = leader("t", 0)
    wire.send(produce_request("t", 0, batch()), 12)
    wait_for(lambda: broker.replicas.produces.waiting() == 1)
    wire.close()
    wait_for(lambda: broker.replicas.produces.waiting() == 0)


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_rule_7_acks_0_is_never_answered(
    kafka_cluster: KafkaCluster, connect: Connect, wait_for: Callable[..., None]
) -> None:
    wire = connect()
    wire.send(produce_request("t", 0, batch([b"silent"]), acks=0), 12)
    # The next reply is that of the next request.
    wire.call(METADATA, 12)
    assert kafka_cluster.log("t", 0).values() == [b"silent"]


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_rule_7_an_error_with_acks_0_closes_the_connection(connect: Connect) -> None:
    wire = connect()
    wire.send(produce_request("nosuch", 0, batch(), acks=0), 12)
    assert wire.is_closed_by_broker()


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"queued.max.requests": 1, "threads": "separate"})
def test_rule_8_a_full_request_queue_stops_the_reading_not_the_work(connect: Connect) -> None:
    wires = [connect() for _ in range(8)]
    for wire in wires:
        for _ in range(5):
            wire.send(METADATA, 12)
    for wire in wires:
        assert [wire.receive(MetadataRequest, 12)[0] for _ in range(5)] == [1, 2, 3, 4, 5]


@pytest.mark.kafka(brokers=1, config={"connections.max.idle.ms": 50})
def test_rule_9_idle_connections_are_closed(connect: Connect) -> None:
    wire = connect()
    wire.call(METADATA, 12)
    assert wire.is_closed_by_broker()


@pytest.mark.kafka(
    brokers=3, topics={"t": 3}, config={"threads": "separate", "num.network.threads": 2, "num.io.threads": 2}
)
def test_several_threads_a_broker_work_the_same(leader: Callable[[str, int], Wire]) -> None:
    for partition in range(3):
        wire = leader("t", partition)
        for number in range(20):
            assert produce(wire, "t", partition, batch([b"%d" % number])).base_offset == number
