"""Records of several batches at once into arrays, with numpy: no step in Python for each of them.

Runs on the application's thread.  Loads numpy, so column_group.py imports it only where numpy is loaded
already.  It understands what producers write; of anything else, damaged or merely odd, it says so, and
column_decoder.py, which says the same of what both understand, decodes it or refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pykafka2.records.batch import Buffer, RecordBatch
from pykafka2.records.opening import has_gaps
from pykafka2.records.record_starts import Records, UnusualRecords, expect, sizes_of
from pykafka2.records.runs import ArrayRun, HeaderArrays
from pykafka2.types import LOG_APPEND_TIME

# Base timestamps beyond this could overflow with what is added to them.
MAX_TIMESTAMP = 1 << 60
# Headers of a record; each takes one more look at all records that have so many.
MOST_HEADERS = 50

Opened = tuple[RecordBatch, Buffer]
"""A batch, and its records' bytes, whose checksum and size have been looked at."""


def decode_arrays(group: Sequence[Opened]) -> ArrayRun | None:
    """All records of these batches, which follow one another in the log; none of them is empty.

    Either all batches have gaps between their offsets or none has; see `has_gaps`.  None where something is
    not as producers write it.
    """
    if any(abs(_base_timestamp(batch)) > MAX_TIMESTAMP for batch, _ in group):
        return None
    buffer = b"".join([body for _, body in group])
    try:
        return _Decoder(group, buffer).run()
    except (UnusualRecords, IndexError):
        return None


def _base_timestamp(batch: RecordBatch) -> int:
    return batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else batch.base_timestamp


class _Decoder:
    """One group of batches, back to back in `buffer`."""

    def __init__(self, group: Sequence[Opened], buffer: bytes) -> None:
        self._batches = [batch for batch, _ in group]
        self._buffer = buffer
        counts = [batch.count for batch in self._batches]
        self._records = Records(buffer, counts, [len(body) for _, body in group])

    def run(self) -> ArrayRun:
        at, ends = self._records.bodies()
        deltas, at = self._records.varints(at + 1)  # behind a byte of attributes, which have no meaning yet
        offsets, at = self._offsets(at)
        key_at, key_sizes, at = self._field(at)
        value_at, value_sizes, at = self._field(at)
        headers = self._headers(at, ends)
        return ArrayRun(
            self._buffer,
            offsets,
            self._timestamps(deltas),
            key_at,
            key_sizes,
            value_at,
            value_sizes,
            headers,
        )

    def _field(self, at: Any) -> tuple[Any, Any, Any]:
        """Return where a key or value begins, its size (-1 for null), and where the next field begins."""
        raw, at = self._records.varints(at)
        is_null = raw == 1
        if is_null.all():
            return at, np.full(len(at), -1), at
        sizes = raw >> 1
        if is_null.any():
            expect(not (raw & 1 & ~is_null).any())
            return at, sizes - is_null, at + sizes
        expect(not (raw & 1).any())
        return at, sizes, at + sizes

    def _offsets(self, at: Any) -> tuple[Sequence[int], Any]:
        """The offset of each record, and what comes behind the bytes that say so."""
        batches = self._batches
        bases = np.array([batch.base_offset for batch in batches], np.int64)
        if has_gaps(batches[0]):
            raw, at = self._records.varints(at)
            offsets = np.repeat(bases, self._records.counts) + sizes_of(raw)
            last = [batch.last_offset for batch in batches]
            expect(
                (offsets[1:] > offsets[:-1]).all()
                and (offsets <= np.repeat(last, self._records.counts)).all()
            )
            expect((offsets[self._records.firsts] >= bases).all())
            found: list[int] = offsets.tolist()
            return found, at
        indexes = np.arange(self._records.total) - np.repeat(self._records.firsts, self._records.counts)
        at = at + 1 + (indexes >= 64) + (indexes >= 8192)
        if all(one.next_offset == other.base_offset for one, other in pairwise(batches)):
            return range(batches[0].base_offset, batches[-1].next_offset), at
        found = (np.repeat(bases, self._records.counts) + indexes).tolist()
        return found, at

    def _timestamps(self, raw: Any) -> Any:
        batches = self._batches
        bases = np.array([_base_timestamp(batch) for batch in batches], np.int64)
        is_own = np.array([batch.timestamp_type != LOG_APPEND_TIME for batch in batches])
        if not is_own.all():
            raw = raw * np.repeat(is_own, self._records.counts)
        return np.repeat(bases, self._records.counts) + ((raw >> 1) ^ -(raw & 1))

    def _headers(self, at: Any, ends: Any) -> HeaderArrays | None:
        """The headers of all records: the first one of each that has some, the second ones, and so on."""
        counts, at = self._records.varints(at)
        left = sizes_of(counts)
        rows, ends_of_others = np.flatnonzero(left), ends[left == 0]
        expect((at[left == 0] == ends_of_others).all())
        if not len(rows):
            return None
        left, at, ends = left[rows], at[rows], ends[rows]
        found: list[tuple[Any, ...]] = []
        while len(rows):
            expect(len(found) < MOST_HEADERS)
            sizes, name_at = self._records.varints(at)
            sizes = sizes_of(sizes)
            value_at, value_sizes, at = self._field(name_at + sizes)
            found.append((rows, name_at, sizes, value_at, value_sizes))
            left = left - 1
            goes_on = left > 0
            expect((at[~goes_on] == ends[~goes_on]).all() and (at <= ends).all())
            rows, left, at, ends = rows[goes_on], left[goes_on], at[goes_on], ends[goes_on]
        columns = [np.concatenate(column) for column in zip(*found, strict=True)]
        order = np.argsort(columns[1])
        return HeaderArrays(*(column[order] for column in columns))
