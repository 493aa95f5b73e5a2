"""A minimal broker on real sockets: it answers ApiVersions and heartbeats, as well or badly as the test
wants.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.clock import FOREVER
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.errors import KafkaError
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.frames import FrameReader
from pykafka2.network.tls import TlsContext
from pykafka2.network.transport import READABLE, WRITABLE, Ready, Transport
from pykafka2.protocol.framing import decode_request, encode_response
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.group import HeartbeatResponse
from pykafka2.protocol.struct import Response
from tests.network.wire import api_versions_response


class Peer:
    """One accepted connection."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.reader = FrameReader(transport.peer)
        self.is_open = False
        self.unsent = b""


class OnePageBroker:
    """A `Step` with a listener.  `slice_bytes` cuts what it writes; `mute` answers nothing."""

    def __init__(self, runtime: ThreadRuntime, *, tls: TlsContext | None = None) -> None:
        self.listener = runtime.network.listen("127.0.0.1", 0, tls=tls)
        self.selector = runtime.network.selector()
        self.selector.register(self.listener, READABLE, None)
        self.peers: set[Peer] = set()
        self.errors: list[KafkaError] = []
        self.slice_bytes = 1 << 30
        self.mute = False
        self.reset_on_heartbeat = False
        self.requests: list[str] = []
        self.task = runtime.spawn("one-page-broker", self, self.selector)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.listener.host, self.listener.port)

    def close(self) -> None:
        assert self.task.stop(5.0)
        for peer in self.peers:
            peer.transport.close()
        self.listener.close()

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        for data, bits in events:
            if isinstance(data, Peer):
                try:
                    self._serve(data, bits)
                except KafkaError as error:
                    self.errors.append(error)
                    self._drop(data)
            else:
                self._accept()
        return FOREVER

    def _accept(self) -> None:
        transport = self.listener.accept()
        if transport is not None:
            peer = Peer(transport)
            self.peers.add(peer)
            self.selector.register(transport, transport.interest(), peer)

    def _drop(self, peer: Peer, *, reset: bool = False) -> None:
        self.selector.unregister(peer.transport)
        peer.transport.close(reset=reset)
        self.peers.discard(peer)

    def _serve(self, peer: Peer, bits: int) -> None:
        if not peer.is_open:
            peer.is_open = peer.transport.establish()
        elif bits & READABLE:
            count = peer.transport.read_into(peer.reader.buffer())
            if count == 0:
                self._drop(peer)
                return
            for frame in peer.reader.received(count) if count else ():
                if not self._answer(peer, frame):
                    return
        self._write(peer)

    def _answer(self, peer: Peer, frame: bytes | memoryview) -> bool:
        header, request = decode_request(frame)
        self.requests.append(request.NAME)
        if self.mute:
            return True
        if isinstance(request, ApiVersionsRequest):
            response: Response = api_versions_response()
        elif self.reset_on_heartbeat:
            self._drop(peer, reset=True)
            return False
        else:
            response = HeartbeatResponse()
        peer.unsent += b"".join(encode_response(response, header.request_api_version, header.correlation_id))
        return True

    def _write(self, peer: Peer) -> None:
        if peer.is_open and peer.unsent:
            taken = peer.transport.write([peer.unsent[: self.slice_bytes]])
            peer.unsent = peer.unsent[taken:]
        interest = peer.transport.interest() | (WRITABLE if peer.unsent else 0)
        self.selector.modify(peer.transport, interest, peer)
