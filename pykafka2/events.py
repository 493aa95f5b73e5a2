"""The event sink: managers emit events, listeners receive them.

Log lines, metrics, `health()`, the broker's history and the simulation's trace read it. Events are typed
data; none is emitted per record. `emit` runs on the thread that caused the event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykafka2.errors import KafkaError
from pykafka2.slotted import slotted

logger = logging.getLogger("pykafka2")


@slotted(frozen=True)
class Event:
    """An event at the time `at` (seconds of the driver's monotonic clock)."""

    at: float


@slotted(frozen=True)
class RequestSent(Event):
    """A request was encoded and passed to its connection.

    Attributes:
        node: the broker's name as in error messages.
        api: the API's name, such as `Produce`.
        version: its version.
        correlation_id: the number of the request on its connection.
        size_bytes: its size on the wire.
        node_id: the broker's id; negative for a bootstrap address.
    """

    node: str
    api: str
    version: int
    correlation_id: int
    size_bytes: int
    node_id: int = -1


@slotted(frozen=True)
class RequestAnswered(Event):
    """A response was read, or the request has failed.

    Attributes:
        node: the broker's name as in error messages.
        api: the API's name, such as `Produce`.
        correlation_id: the number of the request on its connection.
        latency: seconds since the request was sent.
        error: the name of the error class of a failed request; None with a response, also one with errors.
        version: the version of the API.
        size_bytes: the size of the response on the wire; 0 without one.
        throttle_time_ms: for how many milliseconds the broker throttles this client.
        node_id: the broker's id; negative for a bootstrap address.
    """

    node: str
    api: str
    correlation_id: int
    latency: float
    error: str | None = None
    version: int = -1
    size_bytes: int = 0
    throttle_time_ms: int = 0
    node_id: int = -1


@slotted(frozen=True)
class ConnectionOpened(Event):
    """A connection is ready for requests.

    Attributes:
        node: the broker's name as in error messages.
        node_id: the broker's id; negative for a bootstrap address.
        seconds: the time for connecting, the handshake and authentication.
    """

    node: str
    node_id: int
    seconds: float


@slotted(frozen=True)
class ConnectionClosed(Event):
    """A connection was closed, or an attempt to connect has failed.

    Attributes:
        node: the broker's name as in error messages.
        node_id: the broker's id; negative for a bootstrap address.
        was_ready: whether it was ready for requests before.
        seconds: the time since the attempt to connect began.
        error: the reason, also if the client has closed it.
    """

    node: str
    node_id: int
    was_ready: bool
    seconds: float
    error: KafkaError


@slotted(frozen=True)
class StateMoved(Event):
    """A state machine `who` (a connection, a group, a transaction) changed its state."""

    who: str
    before: str
    after: str
    because: str = ""


@slotted(frozen=True)
class LookupStarted(Event):
    kind: str
    key: str


@slotted(frozen=True)
class LookupEnded(Event):
    kind: str
    key: str
    node: int | None
    error: str | None = None


@slotted(frozen=True)
class MetadataUpdated(Event):
    version: int
    brokers: int
    topics: int


@slotted(frozen=True)
class BatchCompleted(Event):
    topic: str
    partition: int
    records: int
    base_offset: int
    attempts: int
    error: str | None = None


@slotted(frozen=True)
class BatchRetried(Event):
    topic: str
    partition: int
    records: int
    attempts: int
    error: str


@slotted(frozen=True)
class LeaderChanged(Event):
    topic: str
    partition: int
    leader: int
    leader_epoch: int


Listener = Callable[[Event], None]


class EventSink:
    """Passes every event to every listener, in order of subscription.

    A listener that raises is logged and stays subscribed: it must not break the client. Any thread can call
    `subscribe`, which replaces the tuple that `emit` reads.
    """

    __slots__ = ("_listeners", "is_watched")

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()
        self.is_watched = False
        """Whether there are listeners; if not, callers need not create events."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; return a function that removes it."""
        self._set_listeners((*self._listeners, listener))

        def unsubscribe() -> None:
            self._set_listeners(tuple(known for known in self._listeners if known is not listener))

        return unsubscribe

    def _set_listeners(self, listeners: tuple[Listener, ...]) -> None:
        self._listeners = listeners
        self.is_watched = bool(listeners)

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a listener of the event sink failed on %r", event)
