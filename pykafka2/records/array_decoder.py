"""Decodes the records of several batches at once into numpy arrays, without a step in Python for each.

Runs on the application's thread. Imports numpy, so column_group.py imports this module only if numpy is
loaded. Decodes what producers write; anything else, damaged or merely unusual, is left to column_decoder.py,
which returns the same for what both decode.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from pykafka2.records.batch import Buffer, RecordBatch, has_gaps
from pykafka2.records.runs import ArrayRun, HeaderArrays
from pykafka2.types import LOG_APPEND_TIME

# Larger base timestamps could overflow when a delta is added.
MAX_TIMESTAMP = 1 << 60
# Headers of a record; each takes one more pass over all records with at least as many.
MOST_HEADERS = 50

# Longer numbers (beyond 4 GB, or 200 days after a batch's first record) are left to column_decoder.py.
MAX_VARINT_BYTES = 5
# Records up to this size are found by the zeros between them, which reads each byte, but not in Python.
SMALL_RECORD_BYTES = 256
# Zeros per record, of which three are its own; with more of them in values a zero is not a useful sign.
MOST_ZEROS = 16
# Records that are visited one by one before the next search for neighbors of one length.
LONGEST_PATIENCE = 64
SHORTEST_RUN = 4

Opened = tuple[RecordBatch, Buffer]
"""A batch, and the bytes of its records after the check of checksum and size."""


def decode_arrays(group: Sequence[Opened]) -> ArrayRun | None:
    """Return all records of these batches, which follow one another in the log; none of them is empty.

    Either all batches have gaps between their offsets or none has; see `has_gaps`. Return None if something
    is not as producers write it.
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
    """A group of batches whose records lie back to back in `buffer`."""

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
        length_at = at
        raw, at = self._records.varints(at)
        is_null = raw == 1
        # A null of more bytes is left to column_decoder.py, which refuses it.
        expect((at - length_at)[is_null].sum() == np.count_nonzero(is_null))
        if is_null.all():
            return at, np.full(len(at), -1), at
        sizes = raw >> 1
        if is_null.any():
            expect(not (raw & 1 & ~is_null).any())
            return at, sizes - is_null, at + sizes
        expect(not (raw & 1).any())
        return at, sizes, at + sizes

    def _offsets(self, at: Any) -> tuple[Sequence[int], Any]:
        """Return the offset of each record, and the place behind it."""
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
        """Read the headers of all records: the first one of each record, then the second ones, and so on."""
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


class UnusualRecords(Exception):
    """Raised for records that column_decoder.py must decode; it finds out what is wrong with them."""


def expect(is_so: object) -> None:
    if not is_so:
        raise UnusualRecords


