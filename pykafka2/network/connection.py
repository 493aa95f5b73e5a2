"""One connection to a broker, sans-IO: handshake, requests in flight and their answers, timeouts, the end.

Belongs to the driver's thread.  A channel (driver/channel.py; a pipe in tests) carries its bytes and reports
to it as its handler; its owner (cluster/link.py) makes it, hears of its beginning and end, and polls it for
timeouts.  Nothing here knows a socket or reads a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Protocol

import attrs

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
from pykafka2.events import EventSink, RequestAnswered, RequestSent, StateMoved
from pykafka2.logs import ClientLogger
from pykafka2.network.api_versions import ApiVersions
from pykafka2.network.connection_setup import Offloader, SettingUp
from pykafka2.network.frames import DEFAULT_MAX_FRAME_BYTES, Frame, FrameReader
from pykafka2.network.handshake import Agreement, handshake, reauthenticate
from pykafka2.network.in_flight import InFlight, InFlightWindow, OnFailure, OnResponse
from pykafka2.network.sasl.mechanism import SaslMechanism
from pykafka2.network.script import Call, Script
from pykafka2.network.transport import Buffer
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.struct import Request
from pykafka2.run_all import call_each

LONGEST_THROTTLE = 60.0
"""Seconds that a broker is left alone at most, whatever throttle_time_ms says: an answer may be wrong."""
HANDSHAKE_MAX_FRAME_BYTES = 512 * 1024
"""What a peer that is not yet known to be a broker may make us read at once: as much as a broker reads of a
client before it is authenticated.  An ApiVersions answer has about 1 KB, a token some KB."""


REAUTHENTICATE_AT = 0.85
"""Share of a session's lifetime after which the client authenticates again, as soon as Java may (KIP-368)."""
RENEWALS_APART = 1.0
"""Seconds from one renewal of a session to the next: brokers take none sooner, and who says that a session
lasts a millisecond must not keep a client from all else."""


class HandlerFailed(RuntimeError):
    """Whoever sent a request raised while it was told the outcome: a bug, of which it cannot be told again.

    No `KafkaError`, so that it is not taken for a failure of the connection; the driver's loop ends by it.
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

    __hash__ = object.__hash__  # each is there once; Enum's own is a call of Python's


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
    _S.REAUTHENTICATING: "finish to authenticate again",
}


@attrs.define(frozen=True)
class ConnectionOptions:
    """The options that all connections of a client share.  Durations are in seconds."""

    client_id: str | None = None
    request_timeout: float = 30.0
    setup_timeout: float = 10.0
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    sasl: SaslMechanism | None = None
    offload: Offloader | None = None
    """Needed where `sasl` has work to do off the driver's thread."""


@attrs.define(eq=False)
class Unwritten:
    """Callbacks for when the bytes written so far have reached the transport."""

    on_sent: Callable[[float], None] | None
    on_response: OnResponse | None = None
    on_failure: OnFailure | None = None
    deadline: float = FOREVER
    """Of a request without an answer; any other is overdue by its answer's deadline."""


