"""Columns of records into the records of batches, without a Python call for each of them.

Any thread; pure.  The bytes are those of encoder.py, which goes record by record.  A batch is seen as a table
whose rows are the records, made of pieces: the same bytes in every row, or a list of them.  Lists are put in
their places by slices with a step, and one join makes the batch.  Lengths become varints by look-ups, as a
column has few different ones.  arrow_encoder.py does the same with Arrow's arrays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import add, itemgetter
from typing import Protocol, overload

import attrs

from pykafka2.records.varint import NULL, VARINTS, varint, varint_size

Column = Sequence["bytes | None"]

Piece = bytes | list[bytes]
"""What stands at one place of every record: the same in all, or a row's own."""

Sizes = int | list[int]
"""Bytes a row: the same in all, or a row's own."""

NO_HEADERS = b"\0"
ATTRIBUTES = b"\0"

# Offset deltas from one of these up to the next are written in 1, 2, 3, 4 and 5 bytes.
OFFSET_SPANS = (0, 1 << 6, 1 << 13, 1 << 20, 1 << 27, 1 << 31)

MAX_BATCH_RECORDS = 1 << 20
MAX_OFFSET_BYTES = 3
"""What an offset delta takes at most in a batch of so many."""

# The first byte of a varint of several, for a number that is not negative, by its lowest six bits.
_FIRST_BYTES = [bytes((2 * n | 0x80,)) for n in range(64)]


@attrs.define
class EncodedRecords:
    """The records of one batch, not yet compressed and without the batch's header.

    base_timestamp is the first record's, max_timestamp the highest, in milliseconds since the epoch.
    """

    body: bytes
    count: int
    base_timestamp: int
    max_timestamp: int


class RecordColumns(Protocol):
    """Records as columns of equal length, however they are held."""

    def __len__(self) -> int: ...

    def rows(self, first: int, stop: int) -> RecordColumns:
        """Those from first up to stop."""

    def take(self, numbers: Sequence[int]) -> RecordColumns:
        """Those of these row numbers, in that order."""

    def cuts(self, max_bytes: int) -> list[int]:
        """Where to end batches whose records take at most max_bytes; a larger record gets a batch of its own.

        Sizes are upper bounds, a few bytes a record too high.
        """

    def encode(self, first: int, stop: int) -> EncodedRecords:
        """The records from first up to stop, with offset deltas from 0 on; there must be one at least."""


