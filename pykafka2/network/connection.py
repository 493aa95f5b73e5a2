"""One connection to a broker, sans-IO: handshake, requests in flight, responses, timeouts, close.

Belongs to the driver's thread. A channel (driver/channel.py; a pipe in tests) carries its bytes and calls it
as its handler. Its owner (cluster/link.py) creates it, polls it for timeouts and is called back when it is
ready or closed. This module uses no socket and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Protocol

from pykafka2.clock import FOREVER
from pykafka2.errors import (
    CorruptData,
    CorruptResponse,
    Disconnected,
    IllegalState,
    IllegalTransition,
    KafkaError,
    RequestTimeout,
    TlsError,
    UnsupportedVersion,
)
from pykafka2.events import (
    ConnectionClosed,
    ConnectionOpened,
    EventSink,
    RequestAnswered,
    RequestSent,
    StateMoved,
)
from pykafka2.interrupts import run_all
from pykafka2.logs import ClientLogger
from pykafka2.metrics import Metrics
from pykafka2.network.api_versions import ApiVersions
from pykafka2.network.connection_setup import ConnectionSetup, Offloader
from pykafka2.network.frames import DEFAULT_MAX_FRAME_BYTES, Frame, FrameReader
from pykafka2.network.handshake import Agreement, handshake, reauthenticate
from pykafka2.network.in_flight import (
    MAX_CORRELATION_ID,
    InFlight,
    InFlightWindow,
    OnFailure,
    OnResponse,
)
from pykafka2.network.sasl.mechanism import SaslMechanism
from pykafka2.network.script import Call, Script
from pykafka2.network.traffic import Traffic
from pykafka2.network.transport import Buffer
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.struct import Request
from pykafka2.slotted import slotted

LONGEST_THROTTLE = 60.0
"""Longest throttle in seconds that is obeyed: throttle_time_ms can be wrong."""
HANDSHAKE_MAX_FRAME_BYTES = 512 * 1024
"""Largest frame before the handshake is done: the peer may be no broker. A broker reads as much from a client
before authentication; an ApiVersions response has about 1 KB, a token some KB."""


LENGTH_BYTES = 4
"""The length in front of each frame on the wire."""
REAUTHENTICATE_AT = 0.85
"""Share of a session's lifetime after which the client re-authenticates, Java's earliest (KIP-368)."""
REAUTHENTICATIONS_APART = 1.0
"""Fewest seconds between re-authentications: brokers reject earlier ones, and a session lifetime of a
millisecond must not block all other requests."""


class HandlerFailed(RuntimeError):
    """A response callback raised. This is a bug, and the callback cannot be called a second time.

    It is not a KafkaError, which would count as a failure of the connection; it ends the driver's loop.
    """


class Pipe(Protocol):
    """The carrier of the bytes; driver/channel.py implements it."""

    def write(self, buffers: Sequence[Buffer]) -> None: ...

    def close(self) -> None: ...


class ConnectionState(Enum):
    CONNECTING = "connecting"
    HANDSHAKING = "handshaking"
    READY = "ready"
    REAUTHENTICATING = "re-authenticating"
    CLOSED = "closed"

    __hash__ = object.__hash__  # members are singletons, and Enum's own hash is a Python call


_S = ConnectionState
LEGAL_MOVES: dict[ConnectionState, frozenset[ConnectionState]] = {
    _S.CONNECTING: frozenset({_S.HANDSHAKING, _S.CLOSED}),
    _S.HANDSHAKING: frozenset({_S.READY, _S.CLOSED}),
    _S.READY: frozenset({_S.REAUTHENTICATING, _S.CLOSED}),
    _S.REAUTHENTICATING: frozenset({_S.READY, _S.CLOSED}),
    _S.CLOSED: frozenset(),
}


SETTING_UP = {
    _S.CONNECTING: "accept the connection",
    _S.HANDSHAKING: "finish the handshake",
    _S.REAUTHENTICATING: "finish re-authentication",
}


@slotted(frozen=True)
class ConnectionOptions:
    """The options that all connections of a client share. Durations are in seconds."""

    client_id: str | None = None
    request_timeout: float = 30.0
    setup_timeout: float = 10.0
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    sasl: SaslMechanism | None = None
    offload: Offloader | None = None
    """Required if `sasl` has work for another thread."""


@slotted(eq=False)
class Unwritten:
    """Callbacks of a request, called when its bytes have reached the transport."""

    on_sent: Callable[[float], None] | None
    on_response: OnResponse | None = None
    on_failure: OnFailure | None = None
    deadline: float = FOREVER
    """Deadline of a request without a response; other requests have the deadline of their response."""


class Connection:
    """A client's connection to one broker.

    The owner opens a channel with the connection as its handler, sets `pipe` to that channel at once, and
    calls `poll` at `next_deadline()`. `on_ready(now)` is called when the handshake is done. `on_closed(error,
    now)` is called once if the connection fails, after its requests were failed; not after `close`.
    """

    def __init__(
        self,
        broker: str,
        now: float,
        options: ConnectionOptions,
        *,
        on_ready: Callable[[float], None],
        on_closed: Callable[[KafkaError, float], None],
        shake_hands: Script[Agreement] | None = None,
        event_sink: EventSink | None = None,
        traffic: Traffic | None = None,
        node_id: int = -1,
    ) -> None:
        self.broker = broker
        self._node_id = node_id
        self._began_at = now
        self.state = ConnectionState.CONNECTING
        self.pipe: Pipe | None = None
        self.api_versions: ApiVersions | None = None
        self.last_used = now
        self.throttled_until = now
        self.has_ended_unanswered = False
        """True if it was closed after the handshake and before any response."""
        self._options = options
        self._on_ready = on_ready
        self._on_closed = on_closed
        self._event_sink = event_sink or EventSink()
        self._traffic = traffic or Traffic(Metrics(), "")
        self._reauthentication_began_at = now
        self._reader = FrameReader(broker, min(options.max_frame_bytes, HANDSHAKE_MAX_FRAME_BYTES))
        self.buffer = self._reader.buffer
        script = handshake(broker, options.sasl) if shake_hands is None else shake_hands
        self._set_up: ConnectionSetup | None = self._setting_up(script)
        self._setup_deadline = now + options.setup_timeout
        self._reauthenticate_at = FOREVER
        self._in_flight = InFlightWindow()
        self._next_id = 0
        self._first_id = -1
        """Correlation id of the first request after the handshake."""
        self._unwritten: list[Unwritten] = []

    # ------------------------------------------------------------------ for the owner

    @property
    def is_ready(self) -> bool:
        """True from the end of the handshake until the connection closes, except during re-authentication."""
        return self.state is ConnectionState.READY

    @property
    def in_flight(self) -> int:
        """Number of requests in flight."""
        return len(self._in_flight)

    def is_throttled(self, now: float) -> bool:
        """Return True while the broker throttles this client (throttle_time_ms, KIP-219)."""
        return now < self.throttled_until

    def version_for(self, request: type[Request[Any]]) -> int:
        """Return the version that `send` would use. Raise UnsupportedVersion, IllegalState before READY."""
        if self.api_versions is None:
            raise IllegalState(f"{self.broker}: the API versions are unknown until the handshake is done")
        return self.api_versions.choose(request)

    def next_deadline(self) -> float:
        """Return the time of the next `poll`, or FOREVER if nothing can time out."""
        if self.state is ConnectionState.CLOSED:
            return FOREVER
        deadline = self._in_flight.next_deadline()
        for unwritten in self._unwritten:
            deadline = min(deadline, unwritten.deadline)
        return min(deadline, self._reauthenticate_at if self.is_ready else self._ready_by)

    def poll(self, now: float) -> None:
        """Close the connection if a response, the handshake or a write has timed out.

        As in the Java client, one request that times out ends its connection.
        """
        if now < self.next_deadline():
            return
        overdue = self._in_flight.take_overdue(now) if self.api_versions is not None else []
        if overdue:
            first = overdue[0]
            waited = round(first.deadline - first.sent_at, 2)
            error = RequestTimeout(f"{self.broker} did not respond to {first.api} within {waited:g} s")
            self._end(error, now)
            run_all([partial(self._fail_request, request, error, now) for request in overdue])
            self._on_closed(error, now)
        elif any(unwritten.deadline <= now for unwritten in self._unwritten):
            self.fail(RequestTimeout(f"{self.broker} did not accept a request in time"), now)
        elif self.is_ready:
            self._reauthenticate(now)
        elif self._set_up is None or not self._set_up.give_up_work(now):
            doing = SETTING_UP[self.state]
            self.fail(
                Disconnected(
                    f"{self.broker} did not {doing} in time; check the address, and that security_protocol "
                    "matches the port"
                ),
                now,
            )

    def send(
        self,
        request: Request[Any],
        now: float,
        *,
        on_response: OnResponse,
        on_failure: OnFailure,
        timeout: float | None = None,
        expects_response: bool = True,
        on_sent: Callable[[float], None] | None = None,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> None:
        """Send a request (see `driver.pollable.Send`); never raises a KafkaError.

        `on_failure` is called before this returns if the broker's versions cannot carry the request
        (UnsupportedVersion, SerializationError) or the connection is not READY (Disconnected).
        """
        if self.api_versions is None or self.state is not ConnectionState.READY:
            on_failure(Disconnected(f"{self.broker} is not connected ({self.state.value})"), now)
            return
        try:
            version = self.api_versions.choose(type(request), min_version, max_version)
            correlation_id = self._write(request, version, now)
        except KafkaError as error:
            on_failure(error, now)
            return
        deadline = now + (self._options.request_timeout if timeout is None else timeout)
        if expects_response:
            self._in_flight.append(
                InFlight(request, version, correlation_id, now, deadline, on_response, on_failure)
            )
            if on_sent is not None:
                self._unwritten.append(Unwritten(on_sent))
        else:
            self._unwritten.append(Unwritten(on_sent, on_response, on_failure, deadline))

    def close(self, now: float, error: KafkaError | None = None) -> None:
        """Close the connection and fail its requests with `error`; does not call `on_closed`. Idempotent."""
        if self.state is not ConnectionState.CLOSED:
            self._end(error or Disconnected(f"the connection to {self.broker} was closed"), now)

    def fail(self, error: KafkaError, now: float) -> None:
        """Close the connection because of `error`: fail its requests, then call `on_closed`."""
        if self.state is not ConnectionState.CLOSED:
            self._end(error, now)
            self._on_closed(error, now)

    # ------------------------------------------------------------------ for the channel

    def on_open(self, now: float) -> None:
        """Start the handshake."""
        self._move_to(ConnectionState.HANDSHAKING, now)
        self._traffic.count("connection-creation")
        if self._set_up is not None:
            self._set_up.resume(None, now)

    def on_received(self, count: int, now: float) -> None:
        """Complete the requests whose responses have arrived.

        If this raises a KafkaError, the channel closes and calls `on_close`.
        """
        self.last_used = now
        try:
            frames = self._reader.received(count)
        except CorruptData as error:
            raise CorruptResponse(str(error)) from error
        for frame in frames:
            if self.state is ConnectionState.CLOSED:
                return  # handling an earlier response has closed the connection
            self._on_frame(frame, now)

    def on_written(self, now: float) -> bool:
        """Call the callbacks of all requests written so far; return whether there were any."""
        if not self._unwritten:
            return False
        written, self._unwritten = self._unwritten, []
        callbacks: list[Callable[[], None]] = []
        for request in written:
            if request.on_sent is not None:
                callbacks.append(partial(request.on_sent, now))
            if request.on_response is not None:
                callbacks.append(partial(request.on_response, None, now))
        run_all(callbacks)
        return True

    def on_close(self, error: KafkaError, now: float) -> None:
        """Fail the connection after the channel has closed."""
        if type(error) is Disconnected:
            if self.state is ConnectionState.HANDSHAKING:
                error = Disconnected(
                    f"{error} during the handshake; check that security_protocol matches the port, "
                    "and the broker's log"
                )
            elif not self._reader.is_between_frames:
                error = Disconnected(f"{error} in the middle of a response")
        self.fail(error, now)

    # ------------------------------------------------------------------ inside

    def _move_to(self, state: ConnectionState, now: float, reason: str = "") -> None:
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(self.state, state)
        if self._event_sink.is_watched:
            name = f"connection to {self.broker}"
            self._event_sink.emit(StateMoved(now, name, self.state.value, state.value, reason))
        self.state = state

    def _write(self, request: Request[Any], version: int, now: float) -> int:
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & MAX_CORRELATION_ID
        try:
            buffers = encode_request(request, version, correlation_id, self._options.client_id)
        except UnsupportedVersion as error:
            raise UnsupportedVersion(f"{self.broker}: {error}; use a newer broker") from error
        if self.pipe is None:
            raise IllegalState(f"{self.broker}: the connection has no pipe")
        self.pipe.write(buffers)
        self._traffic.requests.add((sum(map(len, buffers)),))
        self.last_used = now
        if self._event_sink.is_watched:
            name = request.NAME.removesuffix("Request")
            size = sum(len(buffer) for buffer in buffers)
            self._event_sink.emit(
                RequestSent(now, self.broker, name, version, correlation_id, size, self._node_id)
            )
        return correlation_id

    def _on_frame(self, frame: Frame, now: float) -> None:
        if not self._in_flight:
            raise CorruptResponse(f"{self.broker} sent a response without a request")
        request = self._in_flight.popleft()
        try:
            response = request.decode(frame, self.broker)
        except KafkaError as error:
            self._fail_request(request, error, now)
            raise
        size_bytes, throttle_time_ms = len(frame) + LENGTH_BYTES, getattr(response, "throttle_time_ms", 0)
        self._traffic.received(request, response, size_bytes, throttle_time_ms, now)
        if throttle_time_ms > 0:
            seconds = min(throttle_time_ms / 1000.0, LONGEST_THROTTLE)
            self.throttled_until = max(self.throttled_until, now + seconds)
        if self._event_sink.is_watched:
            self._emit_answered(request, now, None, size_bytes, throttle_time_ms)
        try:
            request.on_response(response, now)
        except Exception as error:
            # The callback may be half done and cannot be repeated, so the only safe end is the client's.
            raise HandlerFailed(f"handling the {response.NAME} of {self.broker}: {error!r}") from error

    def _fail_request(self, request: InFlight, error: KafkaError, now: float) -> None:
        if self._event_sink.is_watched:
            self._emit_answered(request, now, type(error).__name__)
        request.on_failure(error, now)

    def _emit_answered(
        self, request: InFlight, now: float, error: str | None, size_bytes: int = 0, throttle_time_ms: int = 0
    ) -> None:
        answered = RequestAnswered(
            now,
            self.broker,
            request.api,
            request.correlation_id,
            now - request.sent_at,
            error,
            request.version,
            size_bytes,
            throttle_time_ms,
            self._node_id,
        )
        self._event_sink.emit(answered)

    def _end(self, error: KafkaError, now: float) -> None:
        """Close the pipe and fail all requests, in order."""
        if self.state is not ConnectionState.CONNECTING:
            self._traffic.count("connection-close")
        if self.state is not ConnectionState.READY:
            self._traffic.failed(error, again=self.state is ConnectionState.REAUTHENTICATING)
        self._move_to(ConnectionState.CLOSED, now, str(error))
        if self._event_sink.is_watched:
            seconds, was_ready = now - self._began_at, self.api_versions is not None
            self._event_sink.emit(
                ConnectionClosed(now, self.broker, self._node_id, was_ready, seconds, error)
            )
        if self.pipe is not None:
            self.pipe.close()
        if self._set_up is not None:
            self._set_up.close()
            self._set_up = None
        in_flight = self._in_flight.take_all()
        self.has_ended_unanswered = bool(in_flight) and in_flight[0].correlation_id == self._first_id
        unwritten, self._unwritten = self._unwritten, []
        for_others = _for_others(self.broker, error)
        callbacks = [partial(self._fail_request, request, for_others, now) for request in in_flight]
        callbacks += [
            partial(request.on_failure, for_others, now)
            for request in unwritten
            if request.on_failure is not None
        ]
        run_all(callbacks)

    # ------------------------------------------------------------------ the handshake

    def call_for_set_up(self, step: Call, on_response: OnResponse, now: float) -> None:
        """Send a request of the handshake."""
        version = step.request.MAX_VERSION if step.version is None else step.version
        correlation_id = self._write(step.request, version, now)
        deadline = self._ready_by
        if self.state is ConnectionState.HANDSHAKING:
            deadline = min(now + self._options.request_timeout, deadline)
        self._in_flight.append(
            InFlight(step.request, version, correlation_id, now, deadline, on_response, self._on_lost)
        )

    @property
    def _ready_by(self) -> float:
        set_up = self._set_up
        return self._setup_deadline if set_up is None else set_up.deadline(self._setup_deadline)

    def on_agreed(self, agreement: Agreement, now: float) -> None:
        """Move to READY after the handshake or a re-authentication."""
        is_first = self.api_versions is None
        if self._options.sasl is not None:
            self._traffic.authenticated(None if is_first else now - self._reauthentication_began_at)
        self._set_up = None
        self.api_versions = agreement.versions
        self._move_to(ConnectionState.READY, now)
        self._reader.max_frame_bytes = self._options.max_frame_bytes
        lifetime = agreement.session_lifetime_ms / 1000.0
        wait = (
            lifetime * REAUTHENTICATE_AT
            if is_first
            else max(lifetime * REAUTHENTICATE_AT, REAUTHENTICATIONS_APART)
        )
        self._reauthenticate_at = now + wait if lifetime > 0 else FOREVER
        if is_first:
            self._first_id = self._next_id
            if self._event_sink.is_watched:
                seconds = now - self._began_at
                self._event_sink.emit(ConnectionOpened(now, self.broker, self._node_id, seconds))
            self._on_ready(now)

    def _reauthenticate(self, now: float) -> None:
        """Re-authenticate after the responses in flight and before any other request (KIP-368)."""
        versions, sasl = self.api_versions, self._options.sasl
        if versions is None or sasl is None:
            raise IllegalState(f"{self.broker}: a connection without SASL cannot re-authenticate")
        self._move_to(ConnectionState.REAUTHENTICATING, now, "the session is about to end")
        self._reauthentication_began_at = now
        # A JoinGroup in flight can wait for minutes; until its response the broker reads no other request.
        self._setup_deadline = max(now, self._in_flight.last_deadline()) + self._options.setup_timeout
        set_up = self._set_up = self._setting_up(reauthenticate(self.broker, versions, sasl))
        set_up.resume(None, now)

    def _setting_up(self, script: Script[Agreement]) -> ConnectionSetup:
        return ConnectionSetup(
            script, self, self._options.offload, ClientLogger(__name__, self._options.client_id)
        )

    def _on_lost(self, error: KafkaError, now: float) -> None:
        """Fail the connection if a request of the handshake fails."""
        self.fail(error, now)


def _for_others(broker: str, error: KafkaError) -> KafkaError:
    """Return the error for requests that did not cause the close: one that allows a retry elsewhere."""
    if type(error) is Disconnected or not isinstance(error, Disconnected | CorruptData | TlsError):
        return error
    lost = Disconnected(f"the connection to {broker} was closed: {error}")
    lost.__cause__ = error
    return lost
