"""Records as rows of pieces: the same bytes in all rows, or a list with the bytes of each.

Any thread; pure. Part of column_encoder.py: splits columns into pieces and joins them to records, with
comprehensions and slices only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import add
from typing import Any, overload

from pykafka2.records.varint import NULL, VARINTS, varint, varint_size

Column = Sequence["bytes | None"]

Piece = bytes | list[bytes]
"""The bytes at one place of all records: the same in all rows, or a list with those of each."""

Sizes = int | list[int]
"""The number of bytes per row: the same in all, or a list."""

ATTRIBUTES = b"\0"

# Offset deltas from one of these up to the next take 1, 2, 3, 4 and 5 bytes.
OFFSET_SPANS = (0, 1 << 6, 1 << 13, 1 << 20, 1 << 27, 1 << 31)

# The first byte of a longer varint of a number that is not negative, by the number's lowest six bits.
_FIRST_BYTES = [bytes((2 * n | 0x80,)) for n in range(64)]


def spans(count: int) -> Iterator[tuple[int, int, int]]:
    """Iterate over the sizes of offset deltas below count: size, first delta, and end of its deltas."""
    for width, first in enumerate(OFFSET_SPANS[:-1], 1):
        if first >= count:
            return
        yield width, first, min(count, OFFSET_SPANS[width])


@lru_cache(maxsize=8)
def _framed_span(before: bytes, after: bytes, first: int, stop: int) -> list[bytes]:
    return _framed(before, after, first, stop)


def framed_offsets(before: bytes, after: bytes, first: int, stop: int) -> list[bytes]:
    """Return the offset deltas from first, which starts a span, up to stop, each between these bytes."""
    if stop <= OFFSET_SPANS[2]:  # batch after batch needs these
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
    """Return a varint without zigzag."""
    return varint(number >> 1) if not number & 1 else varint(-(number >> 1) - 1)


def deltas_of(timestamps: int | Sequence[int]) -> tuple[int, int, Piece]:
    """Return the first timestamp, the highest, and the encoded deltas of all to the first."""
    if isinstance(timestamps, int):
        return timestamps, timestamps, varint(0)
    base, distinct = timestamps[0], set(timestamps)
    if len(distinct) == 1:
        return base, base, varint(0)
    written = {timestamp: varint(timestamp - base) for timestamp in distinct}
    return base, max(distinct), [written[timestamp] for timestamp in timestamps]


def field_pieces(column: Column | None) -> tuple[list[Piece], Sizes]:
    """Return the pieces of a nullable field, its length and its bytes, and their size."""
    if column is None:
        return [NULL], len(NULL)
    try:
        lengths = [*map(len, column)]  # type: ignore[arg-type]
        data: list[bytes] = column if type(column) is list else [*column]  # type: ignore[list-item]
    except TypeError:
        lengths = [-1 if entry is None else len(entry) for entry in column]
        data = [entry or b"" for entry in column]
    length = lengths[0] if lengths else -1
    if lengths.count(length) == len(lengths):
        return [varint(length), data if length > 0 else b""], max(length, 0) + varint_size(length)
    distinct = set(lengths)
    written = {length: varint(length) for length in distinct}
    sizes = {length: max(length, 0) + len(written[length]) for length in distinct}
    return [[written[length] for length in lengths], data], [sizes[length] for length in lengths]


def longest_of(column: Column) -> int:
    """Return the length of the longest entry; 0 if there is none."""
    try:
        return max(map(len, column), default=0)  # type: ignore[arg-type]
    except TypeError:  # a null
        return max((len(entry) for entry in column if entry), default=0)


def sizes_of(piece: Piece) -> Sizes:
    return len(piece) if isinstance(piece, bytes) else [*map(len, piece)]


def added(*sizes: Sizes) -> Sizes:
    """Return the sum of sizes, row by row."""
    same = sum(one for one in sizes if isinstance(one, int))
    own = [one for one in sizes if not isinstance(one, int)]
    if not own:
        return same
    total = own[0]
    for one in own[1:]:
        total = list(map(add, total, one))
    return [same + one for one in total] if same else total


def length_pieces(sizes: Sizes, more: int) -> Piece:
    """Return the lengths of records, each the size of its row and some more bytes."""
    if isinstance(sizes, int):
        return varint(sizes + more)
    written = {size: varint(size + more) for size in set(sizes)}
    return [written[size] for size in sizes]


@overload
def part_of(column: Piece, first: int, stop: int) -> Piece: ...


@overload
def part_of(column: Sizes, first: int, stop: int) -> Sizes: ...


def part_of(column: Piece | Sizes, first: int, stop: int) -> Piece | Sizes:
    return column[first:stop] if isinstance(column, list) else column


def interleaved(first: int, stop: int, before: list[Piece], after: list[Piece]) -> list[bytes]:
    """Return the records with offset deltas from first up to stop, with the pieces around the offset."""
    before, after = merged(before), merged(after)
    head = before.pop() if isinstance(before[-1], bytes) else b""
    neck = after.pop(0) if isinstance(after[0], bytes) else b""
    # If all records begin and end with the same bytes, one piece ends a record and begins the next.
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


def merged(pieces: Sequence[Any]) -> list[Any]:
    """Return the pieces with adjacent ones joined if both are the same bytes in all rows."""
    fewer: list[Any] = []
    for piece in pieces:
        if fewer and isinstance(piece, bytes) and isinstance(fewer[-1], bytes):
            fewer[-1] += piece
        else:
            fewer.append(piece)
    return fewer
