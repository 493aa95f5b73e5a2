"""A plain client for tests of the broker: a blocking socket, our encoders, nothing that retries or hides.

And batches with any field that a test wants to be wrong.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

from pykafka2.protocol.framing import decode_response, encode_request
from pykafka2.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pykafka2.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pykafka2.protocol.struct import Request, Response
from pykafka2.records.batch import HEADER, HEADER_BYTES, RecordBatch, crc32c
from pykafka2.records.encoder import encode_record

R = TypeVar("R", bound=Response)

TIMEOUT = 10.0
NOW_MS = 1_767_225_600_000  # a fixed create time, well in the past


class Wire:
    """One connection to a broker."""

    def __init__(
        self,
        address: str,
        client_id: str = "wire",
        *,
        tls: ssl.SSLContext | None = None,
        host_name: str = "",
        source: str = "",
    ) -> None:
        """`source` is the address to come from, such as 127.0.0.2."""
        self._address = address
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT, (source, 0) if source else None)
        if tls is not None:
            try:
                self.socket = tls.wrap_socket(self.socket, server_hostname=host_name or host)
            except BaseException:
                self.socket.close()
                raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client_id = client_id
        self._correlation_id = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reopen(self) -> None:
        """After the broker has closed the connection: a new one, without TLS."""
        self.close()
        host, _, port = self._address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), TIMEOUT)

    def send(self, request: Request[Any], version: int) -> int:
        """Send without waiting; the correlation id."""
        self._correlation_id += 1
        parts = encode_request(request, version, self._correlation_id, self._client_id)
        self.socket.sendall(b"".join(parts))
        return self._correlation_id

    def receive_frame(self) -> bytes:
        size = struct.unpack(">i", self._read(4))[0]
        return self._read(size)

    def receive(self, request: type[Request[R]], version: int) -> tuple[int, R]:
        """The next reply, which must be one to such a request; its correlation id and the response."""
        return decode_response(self.receive_frame(), request, version)

    def call(self, request: Request[R], version: int) -> R:
        """Send and wait for the reply."""
        correlation_id = self.send(request, version)
        answered, response = self.receive(type(request), version)
        assert answered == correlation_id
        return response

    def is_closed_by_broker(self) -> bool:
        """True once the broker has closed the connection, False if it sends something or stays silent."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the broker closed the connection")
            data += more
        return data


def batch(
    values: Sequence[bytes | None] = (b"value",),
    *,
    keys: Sequence[bytes | None] | None = None,
    codec: int = 0,
    attributes: int = 0,
    timestamp: int = NOW_MS,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    count: int | None = None,
    last_offset_delta: int | None = None,
    magic: int = 2,
    corrupt: bool = False,
    damage: bool = False,
    deltas: Sequence[int] | None = None,
) -> bytes:
    """A record batch; any header field may be said, and the checksum fits unless `corrupt`.

    `damage`: what is compressed cannot be decompressed.  `deltas`: the records' times after the first's.
    """
    from pykafka2.compression import codec as codec_of

    body = b"".join(
        encode_record(deltas[delta] if deltas else 0, delta, keys[delta] if keys else None, value, [])
        for delta, value in enumerate(values)
    )
    if codec:
        body = codec_of(codec).compress(body)
    if damage:
        body = body[:12] + bytes(4) + body[16:]
    fields = [
        0,
        HEADER_BYTES - 12 + len(body),
        -1,
        magic,
        0,
        attributes | codec,
        len(values) - 1 if last_offset_delta is None else last_offset_delta,
        timestamp,
        timestamp + max(deltas, default=0) if deltas else timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        len(values) if count is None else count,
    ]
    fields[4] = crc32c(HEADER.pack(*fields)[21:] + body)
    data = bytearray(HEADER.pack(*fields) + body)
    if corrupt:
        data[-1] ^= 0xFF
    return bytes(data)


def view(data: bytes) -> RecordBatch:
    return RecordBatch(memoryview(data))


def produce_request(
    topic: str, partition: int, records: bytes | None, *, acks: int = -1, timeout_ms: int = 5000
) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def produce(
    wire: Wire, topic: str, partition: int, records: bytes | None, *, acks: int = -1, timeout_ms: int = 5000
) -> PartitionProduceResponse:
    """Produce one batch in version 12 and wait for the reply of its one partition."""
    request = produce_request(topic, partition, records, acks=acks, timeout_ms=timeout_ms)
    return partition_of(wire.call(request, 12))


def partition_of(response: ProduceResponse) -> PartitionProduceResponse:
    return response.responses[0].partition_responses[0]


def fetch_request(
    topic: str,
    partition: int,
    offset: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchRequest:
    requested = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_fetched_epoch,
        partition_max_bytes=partition_max_bytes,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[requested])],
    )


def fetch(wire: Wire, topic: str, partition: int, offset: int, **options: Any) -> PartitionData:
    """Fetch one partition in version 12."""
    return data_of(wire.call(fetch_request(topic, partition, offset, **options), 12))


def data_of(response: FetchResponse) -> PartitionData:
    return response.responses[0].partitions[0]
