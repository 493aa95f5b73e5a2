"""Pipelined acks=all over raw sockets: responses to requests behind a held produce keep their order.

The tables of states are checked in tests/acceptance/test_channel_serial.py and test_channel_pipelined.py.
"""

from __future__ import annotations

import select
import socket

import pytest

from pykafka2 import errors
from pykafka2.broker.server.channel import Channel, ChannelState
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import data_of, fetch_request, partition_of, produce_request
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster
from tests.error_codes import NOT_ENOUGH_REPLICAS, OUT_OF_ORDER_SEQUENCE_NUMBER

METADATA = MetadataRequest(topics=None)

two_brokers = pytest.mark.kafka(brokers=2, topics={"t": 1})


def held(wire: RawClient, value: bytes = b"held", *, timeout_ms: int = 60_000) -> int:
    """Send an acks=all produce that waits while the followers are paused."""
    return wire.send(produce_request("t", 0, batch([value]), timeout_ms=timeout_ms), 12)


@pytest.fixture
def wire(live: LiveCluster) -> RawClient:
    """A connection to the leader of t-0 with paused followers, so that acks=all waits."""
    live.controls.pause_followers()
    return live.leader()


def base_offsets(wire: RawClient, count: int) -> list[int]:
    """Return the base offsets of the next Produce responses in their order."""
    return [partition_of(wire.receive(ProduceRequest, 12)[1]).base_offset for _ in range(count)]


def channel_of(cluster: KafkaCluster) -> Channel:
    """Return the channel of the only connection to the leader of t-0."""
    broker = cluster.brokers[cluster.partition("t", 0).leader]

    def channels() -> list[Channel]:
        return [one.channel for processor in broker.processors for one in list(processor.connections)]

    # The close of the connection that found the leader notifies no waiter, so poll.
    for _ in range(100):
        if cluster.runtime.wait_until(lambda: len(channels()) == 1, 0.05):
            break
    (channel,) = channels()
    return channel


def is_silent(wire: RawClient, seconds: float = 0.02) -> bool:
    return not select.select([wire.socket], [], [], seconds)[0]


@two_brokers
def test_responses_are_fifo_under_any_order_of_completion(live: LiveCluster, wire: RawClient) -> None:
    """Later requests complete at once or time out first; all responses wait for the first."""
    sent = [
        held(wire),
        held(wire, timeout_ms=1),
        wire.send(METADATA, 12),
        held(wire, timeout_ms=1),
        wire.send(produce_request("t", 0, batch(), acks=1), 12),
    ]
    entries = live.history.entries
    live.wait_for(lambda: sum(entry.answered_at is not None for entry in entries()) == 4)
    assert is_silent(wire)
    live.controls.resume_followers()
    kinds = [ProduceRequest, ProduceRequest, MetadataRequest, ProduceRequest, ProduceRequest]
    assert [wire.receive(kind, 12)[0] for kind in kinds] == sent  # type: ignore[arg-type]


