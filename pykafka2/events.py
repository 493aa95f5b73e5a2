"""The event sink: managers emit events, listeners receive them.

Log lines, metrics, `health()`, the broker's history and the simulation's trace read it. Events are typed
data; none is emitted per record. `emit` runs on the thread that caused the event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from pykafka2.slotted import slotted

logger = logging.getLogger("pykafka2")


@slotted(frozen=True)
class Event:
    """An event at the time `at` (seconds of the driver's monotonic clock)."""

    at: float


@slotted(frozen=True)
class RequestSent(Event):
    node: str
    api: str
    version: int
    correlation_id: int
    size_bytes: int


@slotted(frozen=True)
class RequestAnswered(Event):
    node: str
    api: str
    correlation_id: int
    latency: float
    error: str | None = None


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

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    @property
    def is_watched(self) -> bool:
        """Whether there are listeners; if not, callers need not create events."""
        return bool(self._listeners)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; return a function that removes it."""
        self._listeners += (listener,)

        def unsubscribe() -> None:
            self._listeners = tuple(known for known in self._listeners if known is not listener)

        return unsubscribe

    def emit(self, event: Event) -> None:
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                logger.exception("a listener of the event sink failed on %r", event)
