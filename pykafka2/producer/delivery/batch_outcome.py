"""The outcome of a batch, which completes the deliveries of all its records by one assignment.

Created with the batch, completed once on the IO thread, and read on any thread. Deliveries hold the
outcome, and the batch releases it when it is done, so details of records are kept only while a caller holds
a delivery. A batch that was split has one part per new batch, and its outcome is complete when all parts
are.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from pykafka2.clock import FOREVER
from pykafka2.cluster.arguments import checked_timeout
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import IllegalState, KafkaError
from pykafka2.producer.delivery.callbacks import (
    WHOLE_BATCH,
    Interrupt,
    Listeners,
    metadata_of,
    metadata_of_columns,
    note_raised,
    sizes_of,
)
from pykafka2.records.rows import FIELDS, Fields, row_at
from pykafka2.slotted import slotted
from pykafka2.types import NO_OFFSET, NO_TIMESTAMP, RecordMetadata

WaitUntil = Callable[..., bool]
"""`Driver.wait_until`, called with a predicate, a timeout in seconds, and wait queues."""

IS_DONE = attrgetter("is_done")

_NEW_TUPLE = tuple.__new__

READS_OF_ONE = 3
"""When so many records of a batch are read, the metadata of all is made, in a third of the time for each."""


class BatchOutcome:
    """The outcome of a batch. Thread-safe.

    Attributes:
        is_done: the outcome is known.
        has_errors: some of the records have failed.
        ready: the metadata of all records, made at once for callers that read one after the other; each entry
            is returned once and is then None. None before.
        waiters: the threads that wait for it.
    """

    __slots__ = (
        "__weakref__",
        "_interrupt",
        "_listeners",
        "_parts",
        "_reads",
        "_reported",
        "_unsettled",
        "_wait_until",
        "callbacks",
        "errbacks",
        "has_errors",
        "is_done",
        "loop_callbacks",
        "partition",
        "ready",
        "topic",
        "waiters",
    )

    def __init__(self, topic: str, partition: int, wait_until: WaitUntil, interrupt: Interrupt) -> None:
        self.topic = topic
        self.partition = partition
        self.is_done = False
        self.has_errors = False
        self.waiters = WaitQueue()
        self._wait_until = wait_until
        self._interrupt = interrupt
        # Created with the first callback.
        self.callbacks: Listeners | None = None
        self.errbacks: Listeners | None = None
        self._listeners: list[tuple[Listeners, Listeners]] = []
        self.loop_callbacks: dict[object, Any] | None = None
        """By event loop the callbacks of asyncio.gather and its relatives (loop_future.py)."""
        self._parts: list[Part] = []
        self._reads = 0
        self.ready: list[RecordMetadata | None] | None = None
        self._unsettled = 1
        """Number of parts without an outcome."""
        self._reported: set[int] | None = None

    # ------------------------------------------------------------------ any thread

    def error_of(self, index: int) -> KafkaError | None:
        """Return the record's own error if the broker named one (KIP-467), or that of its batch."""
        part = self._part(index)
        if part.error is None:
            return None
        return (part.record_errors or {}).get(index - part.first, part.error)

    def metadata_of(self, index: int) -> RecordMetadata:
        """Return the metadata of a record that was written."""
        # Hot: once per record that is awaited.
        ready = self.ready
        if ready is not None:
            metadata = ready[index]
            if metadata is not None:
                ready[index] = None
                return metadata
        else:
            self._reads += 1
            if self._reads == READS_OF_ONE and len(self._parts) == 1:
                self.ready = [*self._parts[0].every_metadata(self.topic, self.partition)]
        parts = self._parts
        part = parts[0] if len(parts) == 1 else self._part(index)
        at, fields = index - part.first, part.fields
        if fields is None:
            timestamp, key_size, value_size = part.timestamps[at], part.key_sizes[at], part.value_sizes[at]
        else:
            value, key, timestamp, _, _ = row_at(fields, at)
            key_size = -1 if key is None else len(key)
            value_size = -1 if value is None else len(value)
        return _NEW_TUPLE(  # half the time of RecordMetadata(...)
            RecordMetadata,
            (
                self.topic,
                self.partition,
                part.base_offset + at if part.base_offset >= 0 else NO_OFFSET,
                timestamp if part.log_append_time == NO_TIMESTAMP else part.log_append_time,
                key_size,
                value_size,
            ),
        )

    def parts_of(self, first: int, count: int) -> Iterator[tuple[int, int, Part]]:
        """Yield the first record, the number of records and the part for each part; requires `is_done`."""
        parts = self._parts
        for number, part in enumerate(parts):
            begin = max(first, part.first)
            end = first + count if number + 1 == len(parts) else min(first + count, parts[number + 1].first)
            if begin < end:
                yield begin, end - begin, part

    def wait(self, timeout: float | None) -> bool:
        """Block until the outcome is known, at most `timeout` seconds (None: no limit). Return `is_done`.

        Raise as `Driver.wait_until` does.
        """
        if self.is_done:
            return True
        seconds = FOREVER if timeout is None else checked_timeout(timeout)
        # Evaluated twice in a wait, so not a Python function.
        return self._wait_until(partial(IS_DONE, self), seconds, self.waiters)

    def wait_for(
        self, predicate: Callable[[], bool], timeout: float | None, queues: Sequence[WaitQueue]
    ) -> bool:
        """Block until the predicate is true, like `wait`; its changes wake these queues."""
        seconds = FOREVER if timeout is None else checked_timeout(timeout)
        return self._wait_until(predicate, seconds, *queues)

    def mark_reported(self, index: int) -> None:
        """Note that the record's failure was reported, so `flush` need not raise it."""
        if self._reported is None:
            self._reported = set()
        self._reported.add(index)

    def unreported(self, first: int, count: int) -> int:
        """Return the number of these records whose failure was not reported."""
        reported = self._reported
        return count if reported is None else sum(first + at not in reported for at in range(count))

    def listeners(self) -> tuple[Listeners, Listeners]:
        """Return the callbacks for metadata and those for errors.

        After adding one, the caller calls `run_callbacks` if the outcome `is_done` by then.
        """
        made = self._listeners
        if not made:
            # Concurrent threads each append a pair, and all use the first one. A lock could be held during a
            # fork, or by the thread that the garbage collector interrupts.
            made.append((Listeners(), Listeners()))
        self.callbacks, self.errbacks = made[0]
        return made[0]

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Add a callable that is called when the outcome is known."""
        pending = [listener]

        def call_once(_: object) -> None:
            if pending:
                pending.pop()()

        # In both lists, so that it is called in the order in which it was added.
        for listeners in self.listeners():
            listeners.add(WHOLE_BATCH, call_once)
        if self.is_done:
            self.run_callbacks()

    @property
    def listener_bytes(self) -> int:
        """Return the memory of the callbacks in bytes."""
        if self.callbacks is None or self.errbacks is None:
            return 0
        return self.callbacks.size_bytes + self.errbacks.size_bytes

    # ------------------------------------------------------------------ the IO thread

    def divide(self, parts: int) -> None:
        """Expect that many parts instead of one."""
        self._unsettled += parts - 1

    def settle(self, part: Part, fields: Fields) -> None:
        """Add the outcome of a part. The last one completes the outcome and wakes its waiters.

        If a delivery keeps the outcome, the caller then calls `Part.release_records`.
        """
        if self.is_done:
            raise IllegalState(f"the outcome of a batch of {self.topic}-{self.partition} was settled before")
        if part.error is None:
            part.fields = fields
        else:
            self.has_errors = True
            if self._reported is None:
                self._reported = set()  # before other threads see the outcome
        self._parts.append(part)
        self._unsettled -= 1
        if self._unsettled == 0:
            if len(self._parts) > 1:
                self._parts.sort(key=lambda part: part.first)
            # Other threads read the outcome from here on, so all of it is in place.
            self.is_done = True
            self.waiters.wake()

    # ------------------------------------------------------------------ inside

    def _part(self, index: int) -> Part:
        parts = self._parts
        return parts[0] if len(parts) == 1 else parts[bisect_right(parts, index, key=lambda p: p.first) - 1]

    def run_callbacks(self) -> None:
        """Call all callbacks once, if the outcome is known. Hot: once per record with a callback."""
        if self.callbacks is None or self.errbacks is None or not self.is_done:
            return
        if len(self._parts) > 1:
            self._run(self.callbacks, self._on_part)
            self._run(self.errbacks, self._on_failed_part)
            return
        part = self._parts[0]
        if part.error is not None:
            self.callbacks.clear()
            self._run(self.errbacks, self._on_failed_part)
            return
        self.errbacks.clear()
        self._call_written(self.callbacks, part)

    def _call_written(self, callbacks: Listeners, part: Part) -> None:
        exit_request: BaseException | None = None
        for indexes, callback in callbacks.take():
            for metadata in self._metadata_of_run(indexes, part):
                try:
                    callback(metadata)
                except BaseException as error:
                    exit_request = note_raised(self.topic, self.partition, error, exit_request)
        if exit_request is not None:
            self._interrupt(exit_request)

    def _metadata_of_run(self, indexes: range, part: Part) -> Iterator[RecordMetadata | None]:
        """Return the metadata of each record of the only part, or one None for a whole-batch callback."""
        first, fields = indexes.start, part.fields
        if first < 0:
            return iter([None])
        if fields is None:
            return map(self.metadata_of, indexes)
        some = fields[first * FIELDS : indexes.stop * FIELDS]
        offset = part.base_offset + first if part.base_offset >= 0 else NO_OFFSET
        return metadata_of(self.topic, self.partition, some, offset, part.log_append_time)

    def _on_part(self, index: int, callback: Callable[[Any], object]) -> None:
        if index < 0:
            callback(None)
        elif self.error_of(index) is None:
            callback(self.metadata_of(index))

    def _on_failed_part(self, index: int, callback: Callable[[Any], object]) -> None:
        if index < 0:
            callback(None)
        elif (error := self.error_of(index)) is not None:
            self.mark_reported(index)
            callback(error)

    def _run(self, listeners: Listeners, call: Callable[[int, Callable[[Any], object]], None]) -> None:
        exit_request: BaseException | None = None
        for indexes, callback in listeners.take():
            for index in indexes:
                try:
                    call(index, callback)
                except BaseException as error:
                    exit_request = note_raised(self.topic, self.partition, error, exit_request)
        if exit_request is not None:
            self._interrupt(exit_request)


@slotted(eq=False)
class Part:
    """The outcome of the records from `first` to the next part."""

    first: int
    base_offset: int = NO_OFFSET
    log_append_time: int = NO_TIMESTAMP
    error: KafkaError | None = None
    record_errors: Mapping[int, KafkaError] | None = None
    """Errors of single records by their index in the part."""
    fields: Fields | None = None
    """The records until `release_records`."""
    timestamps: Sequence[int] = ()
    key_sizes: Sequence[int] = ()
    value_sizes: Sequence[int] = ()

    def every_metadata(self, topic: str, partition: int) -> Iterator[RecordMetadata]:
        """Iterate over the metadata of all records. Any thread."""
        fields = self.fields
        if fields is not None:
            return metadata_of(topic, partition, fields, self.base_offset, self.log_append_time)
        columns = self.timestamps, self.key_sizes, self.value_sizes
        return metadata_of_columns(topic, partition, *columns, self.base_offset, self.log_append_time)

    def release_records(self) -> None:
        """Replace the records by their times and sizes. Called once; other threads can read meanwhile."""
        fields = self.fields or []
        if len(fields) == FIELDS:  # the usual case of a caller that waits for each record
            value, key, timestamp, _, _ = fields
            self.timestamps = (timestamp,)
            self.key_sizes = (-1 if key is None else len(key),)
            self.value_sizes = (-1 if value is None else len(value),)
        else:
            self.timestamps = array("q", fields[2::FIELDS])
            self.key_sizes = array("q", sizes_of(fields[1::FIELDS]))
            self.value_sizes = array("q", sizes_of(fields[::FIELDS]))
        self.fields = None
