"""A processor: some of a broker's connections, their requests in, their replies out.

Each turn it takes in connections from the acceptor, frames from its sockets (decoded into the request
channel) and replies from the handlers (its own response queue).  A mistake of ours in any of it costs one
connection (`failed`).  Belongs to its loop's thread; `adopt`, and what the origin of a request is told, only
append to a deque and may come from any thread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.security.authentication import NotAdmitted
from pykafka2.broker.server.api_table import ApiTable
from pykafka2.broker.server.channel import Channel, Slot
from pykafka2.broker.server.client import Client, ClientOrigin
from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.connection_quotas import ConnectionQuotas
from pykafka2.broker.server.context_parts import ReceivedRequest
from pykafka2.broker.server.entrance import Entrance
from pykafka2.broker.server.intake import Intake
from pykafka2.broker.server.muted import MutedConnections
from pykafka2.broker.server.reply_bytes import encoded
from pykafka2.broker.server.request_channel import RequestChannel
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.threads import Part
from pykafka2.broker.server.unsent import AllUnsent
from pykafka2.broker.server.waiting_for_room import WaitingForRoom
from pykafka2.clock import FOREVER
from pykafka2.errors import CorruptData, Disconnected, KafkaError, UnsupportedVersion
from pykafka2.network.transport import Buffer, Transport
from pykafka2.protocol.struct import Response

logger = logging.getLogger(__name__)

SCRATCH_BYTES = 1 << 20

ANYBODY = Entrance()
"""A listener that asks nobody who they are."""

Command = Callable[..., None]
"""(now, what it was queued with)"""


class Processor(Part):
    """Some connections of one broker.

    Its four callbacks: a request came in; its connection is gone before its reply was given; replies have
    left; a client (by name) sent what cannot be answered (the reason), and its connection is closed.
    """

    def __init__(
        self,
        name: str,
        requests: RequestChannel,
        config: BrokerConfig,
        apis: ApiTable,
        on_request: Callable[[RequestContext], None],
        on_gone: Callable[[RequestContext, float], None],
        on_left: Callable[[Sequence[RequestContext], float], None],
        quotas: ConnectionQuotas,
        on_refused: Callable[[str, str, float], None],
    ) -> None:
        super().__init__(name)
        self.connections: dict[Connection, Client] = {}
        """With whom each is, the oldest first; views read a copy of it from other threads."""
        self._quotas = quotas
        self._requests = requests
        self._intake = Intake(apis, config.int("socket.request.max.bytes"))
        self._on_request = on_request
        self._on_gone = on_gone
        self._on_left = on_left
        self._on_refused = on_refused
        self._pipelined = config.get("channel.mode") == "pipelined"
        self._max_pipelined = config.int("max.pipelined.requests")
        self._max_pipelined_bytes = config.int("max.pipelined.bytes")
        max_idle = config.seconds("connections.max.idle.ms")
        self._max_idle = max_idle if max_idle >= 0 else FOREVER
        self._idle_check_at = FOREVER
        self._all_unsent = AllUnsent()
        self._muted = MutedConnections()
        self._commands: deque[tuple[Command, tuple[Any, ...]]] = deque()
        # Connections with replies to write or requests to take, each looked at once after all commands: many
        # produces complete with one fetch of a follower, and their replies leave in one gathered write.
        self._touched: dict[Connection, None] = {}
        self._waiting = WaitingForRoom(self, requests)
        self._arriving: deque[Transport] = deque()
        self._scratch: memoryview | None = None

    @property
    def scratch(self) -> memoryview:
        """Where sockets are read to; one for all connections, since each read is taken in at once."""
        if self._scratch is None:
            self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        return self._scratch

    # ------------------------------------------------------------------ any thread

    def adopt(self, transport: Transport, entrance: Entrance = ANYBODY) -> None:
        """Take over a connection that came in by this listener."""
        self._arriving.append(transport)
        self._queue(self._adopt_next, entrance)

    def _queue(self, command: Command, *with_what: object) -> None:
        self._commands.append((command, with_what))
        self.signal()

    # ------------------------------------------------------------------ the loop's thread

    def run(self, now: float) -> float:
        commands = self._commands
        for _ in range(len(commands)):
            command, with_what = commands.popleft()
            try:
                command(now, *with_what)
            except Exception as error:
                self.failed(with_what[0] if with_what else None, error)
        if commands:
            self.signal()
        if self._touched:
            touched, self._touched = self._touched, {}
            for connection in touched:
                try:
                    self._go_on(connection, now)
                except Exception as error:
                    self.failed(connection, error)
        if self._waiting.is_in_line:
            self._let_in_who_waits(now)
        if now >= self._idle_check_at:
            self._close_idle(now)
        if self._muted:
            return min(self._idle_check_at, self._end_throttles(now))
        return self._idle_check_at

    def _let_in_who_waits(self, now: float) -> None:
        """Those that have found no room in the request queue, if there is some and it is their turn."""
        for connection in self._waiting.turns():
            try:
                self.take_frames(connection, now, has_turn=True)
            except Exception as error:
                self.failed(connection, error)

    def take_frames(
        self, connection: Connection, now: float, *, are_fresh: bool = False, has_turn: bool = False
    ) -> None:
        """Turn what was read (`are_fresh`: just now) into requests, as far as the channel lets them in.

        `has_turn`: it has waited for room in the queue.
        """
        client = self.connections.get(connection)
        if client is None:
            return  # it was closed just now
        authentication = client.origin.authentication
        try:
            while connection.takes_requests and not connection.is_closed:
                if self._waiting.must_wait(has_turn=has_turn):
                    self._waiting.add(connection)
                    break
                if authentication is not None:
                    self._intake.limit_frames(connection, authentication)
                frame = connection.frames.next_frame()
                if frame is None:
                    break
                received = self._intake.request_in(frame, connection, authentication, now)
                self._pass_on(client, connection, received, is_fresh=are_fresh)
        except (CorruptData, NotAdmitted, UnsupportedVersion) as error:
            logger.info("%s: closing the connection: %s", connection.peer, error)
            self._on_refused(connection.client_id or "a nameless client", str(error), now)
            self.drop(connection, error)
            return
        connection.update_interest()

    def _pass_on(
        self, client: Client, connection: Connection, received: ReceivedRequest, *, is_fresh: bool
    ) -> None:
        context = RequestContext(client.origin, received)
        slot = context.delivery.slot = connection.channel.receive(received.size_bytes)
        client.pending[slot] = context
        self._on_request(context)
        self._requests.put(context, is_fresh=is_fresh)

    def finish(self, connection: Connection, context: RequestContext, response: Response | None) -> None:
        """Have the reply leave when its turn comes.  From any thread; encodes on the caller's."""
        payload = None
        if response is not None:
            try:
                payload = encoded(context, response)
            except Exception as error:
                # A bug of a handler; it costs this one connection, whoever completed the request.
                what = f"{type(context.request).__name__} v{context.version}"
                self.loop.problems.note(f"the answer to {what} from {connection.peer}", error)
                self.drop_soon(connection, reset=False)
                return
        self._queue(self._complete, connection, context, payload)

    def _complete(
        self, now: float, connection: Connection, context: RequestContext, payload: list[Buffer] | None
    ) -> None:
        delivery = context.delivery
        if connection.is_closed or delivery.slot is None:
            return
        delivery.slot.is_last = delivery.closing is not None
        try:
            if delivery.throttle:
                self._muted.add(connection, now + delivery.throttle)
            connection.complete(delivery.slot, payload)
        except KafkaError as error:
            self.failed(connection, error)
            return
        self._touched[connection] = None

    def _go_on(self, connection: Connection, now: float) -> None:
        """Write what is ready, then take in what may come."""
        if connection.is_closed:
            return
        try:
            connection.write_ready(now)
        except KafkaError as error:
            self.drop(connection, error)
            return
        self.take_frames(connection, now)

    def replies_leave(self, connection: Connection, slots: Sequence[Slot]) -> None:
        """These replies are about to be handed to the transport; who does it ends their requests' paths."""
        sent_by = self.loop.at_work() or self.name
        pending = self.connections[connection].pending
        for slot in slots:
            entry = pending[slot].history_entry
            if entry is not None:
                entry.leaves_by(sent_by)

    def replies_left(self, connection: Connection, slots: Sequence[Slot]) -> None:
        """These replies are with the transport, to their last byte."""
        pending = self.connections[connection].pending
        contexts = [pending.pop(slot) for slot in slots]
        self._on_left(contexts, self.loop.runtime.clock.monotonic())
        closing = contexts[-1].delivery.closing
        if closing is not None:
            error = Disconnected(f"the connection to {connection.peer} ends with this answer")
            self.drop(connection, error, reset=closing.resets)

    def let_next_in(self, connection: Connection, context: RequestContext) -> None:
        self._queue(self._let_next_in, connection, context)

    def _let_next_in(self, now: float, connection: Connection, context: RequestContext) -> None:
        slot = context.delivery.slot
        if not connection.is_closed and slot is not None:
            connection.channel.local_processed(slot)
            self.take_frames(connection, now)

    def _end_throttles(self, now: float) -> float:
        """Let those read on whose time is up; when the next one's is."""
        for connection in self._muted.due(now):
            try:
                self.take_frames(connection, now)
            except Exception as error:
                self.failed(connection, error)
        return self._muted.next_at

    def failed(self, connection: object, error: Exception) -> None:
        """Something of ours raised over a connection (or over none): note it, and end that connection."""
        if not isinstance(connection, Connection):
            self.loop.problems.note(self.name, error)
            return
        self.loop.problems.note(f"{self.name}: the connection of {connection.peer}", error)
        try:
            self.drop(connection, Disconnected(f"the broker failed over the connection of {connection.peer}"))
        except Exception as another:
            self.loop.problems.note(f"{self.name}: the end of the connection of {connection.peer}", another)

    def drop_soon(self, connection: Connection, *, reset: bool) -> None:
        error = Disconnected(f"the broker closed the connection to {connection.peer}")
        self._queue(lambda now: self.drop(connection, error, reset=reset))

    def drop_client(self, client_id: str) -> None:
        """Reset every connection over which this client has asked something."""
        for connection in [one for one in self.connections if one.client_id == client_id]:
            error = Disconnected(f"{connection.peer} ({client_id}) was cut off")
            self.drop(connection, error, reset=True)

    def drop(self, connection: Connection, error: KafkaError, *, reset: bool = False) -> None:
        """Close one connection; its requests that still wait are given up.  Safe to repeat."""
        self._muted.forget(connection)
        self._waiting.drop(connection)
        self._close(connection, reset=reset)

    def _close(self, connection: Connection, *, reset: bool) -> None:
        client = self.connections.pop(connection, None)
        connection.close(reset=reset)
        for context in () if client is None else client.unanswered():
            self._on_gone(context, self.loop.runtime.clock.monotonic())

    def established(self, connection: Connection, transport: Transport) -> None:
        """Its TLS, if any, is agreed on.  Raises `TlsError` for a certificate of nobody."""
        self.connections[connection].origin.established(transport)

    def closed(self, connection: Connection) -> None:
        """A connection's socket is closed: another may come in its place."""
        self._quotas.release(connection.peer)

    def close_all(self, *, reset: bool) -> None:
        """Close every connection; the broker stops or has crashed."""
        for connection in list(self.connections):
            self._close(connection, reset=reset)
        self._commands.clear()
        self._touched.clear()
        self._waiting.clear()
        self._muted.clear()
        # Accepted, but not taken over yet: nobody else would close them.
        while self._arriving:
            transport = self._arriving.popleft()
            transport.close(reset=reset)
            self._quotas.release(transport.peer)

    def _adopt_next(self, now: float, entrance: Entrance) -> None:
        transport = self._arriving.popleft()
        channel = Channel(
            pipelined=self._pipelined, max_requests=self._max_pipelined, max_bytes=self._max_pipelined_bytes
        )
        connection = Connection(
            transport, channel, self, self.loop.selector, self._intake.max_frame_bytes, self._all_unsent, now
        )
        client = self.connections[connection] = Client(ClientOrigin(self, connection, entrance))
        self._intake.limit_frames(connection, client.origin.authentication)
        self._idle_check_at = min(self._idle_check_at, now + self._max_idle)
        try:
            connection.establish()
        except KafkaError as error:
            self.drop(connection, error)

    def _close_idle(self, now: float) -> None:
        """Close what has been idle for connections.max.idle.ms: neither read nor written, whether or not a
        request waits for its answer.
        """
        oldest = FOREVER
        for connection in list(self.connections):
            if now - connection.idle_since >= self._max_idle:
                self.drop(connection, Disconnected(f"{connection.peer} was idle"))
            else:
                oldest = min(oldest, connection.idle_since)
        self._idle_check_at = oldest + self._max_idle
