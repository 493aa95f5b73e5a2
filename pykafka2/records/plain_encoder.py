"""Records with a value and nothing else into the records of a batch, by column, so without a step for each.

Any thread; pure but for its tables.  The bytes are those of `encoder.encode_rows`, which takes what this
refuses: other records, long values, times that run back, more records than a batch of usual size has.

A record is seen as four pieces: its length, attributes and time, with the end of the record before it in
front; its offset; its value's size; its value.  Within a millisecond, and as long as offsets take as many
bytes, the first and the third depend on the value's length alone, so that they are looked up.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from itertools import repeat

from pykafka2.records.encoder import LONGER_OFFSET, NO_HEADERS
from pykafka2.records.varint import NULL, VARINTS, varint

LONGEST_VALUE = 1024
"""From here on what a record costs beside its bytes is not what counts; it bounds the tables, too."""
MAX_RECORDS = len(VARINTS)
MAX_TIMES = 32
"""Milliseconds in a batch; in more of them columns are short."""

PIECES = 4
_SIZES = [NULL + VARINTS[length] for length in range(LONGEST_VALUE)]


class _Fronts(dict[int, bytes]):
    """By the length of a value: what comes before its record's offset, with the record before ended."""

    __slots__ = ("_more_bytes", "_time")

    def __init__(self, time: bytes, offset_bytes: int) -> None:
        super().__init__()
        self._time = time
        self._more_bytes = len(time) + offset_bytes + len(NO_HEADERS)

    def __missing__(self, length: int) -> bytes:
        size = self._more_bytes + len(_SIZES[length]) + length
        front = self[length] = NO_HEADERS + varint(size) + self._time
        return front


@lru_cache(maxsize=MAX_TIMES)
def _fronts(delta: int, offset_bytes: int) -> _Fronts:
    return _Fronts(b"\0" + varint(delta), offset_bytes)


def encode_plain(values: list[bytes | None], timestamps: list[int], base: int) -> tuple[bytes, int] | None:
    """The records encoded and the latest timestamp; None for what `encode_rows` has to do.

    There is one record at least; a timestamp of each.
    """
    count = len(values)
    try:
        lengths = [*map(len, values)]  # type: ignore[arg-type]
    except TypeError:  # a null
        return None
    first = lengths[0]
    is_even = lengths.count(first) == count
    if (first if is_even else max(lengths)) >= LONGEST_VALUE or count > MAX_RECORDS:
        return None
    ends = _ends(timestamps)
    if ends is None:
        return None
    pieces: list[bytes | None] = [_SIZES[first]] * (PIECES * count)
    if not is_even:
        pieces[2::PIECES] = map(_SIZES.__getitem__, lengths)
    pieces[1::PIECES] = VARINTS[:count]
    pieces[3::PIECES] = values
    begin = 0
    for end in ends:
        while begin < end:
            is_short = begin < LONGER_OFFSET
            stop = min(end, LONGER_OFFSET) if is_short else end
            fronts = _fronts(timestamps[begin] - base, 1 if is_short else 2)
            some = lengths[begin:stop]
            own = repeat(fronts[first], len(some)) if is_even else map(fronts.__getitem__, some)
            pieces[PIECES * begin : PIECES * stop : PIECES] = own
            begin = stop
    pieces[0] = pieces[0][len(NO_HEADERS) :]  # type: ignore[index]
    pieces.append(NO_HEADERS)
    return b"".join(pieces), timestamps[-1]  # type: ignore[arg-type]


def _ends(timestamps: list[int]) -> list[int] | None:
    """Where runs of equal timestamps end; None where times run back, or there are too many."""
    count, last = len(timestamps), timestamps[-1]
    if timestamps.count(last) == count:
        return [count]
    different = sorted(set(timestamps))
    if len(different) > MAX_TIMES or timestamps != sorted(timestamps):
        return None
    return [bisect_right(timestamps, time) for time in different]
