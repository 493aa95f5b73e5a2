"""Encodes columns as the records of batches, without a Python call for each record.

Any thread; pure. The bytes are those of encoder.py, which encodes record by record. A batch is a table whose
rows are the records and whose columns are pieces: the same bytes in all rows, or a list. Slices with a step
put the lists in their places, and one join makes the batch. Lengths become varints by look-up, as a column
has few different ones. arrow_encoder.py does the same with Arrow arrays.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from operator import itemgetter
from typing import Any, Protocol

from pykafka2.records.encoder import NO_HEADERS
from pykafka2.records.pieces import (
    ATTRIBUTES,
    Column,
    Piece,
    Sizes,
    added,
    deltas_of,
    field_pieces,
    interleaved,
    length_pieces,
    longest_of,
    part_of,
    sizes_of,
    spans,
)
from pykafka2.records.varint import varint_size
from pykafka2.slotted import slotted

MAX_BATCH_RECORDS = 1 << 20
MAX_OFFSET_BYTES = 3
"""The largest size of an offset delta in a batch of that many records."""

MAX_NUMBERS_BYTES = 31
"""The largest size of a record beside key, value, headers: three lengths, attributes, timestamp, offset."""


SAMPLE_RECORDS = 1000


@slotted
class EncodedRecords:
    """The records of one batch, not yet compressed and without the batch's header.

    base_timestamp is the first record's, max_timestamp the highest, in milliseconds since the epoch.
    """

    body: bytes
    count: int
    base_timestamp: int
    max_timestamp: int


Entry = tuple["bytes | None", "bytes | None", int, bytes]
"""A record's value, key, timestamp and encoded headers."""


class RecordColumns(Protocol):
    """Records as columns of equal length, in any representation; timestamps can be replaced."""

    timestamps: Any

    def __len__(self) -> int: ...

    def rows(self, first: int, stop: int) -> RecordColumns:
        """Return the records from first up to stop."""

    def take(self, numbers: Sequence[int]) -> RecordColumns:
        """Return the records with these row numbers, in that order."""

    def cuts(self, max_bytes: int) -> list[int]:
        """Return where to end batches of at most max_bytes; a larger record gets a batch of its own.

        Sizes are upper bounds, a few bytes a record too high.
        """

    def oversized(self, max_bytes: int) -> int | None:
        """Return the first record that can take more than this, with the longest numbers, or None."""

    def entries(self, first: int, stop: int) -> Iterator[Entry]:
        """Iterate over the records from first up to stop."""

    def record_bytes(self) -> int:
        """Return the approximate size of a record, from the first ones; there must be at least one."""

    def encode(self, first: int, stop: int) -> EncodedRecords:
        """Encode the records from first up to stop, at least one, with offset deltas from 0 on."""


class ListColumns:
    """Records as Python lists (or other sequences).

    Args:
        values: bytes, or None for a null.
        keys: as long as values; None for no keys at all.
        headers: as `encode_headers` writes them: the same for all records, or one for each.
        timestamps: milliseconds since the epoch, in 64 bits: the same for all records, or one for each.
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
            part_of(self.headers, first, stop),
            self.timestamps if isinstance(self.timestamps, int) else self.timestamps[first:stop],
        )

    def take(self, numbers: Sequence[int]) -> ListColumns:
        if hasattr(numbers, "tolist"):  # numbers of numpy are slow one by one
            numbers = numbers.tolist()
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

    def oversized(self, max_bytes: int) -> int | None:
        headers = [self.headers] if isinstance(self.headers, bytes) else self.headers
        fields: tuple[Column, ...] = (self.values, self.keys or (), headers)
        longest = sum(map(longest_of, fields))
        if longest + MAX_NUMBERS_BYTES <= max_bytes:
            return None
        room = max_bytes - MAX_NUMBERS_BYTES
        for row, value in enumerate(self.values):
            key = self.keys[row] if self.keys is not None else None
            own = self.headers if isinstance(self.headers, bytes) else self.headers[row]
            if len(value or b"") + len(key or b"") + len(own) > room:
                return row
        return None

    def entries(self, first: int, stop: int) -> Iterator[Entry]:
        return zip(
            self.values[first:stop],
            repeat(None) if self.keys is None else self.keys[first:stop],
            repeat(self.timestamps) if isinstance(self.timestamps, int) else self.timestamps[first:stop],
            repeat(self.headers) if isinstance(self.headers, bytes) else self.headers[first:stop],
            strict=False,  # `repeat` has no end
        )

    def record_bytes(self) -> int:
        some = self.values[:SAMPLE_RECORDS]
        return MAX_NUMBERS_BYTES + sum(len(entry or b"") for entry in some) // len(some)

    def encode(self, first: int, stop: int) -> EncodedRecords:
        after, sizes = self._pieces()
        timestamps = self.timestamps if isinstance(self.timestamps, int) else self.timestamps[first:stop]
        base, highest, deltas = deltas_of(timestamps)
        pieces: list[bytes] = []
        for width, begin, end in spans(stop - first):
            one, other = first + begin, first + end
            own_deltas = part_of(deltas, begin, end)
            own_sizes = added(part_of(sizes, one, other), sizes_of(own_deltas))
            before = [length_pieces(own_sizes, len(ATTRIBUTES) + width), ATTRIBUTES, own_deltas]
            pieces += interleaved(begin, end, before, [part_of(piece, one, other) for piece in after])
        return EncodedRecords(b"".join(pieces), stop - first, base, highest)

    def _pieces(self) -> tuple[list[Piece], Sizes]:
        """Return all pieces after the offset delta, and their size."""
        if self._layout is None:
            key_pieces, key_bytes = field_pieces(self.keys)
            value_pieces, value_bytes = field_pieces(self.values)
            sizes = added(key_bytes, value_bytes, sizes_of(self.headers))
            self._layout = [*key_pieces, *value_pieces, self.headers], sizes
        return self._layout


def cuts_of(ends: Sequence[int], more: int, max_bytes: int) -> list[int]:
    """Return where to cut records that end at `ends` bytes, with `more` bytes extra per record.

    `ends` can be anything that `bisect` can search.
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
