"""The channels and the transport that kombu uses, on its virtual transport.

Queues are topics with share groups. A transient queue (exclusive; or deleted with its last consumer, and
neither durable nor without expiry), such as those of remote control, events and `rpc` results, is no topic:
its connection reads the topics of the exchanges that it is bound to, from the moment of its binding. Bindings
are known to their connection only, as with most transports of kombu.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import attrs
from kombu.transport import virtual

from pykafka2.clock import SystemClock
from pykafka2.contrib.kombu.cluster import DEFAULT_PORT, Cluster, Settings, acquire, dump, release
from pykafka2.contrib.kombu.messages import ReceivedMessage, Unacknowledged
from pykafka2.contrib.kombu.readers import MOST_RECORDS, Broadcast, Inbox, QueueMessage, QueueReader
from pykafka2.contrib.kombu.transients import TransientMessage, TransientQueues
from pykafka2.errors import ForkedClientError, KafkaError, RetriableError
from pykafka2.interrupts import run_all
from pykafka2.logs import ClientLogger
from pykafka2.version import __version__

logger = ClientLogger(__name__, "kombu")

EXPIRES = "x-expires"
MOST_AT_ONCE = 100
"""Messages that are delivered before an event loop gets its turn."""
FIRST_GET_SECONDS, GET_SECONDS = 5.0, 0.5
"""How long `basic_get` waits for a message: while the channel joins the group of the queue, and later."""


@attrs.define
class ChannelConsumer:
    """A consumer of a channel."""

    queue: str
    is_without_acks: bool
    callback: Callable[[ReceivedMessage], object]


class Channel(virtual.Channel):
    """A channel of kombu: declares, publishes and consumes."""

    Message = ReceivedMessage
    QoS = Unacknowledged
    supports_fanout = True
    connection: Transport
    qos: Unacknowledged

    def __init__(self, connection: Transport, **kwargs: Any) -> None:
        super().__init__(connection, **kwargs)
        self._readers: dict[str, QueueReader] = {}
        self._consumers_by_tag: dict[str, ChannelConsumer] = {}
        self._pid = os.getpid()

    # ------------------------------------------------------------------ queues

    def _new_queue(
        self,
        queue: str,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        **kwargs: Any,
    ) -> None:
        transients = self.connection.transients
        if queue in transients.by_name:
            return
        if exclusive or (auto_delete and (not durable or EXPIRES in (kwargs.get("arguments") or {}))):
            transients.declare(queue, auto_delete=auto_delete)
        elif auto_delete:
            transients.undecided.add(queue)
        else:
            self.connection.cluster.declare_queue(queue)

    def prepare_queue_arguments(self, arguments: dict[str, Any] | None, **kwargs: Any) -> dict[str, Any]:
        """Keep the expiry of a queue, which makes it transient if it is deleted with its last consumer."""
        expires = kwargs.get("expires")
        return {**(arguments or {}), **({} if expires is None else {EXPIRES: expires})}

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        transients = self.connection.transients
        return (
            queue in transients.by_name
            or queue in transients.undecided
            or self.connection.cluster.has_queue(queue)
        )

    def _queue_bind(self, exchange: str, routing_key: str, pattern: Any, queue: str) -> None:
        transients = self.connection.transients
        kind = self.typeof(exchange)
        transients.decide(queue, is_transient=kind.type == "fanout")
        transient = transients.by_name.get(queue)
        if transient is not None:
            transients.bind(transient, exchange, kind, (routing_key, pattern, queue))
            if queue in self._active_queues:
                transients.read()

    def queue_unbind(
        self,
        queue: str,
        exchange: str | None = None,
        routing_key: str = "",
        arguments: Any = None,
        **kwargs: Any,
    ) -> None:
        super().queue_unbind(queue, exchange, routing_key, arguments, **kwargs)
        self.connection.transients.unbind(queue, exchange, routing_key)

    def _size(self, queue: str) -> int:
        transients = self.connection.transients
        transient = transients.by_name.get(queue)
        if transient is not None:
            return len(transient.waiting)
        return 0 if queue in transients.undecided else self.connection.cluster.size(queue)

    def _purge(self, queue: str) -> int:
        transient = self.connection.transients.by_name.get(queue)
        if transient is None:
            return self.connection.cluster.purge(queue)
        count = len(transient.waiting)
        transient.waiting.clear()
        return count

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any
    ) -> None:
        """Delete a queue with its topic, and its bindings of this connection.

        Do nothing with `if_empty` if it has messages, or with `if_unused` if it has consumers.
        """
        transients = self.connection.transients
        if (if_empty and self._size(queue)) or (if_unused and self._is_used(queue)):
            return
        for exchange, routing_key, arguments in [*self.state.queue_bindings(queue)]:
            self.queue_unbind(queue, exchange, routing_key, arguments)
        self.state.queue_bindings_delete(queue)
        transients.undecided.discard(queue)
        if transients.by_name.pop(queue, None) is not None:
            transients.read()
            return
        reader = self._readers.pop(queue, None)
        if reader is not None:
            reader.close()
        self.connection.cluster.delete_queue(queue)

    def _is_used(self, queue: str) -> bool:
        if self.connection.consumer_of(queue) is not None:
            return True
        return queue not in self.connection.transients.by_name and self.connection.cluster.is_used(queue)

    def after_reply_message_received(self, queue: str) -> None:
        if queue in self.connection.transients.by_name:
            self.queue_delete(queue)

    # ------------------------------------------------------------------ publishing

    def basic_publish(self, message: dict[str, Any], exchange: str, routing_key: str, **kwargs: Any) -> None:
        """Append a message to the queues of an exchange, and wait until the brokers have it.

        Transient queues of all connections get a copy, which is not waited for.
        """
        self._inplace_augment_message(message, exchange, routing_key)
        transients, cluster = self.connection.transients, self.connection.cluster
        data = dump(message)
        if not exchange and routing_key not in transients.by_name:
            transients.decide(routing_key)
            cluster.put_or_broadcast(routing_key, data)
            return
        if exchange:
            for queue in self._lookup(exchange, routing_key):
                if queue not in transients.by_name:
                    cluster.put(queue, data)
        cluster.broadcast(exchange, data)

    # ------------------------------------------------------------------ consuming

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **kwargs: Any
    ) -> None:
        """Call `callback` with the messages of a queue; of two consumers of a channel only the last one's."""
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        self._consumers_by_tag[consumer_tag] = ChannelConsumer(queue, no_ack, callback)
        transients = self.connection.transients
        transient = transients.by_name.get(queue)
        if transient is None:
            self._reader(queue).start()
        else:
            transients.bind_by_name(transient, self.typeof(""))
            transients.read()
            self.connection.inbox.notify()

    def _reader(self, queue: str) -> QueueReader:
        if self._is_inherited:
            raise ForkedClientError(
                "this channel belongs to the parent process; open a connection to consume in the child"
            )
        reader = self._readers.get(queue)
        if reader is None:
            transport = self.connection
            transport.transients.decide(queue)
            reader = self._readers[queue] = QueueReader(queue, transport.cluster, transport.inbox, self)
        return reader

    def room(self) -> int:
        """Return how many more messages of queues the channel can have. Any thread."""
        most, readers = self.qos.prefetch_count, [*self._readers.values()]
        if most:
            return most - sum(len(reader.held) for reader in readers)
        return MOST_RECORDS - sum(len(reader.waiting) for reader in readers)

    def on_taken(self) -> None:
        """Limit the polls of all queues to the room that is left. Any thread."""
        room = max(self.room(), 0)
        for reader in [*self._readers.values()]:
            reader.limit(room)

    def basic_cancel(self, consumer_tag: str) -> None:
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        self._consumers_by_tag.pop(consumer_tag, None)
        if queue is None or self._is_inherited or self.consumes(queue):
            return
        transient = self.connection.transients.by_name.get(queue)
        if queue in self._readers:
            self._readers[queue].stop()
        elif transient is not None and transient.auto_delete:
            self.queue_delete(queue)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> ReceivedMessage | None:
        """Return a message of a queue, or None."""
        transients = self.connection.transients
        item: QueueMessage | TransientMessage | None
        transient = transients.by_name.get(queue)
        if transient is not None:
            transients.bind_by_name(transient, self.typeof(""))
            item = transients.get(transient, GET_SECONDS)
        else:
            reader = self._reader(queue)
            item = reader.get(GET_SECONDS if reader.has_joined else FIRST_GET_SECONDS)
        return None if item is None else self._received(item, no_ack)

    def deliver(self, item: QueueMessage | TransientMessage) -> None:
        """Call the callback of the item's queue."""
        consumer = next(
            found for found in reversed(self._consumers_by_tag.values()) if found.queue == item.queue
        )
        message = self._received(item, consumer.is_without_acks)
        if message is not None:
            consumer.callback(message)

    def _received(
        self, item: QueueMessage | TransientMessage, is_without_acks: bool
    ) -> ReceivedMessage | None:
        """Return the message for a delivery; reject one whose parts kombu cannot read, and return None."""
        item.payload["properties"]["delivery_tag"] = self._next_delivery_tag()
        try:
            message = ReceivedMessage({**item.payload, "item": item}, channel=self)
        except Exception as error:
            logger.error("a message of queue %r is rejected: %r", item.queue, error)
            item.reject()
            return None
        if is_without_acks:
            item.accept()
        else:
            self.qos.append(message, message.delivery_tag)
        if isinstance(item, QueueMessage):
            item.reader.on_delivery(item)
        return message

    def consumes(self, queue: str) -> bool:
        return queue in self._active_queues

    def has_read(self, item: QueueMessage) -> bool:
        """Return whether the channel has received this message, and can deliver it now."""
        return (
            self._readers.get(item.queue) is item.reader
            and self.consumes(item.queue)
            and self.qos.can_consume()
        )

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """Acknowledge a message; with `multiple` also all that were delivered before it."""
        if multiple:
            for tag in self.qos.tags_until(delivery_tag):
                self.qos.ack(tag)
        else:
            self.qos.ack(delivery_tag)

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False) -> None:
        """Limit the messages that the channel has at once; 0 is no limit."""
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self.on_taken()
        self.on_room()

    def on_room(self) -> None:
        """Go on reading and delivering, as fewer messages are in work, or more are allowed."""
        for reader in [*self._readers.values()]:
            reader.notify()
        transport = self.connection  # another thread can close the channel
        if transport is not None:
            transport.inbox.notify()

    # ------------------------------------------------------------------ the end

    @property
    def _is_inherited(self) -> bool:
        """Whether this is the copy of a fork, whose messages belong to the parent."""
        return os.getpid() != self._pid

    def close(self) -> None:
        """Cancel all consumers, and release all messages that are not acknowledged."""
        if self._is_inherited:
            self.closed = True
            return
        readers = [*self._readers.values()]
        try:
            run_all([super().close, *(reader.close for reader in readers)])
        finally:
            self._readers.clear()


