"""Framing, ApiVersions, quotas of connections, throttling, over raw sockets; pipelined mode is in
test_pipelining.py.
"""

from __future__ import annotations

import gc
import itertools
import socket
import struct
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykafka2 import errors
from pykafka2.broker.handlers.api import APIS, TELEMETRY, load
from pykafka2.broker.server.channel import READ_BYTES, ReceiveBuffer
from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.processor import Processor
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.errors import ConfigurationError, Disconnected
from pykafka2.network.selector import SocketSelector
from pykafka2.network.tcp import TcpTransport
from pykafka2.network.transport import Buffer, Listener, SocketOptions, Transport
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest, ProduceResponse
from pykafka2.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from pykafka2.testing import KafkaCluster, Simulation, Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch_request, partition_of, produce, produce_request
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster
from tests.gate import examples

METADATA = MetadataRequest(topics=None)


def header(api_key: int, version: int, correlation_id: int = 1) -> bytes:
    return struct.pack(">hhih", api_key, version, correlation_id, -1)


def metadata_requests(count: int, client_id: str) -> bytes:
    """Return requests with the correlation ids from 0."""
    return b"".join(b"".join(encode_request(METADATA, 12, number, client_id)) for number in range(count))


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def assert_closes_only_the_sender(live: LiveCluster, data: bytes) -> None:
    """Assert that the broker closes the sender's connection and no other."""
    other, hostile = live.connect(), live.connect()
    other.call(METADATA, 12)
    hostile.socket.sendall(data)
    assert hostile.is_closed_by_broker()
    other.call(METADATA, 12)


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * 1024 * 1024 + 1, 2**31 - 1])
def test_frame_of_an_illegal_size_closes_only_its_connection(live: LiveCluster, size: int) -> None:
    assert_closes_only_the_sender(live, struct.pack(">i", size))


@pytest.mark.kafka(brokers=1, config={"socket.request.max.bytes": 1000})
def test_socket_request_max_bytes_is_the_limit(live: LiveCluster) -> None:
    assert_closes_only_the_sender(live, struct.pack(">i", 1001))
    too_large = b"".join(encode_request(METADATA, 12, 1, "c" * 1000))
    assert_closes_only_the_sender(live, too_large)


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
def test_invalid_request_bytes_close_only_that_connection(live: LiveCluster, data: bytes) -> None:
    assert_closes_only_the_sender(live, data)


def test_bytes_after_the_body_are_ignored(wire: RawClient) -> None:
    """Kafka ignores them, too; librdkafka sends some after a Metadata request for all topics."""
    wire.socket.sendall(framed(header(3, 0, 7) + struct.pack(">i", 0) + b"more"))
    assert wire.receive(MetadataRequest, 0)[0] == 7
    wire.call(METADATA, 12)


def test_frame_can_arrive_byte_by_byte(wire: RawClient) -> None:
    wire.send(METADATA, 12)
    wire.receive(MetadataRequest, 12)
    for byte in framed(header(3, 0, 77) + struct.pack(">i", 0)):
        wire.socket.sendall(bytes((byte,)))
    assert wire.receive(MetadataRequest, 0)[0] == 77


@pytest.mark.parametrize("version", [6, 99, 32767])
def test_unknown_version_of_api_versions_gets_a_response_in_version_0(wire: RawClient, version: int) -> None:
    wire.socket.sendall(framed(header(18, version, 5) + b"\x00whatever this is"))
    frame = wire.receive_frame()
    response = ApiVersionsResponse.decode(frame[4:], 0)
    assert struct.unpack(">i", frame[:4]) == (5,)
    assert response.error_code == errors.UnsupportedVersion.code
    assert [(api.api_key, api.max_version) for api in response.api_keys] == [(18, 5)]
    # The connection stays open.
    wire.call(METADATA, 12)