@pytest.mark.kafka(
    brokers=2, topics={"t": 1}, config={"threads": "separate", "num.io.threads": 4, "num.network.threads": 2}
)
def test_appends_follow_the_order_of_requests_across_handlers(live: LiveCluster) -> None:
    live.controls.pause_followers()
    wires = [live.leader() for _ in range(2)]
    for number in range(60):
        for client, wire in enumerate(wires):
            held(wire, b"%d %d" % (client, number))
    live.wait_for(lambda: live.cluster.log("t", 0).log_end_offset == 120)
    values = live.cluster.log("t", 0).values()
    for client in range(2):
        own = [value for value in values if value is not None and value.startswith(b"%d " % client)]
        assert own == [b"%d %d" % (client, number) for number in range(60)]
    live.controls.resume_followers()
    for wire in wires:
        offsets = base_offsets(wire, 60)
        assert offsets == sorted(offsets)


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"min.insync.replicas": 2})
def test_batches_behind_a_rejected_batch_are_out_of_order(live: LiveCluster) -> None:
    number = live.leader_id()
    wire = live.leader()

    def send(sequence: int) -> None:
        data = batch([b"%d" % sequence], producer_id=7, producer_epoch=0, base_sequence=sequence)
        wire.send(produce_request("t", 0, data), 12)

    def code() -> int:
        return partition_of(wire.receive(ProduceRequest, 12)[1]).error_code

    send(0)
    assert code() == 0
    live.controls.stop_broker(1 - number)
    send(1)
    assert code() == NOT_ENOUGH_REPLICAS
    live.controls.restart_broker(1 - number)
    live.wait_for(lambda: len(live.cluster.partition("t", 0).isr) == 2)
    send(2)
    send(3)
    assert [code(), code()] == [OUT_OF_ORDER_SEQUENCE_NUMBER, OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert live.cluster.log("t", 0).values() == [b"0"]
    for sequence in (1, 2, 3):
        send(sequence)
    assert [code(), code(), code()] == [0, 0, 0]
    assert live.cluster.log("t", 0).values() == [b"0", b"1", b"2", b"3"]


@two_brokers
def test_each_request_keeps_its_own_timeout(kafka_cluster: KafkaCluster, wire: RawClient) -> None:
    """The second times out first, and its response waits for that of the first."""
    held(wire, timeout_ms=600)
    held(wire, timeout_ms=20)
    codes = [partition_of(wire.receive(ProduceRequest, 12)[1]).error_code for _ in range(2)]
    assert codes == [errors.RequestTimedOut.code, errors.RequestTimedOut.code]
    first, second = (entry.latency or 0.0 for entry in kafka_cluster.history.entries("Produce"))
    assert second < 0.6 <= first


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"max.pipelined.requests": 2})
def test_max_pipelined_requests_mutes_the_connection(live: LiveCluster, wire: RawClient) -> None:
    for number in range(5):
        held(wire, b"%d" % number)
    live.wait_for(lambda: len(live.cluster.log("t", 0).values()) == 2)
    live.wait_for(lambda: not channel_of(live.cluster).is_readable)
    live.controls.resume_followers()
    offsets = base_offsets(wire, 5)
    assert offsets == [0, 1, 2, 3, 4]
    assert live.history.in_flight_max("Produce") == 2


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"max.pipelined.bytes": 25_000})
def test_max_pipelined_bytes_mutes_the_connection(live: LiveCluster, wire: RawClient) -> None:
    """One request above the limit is still read; otherwise it would never get a response."""
    for _ in range(5):
        held(wire, bytes(10_000))
    live.wait_for(lambda: live.cluster.log("t", 0).log_end_offset == 3)
    assert channel_of(live.cluster).bytes > 25_000
    live.controls.resume_followers()
    assert base_offsets(wire, 5) == [*range(5)]


@pytest.mark.slow
@two_brokers
def test_throttled_response_mutes_a_connection_with_a_held_produce(
    live: LiveCluster, wire: RawClient
) -> None:
    """An acks=1 behind a held produce is throttled: the next request waits even after the held response."""
    held(wire)
    live.wait_for(lambda: channel_of(live.cluster).state is ChannelState.REQCACHED_AND_RESPONSE_PENDING)
    live.controls.throttle("wire", ProduceRequest, 0.5, times=2)
    wire.send(produce_request("t", 0, batch(), acks=1), 12)
    live.wait_for(lambda: channel_of(live.cluster).state is ChannelState.MUTED_AND_THROTTLED_AND_REQCACHED)
    live.controls.resume_followers()
    metadata = wire.send(METADATA, 12)
    throttled = [wire.receive(ProduceRequest, 12)[1].throttle_time_ms for _ in range(2)]
    assert throttled == [500, 500]
    live.wait_for(lambda: channel_of(live.cluster).state is ChannelState.MUTED_AND_THROTTLED)
    assert wire.receive(MetadataRequest, 12)[0] == metadata
    produced, entry = (
        live.history.entries("Produce")[1],
        live.history.entries("Metadata")[0],
    )
    assert entry.received_at - (produced.answered_at or 0.0) >= 0.49
    live.wait_for(lambda: channel_of(live.cluster).state is ChannelState.NOT_MUTED)