ShareChannel = Channel
"""`Transport.Channel` has the same name."""


class Transport(virtual.Transport):
    """A connection of kombu to a cluster with share groups (Apache Kafka 4.2 or later)."""

    Channel = Channel
    default_port = DEFAULT_PORT
    driver_type = "kafka"
    driver_name = "pykafka2"
    connection_errors = (*virtual.Transport.connection_errors, KafkaError)
    recoverable_connection_errors = (*virtual.Transport.connection_errors, RetriableError)
    recoverable_channel_errors = virtual.Transport.channel_errors
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic", "fanout"]), heartbeats=False
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self._settings = Settings.of(client)
        self.transients = TransientQueues(self, self._settings)
        self._cluster: Cluster | None = None
        self._inbox: Inbox | None = None
        self._loop: Any = None
        self._clock = SystemClock()
        self._pid = os.getpid()

    def driver_version(self) -> str:
        return __version__

    @property
    def cluster(self) -> Cluster:
        """The clients of this process; those of the parent process must not be used in a child."""
        if self._cluster is None or self._cluster.pid != os.getpid():
            self._leave_parent()
            self._cluster = acquire(self._settings)
        return self._cluster

    def _leave_parent(self) -> None:
        """In the child of a fork, leave the pipe, the thread and the event loop to the parent process."""
        if self._pid != os.getpid():
            self._cluster = self._inbox = self._loop = None
            self.transients.leave_parent()
            self._pid = os.getpid()  # last: after a Ctrl-C, the next call leaves it again

    @property
    def inbox(self) -> Inbox:
        self._leave_parent()
        if self._inbox is None:
            self._inbox = Inbox()
        return self._inbox

    # ------------------------------------------------------------------ the connection

    def establish_connection(self) -> Transport:
        """Connect. Raise KafkaTimeoutError if no broker responds within the connection's timeout."""
        try:
            self.cluster.check(self.client.connect_timeout or 5)
        except BaseException:
            cluster, self._cluster = self._cluster, None  # kombu closes no connection that failed
            if cluster is not None:
                release(cluster)
            raise
        return super().establish_connection()  # type: ignore[no-any-return]

    def close_connection(self, connection: Any) -> None:
        self._leave_parent()
        run_all([lambda: super(Transport, self).close_connection(connection), self._close_clients])

    def _close_clients(self) -> None:
        cluster, self._cluster = self._cluster, None
        inbox, self._inbox = self._inbox, None
        loop, self._loop = self._loop, None
        steps: list[Callable[[], object]] = [self.transients.close]
        if inbox is not None:
            if loop is not None:
                steps.append(functools.partial(loop.remove_reader, inbox.fileno()))
            steps.append(inbox.close)
        if cluster is not None:
            steps.append(functools.partial(release, cluster))
        run_all(steps)

    # ------------------------------------------------------------------ delivery

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Deliver messages in an event loop of kombu, such as that of Celery's worker."""
        self._loop = loop
        loop.add_reader(self.inbox.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        for _ in range(MOST_AT_ONCE):
            if not self._deliver_next():
                return

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message. Raise TimeoutError if there is none in time."""
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        while not self._deliver_next():
            remaining = None if deadline is None else deadline - self._clock.monotonic()
            if remaining is not None and remaining <= 0:
                raise TimeoutError("timed out")
            self.inbox.wait(remaining)

    def _deliver_next(self) -> bool:
        """Deliver a message, first those of transient queues; return whether there was one."""
        while True:
            for transient in [*self.transients.by_name.values()]:
                channel = self.consumer_of(transient.name)
                if channel is not None and channel.qos.can_consume() and transient.waiting:
                    channel.deliver(self.transients.take(transient))
                    return True
            item = self.inbox.take(lambda item: self._reader_of(item) is not None)
            if item is None:
                return False
            if isinstance(item, Broadcast):
                self.transients.distribute(item)
                continue
            if not item.is_locked(self._clock.monotonic()):  # such as after a restart of its broker
                item.drop()
                continue
            channel = self._reader_of(item)
            if channel is None:  # cancelled meanwhile
                item.release()
                continue
            channel.deliver(item)
            return True

    def consumer_of(self, queue: str) -> ShareChannel | None:
        """Return a channel that consumes a queue."""
        return next((channel for channel in self.channels if channel.consumes(queue)), None)

    def _reader_of(self, item: QueueMessage) -> ShareChannel | None:
        """Return the channel that has received a message, if it can deliver it."""
        return next((channel for channel in self.channels if channel.has_read(item)), None)