def test_response_header_of_api_versions_is_always_version_0(wire: RawClient) -> None:
    wire.send(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    frame = wire.receive_frame()
    # Header version 1 would put a byte for tagged fields behind the correlation id.
    assert ApiVersionsResponse.decode(frame[4:], 4).error_code == 0


@pytest.mark.parametrize("name", ["", "-x", "a b", "x-", "ü"])
def test_client_software_name_that_does_not_match_the_pattern_is_rejected(
    live: LiveCluster, name: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    assert live.connect().call(request, 3).error_code == errors.InvalidRequest.code


def test_api_versions_lists_exactly_the_served_apis(live: LiveCluster) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    offered = {
        api.api_key: (api.min_version, api.max_version) for api in live.connect().call(request, 4).api_keys
    }
    assert set(offered) == {key for key, api in APIS.items() if not api.between_brokers} - TELEMETRY
    # Produce lists version 0 for librdkafka (KAFKA-18659).
    assert offered[0] == (0, 13)
    assert offered[1] == (4, 18)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_response_that_cannot_be_encoded_closes_only_its_connection(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response is delayed, in the purgatory."""
    live.controls.pause_followers()
    wire = live.leader()
    wire.send(produce_request("t", 0, batch(), timeout_ms=60_000), 12)
    live.wait_for(lambda: live.cluster.log("t", 0).log_end_offset == 1)
    broken = ProduceResponse(responses=[])
    broken.throttle_time_ms = 2**40  # no int32
    monkeypatch.setattr("pykafka2.broker.handlers.produce._response", lambda *_: broken)
    live.controls.resume_followers()
    assert wire.is_closed_by_broker()
    live.leader().call(METADATA, 12)
    assert [one.where.split(" from ")[0] for one in live.cluster.problems.take()] == [
        "the response to ProduceRequest v12"
    ]


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_acks_0_has_no_response(live: LiveCluster, wire: RawClient) -> None:
    wire.send(produce_request("t", 0, batch([b"silent"]), acks=0), 12)
    # The next response is that of the next request.
    wire.call(METADATA, 12)
    assert live.cluster.log("t", 0).values() == [b"silent"]


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_error_with_acks_0_closes_the_connection(wire: RawClient) -> None:
    wire.send(produce_request("nosuch", 0, batch(), acks=0), 12)
    assert wire.is_closed_by_broker()


def serial(**config: object) -> pytest.MarkDecorator:
    return pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"channel.mode": "serial", **config})


@serial()
def test_serial_mode_handles_the_next_request_after_the_response_was_sent(live: LiveCluster) -> None:
    live.controls.pause_followers()
    wire = live.leader()
    for value in (b"1", b"2"):
        wire.send(produce_request("t", 0, batch([value])), 12)
    metadata = wire.send(METADATA, 12)
    live.wait_for(lambda: len(live.cluster.log("t", 0).values()) == 1)
    assert live.history.in_flight_max("Produce") == 1
    live.controls.resume_followers()
    offsets = [partition_of(wire.receive(ProduceRequest, 12)[1]).base_offset for _ in range(2)]
    assert offsets == [0, 1]
    assert wire.receive(MetadataRequest, 12)[0] == metadata
    assert live.history.in_flight_max("Produce") == 1


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"queued.max.requests": 1, "threads": "separate"})
def test_all_requests_are_handled_with_a_request_queue_for_one(live: LiveCluster) -> None:
    wires = [live.connect() for _ in range(8)]
    for wire in wires:
        for _ in range(5):
            wire.send(METADATA, 12)
    for wire in wires:
        assert [wire.receive(MetadataRequest, 12)[0] for _ in range(5)] == [1, 2, 3, 4, 5]


def fill_queue(live: LiveCluster, many: RawClient, one: RawClient) -> Callable[[], None]:
    """Fill the queue with a request of `many`, which sends more, and let `one` wait for room.

    Return a function that lets the handlers continue.
    """
    broker = live.cluster.brokers[0]
    queue = broker.parts.queue
    taken = queue.take

    def resume() -> None:
        queue.take = taken  # type: ignore[method-assign]
        broker.parts.handlers[0].signal()

    queue.take = lambda: None  # type: ignore[method-assign]
    many.socket.sendall(metadata_requests(20, "many"))
    live.wait_for(lambda: queue.is_full)
    one.send(METADATA, 12)
    live.wait_for(
        lambda: any(found.wants_room for part in broker.processors for found in [*part.connections])
    )
    return resume


@pytest.mark.kafka(brokers=1, config={"queued.max.requests": 1})
def test_connection_that_waits_for_room_in_a_full_request_queue_is_not_read(live: LiveCluster) -> None:
    many, one = live.connect(), live.connect()
    resume = fill_queue(live, many, one)
    found = [each for part in live.cluster.brokers[0].processors for each in part.connections]
    (waiting,) = [each for each in found if each.wants_room]
    one.send(METADATA, 12)
    live.wait_for(lambda: waiting._interest == 0)
    resume()
    for _ in range(2):
        one.receive(MetadataRequest, 12)


@pytest.mark.kafka(brokers=1, config={"queued.max.requests": 1})
def test_room_in_a_full_request_queue_goes_to_the_waiting_processor(
    live: LiveCluster, responded: list[str | None]
) -> None:
    """It does not go to the connection with the last response, which has its next request in the buffer."""
    many, one = live.connect(), live.connect()
    fill_queue(live, many, one)()
    assert one.receive(MetadataRequest, 12)[0] == 1
    assert [many.receive(MetadataRequest, 12)[0] for _ in range(20)] == [*range(20)]
    assert responded.index("wire") == 1, responded


@pytest.mark.parametrize("start", [b"", b"\0\0", b"\0\0\0\x20half"])
@pytest.mark.kafka(brokers=1, config={"queued.max.requests": 1})
def test_reset_connection_without_a_request_is_closed_while_the_request_queue_is_full(
    live: LiveCluster, start: bytes
) -> None:
    """Otherwise thousands of them would delay the other connections."""
    many, one, ended = live.connect(), live.connect(), live.connect()
    ended.call(METADATA, 12)
    ended.socket.sendall(start)
    resume = fill_queue(live, many, one)
    (processor,) = live.cluster.brokers[0].processors
    before = len(processor.connections)
    ended.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ended.socket.close()
    live.wait_for(lambda: len(processor.connections) == before - 1)
    resume()
    assert one.receive(MetadataRequest, 12)[0] == 1


@pytest.mark.kafka(brokers=1, config={"queued.max.requests": 1, "num.network.threads": 2})
def test_processor_that_missed_room_in_the_request_queue_is_signalled_again(live: LiveCluster) -> None:
    """A request of the other processor can take the room that it was signalled for."""
    wires = [live.connect(), live.connect()]
    for wire in wires:
        wire.call(METADATA, 12)
    for many, one in (wires, wires[::-1]):
        fill_queue(live, many, one)()
        for _ in range(20):
            many.receive(MetadataRequest, 12)
        one.receive(MetadataRequest, 12)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.kafka(brokers=1, config={"queued.max.requests": 2, "num.network.threads": 2})
def test_room_in_a_full_request_queue_is_shared_between_connections_of_all_processors(
    live: LiveCluster, responded: list[str | None], which: int
) -> None:
    """Five connections of one processor send many requests, one of the other sends few."""
    wires = [live.connect() for _ in range(10)]
    for wire in wires:
        wire.call(METADATA, 12)
    responded.clear()
    many, one = wires[which::2], wires[1 - which]
    broker = live.cluster.brokers[0]
    queue, taken = broker.parts.queue, broker.parts.queue.take
    queue.take = lambda: None  # type: ignore[method-assign]
    for wire in many:
        wire.socket.sendall(metadata_requests(20, "many"))
    live.wait_for(lambda: queue.is_full)
    one.socket.sendall(metadata_requests(10, "one"))
    live.wait_for(
        lambda: sum(found.wants_room for part in broker.processors for found in [*part.connections]) >= 4
    )
    queue.take = taken  # type: ignore[method-assign]
    broker.parts.handlers[0].signal()
    for wire in (*many, one):
        for _ in range(10 if wire is one else 20):
            wire.receive(MetadataRequest, 12)
    at = [-1, *(number for number, client in enumerate(responded) if client == "one")]
    assert len(at) == 11
    # One request of each of the five, and those in the queue before.
    assert max(after - before for before, after in pairwise(at)) <= 5 + 2 + 1, responded


@pytest.mark.kafka(brokers=1, config={"queued.max.requests": 1, "num.network.threads": 2})
def test_room_kept_for_closed_connections_goes_to_the_next_processor(live: LiveCluster) -> None:
    """Their processor is the first that waits for room, but has no connection that needs it."""
    wires = [live.connect() for _ in range(4)]
    for wire in wires:
        wire.call(METADATA, 12)
    first, one, dropped = wires[0], wires[1], wires[2]
    broker = live.cluster.brokers[0]
    queue, taken = broker.parts.queue, broker.parts.queue.take

    def waiting() -> list[tuple[Processor, Connection]]:
        return [
            (part, found) for part in broker.processors for found in [*part.connections] if found.wants_room
        ]

    queue.take = lambda: None  # type: ignore[method-assign]
    first.send(METADATA, 12)
    live.wait_for(lambda: queue.is_full)
    dropped.send(METADATA, 12)
    live.wait_for(lambda: len(waiting()) == 1)
    ((processor, _),) = waiting()
    one.send(METADATA, 12)
    live.wait_for(lambda: len(waiting()) == 2)
    error = Disconnected("planted")
    processor.loop.call(lambda: [processor.drop(found, error) for found in [*processor.connections]])
    queue.take = taken  # type: ignore[method-assign]
    broker.parts.handlers[0].signal()
    assert one.receive(MetadataRequest, 12)[0] == 2


load()
BETWEEN_BROKERS = [
    (key, version)
    for key, api in sorted(APIS.items())
    if api.between_brokers
    for version in range(api.min_version, api.max_version + 1)
]


def test_inter_broker_apis_are_those_of_kafka() -> None:
    names = {APIS[key].name for key, _ in BETWEEN_BROKERS}
    assert names == {
        "AllocateProducerIds",
        "AlterPartition",
        "AssignReplicasToDirs",
        "BrokerHeartbeat",
        "BrokerRegistration",
        "Envelope",
    }


@pytest.mark.parametrize(("key", "version"), BETWEEN_BROKERS)
def test_client_that_sends_an_inter_broker_request_is_disconnected(
    live: LiveCluster, key: int, version: int
) -> None:
    """Kafka serves them only on the controller's listener."""
    data = framed(header(key, version) + b"\0" * 64)
    assert_closes_only_the_sender(live, data)
    (refused,) = live.cluster.events.events("refused")
    assert f"{APIS[key].name} is not served to clients" in refused.text


@pytest.mark.kafka(brokers=1, config={"connections.max.idle.ms": 1000})
def test_idle_connections_are_closed(wire: RawClient) -> None:
    wire.call(METADATA, 12)
    assert wire.is_closed_by_broker()


def test_part_of_a_request_ends_the_idle_time(live: LiveCluster, wire: RawClient) -> None:
    wire.call(METADATA, 12)
    (processor,) = live.cluster.brokers[0].processors
    (connection,) = processor.connections
    processor.loop.call(lambda: None)  # behind the turn that wrote the response
    before = connection.idle_since
    wire.socket.sendall(b"\0")
    live.wait_for(lambda: connection.frames.has_bytes)
    assert connection.idle_since > before


def test_client_is_active_by_the_bytes_it_sends_and_not_by_its_connection(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While clients are active, readers get smaller pieces of files; a blocked reader is not active."""
    (processor,) = live.cluster.brokers[0].processors
    loop, senders = processor.loop, list[object]()
    monkeypatch.setattr(loop, "note_sender", lambda sender, now: senders.append(sender))
    wire = live.connect()
    live.wait_for(lambda: bool(processor.connections))
    (connection,) = processor.connections
    loop.call(lambda: processor.take_frames(connection, loop.runtime.clock.monotonic()))
    assert not senders
    wire.call(METADATA, 12)
    assert senders == [connection]


def test_processors_and_no_other_parts_run_at_the_end_of_a_long_turn(kafka_cluster: KafkaCluster) -> None:
    broker = kafka_cluster.brokers[0]
    loop = broker.processors[0].loop
    assert {*loop._senders} == {part for each in kafka_cluster.brokers for part in each.processors}


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"connections.max.idle.ms": 1000})
def test_idle_connection_is_closed_while_its_request_waits(live: LiveCluster, wire: RawClient) -> None:
    """A long poll of more than connections.max.idle.ms gets no response, as in Kafka."""
    wire.send(fetch_request("t", 0, 0, max_wait_ms=60_000), 12)
    assert wire.is_closed_by_broker()
    live.wait_for(lambda: live.cluster.brokers[0].replicas.fetches.waiting() == 0)


@pytest.mark.kafka(brokers=1, config={"connections.max.idle.ms": -1})
def test_negative_connections_max_idle_ms_closes_no_connection(wire: RawClient) -> None:
    wire.call(METADATA, 12)
    wire.call(METADATA, 12)


@pytest.mark.kafka(
    brokers=3, topics={"t": 3}, config={"threads": "separate", "num.network.threads": 2, "num.io.threads": 2}
)
def test_broker_with_several_network_and_io_threads_handles_requests_in_order(live: LiveCluster) -> None:
    for partition in range(3):
        wire = live.leader("t", partition)
        for number in range(20):
            assert produce(wire, "t", partition, batch([b"%d" % number])).base_offset == number


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"queued.max.request.bytes": 1})
def test_request_above_queued_max_request_bytes_is_handled(live: LiveCluster) -> None:
    wires = [live.leader() for _ in range(3)]
    for wire in wires:
        wire.send(produce_request("t", 0, batch([bytes(100)])), 12)
    assert [partition_of(wire.receive(ProduceRequest, 12)[1]).error_code for wire in wires] == [0, 0, 0]


@pytest.mark.kafka(brokers=1)
def test_closed_connection_is_not_kept_by_the_loop_that_read_it_last(live: LiveCluster) -> None:
    """Its buffer can hold an incomplete request of socket.request.max.bytes."""
    wire = live.connect()
    wire.call(METADATA, 12)
    (processor,) = live.cluster.brokers[0].processors
    [peer] = [found.peer for found in processor.connections]

    def is_kept() -> bool:
        processor.loop.call(lambda: None)  # a further turn, as the last one's events are kept until then
        return any(isinstance(found, Connection) and found.peer == peer for found in gc.get_objects())

    assert is_kept()
    wire.socket.sendall(struct.pack(">i", 2000) + bytes(1000))
    wire.close()
    live.wait_for(lambda: not processor.connections)
    live.wait_for(lambda: not is_kept())


@pytest.mark.kafka(brokers=1, config={"max.connections": 2})
def test_connection_above_max_connections_waits_until_another_is_closed(live: LiveCluster) -> None:
    first, second = live.connect(), live.connect()
    first.call(METADATA, 12)
    second.call(METADATA, 12)
    third = live.connect()
    third.send(METADATA, 12)
    third.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        third.socket.recv(1)
    assert len(live.cluster.brokers[0].parts.quotas) == 2
    first.close()
    third.socket.settimeout(60)
    assert third.receive(MetadataRequest, 12)[0] == 1


@pytest.mark.kafka(brokers=1, config={"max.connections.per.ip": 1})
def test_connection_above_max_connections_per_ip_is_closed(live: LiveCluster) -> None:
    first = live.connect()
    first.call(METADATA, 12)
    assert live.connect().is_closed_by_broker()
    first.call(METADATA, 12)
    first.close()
    live.wait_for(lambda: len(live.cluster.brokers[0].parts.quotas) == 0)
    live.connect().call(METADATA, 12)


@pytest.mark.kafka(
    brokers=1,
    config={"max.connections.per.ip": 0, "max.connections.per.ip.overrides": "10.0.0.1:0,127.0.0.1:1"},
)
def test_max_connections_per_ip_overrides_sets_the_limit_of_an_address(live: LiveCluster) -> None:
    live.connect().call(METADATA, 12)
    assert live.connect().is_closed_by_broker()


def test_invalid_connection_limit_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="address:number"):
        KafkaCluster(config={"max.connections.per.ip.overrides": "127.0.0.1"})


def test_max_connection_creation_rate_delays_new_connections() -> None:
    """The broker accepts three of ten simultaneous connections in each second of virtual time."""
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=1, config={"max.connection.creation.rate": 3})
        options = SocketOptions(-1, -1)
        address = simulation.runtime.network.resolve(cluster.brokers[0].host, cluster.brokers[0].port)[0]
        transports = [simulation.runtime.network.connect(address, options=options) for _ in range(10)]
        quotas = cluster.brokers[0].parts.quotas
        counts = []
        for _ in range(4):
            simulation.run_for(0.5)
            counts.append(len(quotas))
            simulation.run_for(0.5)
        assert counts == [3, 6, 9, 10]
        for transport in transports:
            transport.close()


@pytest.mark.kafka(brokers=2, topics={"t": Topic(assignment=[[0, 1], [0, 1]])})
def test_close_after_rule_closes_the_connection_after_that_response_only(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next response is complete before the last byte of that one is sent."""
    write = TcpTransport.write
    is_blocked = True

    def slow(transport: TcpTransport, buffers: Sequence[memoryview]) -> int:
        return 0 if is_blocked and transport.peer == peer else write(transport, buffers)

    wire = live.connect()
    peer = "{}:{}".format(*wire.socket.getsockname())
    live.controls.pause_followers()
    live.controls.add_rule({"api": "Produce", "nth": 1, "then": "close_after"})
    first = wire.send(produce_request("t", 0, batch(), timeout_ms=60_000), 12)
    wire.send(produce_request("t", 1, batch(), timeout_ms=60_000), 12)
    live.wait_for(lambda: live.cluster.log("t", 1).log_end_offset == 1)
    (connection,) = live.cluster.brokers[0].processors[0].connections
    monkeypatch.setattr(TcpTransport, "write", slow)
    live.controls.shrink_isr(("t", 0), 1)
    live.wait_for(lambda: connection.pending_bytes > 0)
    pending_bytes = connection.pending_bytes
    live.controls.shrink_isr(("t", 1), 1)
    live.wait_for(lambda: connection.pending_bytes > pending_bytes)
    wire.send(produce_request("t", 0, batch([b"not read"]), acks=1), 12)
    with live.connect() as other:
        for _ in range(3):
            other.call(METADATA, 12)
    is_blocked = False
    assert wire.receive(ProduceRequest, 12)[0] == first
    assert wire.is_closed_by_broker()
    assert live.cluster.log("t", 0).log_end_offset == 1


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_connection_is_muted_for_the_throttle_time(live: LiveCluster) -> None:
    live.controls.throttle("wire", ProduceRequest, 0.15, times=1)
    wire = live.leader()
    for acks in (1, 1):
        wire.send(produce_request("t", 0, batch(), acks=acks), 12)
    throttled = wire.receive(ProduceRequest, 12)[1]
    assert throttled.throttle_time_ms == 150
    assert wire.receive(ProduceRequest, 12)[1].throttle_time_ms == 0
    first, second = live.history.entries("Produce")
    assert second.received_at - first.received_at >= 0.15


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_throttled_response_is_sent_at_once(live: LiveCluster) -> None:
    """The connection is muted for half an hour."""
    live.controls.throttle("wire", ProduceRequest, 1800.0, times=1)
    wire = live.leader()
    assert wire.call(produce_request("t", 0, batch(), acks=1), 12).throttle_time_ms == 1_800_000


@pytest.mark.kafka(brokers=1)
def test_response_replaced_by_a_rule_is_throttled(live: LiveCluster) -> None:
    live.controls.rule(api="Metadata", then="replace_reply", reply={"cluster_id": "another"})
    live.controls.throttle("wire", MetadataRequest, 0.05, times=1)
    response = live.connect().call(METADATA, 12)
    assert (response.cluster_id, response.throttle_time_ms) == ("another", 50)


@pytest.mark.kafka(brokers=1)
def test_requests_are_handled_under_the_clusters_lock(live: LiveCluster) -> None:
    requests, lock = live.cluster.brokers[0].requests, live.cluster.lock
    is_locked: list[bool] = []
    response = requests.dispatch

    def spy(context: RequestContext, now: float) -> None:
        is_locked.append(lock._is_owned())  # type: ignore[attr-defined]
        response(context, now)

    requests.dispatch = spy  # type: ignore[method-assign]
    live.connect().call(METADATA, 12)
    assert is_locked == [True]


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_other_clients_other_apis_and_other_connections_are_not_throttled(live: LiveCluster) -> None:
    controls = live.controls
    rule = controls.throttle("wire", ProduceRequest, 30.0)
    controls.throttle("another client", None, 30.0)
    muted, other = live.leader(), live.leader()
    assert muted.call(produce_request("t", 0, batch(), acks=1), 12).throttle_time_ms == 30_000
    other.call(METADATA, 12)
    assert other.call(fetch_request("t", 0, 0), 12).throttle_time_ms == 0
    controls.unthrottle(rule)
    assert other.call(produce_request("t", 0, batch(), acks=1), 12).throttle_time_ms == 0
    assert rule.fired == 1


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_acks_0_is_throttled_without_a_response(live: LiveCluster) -> None:
    live.controls.throttle(None, ProduceRequest, 0.1, times=1)
    wire = live.leader()
    wire.send(produce_request("t", 0, batch(), acks=0), 12)
    wire.call(METADATA, 12)
    (produced,), (metadata,) = (
        live.history.entries("Produce"),
        live.history.entries("Metadata"),
    )
    assert metadata.received_at - produced.received_at >= 0.1


@pytest.mark.kafka(brokers=1)
def test_invalid_throttle_is_rejected(kafka_cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigurationError, match="use a number from 0"):
        kafka_cluster.controls.throttle(None, None, -1.0)
    with pytest.raises(ConfigurationError, match="use a number of at least 1"):
        kafka_cluster.controls.throttle(None, None, 1.0, times=0)


@pytest.mark.parametrize("version", [0, 1])
def test_sasl_handshake_on_a_listener_without_sasl_is_an_illegal_state(wire: RawClient, version: int) -> None:
    response = wire.call(SaslHandshakeRequest(mechanism="PLAIN"), version)
    assert (response.error_code, response.mechanisms) == (errors.IllegalSaslState.code, [])
    assert wire.call(SaslAuthenticateRequest(auth_bytes=b""), 2).error_code == errors.IllegalSaslState.code
    wire.call(METADATA, 12)


@pytest.mark.parametrize("pipelined", [True, False])
def test_channel_mode_can_be_set_by_name(pipelined: bool) -> None:
    mode = "pipelined" if pipelined else "serial"
    assert KafkaCluster(pipelined=pipelined).config.get("channel.mode") == mode
    assert KafkaCluster(pipelined=pipelined, config={"channel.mode": mode}).config.get("channel.mode") == mode
    with pytest.raises(ConfigurationError, match="Set only one"):
        KafkaCluster(pipelined=not pipelined, config={"channel.mode": mode})


@pytest.mark.parametrize(
    ("data", "has_frame"),
    [
        (b"", False),
        (b"\0\0\0", False),
        (b"\0\0\0\0", True),
        (b"\0\0\0\2x", False),
        (b"\0\0\0\2xy", True),
        (b"\0\0\0\2xyz", True),
        (b"\0\0\0\x0b", True),
        (b"\xff\xff\xff\xff", True),
    ],
)
def test_has_frame_is_true_if_next_frame_returns_or_raises(data: bytes, has_frame: bool) -> None:
    frames = ReceiveBuffer(10)
    frames.feed(framed(b"first"))
    frames.next_frame()
    frames.feed(data)
    assert frames.has_frame == has_frame
    if data in (b"\0\0\0\x0b", b"\xff\xff\xff\xff"):
        with pytest.raises(errors.CorruptData):
            frames.next_frame()
    else:
        assert (frames.next_frame() is not None) == has_frame


def test_unauthenticated_frames_are_read_in_small_pieces() -> None:
    """Sockets allocate a buffer for each read, above all with TLS. Only authenticated clients get a large one
    for a long frame.
    """
    for limit, wanted in ((512 << 10, READ_BYTES), (100 << 20, 4 + (400 << 10) - 5)):
        frames = ReceiveBuffer(limit)
        assert frames.wanted_bytes == READ_BYTES
        frames.feed(struct.pack(">i", 400 << 10) + b"x")
        assert frames.next_frame() is None
        assert frames.wanted_bytes == wanted


@settings(max_examples=examples(100), deadline=None)
@example([b"", b""], [4])  # a read is a whole frame, and another one follows
@example([bytes(4000)] * 3, [4004])
@example([bytes(5), b"", bytes(4000)], [1])  # larger requests would take seconds
@given(
    st.lists(st.sampled_from([0, 1, 5, 4000, 65_536, 90_000]).map(bytes), max_size=5),
    st.lists(st.sampled_from([9, 40, 999, 4004, 70_000]), min_size=1, max_size=6),
)
def test_frames_do_not_depend_on_the_sizes_of_the_reads(bodies: list[bytes], sizes: list[int]) -> None:
    frames = ReceiveBuffer(100 << 20)
    stream, found, at = b"".join(map(framed, bodies)), [], 0
    for size in itertools.cycle(sizes):
        frames.feed(stream[at : at + size])
        at += size
        if at % 2 or at >= len(stream):  # two reads can come before the first frame is decoded
            while (frame := frames.next_frame()) is not None:
                found.append(bytes(frame))
        if at >= len(stream):
            break
        assert frames.has_bytes == (at > sum(4 + len(body) for body in found))
    assert found == bodies
    assert not frames.has_bytes


def test_large_frame_keeps_its_buffer_and_the_next_frame_follows() -> None:
    frames = ReceiveBuffer(100 << 20)
    bodies = [b"first", bytes(range(256)) * 400, b"next", bytes(200 << 10), b"last"]
    stream = b"".join(framed(body) for body in bodies)
    found: list[Buffer] = []
    for at in range(0, len(stream), 1000):
        frames.feed(stream[at : at + 1000])
        while (frame := frames.next_frame()) is not None:
            found.append(frame)
    assert [bytes(frame) for frame in found] == bodies
    assert [type(frame) for frame in found] == [bytes, memoryview, bytes, memoryview, bytes]
    assert all(frame.readonly for frame in found if isinstance(frame, memoryview))
    assert not frames.has_bytes


def test_large_frame_does_not_keep_a_buffer_of_many_earlier_frames() -> None:
    frames = ReceiveBuffer(100 << 20)
    small, large = framed(bytes(10_000)), framed(bytes(70_000))
    frames.feed(small[:5])
    for _ in range(60):  # the buffer is never empty, so it keeps what was decoded
        frames.feed(small[5:] + small[:5])
        assert frames.next_frame() == bytes(10_000)
    frames.feed(small[5:] + large)
    assert frames.next_frame() == bytes(10_000)
    frame = frames.next_frame()
    assert frame == bytes(70_000)
    kept = frame.obj if isinstance(frame, memoryview) else frame
    assert len(kept) <= 2 * 70_000 + READ_BYTES


@pytest.mark.parametrize("count", [1, 3])
def test_requests_and_responses_leave_the_registration_of_the_socket(
    wire: RawClient, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Each change is a system call, and a client that waits for each response would cause two per request."""
    wire.call(METADATA, 12)
    changes: list[int] = []
    modify = SocketSelector.modify

    def spy(selector: SocketSelector, source: Transport | Listener, interest: int, data: object) -> None:
        changes.append(interest)
        modify(selector, source, interest, data)

    monkeypatch.setattr(SocketSelector, "modify", spy)
    together = b"".join([*encode_request(METADATA, 12, 7, "wire")] * count)
    for _ in range(10):
        wire.socket.sendall(together)
        for _ in range(count):
            wire.receive(MetadataRequest, 12)
    assert not changes


def test_connection_that_must_not_be_read_is_reported_once(
    live: LiveCluster, wire: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker unregisters its socket then, and sleeps until the response is sent."""
    wire.call(METADATA, 12)
    reported: list[Connection] = []
    on_ready = Connection.on_ready

    def spy(connection: Connection, bits: int, now: float) -> None:
        reported.append(connection)
        on_ready(connection, bits, now)

    live.controls.hold("Metadata")
    wire.send(METADATA, 12)
    live.wait_for(lambda: live.controls.held("Metadata") == 1)
    monkeypatch.setattr(Connection, "on_ready", spy)
    wire.send(METADATA, 12)
    live.wait_for(lambda: bool(reported))
    live.connect().call(ApiVersionsRequest(), 3)
    (connection,) = set(reported[:1])
    connection._owner.loop.call(connection.update_interest)  # type: ignore[attr-defined]
    live.connect().call(ApiVersionsRequest(), 3)
    assert reported.count(connection) == 1
    live.controls.release("Metadata")
    for _ in range(2):
        wire.receive(MetadataRequest, 12)
