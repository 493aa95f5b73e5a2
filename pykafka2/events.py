"""The event sink: managers say what happened, whoever is interested listens.

Log lines, metrics, `health()`, the broker's history and the simulation's trace all read it.  Events are typed
data; nothing is emitted per record.  `emit` is called on the thread that did the thing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import attrs

logger = logging.getLogger("pykafka2")


@attrs.define(frozen=True)
class Event:
    """Something that happened at `at` (seconds of the driver's monotonic clock)."""

    at: float


@attrs.define(frozen=True)
class RequestSent(Event):
    node: str
    api: str
    version: int
    correlation_id: int
    size_bytes: int


@attrs.define(frozen=True)
class RequestAnswered(Event):
    node: str
    api: str
    correlation_id: int
    latency: float
    error: str | None = None


@attrs.define(frozen=True)
class StateMoved(Event):
    """`who` (a connection, a group, a transaction) went from one state of its table to another."""

    who: str
    before: str
    after: str
    because: str = ""


@attrs.define(frozen=True)
class LookupStarted(Event):
    kind: str
    key: str


@attrs.define(frozen=True)
class LookupEnded(Event):
    kind: str
    key: str
    node: int | None
    error: str | None = None


@attrs.define(frozen=True)
class MetadataUpdated(Event):
    version: int
    brokers: int
    topics: int


@attrs.define(frozen=True)
class BatchCompleted(Event):
    topic: str
    partition: int
    records: int
    base_offset: int
    attempts: int
    error: str | None = None


@attrs.define(frozen=True)
class BatchRetried(Event):
    topic: str
    partition: int
    records: int
    attempts: int
    error: str


@attrs.define(frozen=True)
class LeaderChanged(Event):
    topic: str
    partition: int
    leader: int
    leader_epoch: int


Listener = Callable[[Event], None]


class EventSink:
    """Hands every event to every listener, in order of subscription.

    A listener that raises is logged and stays subscribed: watching must never break the watched.
    `subscribe` may be called from any thread; it replaces the tuple that `emit` reads.
    """

    __slots__ = ("_listeners",)

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    @property
    def is_watched(self) -> bool:
        """False lets a caller skip making the event at all."""
        return bool(self._listeners)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; the returned call takes it away again."""
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
