"""A processor: reads requests and writes responses of some of a broker's connections; throttled ones wait.

Each turn it takes connections from the acceptor, frames from its sockets (decoded into the request channel)
and responses from the handlers (its own response queue). A bug in any of it closes one connection (`failed`).
A throttled connection is not read, but its responses are still sent. Belongs to its loop's thread; `adopt`
and the methods for a request's origin only append to a deque and can be called from any thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.security.authentication import NotAdmitted
from pykafka2.broker.security.listeners import ListenerEndpoint
from pykafka2.broker.security.principal import Caller
from pykafka2.broker.server.channel import MAX_FILE_BYTES, MAX_SHARED_FILE_BYTES, Channel, SendLimit, Slot
from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.connection_quotas import ConnectionQuotas, address_of
from pykafka2.broker.server.request_channel import BlockedConnections, RequestChannel
from pykafka2.broker.server.request_codec import ApiTable, RequestDecoder, encode_response_parts
from pykafka2.broker.server.request_context import ReceivedRequest, RequestContext
from pykafka2.broker.server.threads import Part
from pykafka2.clock import FOREVER
from pykafka2.errors import CorruptData, Disconnected, KafkaError, KafkaStorageError, UnsupportedVersion
from pykafka2.network.transport import Transport
from pykafka2.protocol.primitives import FramePart
from pykafka2.protocol.struct import Response


class ThrottledConnections:
    """Muted connections and when they are unmuted, by the monotonic clock."""

    def __init__(self) -> None:
        self._until: dict[Connection, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def add(self, connection: Connection, until: float) -> None:
        """Stop reading a connection until then; the latest of several times applies."""
        before = self._until.get(connection)
        if before is None:
            connection.channel.throttle()
        self._until[connection] = until if before is None else max(before, until)

    def due(self, now: float) -> list[Connection]:
        """Unmute and return the connections that are due, in the order of muting."""
        due = [connection for connection, until in self._until.items() if until <= now]
        for connection in due:
            del self._until[connection]
            connection.channel.end_throttle()
        return due

    @property
    def next_at(self) -> float:
        """The time when the next connection is unmuted."""
        return min(self._until.values(), default=FOREVER)

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._until.pop(connection, None)

    def clear(self) -> None:
        self._until.clear()


logger = logging.getLogger(__name__)

SCRATCH_BYTES = 1 << 20

OPEN_LISTENER = ListenerEndpoint()
"""A listener without authentication."""

Command = Callable[..., None]
"""Callback: (now, queued arguments)."""


class Client:
    """The client of one connection: the origin of its requests. Can be called from any thread.

    `pending` are the requests whose responses were not sent yet.
    """

    __slots__ = (
        "_caller",
        "_connection",
        "_processor",
        "authentication",
        "endpoint",
        "on_closed",
        "parts",
        "peer",
        "pending",
    )

    is_broker = False

    def __init__(self, processor: Processor, connection: Connection, endpoint: ListenerEndpoint) -> None:
        self._processor = processor
        self._connection = connection
        self.peer = connection.peer
        self.endpoint = endpoint
        host = address_of(connection.peer)
        self.authentication = endpoint.authentication(host)
        self._caller = endpoint.anonymous(host)
        self.parts: tuple[str, ...] = (endpoint.acceptor, processor.name)
        self.pending: dict[Slot, RequestContext] = {}
        self.on_closed: Callable[[float], object] | None = None

    @property
    def caller(self) -> Caller:
        """The authenticated sender, or an anonymous one."""
        return self._caller if self.authentication is None else self.authentication.caller

    @property
    def software(self) -> str:
        """Name and version of the client's library; "" before its ApiVersions request."""
        return self._connection.software

    @property
    def is_closed(self) -> bool:
        """Whether the connection has closed."""
        return self._connection.is_closed

    def established(self, transport: Transport) -> None:
        """Complete the TLS handshake: a certificate can name the principal.

        Raise `TlsError` if no mapping rule matches.
        """
        if self.endpoint.mapping is not None:
            self._caller = self.endpoint.caller(transport, self._caller.host)

    def when_closed(self, then: Callable[[float], object]) -> None:
        """Have `then` called with the time once the connection has closed; it replaces an earlier one."""
        self.on_closed = then

    def incomplete(self) -> list[RequestContext]:
        """Return the requests without a response, oldest first."""
        return [context for slot, context in list(self.pending.items()) if not slot.is_complete]

    def deliver(self, context: RequestContext, response: Response | None) -> None:
        """Queue the response, which is sent in request order; encodes on the caller's thread."""
        processor, connection = self._processor, self._connection
        payload = None
        if response is not None:
            try:
                payload = encode_response_parts(context, response, sends_files=connection.sends_files)
            except KafkaStorageError as error:
                unreadable = error  # `error` is gone when the command runs
                processor.queue(lambda now: processor.drop(connection, unreadable))
                return
            except Exception as error:
                # A handler's bug; it closes this one connection, regardless of which request completed this
                # one.
                what = f"{type(context.request).__name__} v{context.version}"
                processor.loop.problems.note(f"the response to {what} from {connection.peer}", error)
                processor.drop_soon(connection, reset=False)
                return
        processor.queue(processor.complete, connection, context, payload)

    def local_processed(self, context: RequestContext) -> None:
        self._processor.queue(self._processor.accept_next, self._connection, context)

    def disconnect(self, context: RequestContext, *, reset: bool = False) -> None:
        self._processor.drop_soon(self._connection, reset=reset)