class Connection:
    """A client's connection to one broker.

    The owner opens a channel with the connection as its handler, sets `pipe` to that channel at once, and
    calls `poll` whenever `next_deadline()` has come.  `on_ready(now)` runs when the handshake is done,
    `on_closed(error, now)` once, after all that waited was failed, when the connection ends by itself; not
    after `close`.
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
    ) -> None:
        self.broker = broker
        self.state = ConnectionState.CONNECTING
        self.pipe: Pipe | None = None
        self.api_versions: ApiVersions | None = None
        self.last_used = now
        self.throttled_until = now
        self.has_ended_unanswered = False
        """True once it has ended after the handshake and before any answer."""
        self._options = options
        self._on_ready = on_ready
        self._on_closed = on_closed
        self._event_sink = event_sink or EventSink()
        self._reader = FrameReader(broker, min(options.max_frame_bytes, HANDSHAKE_MAX_FRAME_BYTES))
        script = handshake(broker, options.sasl) if shake_hands is None else shake_hands
        self._set_up: SettingUp | None = self._setting_up(script)
        self._setup_deadline = now + options.setup_timeout
        self._reauthenticate_at = FOREVER
        self._in_flight = InFlightWindow()
        self._first_id = -1
        """Of the first request after the handshake."""
        self._unwritten: list[Unwritten] = []

    # ------------------------------------------------------------------ what the owner asks

    @property
    def is_ready(self) -> bool:
        """True between the end of the handshake and the end of the connection, but for re-authentication."""
        return self.state is ConnectionState.READY

    @property
    def in_flight(self) -> int:
        """Requests whose answer is awaited."""
        return len(self._in_flight)

    def is_throttled(self, now: float) -> bool:
        """True while the broker has asked to be left alone (throttle_time_ms, KIP-219)."""
        return now < self.throttled_until

    def version_for(self, request: type[Request[Any]]) -> int:
        """The version that `send` would use.  Raises `UnsupportedVersion`, `IllegalState` before READY."""
        if self.api_versions is None:
            raise IllegalState(f"{self.broker}: the versions are not known before the handshake is done")
        return self.api_versions.choose(request)

    def next_deadline(self) -> float:
        """When `poll` has something to do unless an answer comes before; FOREVER if nothing is awaited."""
        if self.state is ConnectionState.CLOSED:
            return FOREVER
        deadline = self._in_flight.next_deadline()
        for one in self._unwritten:
            deadline = min(deadline, one.deadline)
        return min(deadline, self._reauthenticate_at if self.is_ready else self._ready_by)

    def poll(self, now: float) -> None:
        """End the connection if an answer or the handshake is overdue, or a request without an answer cannot
        be written: as in Kafka, a broker that does not answer one request in time is asked no other on this
        connection."""
        if now < self.next_deadline():
            return
        overdue = self._in_flight.take_overdue(now) if self.api_versions is not None else []
        if overdue:
            first = overdue[0]
            waited = first.deadline - first.sent_at
            error = RequestTimeout(f"{self.broker} did not answer {first.api} within {waited:g} s")
            self._end(error, now)
            call_each([partial(self._answer_failure, waiting, error, now) for waiting in overdue])
            self._on_closed(error, now)
        elif any(one.deadline <= now for one in self._unwritten):
            self.fail(RequestTimeout(f"{self.broker} did not take what was written to it in time"), now)
        elif self.is_ready:
            self._authenticate_again(now)
        elif self._set_up is None or not self._set_up.give_up_work(now):
            doing = SETTING_UP[self.state]
            self.fail(
                Disconnected(
                    f"{self.broker} did not {doing} in time; check the address, and that security_protocol "
                    "fits the port"
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
        """Send a request (see `driver.pollable.Send`); never raises a `KafkaError`.

        A request that cannot be said in a version of this broker (`UnsupportedVersion`,
        `SerializationError`), or that comes before READY or after the end (`Disconnected`), fails before
        this returns.
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
            self._in_flight.add(
                InFlight(request, version, correlation_id, now, deadline, on_response, on_failure)
            )
            if on_sent is not None:
                self._unwritten.append(Unwritten(on_sent))
        else:
            self._unwritten.append(Unwritten(on_sent, on_response, on_failure, deadline))

    def close(self, now: float, error: KafkaError | None = None) -> None:
        """End the connection; what waits fails with `error`.  The owner is not told.  Safe to repeat."""
        if self.state is not ConnectionState.CLOSED:
            self._end(error or Disconnected(f"the connection to {self.broker} was closed"), now)

    def fail(self, error: KafkaError, now: float) -> None:
        """End the connection because of `error`: what waits fails, then the owner is told."""
        if self.state is not ConnectionState.CLOSED:
            self._end(error, now)
            self._on_closed(error, now)

    # ------------------------------------------------------------------ what the channel reports

    def on_open(self, now: float) -> None:
        """Bytes may flow: shake hands."""
        self._move_to(ConnectionState.HANDSHAKING, now)
        if self._set_up is not None:
            self._set_up.go_on(None, now)

    def buffer(self) -> memoryview:
        return self._reader.buffer()

    def on_received(self, count: int, now: float) -> None:
        """Answer the requests whose responses are complete.  A `KafkaError` raised here ends the connection
        by way of the channel, which then calls `on_close`."""
        self.last_used = now
        try:
            frames = self._reader.received(count)
        except CorruptData as error:
            raise CorruptResponse(str(error)) from error
        for frame in frames:
            if self.state is ConnectionState.CLOSED:
                return  # one of the answers before has led to the end
            self._on_frame(frame, now)

    def on_written(self, now: float) -> bool:
        """All that was written is with the transport; True if somebody waited to hear that."""
        if not self._unwritten:
            return False
        unwritten, self._unwritten = self._unwritten, []
        told: list[Callable[[], None]] = []
        for one in unwritten:
            if one.on_sent is not None:
                told.append(partial(one.on_sent, now))
            if one.on_response is not None:
                told.append(partial(one.on_response, None, now))
        call_each(told)
        return True

    def on_close(self, error: KafkaError, now: float) -> None:
        """The channel has ended."""
        if type(error) is Disconnected:
            if self.state is ConnectionState.HANDSHAKING:
                error = Disconnected(
                    f"{error} during the handshake; check that security_protocol fits the port, "
                    "and the broker's log"
                )
            elif not self._reader.is_between_frames:
                error = Disconnected(f"{error} in the middle of a response")
        self.fail(error, now)

    # ------------------------------------------------------------------ inside

    def _move_to(self, state: ConnectionState, now: float, because: str = "") -> None:
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(self.state, state)
        if self._event_sink.is_watched:
            who = f"connection to {self.broker}"
            self._event_sink.emit(StateMoved(now, who, self.state.value, state.value, because))
        self.state = state

    def _write(self, request: Request[Any], version: int, now: float) -> int:
        correlation_id = self._in_flight.take_id()
        try:
            buffers = encode_request(request, version, correlation_id, self._options.client_id)
        except UnsupportedVersion as error:
            raise UnsupportedVersion(f"{self.broker}: {error}; it needs a newer broker") from error
        if self.pipe is None:
            raise IllegalState(f"{self.broker}: the connection has no pipe")
        self.pipe.write(buffers)
        self.last_used = now
        if self._event_sink.is_watched:
            name = request.NAME.removesuffix("Request")
            size = sum(len(buffer) for buffer in buffers)
            self._event_sink.emit(RequestSent(now, self.broker, name, version, correlation_id, size))
        return correlation_id

    def _on_frame(self, frame: Frame, now: float) -> None:
        waiting = self._in_flight.take_oldest()
        if waiting is None:
            raise CorruptResponse(f"{self.broker} sent a response that nobody asked for")
        try:
            response = waiting.decode(frame, self.broker)
        except KafkaError as error:
            self._answer_failure(waiting, error, now)
            raise
        throttle_time_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            seconds = min(throttle_time_ms / 1000.0, LONGEST_THROTTLE)
            self.throttled_until = max(self.throttled_until, now + seconds)
        if self._event_sink.is_watched:
            self._emit_answered(waiting, now, None)
        try:
            waiting.on_response(response, now)
        except Exception as error:
            # It has been told once, and half of what it does may be done: the one safe end is the client's.
            raise HandlerFailed(f"handling the {response.NAME} of {self.broker}: {error!r}") from error

    def _answer_failure(self, waiting: InFlight, error: KafkaError, now: float) -> None:
        if self._event_sink.is_watched:
            self._emit_answered(waiting, now, type(error).__name__)
        waiting.on_failure(error, now)

    def _emit_answered(self, waiting: InFlight, now: float, error: str | None) -> None:
        latency = now - waiting.sent_at
        answered = RequestAnswered(now, self.broker, waiting.api, waiting.correlation_id, latency, error)
        self._event_sink.emit(answered)

    def _end(self, error: KafkaError, now: float) -> None:
        """Close the pipe and fail all that waits, in order."""
        self._move_to(ConnectionState.CLOSED, now, str(error))
        if self.pipe is not None:
            self.pipe.close()
        if self._set_up is not None:
            self._set_up.close()
            self._set_up = None
        waiting = self._in_flight.take_all()
        self.has_ended_unanswered = bool(waiting) and waiting[0].correlation_id == self._first_id
        unwritten, self._unwritten = self._unwritten, []
        for_others = _for_others(self.broker, error)
        told = [partial(self._answer_failure, one, for_others, now) for one in waiting]
        told += [
            partial(late.on_failure, for_others, now) for late in unwritten if late.on_failure is not None
        ]
        call_each(told)

    # ------------------------------------------------------------------ the handshake

    def call_for_set_up(self, step: Call, on_answer: OnResponse, now: float) -> None:
        """Send a request of the handshake's."""
        version = step.request.MAX_VERSION if step.version is None else step.version
        correlation_id = self._write(step.request, version, now)
        deadline = self._ready_by
        if self.state is ConnectionState.HANDSHAKING:
            deadline = min(now + self._options.request_timeout, deadline)
        self._in_flight.add(
            InFlight(step.request, version, correlation_id, now, deadline, on_answer, self._on_lost)
        )

    @property
    def _ready_by(self) -> float:
        set_up = self._set_up
        return self._setup_deadline if set_up is None else set_up.deadline(self._setup_deadline)

    def on_agreed(self, agreement: Agreement, now: float) -> None:
        """The handshake is done, or the session was renewed."""
        is_first = self.api_versions is None
        self._set_up = None
        self.api_versions = agreement.versions
        self._move_to(ConnectionState.READY, now)
        self._reader.max_frame_bytes = self._options.max_frame_bytes
        lifetime = agreement.session_lifetime_ms / 1000.0
        wait = lifetime * REAUTHENTICATE_AT if is_first else max(lifetime * REAUTHENTICATE_AT, RENEWALS_APART)
        self._reauthenticate_at = now + wait if lifetime > 0 else FOREVER
        if is_first:
            self._first_id = self._in_flight.next_id
            self._on_ready(now)

    def _authenticate_again(self, now: float) -> None:
        """Authenticate again after the responses in flight, before any other request (KIP-368)."""
        versions, sasl = self.api_versions, self._options.sasl
        if versions is None or sasl is None:
            raise IllegalState(f"{self.broker}: a session without SASL has no end")
        self._move_to(ConnectionState.REAUTHENTICATING, now, "the session is about to end")
        # A join may be in flight that waits for minutes: until then the broker reads nothing more.
        self._setup_deadline = max(now, self._in_flight.last_deadline()) + self._options.setup_timeout
        set_up = self._set_up = self._setting_up(reauthenticate(self.broker, versions, sasl))
        set_up.go_on(None, now)

    def _setting_up(self, script: Script[Agreement]) -> SettingUp:
        return SettingUp(script, self, self._options.offload, ClientLogger(__name__, self._options.client_id))

    def _on_lost(self, error: KafkaError, now: float) -> None:
        """A handshake's request has no answer, or the script failed on it: there is no going on."""
        self.fail(error, now)


def _for_others(broker: str, error: KafkaError) -> KafkaError:
    """Return the error for requests that did not cause the end of the connection: they can be retried
    elsewhere."""
    if type(error) is Disconnected or not isinstance(error, Disconnected | CorruptData | TlsError):
        return error
    lost = Disconnected(f"the connection to {broker} was closed: {error}")
    lost.__cause__ = error
    return lost
