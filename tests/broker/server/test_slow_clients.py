"""Clients that send and do not read: the broker bounds their responses and serves the others."""

from __future__ import annotations

import select
import socket
import statistics
import time
from collections.abc import Sequence

import pytest

from pykafka2.broker.server.channel import MAX_PENDING_BYTES, Slot
from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch_request, produce, produce_request
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

METADATA = MetadataRequest(topics=None)
RECORD_BYTES = 900_000


def connections_of(cluster: KafkaCluster, broker: int) -> list[Connection]:
    return [*cluster.brokers[broker].processors[0].connections]


def filled(wire: RawClient, batches: int) -> None:
    """Produce this number of batches of RECORD_BYTES."""
    for _ in range(batches):
        assert produce(wire, "t", 0, batch([bytes(RECORD_BYTES)])).error_code == 0


def large_fetch() -> FetchRequest:
    """Return a fetch of the whole partition, whose response does not fit into the kernel's buffers."""
    return fetch_request("t", 0, 0, max_bytes=1 << 30, partition_max_bytes=1 << 30)


def stuff(wires: list[RawClient], data: bytes) -> int:
    """Send over each without waiting for room, and return how many bytes were accepted."""
    taken = 0
    for wire in wires:
        wire.socket.setblocking(False)
        try:
            taken += wire.socket.send(data)
        except BlockingIOError:
            pass
    return taken


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_request_behind_a_large_response_gets_its_response(wire: RawClient) -> None:
    """It arrived with the request before, so no further byte makes the socket readable."""
    wire.socket.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17
    )  # otherwise the kernel keeps megabytes
    filled(wire, 8)
    first = b"".join(encode_request(large_fetch(), 12, 101, "wire"))
    wire.socket.sendall(first + b"".join(encode_request(METADATA, 12, 102, "wire")))
    time.sleep(0.2)  # until the kernel's buffers are full
    assert wire.receive(FetchRequest, 12)[0] == 101
    assert wire.receive(MetadataRequest, 12)[0] == 102


@pytest.mark.kafka(brokers=1)
def test_other_clients_are_served_while_some_send_and_never_read(live: LiveCluster) -> None:
    good = live.connect()
    hostile = [live.connect() for _ in range(8)]
    for wire in hostile:
        wire.socket.settimeout(0.0)
    frames = b"".join(encode_request(METADATA, 12, 1, "hostile")) * 20_000
    times = []
    for _ in range(30):
        stuff(hostile, frames)
        started = time.perf_counter()
        good.call(METADATA, 12)
        times.append(time.perf_counter() - started)
    assert statistics.median(times) < 0.5, times


@pytest.mark.kafka(brokers=1)
def test_single_client_is_served_between_requests_of_busy_connections(live: LiveCluster) -> None:
    broker = live.cluster.brokers[0]
    requests, (processor,) = broker.requests, broker.processors
    respond, responses_sent = requests.dispatch, processor.responses_sent
    seen: list[tuple[str, str | None]] = []

    def spy_respond(context: RequestContext, now: float) -> None:
        seen.append(("responded", context.client_id))
        respond(context, now)

    def spy_sent(connection: Connection, slots: Sequence[Slot]) -> None:
        seen.append(("sent", connection.client_id))
        responses_sent(connection, slots)

    requests.dispatch = spy_respond  # type: ignore[method-assign]
    processor.responses_sent = spy_sent  # type: ignore[method-assign]
    good = live.connect()
    hostile = [live.connect() for _ in range(12)]
    for number, wire in enumerate(hostile):
        stuff([wire], b"".join(encode_request(METADATA, 12, 1, f"hostile-{number}")) * 400)
    good.call(METADATA, 12)  # with the first requests of all
    live.wait_for(lambda: ("sent", "wire") in seen)
    seen.clear()
    for _ in range(10):
        good.call(METADATA, 12)
    live.wait_for(lambda: seen.count(("sent", "wire")) == 10)
    between: list[str | None] = []
    others: list[int] = []
    for what, client in seen:
        if what == "sent" and client == "wire":
            others.append(len(between))
        elif what == "responded":
            between = [] if client == "wire" else [*between, client]
    assert "hostile-0" in {client for _, client in seen}, "no other client has sent a request"
    # The next request in the queue can be handled before the response is written.
    assert max(others) <= 1, others


@pytest.mark.kafka(brokers=1)
def test_only_the_first_of_pipelined_requests_is_fresh(live: LiveCluster) -> None:
    queue = live.cluster.brokers[0].parts.queue
    put = queue.put
    seen: list[bool] = []

    def spy(context: RequestContext, *, is_fresh: bool = False) -> None:
        if not context.is_from_broker:
            seen.append(is_fresh)
        put(context, is_fresh=is_fresh)

    queue.put = spy  # type: ignore[method-assign]
    wire = live.connect()
    wire.socket.sendall(b"".join(encode_request(METADATA, 12, 1, "wire")) * 4)
    for _ in range(4):
        wire.receive(MetadataRequest, 12)
    wire.call(METADATA, 12)
    assert seen == [True, False, False, False, True]


