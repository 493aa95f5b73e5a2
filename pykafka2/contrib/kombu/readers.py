"""Threads that receive messages, and the inbox from which the thread of a connection takes them.

A queue has a share consumer, whose thread polls while the prefetch count allows another message. The
exchanges of a connection have one consumer without a group. Consumers renew the locks of messages by
themselves, so that a message stays with its worker until it is acknowledged, or the worker is gone.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs

from pykafka2 import Reject, ShareRecord, TopicPartition
from pykafka2.clock import SystemClock
from pykafka2.contrib.kombu.cluster import Cluster, load
from pykafka2.errors import CorruptData, InvalidRecordState
from pykafka2.interrupts import run_all
from pykafka2.logs import ClientLogger
from pykafka2.share.records import delivery_of

FOREVER = float("inf")
JOIN_TIMEOUT = 5.0
MOST_RECORDS = 500
"""Messages that a channel without a prefetch count has at most, before they are delivered."""
LATE_SECONDS = 0.02
"""Seconds between looks for messages that requests in flight have brought."""
QUIET_SECONDS = 1.0
"""The same while no request is in flight: the IO thread can send one later, for a poll that has ended."""
MOST_BROADCASTS = 1000
"""Messages of exchanges that are read before the connection has distributed the earlier ones."""

logger = ClientLogger(__name__, "kombu")


class Released(Exception):
    """Ends the handling of a record that is to be delivered again."""


@attrs.define(eq=False)
class QueueMessage:
    """A message of a queue, which is locked for this process until one of its methods is called.

    Attributes:
        payload: the message of kombu, as a dict.
    """

    queue: str
    payload: dict[str, Any]
    _record: ShareRecord[Any, Any]
    reader: QueueReader

    def accept(self) -> None:
        self._end(None)

    def reject(self) -> None:
        self._end(Reject("rejected by the worker"))

    def release(self) -> None:
        """Have the message delivered again; as a copy if it has reached the limit of deliveries."""
        if self._record.delivery_count < self.reader.delivery_limit:
            self._end(Released())
        else:
            self.reader.put_again(self._record.value or b"")
            self._end(None)

    def is_locked(self, now: float) -> bool:
        """Return whether the lock is neither lost nor expired, so that no other worker has the message."""
        delivery = delivery_of(self._record)
        return bool(delivery.acknowledger.is_held(delivery, self._record.offset, now))

    def drop(self) -> None:
        """Forget a message whose lock is lost."""
        self._end(Released())

    def _end(self, error: Exception | None) -> None:
        self._record.__exit__(None if error is None else type(error), error, None)
        self.reader.forget(self)


@attrs.define(eq=False)
class Broadcast:
    """A message of an exchange, for the transient queues that are bound to it."""

    topic: str
    offset: int
    data: bytes


class Inbox:
    """Received messages, from the threads of readers to the thread of a connection.

    Its file descriptor is readable while there is something new, for event loops.
    """

    def __init__(self) -> None:
        self._items: deque[QueueMessage | Broadcast] = deque()
        self._condition = threading.Condition()
        self._broadcasts = 0
        self._is_new = False
        self._error: Exception | None = None
        self._receiving_end, self._sending_end = os.pipe()

    def fileno(self) -> int:
        return self._receiving_end

    def put(self, item: QueueMessage | Broadcast) -> None:
        with self._condition:
            self._items.append(item)
            self._broadcasts += isinstance(item, Broadcast)
            self._tell()

    def await_room(self, is_over: Callable[[], bool]) -> None:
        """Block while MOST_BROADCASTS wait to be taken, until `is_over()`, which `notify` checks again."""
        with self._condition:
            self._condition.wait_for(lambda: self._broadcasts < MOST_BROADCASTS or is_over())

    def fail(self, error: Exception) -> None:
        """Have the connection's thread raise this error."""
        with self._condition:
            self._error = error
            self._tell()

    def notify(self) -> None:
        """Have the connection's thread look again for a message that it can take."""
        with self._condition:
            self._tell()

    def _tell(self) -> None:
        if not self._is_new:
            self._is_new = True
            os.write(self._sending_end, b".")
        self._condition.notify_all()

    def take(self, is_wanted: Callable[[QueueMessage], bool]) -> QueueMessage | Broadcast | None:
        """Return the first message that is a broadcast, or of a queue and `is_wanted(message)`.

        Without one return None, and have `wait` return with the next news. Raise the error of a reader.
        """
        with self._condition:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            for index, item in enumerate(self._items):
                if isinstance(item, Broadcast):
                    self._broadcasts -= 1
                    if self._broadcasts < MOST_BROADCASTS:
                        self._condition.notify_all()
                elif not is_wanted(item):
                    continue
                del self._items[index]
                return item
            if self._is_new:
                self._is_new = False
                os.read(self._receiving_end, 1)
            return None

    def take_all(self, reader: QueueReader, most: int | None = None) -> list[QueueMessage]:
        """Remove and return the messages of a reader, at most so many."""
        with self._condition:
            found = [item for item in self._items if isinstance(item, QueueMessage) and item.reader is reader]
            taken = found[:most]
            self._items = deque(item for item in self._items if item not in taken)
            return taken

    def wait(self, timeout: float | None) -> None:
        """Block until there is something new."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_new, timeout)

    def close(self) -> None:
        """Close the file descriptor; later news of a thread that is late are ignored."""
        with self._condition:
            self._is_new = True  # so that no thread writes to a descriptor that can belong to others by then
            for end in (self._receiving_end, self._sending_end):
                os.close(end)


class Window(Protocol):
    """The prefetch window that all queues of a channel share. Any thread."""

    def room(self) -> int:
        """Return how many more messages the channel can have at once."""

    def on_taken(self) -> None:
        """Limit the polls in progress to the room that a poll has left."""


class QueueReader:
    """The share consumer of one queue and channel, and the thread that polls it."""

    def __init__(self, queue: str, cluster: Cluster, inbox: Inbox, window: Window) -> None:
        self.queue = queue
        self.held: set[QueueMessage] = set()
        """The messages of this queue that the process has, delivered or not."""
        self.waiting: set[QueueMessage] = set()
        """Those that are not delivered."""
        self.delivery_limit = cluster.declare_queue(queue)
        self._topic = cluster.settings.queue_topic(queue)
        self._cluster = cluster
        self._inbox = inbox
        self._window = window
        self._clock = SystemClock()
        self._consumer = cluster.queue_consumer(queue, MOST_RECORDS)
        self._has_room = threading.Event()
        self._has_room.set()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._limit = 0
        """The limit of the poll in progress on the own thread."""
        self.has_joined = False

    # ------------------------------------------------------------------ the thread of the connection

    def start(self) -> None:
        """Poll on a thread until `stop`."""
        if self._thread is None:
            self._join()
            self._is_stopping = False
            self._has_room.set()
            self._thread = threading.Thread(target=self._run, name=f"kombu {self.queue}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the polling, and release the messages that were not delivered."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._is_stopping = True
        self._has_room.set()
        self._consumer.wakeup()
        thread.join(JOIN_TIMEOUT)
        run_all([message.release for message in self._inbox.take_all(self)])
        if not thread.is_alive():
            self._consumer.unsubscribe()
            self.has_joined = False

    def get(self, timeout: float) -> QueueMessage | None:
        """Return the next message; None if none arrives in time."""
        if self._thread is None:
            self._join()
            deadline = self._clock.monotonic() + timeout
            while not (messages := self._poll(timeout, 1)):  # the wakeup of an earlier call can end a poll
                timeout = deadline - self._clock.monotonic()
                if timeout <= 0:
                    break
        else:
            messages = self._inbox.take_all(self, 1)
        return messages[0] if messages else None

    def _join(self) -> None:
        if not self.has_joined:
            self._consumer.subscribe([self._topic])
            self.has_joined = True

    def notify(self) -> None:
        """Look again whether there is room. Any thread."""
        self._has_room.set()

    def limit(self, room: int) -> None:
        """End a poll that can return more messages than this. Any thread."""
        if self._limit > room:
            self._consumer.wakeup()

    def forget(self, message: QueueMessage) -> None:
        """Note that a message has been accepted, rejected or released. Any thread."""
        self.held.discard(message)
        self.on_delivery(message)

    def on_delivery(self, message: QueueMessage) -> None:
        self.waiting.discard(message)
        self._has_room.set()

    def put_again(self, data: bytes) -> None:
        self._cluster.put(self.queue, data)

    def close(self) -> None:
        """Leave the group, and release all messages."""
        run_all([self.stop, self._consumer.close])

    # ------------------------------------------------------------------ its own thread

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._await_room()
                self._has_room.clear()
                while not self._is_stopping and (room := self._window.room()) > 0:
                    self._poll_for(room)
        except Exception as error:
            self._inbox.fail(error)

    def _await_room(self) -> None:
        """Wait until there may be room. Release at once what requests in flight bring meanwhile, because
        nothing would renew its locks."""
        pause = LATE_SECONDS
        while not self._has_room.wait(pause):
            health = self._consumer.health()
            is_quiet = not any(broker["in_flight"] for broker in health["brokers"].values())
            if health["buffered_records"]:
                run_all([message.release for message in self._poll(LATE_SECONDS, MOST_RECORDS)])
                is_quiet = False
            pause = QUIET_SECONDS if is_quiet else LATE_SECONDS

    def _poll_for(self, room: int) -> None:
        """Put the messages of a poll into the inbox; release those that a poll of another queue left no room
        for."""
        self._limit = room
        if self._window.room() < room:  # another queue has taken it
            return
        messages = self._poll(FOREVER, room)
        self._limit = 0
        if not messages:
            return
        for _ in range(min(-self._window.room(), len(messages))):
            messages.pop().release()
        for message in messages:
            self._inbox.put(message)
        self._window.on_taken()

    def _poll(self, timeout: float, limit: int) -> list[QueueMessage]:
        try:
            found = self._consumer.poll(timeout * 1000, limit)
        except CorruptData as error:
            logger.error("a message of queue %r cannot be read: %s", self.queue, error)
            return []
        messages = (self._message(record) for records in found.values() for record in records)
        return [message for message in messages if message is not None]

    def _message(self, record: ShareRecord[Any, Any]) -> QueueMessage | None:
        """Begin the handling of a record, during which its lock is renewed; reject one that is no message."""
        try:
            record.__enter__()
        except InvalidRecordState:  # another worker gets it
            return None
        try:
            payload = load(record.value)
        except ValueError as error:
            logger.error(
                "%s-%d at offset %d is rejected: %s", record.topic, record.partition, record.offset, error
            )
            record.__exit__(Reject, Reject(str(error)), None)
            return None
        info = payload["properties"]["delivery_info"]
        info["redelivered"] = record.delivery_count > 1
        info["delivery_count"] = record.delivery_count
        message = QueueMessage(self.queue, payload, record, self)
        self.held.add(message)
        self.waiting.add(message)
        return message


class ExchangeReader:
    """The consumer of the exchanges of one connection, and the thread that polls it."""

    def __init__(self, cluster: Cluster, inbox: Inbox) -> None:
        self._cluster = cluster
        self._inbox = inbox
        self._wanted: Mapping[str, int] = {}
        self._news = threading.Event()
        self._is_stopping = False
        self._consumer = cluster.exchange_consumer()
        self._thread = threading.Thread(target=self._run, name="kombu exchanges", daemon=True)
        self._thread.start()

    def read(self, wanted: Mapping[str, int]) -> None:
        """Read these topics, each from this offset at the latest; some messages can be read again."""
        self._wanted = dict(wanted)
        self._news.set()
        self._consumer.wakeup()
        self._inbox.notify()

    def close(self) -> None:
        self._is_stopping = True
        self._news.set()
        self._consumer.wakeup()
        self._inbox.notify()
        self._thread.join(JOIN_TIMEOUT)
        if not self._thread.is_alive():
            self._consumer.close()

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                if not self._wanted:
                    self._news.wait()
                if self._news.is_set():
                    self._news.clear()
                    self._assign(self._wanted)
                self._inbox.await_room(self._news.is_set)
                if not self._wanted or self._news.is_set():
                    continue
                for records in self._consumer.poll(timeout_ms=FOREVER).values():
                    for record in records:
                        self._inbox.put(Broadcast(record.topic, record.offset, record.value or b""))
        except Exception as error:
            self._inbox.fail(error)

    def _assign(self, wanted: Mapping[str, int]) -> None:
        before = self._consumer.assignment()
        self._consumer.assign([TopicPartition(topic, 0) for topic in wanted])
        for topic, offset in wanted.items():
            partition = TopicPartition(topic, 0)
            if partition not in before or self._consumer.position(partition) > offset:
                self._consumer.seek(partition, offset)
