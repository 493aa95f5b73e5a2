"""Counts the rows of a task, and computes a digest of their keys and values.

The digest does not depend on the order of the rows or on how they are split into Arrow batches: a shuffle
may deliver them in another order.  A task's thread, in a worker.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa

from spark_connector.sink.exactly_once.identity import DIGEST_MASK

if TYPE_CHECKING:
    import numpy.typing as npt

COLUMNS = ("key", "value")
_FACTORS = tuple(np.uint64(one) for one in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93))
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
    """Sum of the rows' hashes.

    CRCs alone must not be summed: they are linear, so the sums over ids 0-1023 and 1024-2047 are equal.
    """
    columns = {name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)}
    hashes = np.zeros(batch.num_rows, np.uint64)
    for name, factor in zip(COLUMNS, _FACTORS, strict=False):
        if name in columns:
            hashes += _mixed(_crcs(columns[name]) + factor)
    return int(_mixed(hashes).sum(dtype=np.uint64))


def _crcs(column: pa.Array) -> npt.NDArray[np.uint64]:
    """A number for each value; null has one of its own."""
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