@pytest.mark.kafka(brokers=1)
def test_connections_with_endless_requests_take_turns(live: LiveCluster, responded: list[str | None]) -> None:
    clients = [f"hostile-{number}" for number in range(5)]
    wires = [live.connect() for _ in clients]
    live.controls.pause_broker(0)
    for client, wire in zip(clients, wires, strict=True):
        stuff([wire], b"".join(encode_request(METADATA, 12, 1, client)) * 50)
    live.controls.resume_broker(0)
    for wire in wires:
        wire.socket.setblocking(True)
        for _ in range(50):
            wire.receive(MetadataRequest, 12)
    seen = [client for client in responded if client in clients]
    assert len(seen) == 250
    first_whole = max(map(seen.index, clients))
    rounds = [seen[first_whole + 1 :][at : at + 5] for at in range(0, 200, 5)]
    assert all(len(set(one)) == 5 for one in rounds), rounds


@pytest.mark.gate
@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_unread_responses_are_bounded(live: LiveCluster, wire: RawClient) -> None:
    """Responses behind a produce that waits for its replicas are kept up to a limit."""
    filled(wire, 3)
    broker = live.leader_id()
    (connection,) = connections_of(live.cluster, broker)
    live.controls.pause_followers()
    wire.send(produce_request("t", 0, batch([b"waits"]), acks=-1, timeout_ms=60_000), 12)
    for _ in range(100):
        wire.send(large_fetch(), 12)
    live.wait_for(lambda: connection.pending_bytes >= MAX_PENDING_BYTES)
    assert not connection.may_read
    assert connection.pending_bytes < 2 * MAX_PENDING_BYTES + 3 * RECORD_BYTES
    assert live.connect(broker).call(METADATA, 12).brokers
    assert connection.pending_bytes < 2 * MAX_PENDING_BYTES + 3 * RECORD_BYTES
    live.controls.resume_followers()
    assert wire.receive(ProduceRequest, 12)[0] == 4
    assert [wire.receive(FetchRequest, 12)[0] for _ in range(100)] == [*range(5, 105)]
    live.wait_for(lambda: connection.pending_bytes == 0 and connection.may_read)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_connections_with_unsent_responses_are_not_read_while_their_total_is_too_large(
    live: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection without unsent responses is served."""
    monkeypatch.setattr("pykafka2.broker.server.channel.MAX_ALL_PENDING_BYTES", 1000)
    wires = [live.leader() for _ in range(2)]
    broker = live.leader_id()
    live.controls.pause_followers()
    for wire in wires:
        wire.send(produce_request("t", 0, batch([b"waits"]), acks=-1, timeout_ms=60_000), 12)
        wire.send(METADATA, 12)
    live.wait_for(lambda: len(connections_of(live.cluster, broker)) == 2)
    connections = connections_of(live.cluster, broker)
    # Each is below its own limit, and both together are above that of all.
    live.wait_for(lambda: all(one.pending_bytes for one in connections))
    for _ in range(20):
        wires[0].send(METADATA, 12)
    live.wait_for(lambda: not any(one.may_read for one in connections))
    kept = [one.pending_bytes for one in connections]
    assert 1000 <= sum(kept) < 2000
    assert live.connect(broker).call(METADATA, 12).brokers
    assert [one.pending_bytes for one in connections] == kept
    ready: list[object] = []
    on_ready = Connection.on_ready

    def spy(connection: Connection, bits: int, now: float) -> None:
        ready.append(connection)
        on_ready(connection, bits, now)

    monkeypatch.setattr(Connection, "on_ready", spy)
    wires[1].send(METADATA, 12)
    good = live.connect(broker)
    for _ in range(20):
        good.call(METADATA, 12)
    assert max(map(ready.count, connections)) <= 1, "it is not read, and does not keep the loop from sleeping"
    live.controls.resume_followers()
    assert [wires[0].receive(ProduceRequest, 12)[0]] == [1]
    assert [wires[0].receive(MetadataRequest, 12)[0] for _ in range(21)] == [*range(2, 23)]
    assert wires[1].receive(ProduceRequest, 12)[0] == 1
    assert [wires[1].receive(MetadataRequest, 12)[0] for _ in range(2)] == [2, 3]
    live.wait_for(lambda: all(one.may_read for one in connections))


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_unsent_responses_of_a_closed_connection_do_not_count(live: LiveCluster) -> None:
    live.controls.pause_followers()
    wire = live.leader()
    wire.send(produce_request("t", 0, batch([b"waits"]), acks=-1, timeout_ms=60_000), 12)
    wire.send(METADATA, 12)
    (processor,) = live.cluster.brokers[live.leader_id()].processors
    live.wait_for(lambda: processor._send_limit.bytes > 0)
    wire.close()
    live.wait_for(lambda: not processor.connections)
    assert processor._send_limit.bytes == 0


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"connections.max.idle.ms": 2000})
def test_connection_is_idle_once_its_client_reads_no_byte(live: LiveCluster) -> None:
    slow = live.leader()
    filled(slow, 20)
    slow.send(large_fetch(), 12)
    read = 0
    for _ in range(24):
        time.sleep(0.1)
        assert select.select([slow.socket], [], [], 1.0)[0]
        read += len(slow.socket.recv(400_000))
    (connection,) = connections_of(live.cluster, 0)
    assert connection.pending_bytes, "the whole response was sent"
    deadline = time.monotonic() + 30.0
    while connections_of(live.cluster, 0):
        assert time.monotonic() < deadline, "the connection of a client that reads nothing stays open"
        time.sleep(0.02)
