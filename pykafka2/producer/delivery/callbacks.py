"""The `on_delivery` callbacks of a batch: how they are kept, and how the IO thread calls them in order.

An exception of one callback is logged, and the others are still called; a BaseException such as SystemExit
is re-raised in a later call of the user's. Programs mostly pass one callable for all records, so
consecutive records with the same callable share one entry.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import repeat
from types import MethodType
from typing import Any

from pykafka2.errors import KafkaError
from pykafka2.records.rows import FIELDS, Fields, rows_of
from pykafka2.types import NO_OFFSET, RecordMetadata

logger = logging.getLogger(__name__)

HAS_GIL = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
"""True if a line without a call is one step for other threads, as under CPython's global lock."""

Interrupt = Callable[[BaseException], None]
"""`Driver.interrupt`: what becomes of a `sys.exit()` in a callback."""


def tell_written(
    topic: str,
    partition: int,
    fields: Fields,
    base_offset: int,
    log_append_time: int,
    interrupt: Interrupt,
) -> None:
    """The records are in the log from `base_offset` on (-1: nobody knows).  Hot: no call but the user's."""
    callbacks = fields[4::FIELDS]
    for on_delivery in callbacks:
        if on_delivery is not None:  # never `==`, which is the user's own and may say or raise anything
            break
    else:
        return  # records by column, or nobody's
    exit_request: BaseException | None = None
    told = metadata_of(topic, partition, fields, base_offset, log_append_time)
    for on_delivery, metadata in zip(callbacks, told, strict=True):
        if on_delivery is None:
            continue
        try:
            on_delivery(metadata, None)
        except BaseException as error:
            exit_request = note_raised(topic, partition, error, exit_request)
    if exit_request is not None:
        interrupt(exit_request)


def metadata_of(
    topic: str, partition: int, fields: Fields, base_offset: int, log_append_time: int
) -> Iterator[RecordMetadata]:
    """Yield the metadata of each record when it is needed; a third faster than a Python loop."""
    count = len(fields) // FIELDS
    has_offset, has_own_time = base_offset >= 0, log_append_time < 0
    columns = zip(
        repeat(topic, count),
        repeat(partition, count),
        range(base_offset, base_offset + count) if has_offset else repeat(NO_OFFSET, count),
        fields[2::FIELDS] if has_own_time else repeat(log_append_time, count),
        _sizes(fields[1::FIELDS]),
        _sizes(fields[::FIELDS]),
        strict=True,
    )
    # A tuple's own `__new__`, as that of a named tuple is a call of Python's.
    return map(tuple.__new__, repeat(RecordMetadata), columns)


def _sizes(data: list[bytes | None]) -> Iterable[int]:
    if data[0] is None and data.count(None) == len(data):
        return repeat(-1, len(data))
    try:
        return [*map(len, data)]  # type: ignore[arg-type]
    except TypeError:
        return [-1 if entry is None else len(entry) for entry in data]


def tell_failed(
    topic: str,
    partition: int,
    fields: Fields,
    error: KafkaError,
    record_errors: Mapping[int, KafkaError],
    mark_reported: Callable[[int], None],
    interrupt: Interrupt,
) -> None:
    """The records have failed, with errors of their own where there are such."""
    exit_request: BaseException | None = None
    for index, (_, _, _, _, on_delivery) in enumerate(rows_of(fields)):
        if on_delivery is None:
            continue
        mark_reported(index)
        try:
            on_delivery(None, record_errors.get(index, error))
        except BaseException as raised:
            exit_request = note_raised(topic, partition, raised, exit_request)
    if exit_request is not None:
        interrupt(exit_request)


def note_raised(
    topic: str, partition: int, error: BaseException, exit_request: BaseException | None
) -> BaseException | None:
    """Log the exception of a callback that is being handled.

    Returns the first BaseException so far (such as SystemExit), which is raised when all callbacks were
    called; `exit_request` is the one before.
    """
    what = "failed" if isinstance(error, Exception) else "requested the exit"
    logger.exception("a delivery callback for %s-%d %s", topic, partition, what)
    return exit_request if isinstance(error, Exception) or exit_request is not None else error


WHOLE_BATCH = -1
"""In the place of an index: the callable takes no record's outcome but None."""

# What CPython takes: for a run the object, its numbers and its place in a queue; for a callable with
# arguments a `partial`, too; for the first of a batch the queue.
RUN_BYTES = 130
PARTIAL_BYTES = 250
LISTENERS_BYTES = 650


class Run:
    """A callable for the records from `first` up to, without, `end`."""

    __slots__ = ("callback", "end", "first")

    def __init__(self, first: int, callback: Callable[[Any], object]) -> None:
        self.first = first
        self.end = first + 1
        self.callback = callback


class Listeners:
    """Runs in the order in which they were added, those of a record in the order of its own.

    `last` is the one that may grow.  It does so only while nobody is told, and without a call between the
    look and the change, where Python could go over to another thread (`Delivery.add_callback`).  Without
    CPython's global lock no run grows.
    """

    __slots__ = ("_runs", "last")

    def __init__(self) -> None:
        self._runs: deque[Run] = deque()
        self.last: Run | None = None

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, index: int, callback: Callable[[Any], object]) -> None:
        """For a record that the last run cannot grow by.  Who adds looks afterwards whether all is told."""
        run = Run(index, callback)
        self._runs.append(run)
        if HAS_GIL:
            self.last = run

    def take(self) -> Iterator[tuple[range, Callable[[Any], object]]]:
        """Each run once, as its records' indexes and its callable; should two threads be here, to one."""
        runs = self._runs
        while runs:
            try:
                run = runs.popleft()
            except IndexError:
                return
            yield range(run.first, run.end), run.callback

    def clear(self) -> None:
        self._runs.clear()

    @property
    def size_bytes(self) -> int:
        """Return their memory in bytes."""
        if not self._runs:
            return 0
        # Those of one partition are of one kind, as a rule.
        has_arguments = isinstance(self._runs[-1].callback, partial)
        return LISTENERS_BYTES + len(self._runs) * (RUN_BYTES + (PARTIAL_BYTES if has_arguments else 0))


def is_same(one: Callable[[Any], object], other: Callable[[Any], object]) -> bool:
    """Whether both do the same: a method is another object each time that it is named."""
    # Two methods are compared by their objects and functions; `==` of any other callable is the user's own.
    return one is other or (type(one) is MethodType and type(other) is MethodType and one == other)
