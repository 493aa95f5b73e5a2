"""A request's way through the broker's threads, and a request queue of 500 that fills up."""

from __future__ import annotations

import select
from collections.abc import Callable

import pytest

from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import partition_of, produce, produce_request
from tests.broker.support.raw_client import RawClient

METADATA = MetadataRequest(topics=None)


@pytest.mark.parametrize("threads", ["separate", "shared"])
def test_the_timeline_names_acceptor_processor_handler_and_the_same_processor(threads: str) -> None:
    """The sender of a reply is looked up at the moment the reply is handed to the socket, also if a
    follower's fetch ended the wait of acks=all. So a handler that wrote the reply itself would be named.
    """
    config = {"threads": threads, "num.network.threads": 3, "num.io.threads": 2}
    with KafkaCluster(2, {"t": Topic(1, 2)}, config=config) as cluster:
        cluster.controls.move_leader(("t", 0), to=0)
        wires = [RawClient(cluster.brokers[0].address) for _ in range(6)]
        try:
            for wire in wires:
                produce(wire, "t", 0, batch())
        finally:
            for wire in wires:
                wire.close()
        entries = cluster.history.entries("Produce")
        produces = [item for item in cluster.timeline().as_list() if item.get("api") == "Produce"]
    processors = set()
    for entry in entries:
        acceptor, taken_by, handler, sent_by = entry.path
        assert acceptor == "acceptor-0"
        assert handler in ("handler-0-0", "handler-0-1")
        assert sent_by == taken_by
        processors.add(taken_by)
    assert processors == {"processor-0-0", "processor-0-1", "processor-0-2"}
    assert [tuple(item["path"]) for item in produces] == [entry.path for entry in entries]


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"threads": "separate", "num.io.threads": 1})
def test_a_full_queue_of_500_makes_the_clients_block_and_the_broker_not_grow(
    kafka_cluster: KafkaCluster, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    """520 connections with a request each, while the only handler takes nothing."""
    broker = kafka_cluster.brokers[0]
    queue = broker.parts.queue
    taken = queue.take
    queue.take = lambda: None  # type: ignore[method-assign]
    wires = [RawClient(broker.address) for _ in range(520)]
    large = produce_request("t", 0, batch([bytes(50_000)]), acks=1)
    try:
        for wire in wires:
            wire.send(METADATA, 12)
        wait_for(lambda: len(queue) >= 500)
        assert queue.is_full

        # One that found no room is not read any more: its socket fills up, the broker takes nothing.
        def without_room() -> set[str]:
            known = [one for processor in broker.processors for one in list(processor.connections)]
            return {one.peer for one in known if one.wants_room}

        wait_for(lambda: len(without_room()) >= 20)
        peers = without_room()
        blocked = next(wire for wire in wires if address_of(wire) in peers)
        blocked.socket.setblocking(False)
        sent = 0
        data = b"".join(encoded(large))
        # Not select(): with five hundred connections descriptors may be above its 1,024.
        writable = select.poll()
        writable.register(blocked.socket, select.POLLOUT)
        while writable.poll(100):
            sent += blocked.socket.send(data)
            assert sent < 64 << 20, "the broker goes on reading"
        # The brokers' own requests, a heartbeat or two, are never turned away.
        assert len(queue) < 510
        known = [one for processor in broker.processors for one in list(processor.connections)]
        assert max(len(one.frames._buffer) for one in known) < 1 << 20
        queue.take = taken  # type: ignore[method-assign]
        broker.parts.handlers[0].signal()
        for wire in wires:
            if wire is not blocked:
                assert wire.receive(MetadataRequest, 12)[0] == 1
        blocked.socket.settimeout(10)
        assert blocked.receive(MetadataRequest, 12)[0] == 1
        assert partition_of(blocked.receive(ProduceRequest, 12)[1]).error_code == 0
    finally:
        for wire in wires:
            wire.close()


def address_of(wire: RawClient) -> str:
    host, port = wire.socket.getsockname()
    return f"{host}:{port}"


def encoded(request: ProduceRequest) -> list[bytes]:
    from pykafka2.protocol.framing import encode_request

    return [bytes(part) for part in encode_request(request, 12, 2, "wire")]
