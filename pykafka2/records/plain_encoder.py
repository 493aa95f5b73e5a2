"""Encodes records without headers by column, so without a step for each record.

Any thread; pure except for its tables. The bytes are those of `encoder.encode_rows`, which encodes what this
refuses: records with headers, long values or keys, decreasing timestamps, unusually many records.

A record is a row of pieces: the end of the record before it with its length, attributes and timestamp; its
offset; size and bytes of its key, if there are keys; size and bytes of its value. Within a millisecond, and
for offsets of one size, the first piece depends only on the sizes of key and value, so it comes from a table.
If all records have the same sizes, the pieces up to the key are one piece from a table by offset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

from pykafka2.records.encoder import LONGER_OFFSET, NO_HEADERS
from pykafka2.records.varint import NULL, VARINTS, varint

LONGEST_VALUE = 1024
"""For longer values the cost of a record is that of its bytes; also limits the tables."""
LONGEST_KEY = LONGEST_VALUE
MAX_RECORDS = len(VARINTS)
MAX_TIMES = 32
"""Different timestamps in a batch; with more of them columns are too short."""

MAX_EVEN_RECORDS = 1024
MAX_EVEN_TIMES = 8
"""Records of one length, and their different timestamps, up to which tables by offset are used."""
MAX_HEADS = 256
"""Tables by offset; limits their memory to 1 MiB."""

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


@lru_cache(maxsize=MAX_HEADS)
def _heads(front: bytes, size: bytes, block: int) -> list[bytes]:
    """Return the bytes from `front` to the first field's size for each offset of a block of LONGER_OFFSET."""
    first = block * LONGER_OFFSET
    return [front + offset + size for offset in VARINTS[first : first + LONGER_OFFSET]]


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
    if key_lengths is not None:
        if max(key_lengths) >= LONGEST_KEY:
            return None
        is_even = is_even and key_lengths.count(key_lengths[0]) == count
    ends = _ends(timestamps)
    if ends is None:
        return None
    if is_even and count <= MAX_EVEN_RECORDS and len(ends) <= MAX_EVEN_TIMES:
        pieces = _even_pieces(values, timestamps, ends, base, keys)
    else:
        pieces = _pieces(values, lengths, timestamps, ends, base, keys, key_lengths, is_even)
    pieces[0] = pieces[0][len(NO_HEADERS) :]  # type: ignore[index]
    pieces.append(NO_HEADERS)
    return b"".join(pieces), timestamps[-1]  # type: ignore[arg-type]


def _even_pieces(
    values: list[Any], timestamps: list[int], ends: list[int], base: int, keys: list[Any] | None
) -> list[bytes | None]:
    """Return the pieces of records with values, and keys, of one length.

    The bytes between the value before and the key, or the value without keys, come from a table by offset.
    """
    count, length = len(values), len(values[0])
    pieces: list[bytes | None]
    if keys is None:
        width, fronts_of, number, size = 2, _plain_fronts, length, _SIZES[length]
        pieces = [b""] * (2 * count)
    else:
        key_length = len(keys[0])
        width, fronts_of, size = 4, _keyed_fronts, VARINTS[key_length]
        number = _FIELD_BYTES[key_length] + _FIELD_BYTES[length]
        pieces = [b"", b"", VARINTS[length], b""] * count
        pieces[1::4] = keys
    pieces[width - 1 :: width] = values
    begin = 0
    for end in ends:
        delta = timestamps[begin] - base
        while begin < end:
            block = begin // LONGER_OFFSET
            first = block * LONGER_OFFSET
            stop = min(end, first + LONGER_OFFSET)
            front = fronts_of(delta, 2 if block else 1)[number]
            heads = _heads(front, size, block)[begin - first : stop - first]
            pieces[width * begin : width * stop : width] = heads
            begin = stop
    return pieces


def _pieces(
    values: list[Any],
    lengths: list[int],
    timestamps: list[int],
    ends: list[int],
    base: int,
    keys: list[Any] | None,
    key_lengths: list[int] | None,
    is_even: bool,
) -> list[bytes | None]:
    """Return the pieces of records with values, and keys, of any length; `is_even` if those are the same."""
    count, first = len(values), lengths[0]
    width, fronts_of, numbers = PIECES, _plain_fronts, lengths
    pieces: list[bytes | None]
    if key_lengths is None or keys is None:
        pieces = [_SIZES[first]] * (PIECES * count)
        if not is_even:
            pieces[2::PIECES] = [_SIZES[length] for length in lengths]
    else:
        width, fronts_of = KEYED_PIECES, _keyed_fronts
        numbers = [
            _FIELD_BYTES[of_key] + _FIELD_BYTES[of_value]
            for of_key, of_value in zip(key_lengths, lengths, strict=True)
        ]
        pieces = [NULL, NULL, VARINTS[key_lengths[0]], NULL, VARINTS[first], NULL] * count
        pieces[3::KEYED_PIECES] = keys
        if not is_even:
            pieces[2::KEYED_PIECES] = [VARINTS[length] for length in key_lengths]
            pieces[4::KEYED_PIECES] = [VARINTS[length] for length in lengths]
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
    return pieces


def _ends(timestamps: list[int]) -> list[int] | None:
    """Return where runs of equal timestamps end, or None if timestamps decrease or runs are too many."""
    count, first = len(timestamps), timestamps[0]
    if first == timestamps[-1] and timestamps.count(first) == count:
        return [count]
    if timestamps != sorted(timestamps):
        return None
    ends: list[int] = []
    end = 0
    while end < count:
        if len(ends) == MAX_TIMES:
            return None
        end = bisect_right(timestamps, timestamps[end], end)
        ends.append(end)
    return ends
