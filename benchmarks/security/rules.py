"""Bundled brokers that answer Produce requests, one with an authorizer and one without, in turns.

Both run in this process, and so does the client: it sends bytes made beforehand, and does little else.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.security.runs import SIZE, WITH, WITHOUT
from benchmarks.side_by_side.measured import Measured, peak_rss_mb
from pykafka2.protocol.framing import decode_response, encode_request
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import partition_of, produce_request
from tests.broker.support.raw_client import RawClient

TOPIC = "written"
VERSION = 12
WARM_UP = 100
BLOCK = 100


def serve(requests: int) -> dict[str, Measured]:
    """A request's cost in this process's processor time, by broker: the tenth percentile of all blocks.

    Other work of the machine makes blocks slower, never faster.
    """
    frame = b"".join(encode_request(produce_request(TOPIC, 0, batch([bytes(SIZE)]), acks=1), VERSION, 1, "-"))
    with _broker(WITHOUT) as without, _broker(WITH) as by_rules:
        wires = {WITHOUT: without, WITH: by_rules}
        for wire in wires.values():
            _block(wire, frame, WARM_UP)
        blocks: dict[str, list[float]] = {WITHOUT: [], WITH: []}
        for number in range(max(1, requests // BLOCK)):
            for name in (WITHOUT, WITH) if number % 2 else (WITH, WITHOUT):
                blocks[name].append(_block(wires[name], frame, BLOCK))
    found = {name: sorted(times)[len(times) // 10] for name, times in blocks.items()}
    return {name: Measured(1 / cpu, cpu * 1e6, peak_rss_mb()) for name, cpu in found.items()}


@contextmanager
def _broker(name: str) -> Iterator[RawClient]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER} if name == WITH else {}
    with KafkaCluster(1, {TOPIC: 1}, config=config) as cluster:
        cluster.history.is_on = False
        if name == WITH:
            cluster.acls.allow("User:ANONYMOUS", "WRITE", topic=TOPIC)
        with RawClient(cluster.bootstrap_servers) as wire:
            yield wire


def _block(wire: RawClient, frame: bytes, count: int) -> float:
    """Return the seconds of the processor for each request."""
    stream: socket.socket = wire.socket
    started = time.process_time()
    for _ in range(count):
        stream.sendall(frame)
        answer = wire.receive_frame()
    took = (time.process_time() - started) / count
    _check(answer)
    return took


def _check(answer: bytes) -> None:
    _, response = decode_response(answer, ProduceRequest, VERSION)
    if partition_of(response).error_code:
        raise RuntimeError(f"the broker refused: {response}")