class Processor(Part):
    """Some connections of one broker.

    The four callbacks: a request arrived; a connection closed with a request in flight; responses were
    sent; a connection was closed because a client (by name) sent an invalid request (the reason).
    """

    sends = True

    def __init__(
        self,
        name: str,
        requests: RequestChannel,
        config: BrokerConfig,
        apis: ApiTable,
        on_request: Callable[[RequestContext], None],
        on_disconnected: Callable[[RequestContext, float], None],
        on_sent: Callable[[Sequence[RequestContext], float], None],
        quotas: ConnectionQuotas,
        on_refused: Callable[[str, str, float], None],
    ) -> None:
        super().__init__(name)
        self.connections: dict[Connection, Client] = {}
        """Clients by connection, oldest first; views read a copy from other threads."""
        self._quotas = quotas
        self._requests = requests
        self._decoder = RequestDecoder(apis, config.int("socket.request.max.bytes"))
        self._on_request = on_request
        self._on_disconnected = on_disconnected
        self._on_sent = on_sent
        self._on_refused = on_refused
        self._pipelined = config.get("channel.mode") == "pipelined"
        self._max_pipelined = config.int("max.pipelined.requests")
        self._max_pipelined_bytes = config.int("max.pipelined.bytes")
        max_idle = config.seconds("connections.max.idle.ms")
        self._max_idle = max_idle if max_idle >= 0 else FOREVER
        self._idle_check_at = FOREVER
        self._send_limit = SendLimit()
        self._throttled = ThrottledConnections()
        self._commands: deque[tuple[Command, tuple[Any, ...]]] = deque()
        # Connections with responses to write or requests to take, each processed once after all commands:
        # many produces complete with one fetch of a follower, and their responses are sent in one gathered
        # write.
        self._touched: dict[Connection, None] = {}
        self._blocked = BlockedConnections(self, requests)
        self._arriving: deque[Transport] = deque()
        self.scratch = memoryview(b"")
        """The buffer for socket reads; shared by all connections, since each read is consumed at once.

        Allocated for the first connection.
        """

    # ------------------------------------------------------------------ any thread

    def adopt(self, transport: Transport, endpoint: ListenerEndpoint = OPEN_LISTENER) -> None:
        """Take over a connection of this listener."""
        self._arriving.append(transport)
        self.queue(self._adopt_next, endpoint)

    def queue(self, command: Command, *arguments: object) -> None:
        """Run a command with the next turn."""
        self._commands.append((command, arguments))
        self.signal()

    # ------------------------------------------------------------------ the loop's thread

    def run(self, now: float) -> float:
        commands = self._commands
        for _ in range(len(commands)):
            command, arguments = commands.popleft()
            try:
                command(now, *arguments)
            except Exception as error:
                self.failed(arguments[0] if arguments else None, error)
        if self._touched:
            touched, self._touched = self._touched, {}
            for connection in touched:
                try:
                    self._continue(connection, now)
                except Exception as error:
                    self.failed(connection, error)
        if self._blocked.is_in_line:
            self._admit_blocked(now)
        if now >= self._idle_check_at:
            self._close_idle(now)
        if self._throttled:
            return min(self._idle_check_at, self._end_throttles(now))
        return self._idle_check_at

    def _admit_blocked(self, now: float) -> None:
        """Take requests of connections that waited for room in the request queue, if it is their turn."""
        for connection in self._blocked.turns():
            try:
                self.take_frames(connection, now, has_turn=True)
            except Exception as error:
                self.failed(connection, error)

    def take_frames(
        self, connection: Connection, now: float, *, are_fresh: bool = False, has_turn: bool = False
    ) -> None:
        """Decode the buffered requests (`are_fresh`: just read) that the channel accepts.

        `has_turn`: the connection has waited for room in the queue.
        """
        client = self.connections.get(connection)
        if client is None:
            return  # closed just now
        if are_fresh:
            self.loop.note_sender(connection, now)
        authentication = client.authentication
        received: ReceivedRequest | None = None
        try:
            # `are_fresh`: the connection has just checked that it takes requests.
            while (are_fresh and received is None) or (
                connection.frames.has_bytes and connection.takes_requests and not connection.is_closed
            ):
                if self._blocked.must_wait(has_turn=has_turn):
                    # Others are still read: a reset, which is reported as writable, too, must not wait.
                    if connection.frames.has_frame:
                        self._blocked.add(connection)
                    break
                if authentication is not None:
                    self._decoder.limit_frames(connection, authentication)
                frame = connection.frames.next_frame()
                if frame is None:
                    break
                received = self._decoder.decode(frame, connection, authentication, now)
                self._pass_on(client, connection, received, is_fresh=are_fresh)
        except (CorruptData, NotAdmitted, UnsupportedVersion) as error:
            logger.info("%s: closing the connection: %s", connection.peer, error)
            self._on_refused(connection.client_id or "a client without a client_id", str(error), now)
            self.drop(connection, error)
            return
        if not (are_fresh and received is not None):
            connection.update_interest()

    def _pass_on(
        self, client: Client, connection: Connection, received: ReceivedRequest, *, is_fresh: bool
    ) -> None:
        context = RequestContext(client, received)
        slot = context.delivery.slot = connection.channel.receive(received.size_bytes)
        client.pending[slot] = context
        self._on_request(context)
        self._requests.put(context, is_fresh=is_fresh)

    def complete(
        self, now: float, connection: Connection, context: RequestContext, payload: list[FramePart] | None
    ) -> None:
        delivery = context.delivery
        if connection.is_closed or delivery.slot is None:
            return
        delivery.slot.is_last = delivery.closing is not None
        try:
            if delivery.throttle:
                self._throttled.add(connection, now + delivery.throttle)
            connection.complete(delivery.slot, payload, 0 if payload is None else delivery.response_bytes)
        except KafkaError as error:
            self.failed(connection, error)
            return
        self._touched[connection] = None

    def _continue(self, connection: Connection, now: float) -> None:
        """Write the responses that can be sent, then take further requests."""
        if connection.is_closed:
            return
        try:
            connection.write_ready(now)
        except KafkaError as error:
            self.drop(connection, error)
            return
        if connection.frames.has_bytes:
            self.take_frames(connection, now)

    def max_file_bytes(self, connection: Connection, now: float) -> int:
        """Return the limit of one write from a file."""
        return MAX_SHARED_FILE_BYTES if self.loop.has_others(connection, now) else MAX_FILE_BYTES

    def responses_leaving(self, connection: Connection, slots: Sequence[Slot]) -> None:
        """Record the part that passes these responses to the transport.

        It is the end of their requests' paths.
        """
        pending = self.connections[connection].pending
        for slot in slots:
            entry = pending[slot].history_entry
            if entry is not None:
                entry.sent_by(self.loop.at_work() or self.name)

    def responses_sent(self, connection: Connection, slots: Sequence[Slot]) -> None:
        """Handle responses that were passed to the transport completely."""
        pending = self.connections[connection].pending
        contexts = [*map(pending.pop, slots)]
        self._on_sent(contexts, self.loop.runtime.clock.monotonic())
        closing = contexts[-1].delivery.closing
        if closing is not None:
            error = Disconnected(f"the connection to {connection.peer} closes after this response")
            self.drop(connection, error, reset=closing.resets)

    def accept_next(self, now: float, connection: Connection, context: RequestContext) -> None:
        slot = context.delivery.slot
        if not connection.is_closed and slot is not None:
            connection.channel.local_processed(slot)
            self.take_frames(connection, now)

    def _end_throttles(self, now: float) -> float:
        """Unmute the connections whose time has passed. Return when the next one is unmuted."""
        for connection in self._throttled.due(now):
            try:
                self.take_frames(connection, now)
            except Exception as error:
                self.failed(connection, error)
        return self._throttled.next_at

    def failed(self, connection: object, error: Exception) -> None:
        """Record an unexpected exception, and close the connection it happened on, if any."""
        if not isinstance(connection, Connection):
            self.loop.problems.note(self.name, error)
            return
        self.loop.problems.note(f"{self.name}: the connection of {connection.peer}", error)
        try:
            self.drop(
                connection, Disconnected(f"internal broker error on the connection of {connection.peer}")
            )
        except Exception as another:
            self.loop.problems.note(f"{self.name}: closing the connection of {connection.peer}", another)

    def drop_soon(self, connection: Connection, *, reset: bool) -> None:
        error = Disconnected(f"the broker closed the connection to {connection.peer}")
        self.queue(lambda now: self.drop(connection, error, reset=reset))

    def drop_client(self, client_id: str) -> None:
        """Reset every connection on which this client has sent a request."""
        for connection in [known for known in self.connections if known.client_id == client_id]:
            error = Disconnected(f"{connection.peer} ({client_id}) was disconnected")
            self.drop(connection, error, reset=True)

    def drop(self, connection: Connection, error: KafkaError, *, reset: bool = False) -> None:
        """Close one connection and drop its pending requests. Can be called repeatedly."""
        if isinstance(error, KafkaStorageError):
            # The text only: the traceback in a kept log record would hold the file.
            logger.warning("%s: closing the connection: %s", connection.peer, str(error))
        self._throttled.forget(connection)
        self._blocked.drop(connection)
        self._close(connection, reset=reset)

    def _close(self, connection: Connection, *, reset: bool) -> None:
        client = self.connections.pop(connection, None)
        connection.close(reset=reset)
        self.loop.forget_sender(connection)  # whose buffer can hold a large part of a request
        for context in () if client is None else client.incomplete():
            self._on_disconnected(context, self.loop.runtime.clock.monotonic())
        if client is not None and client.on_closed is not None:
            client.on_closed(self.loop.runtime.clock.monotonic())

    def established(self, connection: Connection, transport: Transport) -> None:
        """Complete a connection's TLS handshake. Raise `TlsError` if no rule matches the certificate."""
        self.connections[connection].established(transport)

    def closed(self, connection: Connection) -> None:
        """Release the quota of a closed connection."""
        self._quotas.release(connection.peer)

    def close_all(self, *, reset: bool) -> None:
        """Close every connection because the broker stops or has crashed."""
        for connection in list(self.connections):
            self._close(connection, reset=reset)
        self._commands.clear()
        self._touched.clear()
        self._blocked.clear()
        self._throttled.clear()
        # Accepted, but not adopted yet: nothing else would close these.
        while self._arriving:
            transport = self._arriving.popleft()
            transport.close(reset=reset)
            self._quotas.release(transport.peer)

    def _adopt_next(self, now: float, endpoint: ListenerEndpoint) -> None:
        transport = self._arriving.popleft()
        if not self.scratch:
            self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        channel = Channel(
            pipelined=self._pipelined, max_requests=self._max_pipelined, max_bytes=self._max_pipelined_bytes
        )
        connection = Connection(
            transport, channel, self, self.loop.selector, self._decoder.max_frame_bytes, self._send_limit, now
        )
        client = self.connections[connection] = Client(self, connection, endpoint)
        self._decoder.limit_frames(connection, client.authentication)
        self._idle_check_at = min(self._idle_check_at, now + self._max_idle)
        try:
            connection.establish()
        except KafkaError as error:
            self.drop(connection, error)

    def _close_idle(self, now: float) -> None:
        """Close connections that were idle for connections.max.idle.ms.

        Idle means that no byte was sent or received, even with pending requests.
        """
        oldest = FOREVER
        for connection in list(self.connections):
            if now - connection.idle_since >= self._max_idle:
                self.drop(connection, Disconnected(f"{connection.peer} was idle"))
            else:
                oldest = min(oldest, connection.idle_since)
        self._idle_check_at = oldest + self._max_idle