@two_brokers
def test_closed_connection_cancels_its_waiting_requests(live: LiveCluster, wire: RawClient) -> None:
    broker = live.cluster.brokers[live.leader_id()]
    for _ in range(3):
        held(wire)
    wire.send(METADATA, 12)
    live.wait_for(lambda: broker.replicas.produces.waiting() == 3)
    # The first append has completed the follower's long poll, and the follower is paused.
    live.wait_for(lambda: len(broker.wheel) == 3)
    wire.close()
    live.wait_for(lambda: broker.replicas.produces.waiting() == 0)
    assert len(broker.wheel) == 0
    assert all(entry.response is None for entry in live.history.entries("Produce"))
    live.controls.resume_followers()
    live.wait_for(lambda: live.cluster.log("t", 0).high_watermark == 3)
    live.wait_for(lambda: broker.replicas.produces.watched() == 0)
    live.leader().call(METADATA, 12)


@two_brokers
def test_fetch_and_metadata_responses_wait_behind_a_held_produce(live: LiveCluster, wire: RawClient) -> None:
    sent = [held(wire), wire.send(fetch_request("t", 0, 0), 12), wire.send(METADATA, 12)]
    live.wait_for(lambda: live.history.entries("Metadata") != [])
    assert is_silent(wire)
    live.controls.resume_followers()
    received = wire.receive(ProduceRequest, 12)[0]
    fetched, data = wire.receive(FetchRequest, 12)
    assert [received, fetched, wire.receive(MetadataRequest, 12)[0]] == sent
    # It was processed before the produce completed, so its high watermark is older.
    assert data_of(data).high_watermark == 0


@two_brokers
def test_request_is_read_after_a_response_that_waits_behind_a_held_produce(
    live: LiveCluster, wire: RawClient
) -> None:
    """It arrived while its connection was not read, so its socket is not registered any more."""
    live.controls.hold("Metadata", times=1)
    sent = [held(wire), wire.send(METADATA, 12)]
    live.wait_for(lambda: live.controls.held("Metadata") == 1)
    broker = live.cluster.brokers[live.leader_id()]
    (connection,) = [found for part in broker.processors for found in part.connections]
    sent.append(wire.send(fetch_request("t", 0, 0), 12))
    live.wait_for(lambda: connection._interest == 0)
    live.controls.release("Metadata")
    live.wait_for(lambda: live.history.count("Fetch") == 1)
    live.controls.resume_followers()
    received = [wire.receive(request, 12)[0] for request in (ProduceRequest, MetadataRequest, FetchRequest)]
    assert received == sent


@two_brokers
def test_requests_behind_a_held_produce_are_processed_at_once(live: LiveCluster, wire: RawClient) -> None:
    """Their responses are in order, and the channel is NOT_MUTED in the end."""
    sent = [held(wire, b"held")]
    wire.send(produce_request("t", 0, batch([b"acks 0"]), acks=0), 12)
    sent.append(wire.send(produce_request("t", 0, batch([b"acks 1"]), acks=1), 12))
    sent.append(wire.send(METADATA, 12))
    sent.append(wire.send(produce_request("nosuch", 0, batch([b"refused"])), 12))
    live.wait_for(lambda: len(live.history.entries()) == 5)
    live.wait_for(lambda: channel_of(live.cluster).state is ChannelState.REQCACHED_AND_RESPONSE_PENDING)
    assert live.cluster.log("t", 0).values() == [b"held", b"acks 0", b"acks 1"]
    assert is_silent(wire)
    live.controls.resume_followers()
    kinds = [ProduceRequest, ProduceRequest, MetadataRequest, ProduceRequest]
    assert [wire.receive(kind, 12)[0] for kind in kinds] == sent  # type: ignore[arg-type]
    live.wait_for(lambda: channel_of(live.cluster).state is ChannelState.NOT_MUTED)
    assert channel_of(live.cluster).bytes == 0


