"""Which requests of one connection are where, whether its socket is read, and in which order replies leave.

Two modes.  `serial` is Apache's: from the receipt of a request until its reply has left, the socket is not
read. `pipelined` lets the next request in as soon as the one before has been processed locally (an acks=all
produce appended on the leader, say); replies are cached and still leave in the order of their requests, and
requests are still processed one at a time and in order.  The pipelined table is drawn in
docs/architecture.md.

Pure state: belongs to its processor's thread, knows neither sockets nor clocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum

import attrs

from pykafka2.errors import IllegalState, IllegalTransition
from pykafka2.network.transport import Buffer


class ChannelState(Enum):
    """What the channel waits for; `muted` ones do not read their socket."""

    NOT_MUTED = "not muted"
    MUTED = "muted"
    MUTED_AND_RESPONSE_PENDING = "muted, response pending"
    MUTED_AND_THROTTLED = "muted, throttled"
    MUTED_AND_THROTTLED_AND_RESPONSE_PENDING = "muted, throttled, response pending"
    REQCACHED_AND_RESPONSE_PENDING = "requests cached, response pending"
    REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING = "request processing, requests cached, response pending"
    MUTED_AND_THROTTLED_AND_REQCACHED = "muted, throttled, requests cached"
    MUTED_AND_THROTTLED_AND_REQPROCESSING = "muted, throttled, request processing, requests cached"

    __hash__ = object.__hash__  # each is there once; Enum's own is a call of Python's


class ChannelEvent(Enum):
    """What moves a channel.  A response is the last one if no other request is cached."""

    REQUEST_RECEIVED = "request received"
    REQUEST_LOCAL_PROCESSED = "request processed locally"
    RESPONSE_SENT = "response sent, others cached"
    LAST_RESPONSE_SENT = "response sent, last one"
    THROTTLE_STARTED = "throttle started"
    THROTTLE_ENDED = "throttle ended"
    UNMUTED = "unmuted"

    __hash__ = object.__hash__  # each is there once; Enum's own is a call of Python's


_S = ChannelState
_E = ChannelEvent
_CACHED = _S.REQCACHED_AND_RESPONSE_PENDING
_PROCESSING = _S.REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING
_THROTTLED_PENDING = _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
_THROTTLED_CACHED = _S.MUTED_AND_THROTTLED_AND_REQCACHED
_THROTTLED_PROCESSING = _S.MUTED_AND_THROTTLED_AND_REQPROCESSING

Table = dict[tuple[ChannelState, ChannelEvent], ChannelState]

SERIAL_MOVES: Table = {
    (_S.NOT_MUTED, _E.REQUEST_RECEIVED): _S.MUTED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_RESPONSE_PENDING, _E.LAST_RESPONSE_SENT): _S.MUTED,
    (_S.MUTED, _E.UNMUTED): _S.NOT_MUTED,
    (_S.MUTED_AND_RESPONSE_PENDING, _E.THROTTLE_STARTED): _THROTTLED_PENDING,
    (_THROTTLED_PENDING, _E.LAST_RESPONSE_SENT): _S.MUTED_AND_THROTTLED,
    (_THROTTLED_PENDING, _E.THROTTLE_ENDED): _S.MUTED_AND_RESPONSE_PENDING,
    (_S.MUTED_AND_THROTTLED, _E.THROTTLE_ENDED): _S.MUTED,
}

PIPELINED_MOVES: Table = {
    **SERIAL_MOVES,
    (_S.MUTED_AND_RESPONSE_PENDING, _E.REQUEST_LOCAL_PROCESSED): _CACHED,
    (_CACHED, _E.REQUEST_RECEIVED): _PROCESSING,
    (_CACHED, _E.RESPONSE_SENT): _CACHED,
    (_CACHED, _E.LAST_RESPONSE_SENT): _S.MUTED,
    (_PROCESSING, _E.REQUEST_LOCAL_PROCESSED): _CACHED,
    (_PROCESSING, _E.RESPONSE_SENT): _PROCESSING,
    (_PROCESSING, _E.LAST_RESPONSE_SENT): _S.MUTED_AND_RESPONSE_PENDING,
    # The same, throttled.
    (_CACHED, _E.THROTTLE_STARTED): _THROTTLED_CACHED,
    (_PROCESSING, _E.THROTTLE_STARTED): _THROTTLED_PROCESSING,
    (_THROTTLED_PENDING, _E.REQUEST_LOCAL_PROCESSED): _THROTTLED_CACHED,
    (_THROTTLED_CACHED, _E.RESPONSE_SENT): _THROTTLED_CACHED,
    (_THROTTLED_CACHED, _E.LAST_RESPONSE_SENT): _S.MUTED_AND_THROTTLED,
    (_THROTTLED_CACHED, _E.THROTTLE_ENDED): _CACHED,
    (_THROTTLED_PROCESSING, _E.REQUEST_LOCAL_PROCESSED): _THROTTLED_CACHED,
    (_THROTTLED_PROCESSING, _E.RESPONSE_SENT): _THROTTLED_PROCESSING,
    (_THROTTLED_PROCESSING, _E.LAST_RESPONSE_SENT): _THROTTLED_PENDING,
    (_THROTTLED_PROCESSING, _E.THROTTLE_ENDED): _PROCESSING,
}

READABLE_STATES = frozenset({_S.NOT_MUTED, _CACHED})


@attrs.define(eq=False)
class Slot:
    """The place of one request in the order of replies.  `payload` None with `is_complete`: no bytes
    (acks=0).  `is_last`: the connection ends with this reply.
    """

    size_bytes: int
    is_complete: bool = False
    payload: Sequence[Buffer] | None = None
    is_last: bool = False


class Channel:
    """The requests and replies of one connection.

    `receive` a request, perhaps `local_processed`, `complete` it with its reply; `take_ready` gives the
    replies whose turn has come, `sent` says that the oldest of those has left.
    """

    __slots__ = (
        "_max_bytes",
        "_max_requests",
        "_moves",
        "_processing",
        "_waiting",
        "_writing",
        "bytes",
        "state",
    )

    def __init__(self, *, pipelined: bool, max_requests: int = 256, max_bytes: int = 128 << 20) -> None:
        self.state = ChannelState.NOT_MUTED
        self.bytes = 0
        self._moves = PIPELINED_MOVES if pipelined else SERIAL_MOVES
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._processing: Slot | None = None
        self._waiting: deque[Slot] = deque()  # not yet taken for writing, oldest first
        self._writing: deque[Slot] = deque()  # taken, on their way out

    @property
    def is_pipelined(self) -> bool:
        return self._moves is PIPELINED_MOVES

    @property
    def is_readable(self) -> bool:
        """Whether the next request may come in."""
        return (
            self.state in READABLE_STATES
            and self.in_flight < self._max_requests
            and self.bytes < self._max_bytes
        )

    @property
    def in_flight(self) -> int:
        """Requests received whose replies have not left."""
        return len(self._waiting) + len(self._writing)

    @property
    def processing(self) -> Slot | None:
        return self._processing

    def move(self, event: ChannelEvent) -> None:
        """Move by the table; any other pair raises `IllegalTransition` and changes nothing."""
        after = self._moves.get((self.state, event))
        if after is None:
            raise IllegalTransition(self.state, event)
        self.state = after

    def receive(self, size_bytes: int) -> Slot:
        """A request came in and is processed from now on."""
        self.move(ChannelEvent.REQUEST_RECEIVED)
        slot = Slot(size_bytes)
        self.bytes += size_bytes
        self._processing = slot
        self._waiting.append(slot)
        return slot

    def local_processed(self, slot: Slot) -> None:
        """Nothing is left to do for it here but to wait: the next may come in.  No effect in serial mode."""
        if slot is self._processing and self.is_pipelined and not slot.is_complete:
            self.move(ChannelEvent.REQUEST_LOCAL_PROCESSED)
            self._processing = None

    def complete(self, slot: Slot, payload: Sequence[Buffer] | None) -> None:
        """The reply is there (None: there is nothing to send); it leaves when its turn comes."""
        if slot.is_complete:
            raise IllegalState("a request has one reply")
        slot.is_complete = True
        slot.payload = payload
        if slot is self._processing:
            # With others before it the reply must wait its turn; alone, it leaves at once, as in serial mode.
            if self.in_flight > 1:
                self.move(ChannelEvent.REQUEST_LOCAL_PROCESSED)
            self._processing = None

    def take_ready(self) -> list[Slot]:
        """The replies whose turn has come; each is followed by a call of `sent`."""
        taken: list[Slot] = []
        while self._waiting and self._waiting[0].is_complete:
            slot = self._waiting.popleft()
            self._writing.append(slot)
            taken.append(slot)
        return taken

    def sent(self) -> Slot:
        """The oldest reply taken has left; unmutes the channel if it was the last one."""
        slot = self._writing.popleft()
        self.bytes -= slot.size_bytes
        cached = self.in_flight - (self._processing is not None)
        self.move(ChannelEvent.RESPONSE_SENT if cached else ChannelEvent.LAST_RESPONSE_SENT)
        if self.state is ChannelState.MUTED:
            self.move(ChannelEvent.UNMUTED)
        return slot

    def throttle(self) -> None:
        """Stop reading, whatever leaves, until `end_throttle`."""
        self.move(ChannelEvent.THROTTLE_STARTED)

    def end_throttle(self) -> None:
        self.move(ChannelEvent.THROTTLE_ENDED)
        if self.state is ChannelState.MUTED:
            self.move(ChannelEvent.UNMUTED)
