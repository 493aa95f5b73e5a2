"""The `on_delivery` callbacks of a batch: how they are kept, and how the IO thread calls them in order.

An exception of one callback is logged, and the others are still called; a BaseException such as SystemExit
is raised from a later call of the producer. Programs mostly pass one callable for all records, so
consecutive records with the same callable share one entry.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
"""`Driver.interrupt`: raises a BaseException of a callback, such as SystemExit, from a later call."""


def call_written(
    topic: str,
    partition: int,
    fields: Fields,
    base_offset: int,
    log_append_time: int,
    interrupt: Interrupt,
) -> None:
    """Call on_delivery of written records; `base_offset` is -1 if unknown. Hot: calls only user code."""
    callbacks = fields[4::FIELDS]
    for on_delivery in callbacks:
        if on_delivery is not None:  # never `==`, which user code can define
            break
    else:
        return  # columns, or records without callbacks
    exit_request: BaseException | None = None
    all_metadata = metadata_of(topic, partition, fields, base_offset, log_append_time)
    for on_delivery, metadata in zip(callbacks, all_metadata, strict=True):
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
    key_sizes, value_sizes = sizes_of(fields[1::FIELDS]), sizes_of(fields[::FIELDS])
    times = fields[2::FIELDS]
    return metadata_of_columns(topic, partition, times, key_sizes, value_sizes, base_offset, log_append_time)


def metadata_of_columns(
    topic: str,
    partition: int,
    timestamps: Sequence[int],
    key_sizes: Iterable[int],
    value_sizes: Iterable[int],
    base_offset: int,
    log_append_time: int,
) -> Iterator[RecordMetadata]:
    """Yield the metadata of records of which these are the fields."""
    count = len(timestamps)
    has_offset, has_own_time = base_offset >= 0, log_append_time < 0
    columns = zip(
        repeat(topic, count),
        repeat(partition, count),
        range(base_offset, base_offset + count) if has_offset else repeat(NO_OFFSET, count),
        timestamps if has_own_time else repeat(log_append_time, count),
        key_sizes,
        value_sizes,
        strict=True,
    )
    # tuple.__new__, as that of a named tuple is a Python function.
    return map(tuple.__new__, repeat(RecordMetadata), columns)


def sizes_of(data: list[bytes | None]) -> Iterable[int]:
    """Return the size of each key or value; -1 for a null."""
    if data and data[0] is None and data.count(None) == len(data):
        return repeat(-1, len(data))
    try:
        return [*map(len, data)]  # type: ignore[arg-type]
    except TypeError:
        return [-1 if entry is None else len(entry) for entry in data]


def call_failed(
    topic: str,
    partition: int,
    fields: Fields,
    error: KafkaError,
    record_errors: Mapping[int, KafkaError],
    mark_reported: Callable[[int], None],
    interrupt: Interrupt,
) -> None:
    """Call on_delivery of failed records, with a record's own error if there is one."""
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

    Return the first BaseException so far (such as SystemExit), which is raised when all callbacks were
    called; `exit_request` is the one before.
    """
    what = "failed" if isinstance(error, Exception) else "requested the exit"
    logger.exception("a delivery callback for %s-%d %s", topic, partition, what)
    return exit_request if isinstance(error, Exception) or exit_request is not None else error


WHOLE_BATCH = -1
"""The index of a callable that is called with None, once per batch."""

# Memory of CPython's objects: a run with its numbers and its place in a queue; a `partial` for a callable
# with arguments; the queue of a batch's first callable.
RUN_BYTES = 130
PARTIAL_BYTES = 250
LISTENERS_BYTES = 650


class Run:
    """A callable for the records from `first` to `end`, exclusive."""

    __slots__ = ("callback", "end", "first")

    def __init__(self, first: int, callback: Callable[[Any], object]) -> None:
        self.first = first
        self.end = first + 1
        self.callback = callback


class Listeners:
    """Runs of callables in the order in which they were added.

    `last` can grow until callbacks are called. It grows without a call between the check and the change, at
    which Python could switch to another thread (delivery.py). Without CPython's global lock no run grows.
    """

    __slots__ = ("_runs", "last")

    def __init__(self) -> None:
        self._runs: deque[Run] = deque()
        self.last: Run | None = None

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, index: int, callback: Callable[[Any], object]) -> None:
        """Add a run. The caller then checks whether callbacks have been called already."""
        run = Run(index, callback)
        self._runs.append(run)
        if HAS_GIL:
            self.last = run

    def take(self) -> Iterator[tuple[range, Callable[[Any], object]]]:
        """Yield the indexes and the callable of each run once; of concurrent threads, to one."""
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
        # Callables of one partition are usually alike.
        has_arguments = isinstance(self._runs[-1].callback, partial)
        return LISTENERS_BYTES + len(self._runs) * (RUN_BYTES + (PARTIAL_BYTES if has_arguments else 0))


def is_same(one: Callable[[Any], object], other: Callable[[Any], object]) -> bool:
    """Return whether both are the same function or method; each access to a method creates an object."""
    # Methods are compared by object and function; `==` of other callables can be user code.
    return one is other or (type(one) is MethodType and type(other) is MethodType and one == other)