@two_brokers
def test_history_has_the_most_unanswered_requests_of_a_connection(live: LiveCluster, wire: RawClient) -> None:
    """Requests with acks=1 complete at once; their responses wait behind those of the held ones."""
    history = live.history
    for count, acks in enumerate([-1, -1, 1, -1, 1], 1):
        wire.send(produce_request("t", 0, batch(), acks=acks), 12)
        live.wait_for(lambda count=count: history.count("Produce") == count)  # type: ignore[misc]
    assert history.in_flight_max("Produce") == 4
    live.controls.resume_followers()
    for _ in range(5):
        wire.receive(ProduceRequest, 12)
    wire.call(produce_request("t", 0, batch()), 12)
    assert history.in_flight_max("Produce") == 4
    assert history.in_flight_max("Produce", client_id="wire") == 4
    assert history.in_flight_max("Produce", client_id="other") == 0
    live.wait_for(lambda: not history._in_flight)  # no connection stays in it


@two_brokers
def test_request_that_closes_the_connection_drops_its_cached_responses(
    live: LiveCluster, wire: RawClient
) -> None:
    """An error with acks=0 closes the connection also while earlier requests wait."""
    broker = live.cluster.brokers[live.leader_id()]
    held(wire)
    wire.send(produce_request("nosuch", 0, batch(), acks=0), 12)
    assert wire.is_closed_by_broker()
    live.wait_for(lambda: broker.replicas.produces.waiting() == 0)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"channel.mode": "serial"})
def test_muted_connection_blocks_its_client_and_bounds_the_memory_of_the_broker(
    live: LiveCluster, wire: RawClient
) -> None:
    """The client's socket becomes unwritable; after the release all responses arrive in order."""
    wire.socket.setsockopt(
        socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 17
    )  # otherwise the kernel accepts megabytes
    wire.socket.setblocking(False)
    live.history.is_on = False  # it would keep all requests
    count = 60
    data = memoryview(
        b"".join(
            chunk
            for number in range(count)
            for chunk in encode(produce_request("t", 0, batch([b"%05d" % number + bytes(60_000)])), number)
        )
    )
    sent = 0
    while select.select([], [wire.socket], [], 0.1)[1]:
        sent += wire.socket.send(data[sent:])
    assert sent < len(data) // 2, "the broker continued to read"
    broker = live.cluster.brokers[live.leader_id()]
    (connection,) = broker.processors[0].connections
    # One read can return bytes after the first request, but not more.
    assert len(connection.frames._buffer) <= 1 << 20
    assert live.cluster.log("t", 0).log_end_offset == 1
    live.controls.resume_followers()
    wire.socket.settimeout(60)
    received = 0
    while received < count:
        readable, writable, _ = select.select(
            [wire.socket], [wire.socket] if sent < len(data) else [], [], 10
        )
        if writable:
            sent += wire.socket.send(data[sent : sent + 60_000])
        if readable:
            correlation_id, response = wire.receive(ProduceRequest, 12)
            assert (correlation_id, partition_of(response).base_offset) == (received, received)
            received += 1
    values = [(value or b"")[:5] for value in live.cluster.log("t", 0).values()]
    assert values == [b"%05d" % number for number in range(count)]


def encode(request: ProduceRequest, correlation_id: int) -> list[bytes]:
    from pykafka2.protocol.framing import encode_request

    return [bytes(part) for part in encode_request(request, 12, correlation_id, "wire")]
