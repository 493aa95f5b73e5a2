"""Encodes records without headers by column, so without a step for each record.

Any thread; pure except for its tables. The bytes are those of `encoder.encode_rows`, which encodes what this
refuses: records with headers, long values or keys, decreasing timestamps, unusually many records.

A record is a row of pieces: the end of the record before it with its length, attributes and timestamp; its
offset; size and bytes of its key, if there are keys; size and bytes of its value. Within a millisecond, and
for offsets of one size, the first piece depends only on the sizes of key and value, so it comes from a table.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from operator import add

from pykafka2.records.encoder import LONGER_OFFSET, NO_HEADERS
from pykafka2.records.varint import NULL, VARINTS, varint

LONGEST_VALUE = 1024
"""For longer values the cost of a record is that of its bytes; also limits the tables."""
LONGEST_KEY = LONGEST_VALUE
MAX_RECORDS = len(VARINTS)
MAX_TIMES = 32
"""Different timestamps in a batch; with more of them columns are too short."""

PIECES = 4
KEYED_PIECES = 6
_SIZES = [NULL + VARINTS[length] for length in range(LONGEST_VALUE)]
"""The bytes between the offset and the value of a record without a key, by the size of the value."""
_BYTES = [len(_SIZES[length]) + length for length in range(LONGEST_VALUE)]
"""The size of a null key and a value, by the length of the value."""
_FIELD_BYTES = [len(VARINTS[length]) + length for length in range(LONGEST_VALUE)]
"""The size of a key or a value with its length prefix, by its length."""


class _Fronts(dict[int, bytes]):
    """The bytes between the value of the record before and a record's offset, by the size of its fields."""

    __slots__ = ("_bytes", "_more_bytes", "_time")

    def __init__(self, time: bytes, offset_bytes: int, bytes_of: Sequence[int]) -> None:
        super().__init__()
        self._time = time
        self._bytes = bytes_of
        self._more_bytes = len(time) + offset_bytes + len(NO_HEADERS)

    def __missing__(self, number: int) -> bytes:
        front = self[number] = NO_HEADERS + varint(self._more_bytes + self._bytes[number]) + self._time
        return front


@lru_cache(maxsize=MAX_TIMES)
def _plain_fronts(delta: int, offset_bytes: int) -> _Fronts:
    """Return the table for records without a key, by the length of the value."""
    return _Fronts(b"\0" + varint(delta), offset_bytes, _BYTES)


@lru_cache(maxsize=MAX_TIMES)
def _keyed_fronts(delta: int, offset_bytes: int) -> _Fronts:
    """Return the table for records with a key, by the bytes of key and value with their sizes."""
    longest = _FIELD_BYTES[-1] + _FIELD_BYTES[-1]
    return _Fronts(b"\0" + varint(delta), offset_bytes, range(longest + 1))


def encode_plain(
    values: list[bytes | None], timestamps: list[int], base: int, keys: list[bytes | None] | None = None
) -> tuple[bytes, int] | None:
    """Return the encoded records and the latest timestamp; None if `encode_rows` must encode them.

    There must be a record, a timestamp for each, and a key for each or no keys.
    """
    count = len(values)
    try:
        lengths = [*map(len, values)]  # type: ignore[arg-type]
        key_lengths = None if keys is None else [*map(len, keys)]  # type: ignore[arg-type]
    except TypeError:  # a null
        return None
    first = lengths[0]
    is_even = lengths.count(first) == count
    if (first if is_even else max(lengths)) >= LONGEST_VALUE or count > MAX_RECORDS:
        return None
    ends = _ends(timestamps)
    if ends is None:
        return None
    width, fronts_of, numbers = PIECES, _plain_fronts, lengths
    pieces: list[bytes | None]
    if keys is None or key_lengths is None:
        pieces = [_SIZES[first]] * (PIECES * count)
        if not is_even:
            pieces[2::PIECES] = map(_SIZES.__getitem__, lengths)
    else:
        if max(key_lengths) >= LONGEST_KEY:
            return None
        width, fronts_of = KEYED_PIECES, _keyed_fronts
        numbers, is_even = _field_bytes(key_lengths, lengths, is_even)
        pieces = [VARINTS[first]] * (KEYED_PIECES * count)
        pieces[2::KEYED_PIECES] = map(VARINTS.__getitem__, key_lengths)
        pieces[3::KEYED_PIECES] = keys
        if lengths.count(first) != count:
            pieces[4::KEYED_PIECES] = map(VARINTS.__getitem__, lengths)
    pieces[1::width] = VARINTS[:count]
    pieces[width - 1 :: width] = values
    begin = 0
    for end in ends:
        while begin < end:
            is_short = begin < LONGER_OFFSET
            stop = min(end, LONGER_OFFSET) if is_short else end
            fronts = fronts_of(timestamps[begin] - base, 1 if is_short else 2)
            some = numbers[begin:stop]
            own = repeat(fronts[some[0]], len(some)) if is_even else map(fronts.__getitem__, some)
            pieces[width * begin : width * stop : width] = own
            begin = stop
    pieces[0] = pieces[0][len(NO_HEADERS) :]  # type: ignore[index]
    pieces.append(NO_HEADERS)
    return b"".join(pieces), timestamps[-1]  # type: ignore[arg-type]


def _field_bytes(key_lengths: list[int], lengths: list[int], is_even: bool) -> tuple[list[int], bool]:
    """Return the size of key and value of each record with their length prefixes, and whether it is the same
    for all."""
    count, first = len(key_lengths), key_lengths[0]
    if is_even and key_lengths.count(first) == count:
        return [_FIELD_BYTES[first] + _FIELD_BYTES[lengths[0]]] * count, True
    of_keys = map(_FIELD_BYTES.__getitem__, key_lengths)
    return [*map(add, of_keys, map(_FIELD_BYTES.__getitem__, lengths))], False


def _ends(timestamps: list[int]) -> list[int] | None:
    """Return where runs of equal timestamps end, or None if timestamps decrease or runs are too many."""
    count, last = len(timestamps), timestamps[-1]
    if timestamps.count(last) == count:
        return [count]
    different = sorted(set(timestamps))
    if len(different) > MAX_TIMES or timestamps != sorted(timestamps):
        return None
    return [bisect_right(timestamps, time) for time in different]
