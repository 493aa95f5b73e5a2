"""The identity of a batch: source offsets, number of tasks, and a digest of the rows of each task.

The ledger records it with each batch. A replayed batch must have the same identity; otherwise the checkpoint
is an older copy, and the batch holds other rows under the same number. The digest depends neither on the
order of the rows nor on their Arrow batches, because a shuffle can change both.

Pure. Neighbor: sink/checkpoint.py reads the source offsets.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from spark_connector.sink.exactly_once.messages import Written

if TYPE_CHECKING:
    import numpy.typing as npt


DIGEST_MASK = (1 << 64) - 1
"""Digests are 64-bit sums."""
OTHER_SOURCE = "it was read from other source offsets"


@attrs.define(frozen=True)
class TaskRows:
    """The rows of one task.

    digest: of keys and values in any order; None if it was not computed.
    """

    partition: int
    rows: int
    digest: int | None = None


@attrs.define(frozen=True)
class Marker:
    """A task's record in its own transaction.

    source: digest of the batch's source offsets, if known.
    run: the number of the task's run.
    """

    batch: int
    task: TaskRows
    source: str | None = None
    run: int = 0


@attrs.define(frozen=True)
class BatchIdentity:
    """Identity of a batch.

    source: digest of the source offsets; None if they are unknown.
    tasks: number of tasks.
    rows: of the tasks that have any, by partition.
    """

    source: str | None
    tasks: int
    rows: tuple[TaskRows, ...]

    @classmethod
    def of(cls, messages: Iterable[Written]) -> BatchIdentity:
        """Return the identity of the batch that these tasks wrote or skipped."""
        messages = sorted(messages, key=lambda message: message.partition)
        return cls(
            next((message.source for message in messages if message.source is not None), None),
            len(messages),
            tuple(
                TaskRows(message.partition, message.rows, message.digest)
                for message in messages
                if message.rows
            ),
        )

    def difference(self, replayed: BatchIdentity) -> str | None:
        """Describe the first difference; None if there is none.

        Equal source offsets prove nothing about one task: the same rows can be split in another way.
        """
        if is_other_source(self.source, replayed.source):
            return OTHER_SOURCE
        before = {task.partition: task for task in self.rows}
        now = {task.partition: task for task in replayed.rows}
        for partition in sorted(before.keys() | now.keys()):
            found = difference_of_task(
                before.get(partition, TaskRows(partition, 0)),
                now.get(partition, TaskRows(partition, 0)),
            )
            if found:
                return found
        if self.tasks != replayed.tasks:
            return f"it had {self.tasks} tasks and has {replayed.tasks} now"
        return None

    def has_same_rows(self, replayed: BatchIdentity) -> bool:
        """Return whether both are known to have the same rows, however they are split into tasks.

        A digest is a sum over rows, so the sum over all tasks does not depend on the split.
        """
        if _total(task.rows for task in self.rows) != _total(task.rows for task in replayed.rows):
            return False
        digests = [[task.digest for task in identity.rows] for identity in (self, replayed)]
        if any(None in of_tasks for of_tasks in digests):
            return self.source is not None and self.source == replayed.source
        before, now = (_total(digest or 0 for digest in of_tasks) for of_tasks in digests)
        return before == now


def _total(numbers: Iterable[int]) -> int:
    """Return the sum of digests."""
    return sum(numbers) & DIGEST_MASK


def is_other_source(before: str | None, now: str | None) -> bool:
    """Return whether two batches are known to come from different source offsets."""
    return before is not None and now is not None and before != now


def difference_of_task(before: TaskRows, now: TaskRows) -> str | None:
    """Describe how the rows of one task differ; None if they do not."""
    if before.rows != now.rows:
        return f"task {now.partition} had {_counted(before.rows)} and has {_counted(now.rows)} now"
    if None not in (before.digest, now.digest) and before.digest != now.digest:
        return f"task {now.partition} has {_counted(now.rows)} as before, with other keys or values"
    return None


def _counted(rows: int) -> str:
    return f"{rows} row" if rows == 1 else f"{rows} rows"


COLUMNS = ("key", "value", "topic", "partition")
"""The columns that a digest covers: the content of a row and its destination."""
_FACTORS = tuple(
    np.uint64(constant) for constant in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93)
)
_SALTS = (*_FACTORS, np.uint64(0xA0761D6478BD642F))
"""By column, so that values cannot change places."""
_NULL = np.uint64(0x165667B19E3779F9)
_SHIFT = np.uint64(32)


@attrs.define
class Tally:
    """Rows of one task so far.  `digest` is None unless it is wanted."""

    _with_digest: bool
    rows: int = 0
    digest: int | None = attrs.field(default=None, init=False)

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        if self._with_digest and batch.num_rows:
            self.digest = ((self.digest or 0) + _digest_of(batch)) & DIGEST_MASK


def _digest_of(batch: pa.RecordBatch) -> int:
    """Return the sum of the rows' hashes.

    CRCs alone must not be summed: they are linear, so the sums over ids 0-1023 and 1024-2047 are equal.
    """
    columns = {name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)}
    hashes = np.zeros(batch.num_rows, np.uint64)
    for name, salt in zip(COLUMNS, _SALTS, strict=True):
        if name in columns:
            hashes += _mixed(_crcs(columns[name]) + salt)
    return int(_mixed(hashes).sum(dtype=np.uint64))


def _crcs(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a hash for each value, and a fixed number for null."""
    if pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    kind = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
    values: Any = column if pa.types.is_large_binary(column.type) else column.cast(kind)
    if values.null_count:
        is_null = values.is_null().to_numpy(zero_copy_only=False)
        values = values.fill_null(b"")
    found = np.fromiter(
        map(zlib.crc32, values.to_numpy(zero_copy_only=False)), dtype=np.uint64, count=len(values)
    )
    if column.null_count:
        found[is_null] = _NULL
    return found


def _mixed(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    for factor in _FACTORS[1:]:
        numbers = numbers * factor
        numbers ^= numbers >> _SHIFT
    return numbers
