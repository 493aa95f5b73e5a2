"""Whatever a client sends costs its own connection at most."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch_request, produce_request
from tests.broker.support.raw_client import RawClient
from tests.gate import examples

TIMEOUT = 5.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {
        "auto.create.topics.enable": False,
        "log.validate": "strict",
        "socket.request.max.bytes": 100_000,
    }
    with KafkaCluster(brokers=1, topics={"t": 1}, config=config) as one:
        yield one


VALID = [
    b"".join(encode_request(request, version, 1, "fuzz"))
    for request, version in (
        (produce_request("t", 0, batch([b"a", b"b"])), 9),
        (produce_request("t", 0, batch([b"c"], codec=3)), 3),
        (fetch_request("t", 0, 0), 12),
        (fetch_request("t", 0, 0), 4),
        (MetadataRequest(topics=None), 12),
        (ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), 3),
    )
]


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A valid frame with some bytes changed, cut, or put in; or anything at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(max_size=200))
    data = bytearray(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        what = draw(st.sampled_from(("change", "cut", "put in", "length")))
        if what == "change":
            data[at] = draw(st.integers(0, 255))
        elif what == "cut":
            del data[at : at + draw(st.integers(1, 8))]
        elif what == "put in":
            data[at:at] = draw(st.binary(max_size=8))
        if len(data) < 8:
            return bytes(data)
        if what != "length":
            # Mostly the length fits, so that what comes after it is read.
            data[:4] = struct.pack(">i", len(data) - 4)
    return bytes(data)


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(st.lists(frames(), min_size=1, max_size=3))
def test_hostile_connection_does_not_affect_others(cluster: KafkaCluster, sent: list[bytes]) -> None:
    host, _, port = cluster.brokers[0].address.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT) as hostile:
        try:
            hostile.sendall(b"".join(sent))
            hostile.shutdown(socket.SHUT_WR)
            hostile.settimeout(1.0)
            while hostile.recv(65536):
                pass
        except (ConnectionError, TimeoutError):  # a fetch that asks to wait for long is made to
            pass
    cluster.check()
    with RawClient(cluster.brokers[0].address) as wire:
        names = [topic.name for topic in wire.call(MetadataRequest(topics=None), 12).topics]
        assert names == ["t"]
    # Whatever was appended can be read.
    assert len(cluster.log("t", 0).values()) == cluster.log("t", 0).log_end_offset
