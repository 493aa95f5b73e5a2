"""Finds the records of several batches in one buffer, and decodes the varints of all of them at once.

Any thread; pure; loads numpy.  Only array_decoder.py uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

# Numbers of more bytes than this (4 GB, 200 days after a batch's first record) are left to others.
MAX_VARINT_BYTES = 5
# Records up to this many bytes are found by the zeros between them: a look at each byte, but none in Python.
SMALL_RECORD_BYTES = 256
# Zeros in a record of which three are its own; with more of them in values one is no sign any more.
MOST_ZEROS = 16
# So many records are stepped through before neighbours of one length are looked for again.
LONGEST_PATIENCE = 64
SHORTEST_RUN = 4


class UnusualRecords(Exception):
    """These records are to be decoded by other means, which find out what is wrong with them."""


def expect(is_so: object) -> None:
    if not is_so:
        raise UnusualRecords


class Records:
    """The records of batches that lie back to back in `buffer`.

    `counts` and `sizes` say how many records and bytes each batch has, none of them 0.  What reads beyond the
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
        """The unsigned numbers at these places, and the places behind them."""
        byte = self._bytes.take(at)
        raw = byte.astype(np.int64)
        at = at + 1
        longer = byte >= 0x80
        shift = 7
        while longer.any():
            expect(shift < 7 * MAX_VARINT_BYTES)
            if longer.all():
                byte = self._bytes.take(at)
                raw += (byte.astype(np.int64) - 1) << shift  # less the bit that said so, of the byte before
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
        """Whether each record ends where the next begins, and each batch's records fill it."""
        return (
            len(starts) == self.total
            and bool((ends[:-1] == starts[1:]).all())
            and int(ends[-1]) == len(self._buffer)
            and bool((starts[self.firsts] == self._begins).all())
        )

    def _begins_alike(self) -> bool:
        """Whether the first two records have one length."""
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
        """A record without headers ends with a zero; behind it are up to three bytes with the length of the
        next one, then a zero: its attributes.  Where values are full of zeros this tells nothing."""
        zeros = np.flatnonzero(self._bytes == 0)
        if len(zeros) > MOST_ZEROS * self.total:
            return zeros[:0]
        between = zeros[1:] - zeros[:-1]
        starts = zeros[:-1][(between >= 2) & (between <= 4)] + 1
        starts = np.concatenate([np.zeros(1, np.int64), starts])
        if len(starts) > self.total:  # some lie within a value; where those would end no zero is, mostly
            lengths, at = self.varints(starts)
            ends = at + (lengths >> 1)
            starts = starts[ends <= len(self._buffer)]
            starts = starts[self._bytes.take(ends[ends <= len(self._buffer)] - 1) == 0]
        return starts

    def _starts_by_example(self) -> Any:
        """Batches of as many bytes and records may well have the same lengths in the same order."""
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
        """From each record's length to the next one, many of one length at a time where they follow."""
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
        """How many records of one length follow, beginning with the one at this place."""
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
        """Hot: 0.1 us a record."""
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
    """Lengths out of unsigned numbers; they must not be negative."""
    expect(not (raw & 1).any())
    return raw >> 1
