"""Merges the batches of several partitions by timestamp, without reading them to the end first.

Any thread; pure. Imports pyarrow and numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import numpy as np
import pyarrow as pa


@attrs.define(eq=False)
class _Stream:
    """The batches of one partition, and the unread part of the current one."""

    batches: Iterator[pa.RecordBatch]
    batch: Any = None
    keys: Any = None
    newest: int = -(1 << 63)

    def fill(self) -> bool:
        """Return whether there is an unread row."""
        while self.batch is None or not self.batch.num_rows:
            self.batch = next(self.batches, None)
            if self.batch is None:
                return False
            times = self.batch.column("timestamp").cast(pa.int64()).to_numpy()
            self.keys = np.maximum.accumulate(np.maximum(times, self.newest))
            self.newest = int(self.keys[-1]) if len(self.keys) else self.newest
        return True

    def take_upto(self, bound: int) -> tuple[Any, Any] | None:
        """Take the rows whose key is at most `bound`."""
        count = int(np.searchsorted(self.keys, bound, side="right"))
        if not count:
            return None
        taken = self.batch.slice(0, count), self.keys[:count]
        self.batch, self.keys = self.batch.slice(count), self.keys[count:]
        return taken


def merged(streams: Iterable[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge batches with a column `timestamp` by it.

    Each partition keeps the order of its offsets, so a record that is older than one before it comes directly
    after that one. Rows of one timestamp are in the order of the streams.
    """
    current = [_Stream(one) for one in streams]
    while current := [one for one in current if one.fill()]:
        bound = min(int(one.keys[-1]) for one in current)
        taken = [found for one in current if (found := one.take_upto(bound)) is not None]
        table = pa.Table.from_batches([batch for batch, _ in taken]).combine_chunks()
        if len(taken) > 1:
            order = np.argsort(np.concatenate([keys for _, keys in taken]), kind="stable")
            table = table.take(pa.array(order)).combine_chunks()
        yield from table.to_batches()
