"""Transient queues: the queues of one connection, which read exchanges instead of a topic of their own.

For the thread of the connection.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

import attrs

from pykafka2.clock import SystemClock
from pykafka2.contrib.kombu.cluster import Cluster, Settings, load
from pykafka2.contrib.kombu.readers import Broadcast, ExchangeReader, Inbox


@attrs.define(eq=False)
class TransientQueue:
    """A queue of one connection, which gets messages of exchanges."""

    name: str
    auto_delete: bool
    starts: dict[str, int] = attrs.field(factory=dict)
    """By topic of an exchange, the offset of the next message; at first that of the binding."""
    bindings: list[tuple[str, Any, Any]] = attrs.field(factory=list)
    """Exchange, kind of exchange, and the entry in its table."""
    waiting: deque[Broadcast] = attrs.field(factory=deque)

    def offer(self, message: Broadcast, exchange: str, routing_key: str) -> None:
        """Add a message that one of the bindings selects, unless it was offered before."""
        first = self.starts.get(message.topic)
        if first is None or message.offset < first:
            return
        self.starts[message.topic] = message.offset + 1
        if any(
            name == exchange and kind.lookup([entry], exchange, routing_key, None)
            for name, kind, entry in self.bindings
        ):
            self.waiting.append(message)


@attrs.define(eq=False)
class TransientMessage:
    """A message of a transient queue, whose acknowledgement no broker waits for. Any thread."""

    queue: str
    payload: dict[str, Any]
    _message: Broadcast
    _waiting: deque[Broadcast]
    _inbox: Inbox

    def accept(self) -> None: ...

    def reject(self) -> None: ...

    def release(self) -> None:
        """Have it delivered again, to the same connection."""
        self._waiting.appendleft(self._message)
        self._inbox.notify()


class Clients(Protocol):
    """Objects of a connection in this process; the child of a fork gets others."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def inbox(self) -> Inbox: ...


class TransientQueues:
    """The transient queues of one connection, and the reader of their exchanges."""

    def __init__(self, clients: Clients, settings: Settings) -> None:
        self._clients = clients
        self._settings = settings
        self._clock = SystemClock()
        self._reader: ExchangeReader | None = None
        self.by_name: dict[str, TransientQueue] = {}
        self.undecided: set[str] = set()
        """Durable queues to be deleted with their last consumer: transient only on a fanout exchange."""

    def declare(self, name: str, *, auto_delete: bool) -> None:
        self.by_name[name] = TransientQueue(name, auto_delete)
        self._clients.cluster.declare_transient(name)

    def decide(self, name: str, *, is_transient: bool = False) -> None:
        """Make an undecided queue transient, or declare its topic: it is used without a fanout exchange."""
        if name not in self.undecided:
            return
        self.undecided.discard(name)
        if is_transient:  # such as kombu.common.Broadcast
            self.by_name[name] = TransientQueue(name, auto_delete=True)
        else:
            self._clients.cluster.declare_queue(name)

    # ------------------------------------------------------------------ bindings

    def bind(self, queue: TransientQueue, exchange: str, kind: Any, entry: Any) -> None:
        """Bind a queue to an exchange; `entry` is that of the exchange's table."""
        first = self._clients.cluster.bind_exchange(exchange)
        queue.starts.setdefault(self._settings.exchange_topic(exchange), first)
        queue.bindings.append((exchange, kind, entry))

    def bind_by_name(self, queue: TransientQueue, kind: Any) -> None:
        """Bind a queue without an exchange to the default one, as that of Celery's `rpc` results."""
        if not queue.bindings:
            first = self._clients.cluster.declare_transient(queue.name)
            queue.starts[self._settings.exchange_topic("")] = first
            queue.bindings.append(("", kind, (queue.name, None, queue.name)))

    def unbind(self, name: str, exchange: str | None, routing_key: str) -> None:
        queue = self.by_name.get(name)
        if queue is not None:
            queue.bindings = [
                binding
                for binding in queue.bindings
                if binding[0] != exchange or binding[2][0] != routing_key
            ]

    # ------------------------------------------------------------------ messages

    def read(self) -> None:
        """Read the topics of all exchanges that queues are bound to."""
        wanted: dict[str, int] = {}
        for queue in self.by_name.values():
            for topic, first in queue.starts.items():
                wanted[topic] = min(first, wanted.get(topic, first))
        if self._reader is None and not wanted:
            return
        cluster, inbox = self._clients.cluster, self._clients.inbox  # first: in a fork they drop the reader
        if self._reader is None:
            self._reader = ExchangeReader(cluster, inbox)
        self._reader.read(wanted)

    def distribute(self, message: Broadcast) -> None:
        """Copy a message of an exchange to the queues that it is for."""
        try:
            info = load(message.data)["properties"]["delivery_info"]
        except ValueError:
            return
        exchange, routing_key = info.get("exchange", ""), info.get("routing_key", "")
        for queue in self.by_name.values():
            queue.offer(message, exchange, routing_key)

    def take(self, queue: TransientQueue) -> TransientMessage:
        """Return the next message that waits in a queue."""
        message = queue.waiting.popleft()
        if message.topic == self._settings.exchange_topic(""):
            self._clients.cluster.pass_transient(queue.name, message.offset + 1)
        inbox = self._clients.inbox
        return TransientMessage(queue.name, load(message.data), message, queue.waiting, inbox)

    def get(self, queue: TransientQueue, timeout: float) -> TransientMessage | None:
        """Return a message of a queue that has no consumer, or None if there is none in time."""
        self.read()
        inbox = self._clients.inbox
        deadline = self._clock.monotonic() + timeout
        try:
            while not queue.waiting:
                item = inbox.take(lambda item: False)
                if isinstance(item, Broadcast):
                    self.distribute(item)
                    continue
                remaining = deadline - self._clock.monotonic()
                if remaining <= 0:
                    return None
                inbox.wait(remaining)
            return self.take(queue)
        finally:
            inbox.notify()

    # ------------------------------------------------------------------ the end

    def leave_parent(self) -> None:
        """In the child of a fork, leave the reader to the parent process."""
        self._reader = None

    def close(self) -> None:
        reader, self._reader = self._reader, None
        self.by_name.clear()
        self.undecided.clear()
        if reader is not None:
            reader.close()