class ListColumns:
    """Records as Python's lists (or other sequences).

    Args:
        values: bytes, or None for a null.
        keys: as long as values; None for no keys at all.
        headers: as `encode_headers` writes them: of every record, or of each.
        timestamps: milliseconds since the epoch, of every record or of each; they must fit into 64 bits.
    """

    def __init__(
        self,
        values: Column,
        keys: Column | None = None,
        headers: Piece = NO_HEADERS,
        timestamps: int | Sequence[int] = 0,
    ) -> None:
        self.values = values
        self.keys = keys
        self.headers = headers
        self.timestamps = timestamps
        self._layout: tuple[list[Piece], Sizes] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, first: int, stop: int) -> ListColumns:
        if first == 0 and stop == len(self.values):
            return self
        return ListColumns(
            self.values[first:stop],
            None if self.keys is None else self.keys[first:stop],
            _rows(self.headers, first, stop),
            self.timestamps if isinstance(self.timestamps, int) else self.timestamps[first:stop],
        )

    def take(self, numbers: Sequence[int]) -> ListColumns:
        if len(numbers) == 1:
            return self.rows(numbers[0], numbers[0] + 1)
        get = itemgetter(*numbers)
        return ListColumns(
            get(self.values),
            None if self.keys is None else get(self.keys),
            [*get(self.headers)] if isinstance(self.headers, list) else self.headers,
            self.timestamps if isinstance(self.timestamps, int) else get(self.timestamps),
        )

    def cuts(self, max_bytes: int) -> list[int]:
        count = len(self.values)
        delta_bytes = 1
        if not isinstance(self.timestamps, int) and count:
            delta_bytes = varint_size(max(self.timestamps) - min(self.timestamps))
        _, sizes = self._pieces()
        more = len(ATTRIBUTES) + delta_bytes + MAX_OFFSET_BYTES
        if isinstance(sizes, int):
            size = sizes + more
            step = min(max(1, max_bytes // (size + varint_size(size))), MAX_BATCH_RECORDS)
            return [*range(step, count, step), count] if count else []
        more += varint_size(max(sizes) + more)
        return cuts_of([*accumulate(sizes)], more, max_bytes)

    def encode(self, first: int, stop: int) -> EncodedRecords:
        after, sizes = self._pieces()
        timestamps = self.timestamps if isinstance(self.timestamps, int) else self.timestamps[first:stop]
        base, highest, deltas = _deltas(timestamps)
        pieces: list[bytes] = []
        for width, begin, end in spans(stop - first):
            one, other = first + begin, first + end
            own_deltas = _rows(deltas, begin, end)
            own_sizes = _added(_rows(sizes, one, other), _sizes(own_deltas))
            before = [_lengths(own_sizes, len(ATTRIBUTES) + width), ATTRIBUTES, own_deltas]
            pieces += _interleaved(begin, end, before, [_rows(piece, one, other) for piece in after])
        return EncodedRecords(b"".join(pieces), stop - first, base, highest)

    def _pieces(self) -> tuple[list[Piece], Sizes]:
        """All that comes after the offset delta, and what it takes."""
        if self._layout is None:
            key_pieces, key_bytes = _field(self.keys)
            value_pieces, value_bytes = _field(self.values)
            sizes = _added(key_bytes, value_bytes, _sizes(self.headers))
            self._layout = [*key_pieces, *value_pieces, self.headers], sizes
        return self._layout


def encode_headers(headers: Sequence[tuple[str, bytes | bytearray | memoryview | None]] | None) -> bytes:
    """A record's headers with their number in front, as they end the record."""
    if not headers:
        return NO_HEADERS
    parts = [varint(len(headers))]
    for name, value in headers:
        encoded = name.encode("utf-8", "surrogateescape")
        parts += (varint(len(encoded)), encoded)
        if value is None:
            parts.append(NULL)
        else:
            data = value if type(value) is bytes else memoryview(value).tobytes()
            parts += (varint(len(data)), data)
    return b"".join(parts)


def cuts_of(ends: Sequence[int], more: int, max_bytes: int) -> list[int]:
    """Where to cut records that end at `ends` bytes, with `more` bytes a record besides.

    `ends` may be anything in which `bisect` can search.
    """
    cuts: list[int] = []
    first, count = 0, len(ends)
    while first < count:
        start = ends[first - 1] if first else 0

        def taken(stop: int, start: int = start, first: int = first) -> int:
            return ends[stop] - start + (stop + 1 - first) * more

        limit = min(count, first + MAX_BATCH_RECORDS)
        stop = first + bisect_right(range(first, limit), max_bytes, key=taken)
        first = max(stop, first + 1)
        cuts.append(first)
    return cuts


def spans(count: int) -> Iterator[tuple[int, int, int]]:
    """Bytes of an offset delta, the first delta that takes so many and the end of them, all below count."""
    for width, first in enumerate(OFFSET_SPANS[:-1], 1):
        if first >= count:
            return
        yield width, first, min(count, OFFSET_SPANS[width])


@lru_cache(maxsize=8)
def _framed_span(before: bytes, after: bytes, first: int, stop: int) -> list[bytes]:
    return _framed(before, after, first, stop)


def framed_offsets(before: bytes, after: bytes, first: int, stop: int) -> list[bytes]:
    """The offset deltas from first, where a span begins, up to stop; each with the same bytes around it."""
    if stop <= OFFSET_SPANS[2]:  # batch after batch asks for these
        end = OFFSET_SPANS[OFFSET_SPANS.index(first) + 1]
        return _framed_span(before, after, first, end)[: stop - first]
    return _framed(before, after, first, stop)


def _framed(before: bytes, after: bytes, first: int, stop: int) -> list[bytes]:
    if stop <= OFFSET_SPANS[1]:
        return [before + offset + after for offset in VARINTS[first:stop]]
    heads = [before + byte for byte in _FIRST_BYTES]
    tails = [_unsigned(high) + after for high in range(first >> 6, (stop + 63) >> 6)]
    return [head + tail for tail in tails for head in heads][: stop - first]


def _unsigned(number: int) -> bytes:
    """A varint without zigzag."""
    return varint(number >> 1) if not number & 1 else varint(-(number >> 1) - 1)


def _deltas(timestamps: int | Sequence[int]) -> tuple[int, int, Piece]:
    """The first timestamp, the highest, and all as they are written against the first."""
    if isinstance(timestamps, int):
        return timestamps, timestamps, varint(0)
    base, distinct = timestamps[0], set(timestamps)
    if len(distinct) == 1:
        return base, base, varint(0)
    written = {timestamp: varint(timestamp - base) for timestamp in distinct}
    return base, max(distinct), [written[timestamp] for timestamp in timestamps]


def _field(column: Column | None) -> tuple[list[Piece], Sizes]:
    """The pieces of a nullable field, its length and its bytes, and what they take."""
    if column is None:
        return [NULL], len(NULL)
    try:
        lengths = [len(entry) for entry in column]  # type: ignore[arg-type]
        data: list[bytes] = column if type(column) is list else [*column]  # type: ignore[list-item]
    except TypeError:
        lengths = [-1 if entry is None else len(entry) for entry in column]
        data = [entry or b"" for entry in column]
    distinct = set(lengths)
    written = {length: varint(length) for length in distinct}
    sizes = {length: max(length, 0) + len(written[length]) for length in distinct}
    if len(distinct) > 1:
        return [[written[length] for length in lengths], data], [sizes[length] for length in lengths]
    (length,) = distinct or {-1}
    return [varint(length), data if length > 0 else b""], max(length, 0) + varint_size(length)


def _sizes(piece: Piece) -> Sizes:
    return len(piece) if isinstance(piece, bytes) else [len(row) for row in piece]


def _added(*sizes: Sizes) -> Sizes:
    """The sum of sizes, row by row."""
    same = sum(one for one in sizes if isinstance(one, int))
    own = [one for one in sizes if not isinstance(one, int)]
    if not own:
        return same
    total = own[0]
    for one in own[1:]:
        total = list(map(add, total, one))
    return [same + one for one in total] if same else total


def _lengths(sizes: Sizes, more: int) -> Piece:
    """The lengths of records that take their row's size and more bytes."""
    if isinstance(sizes, int):
        return varint(sizes + more)
    written = {size: varint(size + more) for size in set(sizes)}
    return [written[size] for size in sizes]


@overload
def _rows(column: Piece, first: int, stop: int) -> Piece: ...


@overload
def _rows(column: Sizes, first: int, stop: int) -> Sizes: ...


def _rows(column: Piece | Sizes, first: int, stop: int) -> Piece | Sizes:
    return column[first:stop] if isinstance(column, list) else column


def _interleaved(first: int, stop: int, before: list[Piece], after: list[Piece]) -> list[bytes]:
    """The records with offset deltas from first up to stop, of the pieces before and after the offset."""
    before, after = _merged(before), _merged(after)
    head = before.pop() if isinstance(before[-1], bytes) else b""
    neck = after.pop(0) if isinstance(after[0], bytes) else b""
    # Where records begin and end with the same bytes, one piece ends one record and begins the next.
    tail = after.pop() if not before and after and isinstance(after[-1], bytes) else b""
    assert isinstance(head, bytes) and isinstance(neck, bytes) and isinstance(tail, bytes)  # noqa: S101, PT018
    columns: list[Piece] = [*before, framed_offsets(tail + head, neck, first, stop), *after]
    step = len(columns)
    pieces = [column if isinstance(column, bytes) else b"" for column in columns] * (stop - first)
    for place, column in enumerate(columns):
        if not isinstance(column, bytes):
            pieces[place::step] = column
    if tail:
        pieces[0] = pieces[0][len(tail) :]
        pieces.append(tail)
    return pieces


def _merged(pieces: list[Piece]) -> list[Piece]:
    """The same with neighbours that are the same in every row made one."""
    merged: list[Piece] = []
    for piece in pieces:
        if merged and isinstance(piece, bytes) and isinstance(merged[-1], bytes):
            merged[-1] += piece
        else:
            merged.append(piece)
    return merged
