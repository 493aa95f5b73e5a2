"""A pipe and a broker's side of it, for tests of the connection without sockets."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from pykafka2.errors import KafkaError
from pykafka2.events import Event, EventSink
from pykafka2.network.connection import Connection, ConnectionOptions
from pykafka2.network.connection_setup import Offloader
from pykafka2.network.frames import DEFAULT_MAX_FRAME_BYTES
from pykafka2.network.sasl.mechanism import SaslMechanism
from pykafka2.network.transport import Buffer
from pykafka2.protocol.framing import decode_request, encode_response
from pykafka2.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.headers import RequestHeader
from pykafka2.protocol.registry import API_KEYS
from pykafka2.protocol.struct import Request, Response


class FakePipe:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.unread = b""
        self.is_closed = False

    def write(self, buffers: Sequence[Buffer]) -> None:
        self.unread += b"".join(buffers)

    def close(self) -> None:
        self.is_closed = True


@attrs.define
class Owner:
    """Notes what the connection tells its owner."""

    ready_at: list[float] = attrs.field(factory=list)
    closed: list[KafkaError] = attrs.field(factory=list)

    def on_ready(self, now: float) -> None:
        self.ready_at.append(now)

    def on_closed(self, error: KafkaError, now: float) -> None:
        self.closed.append(error)


@attrs.define
class Asker:
    """Notes how a request ended."""

    responses: list[Any] = attrs.field(factory=list)
    failures: list[KafkaError] = attrs.field(factory=list)
    sent_at: list[float] = attrs.field(factory=list)

    def on_response(self, response: Any, now: float) -> None:
        self.responses.append(response)

    def on_failure(self, error: KafkaError, now: float) -> None:
        self.failures.append(error)

    def on_sent(self, now: float) -> None:
        self.sent_at.append(now)


class Wire:
    """A connection, its owner, and a broker that answers by hand."""

    def __init__(
        self,
        max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES,
        *,
        sasl: SaslMechanism | None = None,
        offload: Offloader | None = None,
        **keywords: Any,
    ) -> None:
        self.owner = Owner()
        self.pipe = FakePipe()
        self.events: list[Event] = []
        event_sink = EventSink()
        event_sink.subscribe(self.events.append)
        options = ConnectionOptions("tester", 30.0, 10.0, max_frame_bytes, sasl, offload)
        self.connection = Connection(
            "node 1",
            0.0,
            options,
            on_ready=self.owner.on_ready,
            on_closed=self.owner.on_closed,
            event_sink=event_sink,
            **keywords,
        )
        self.connection.pipe = self.pipe

    def requests(self) -> list[tuple[RequestHeader, Request[Any]]]:
        """Requests written since the last call, decoded."""
        found = []
        while self.pipe.unread:
            (size,) = struct.unpack_from(">i", self.pipe.unread)
            found.append(decode_request(self.pipe.unread[4 : 4 + size]))
            self.pipe.unread = self.pipe.unread[4 + size :]
        return found

    def receive(self, data: bytes, now: float) -> None:
        """Bytes come in; an error ends the connection as driver/channel.py does it."""
        try:
            while data:
                buffer = self.connection.buffer()
                count = min(len(data), len(buffer))
                buffer[:count] = data[:count]
                data = data[count:]
                self.connection.on_received(count, now)
        except KafkaError as error:
            if not self.pipe.is_closed:
                self.pipe.close()
                self.connection.on_close(error, now)

    def answer(
        self, header: RequestHeader, response: Response, now: float, version: int | None = None
    ) -> None:
        version = header.request_api_version if version is None else version
        self.receive(b"".join(encode_response(response, version, header.correlation_id)), now)

    def shake_hands(self, ranges: Mapping[int, tuple[int, int]] | None = None, now: float = 1.0) -> None:
        """A broker that speaks all we speak, but for `ranges`."""
        self.connection.on_open(now)
        ((header, request),) = self.requests()
        assert isinstance(request, ApiVersionsRequest)
        self.answer(header, api_versions_response(ranges), now)
        assert self.connection.is_ready


def api_versions_response(ranges: Mapping[int, tuple[int, int]] | None = None) -> ApiVersionsResponse:
    all_ranges = {api.key: (api.min_version, api.max_version) for api in API_KEYS.values()} | dict(
        ranges or {}
    )
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in sorted(all_ranges.items())
        ]
    )