class Records:
    """The records of batches that lie back to back in `buffer`.

    `counts` and `sizes` are the numbers of records and bytes of each batch, all above 0. Reading beyond the
    buffer raises IndexError.
    """

    def __init__(self, buffer: bytes, counts: Sequence[int], sizes: Sequence[int]) -> None:
        self._buffer = buffer
        self._bytes = np.frombuffer(buffer, np.uint8)
        self._ends = list(accumulate(sizes))
        self._begins = [0, *self._ends[:-1]]
        self.total = sum(counts)
        self.counts = np.array(counts, np.int64)
        self.firsts = np.cumsum(self.counts) - self.counts
        """The index of each batch's first record."""

    def varints(self, at: Any) -> tuple[Any, Any]:
        """Return the unsigned numbers at these places, and the places behind them."""
        byte = self._bytes.take(at)
        raw = byte.astype(np.int64)
        at = at + 1
        longer = byte >= 0x80
        shift = 7
        while longer.any():
            expect(shift < 7 * MAX_VARINT_BYTES)
            if longer.all():
                byte = self._bytes.take(at)
                raw += (byte.astype(np.int64) - 1) << shift  # without the continuation bit of the byte before
                at += 1
                longer = byte >= 0x80
            else:
                where = np.flatnonzero(longer)
                byte = self._bytes.take(at[where])
                raw[where] += (byte.astype(np.int64) - 1) << shift
                at[where] += 1
                longer[where] = byte >= 0x80
            shift += 7
        return raw, at

    def bodies(self) -> tuple[Any, Any]:
        """Return where each record begins, after its length, and where it ends; tries one method after
        another."""
        if self.total * SMALL_RECORD_BYTES >= len(self._buffer) and not self._begins_alike():
            ways = (self._starts_by_zeros, self._starts_by_steps)
        else:
            ways = (self._starts_by_example, self._starts_by_steps)
        for starts_by in ways:
            try:
                starts = starts_by()
                lengths, at = self.varints(starts)
            except (UnusualRecords, IndexError):
                continue
            ends = at + (lengths >> 1)
            if self._are_chained(starts, ends):
                sizes_of(lengths)
                return at, ends
        raise UnusualRecords

    def _are_chained(self, starts: Any, ends: Any) -> bool:
        """Return whether each record ends where the next begins, and each batch's records fill it."""
        return (
            len(starts) == self.total
            and bool((ends[:-1] == starts[1:]).all())
            and int(ends[-1]) == len(self._buffer)
            and bool((starts[self.firsts] == self._begins).all())
        )

    def _begins_alike(self) -> bool:
        """Return whether the first two records have one length."""
        first = self._step(0)
        return first < self._ends[0] and self._buffer[:2] == self._buffer[first : first + 2]

    def _step(self, position: int) -> int:
        """Return where the record at this position ends."""
        size = self._buffer[position]
        if size < 0x80:
            return position + 1 + (size >> 1)
        high = self._buffer[position + 1]
        if high < 0x80:
            return position + 2 + ((size & 0x7F | high << 7) >> 1)
        third = self._buffer[position + 2]
        expect(third < 0x80)
        return position + 3 + ((size & 0x7F | (high & 0x7F) << 7 | third << 14) >> 1)

    def _starts_by_zeros(self) -> Any:
        """Find records by zeros: one without headers ends with a zero, before up to three bytes of the next
        record's length and a zero, its attributes. Return no starts if values are full of zeros."""
        zeros = np.flatnonzero(self._bytes == 0)
        if len(zeros) > MOST_ZEROS * self.total:
            return zeros[:0]
        between = zeros[1:] - zeros[:-1]
        starts = zeros[:-1][(between >= 2) & (between <= 4)] + 1
        starts = np.concatenate([np.zeros(1, np.int64), starts])
        if len(starts) > self.total:  # some are in a value, and mostly not followed by a zero at their end
            lengths, at = self.varints(starts)
            ends = at + (lengths >> 1)
            starts = starts[ends <= len(self._buffer)]
            starts = starts[self._bytes.take(ends[ends <= len(self._buffer)] - 1) == 0]
        return starts

    def _starts_by_example(self) -> Any:
        """Guess that batches with as many bytes and records have the same lengths in the same order."""
        found: dict[tuple[int, int], tuple[int, Any]] = {}
        pieces = []
        for begin, count, end in zip(self._begins, self.counts.tolist(), self._ends, strict=True):
            example = found.get((count, end - begin))
            if example is None:
                starts = self._steps(begin, count, end)
                found[count, end - begin] = begin, starts
            else:
                starts = example[1] + (begin - example[0])
            pieces.append(starts)
        return np.concatenate(pieces)

    def _starts_by_steps(self) -> Any:
        batches = zip(self._begins, self.counts.tolist(), self._ends, strict=True)
        return np.concatenate([self._steps(*batch) for batch in batches])

    def _steps(self, position: int, count: int, end: int) -> Any:
        """Step from each record to the next by its length, over several at once if they have one length."""
        pieces: list[Any] = []
        singles: list[int] = []
        left, patience = count, 1
        while left:
            run = self._run_at(position, left, end)
            if run >= SHORTEST_RUN:
                stride = self._step(position) - position
                if singles:
                    pieces.append(np.array(singles, np.int64))
                    singles = []
                stop = position + run * stride
                pieces.append(np.arange(position, stop, stride, dtype=np.int64))
                position, left, patience = stop, left - run, 1
            else:
                steps = min(patience, left)
                position = self._walk(position, steps, singles)
                left, patience = left - steps, min(patience * 2, LONGEST_PATIENCE)
        expect(position == end)
        pieces.append(np.array(singles, np.int64))
        return np.concatenate(pieces)

    def _run_at(self, position: int, most: int, end: int) -> int:
        """Return how many records of one length there are from this position on."""
        buffer = self._buffer
        stride = self._step(position) - position
        head = buffer[position : position + 3]
        if buffer[position + stride : position + stride + 2] != head[:2]:
            return 1
        count = min(most, (end - position) // stride)
        for index, byte in enumerate(head):
            column = buffer[position + index : position + count * stride : stride]
            count = len(column) - len(column.lstrip(bytes((byte,))))
            if byte < 0x80:
                break
        return count

    def _walk(self, position: int, steps: int, into: list[int]) -> int:
        """Add the places of the next records; 0.1 us for each."""
        buffer, add = self._buffer, into.append
        for _ in range(steps):
            add(position)
            size = buffer[position]
            if size < 0x80:
                position += 1 + (size >> 1)
            elif (high := buffer[position + 1]) < 0x80:
                position += 2 + ((size & 0x7F | high << 7) >> 1)
            else:
                position = self._step(position)
        return position


def sizes_of(raw: Any) -> Any:
    """Return the lengths that these unsigned numbers encode; raise UnusualRecords for a negative one."""
    expect(not (raw & 1).any())
    return raw >> 1
