"""Runs of consecutive records in columns: as lists, or as places in a buffer with one layout or with arrays.

Pure data. The decoders make them; columns.py and arrow_columns.py read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from struct import Struct
from typing import Any, Final

import attrs

from pykafka2.slotted import slotted
from pykafka2.types import Headers

Bytes = list["bytes | None"]

RECORDS_AT_ONCE: Final = 512
"""The number of records whose fields one struct reads. It takes 32 bytes of memory for each."""


@attrs.define
class Rows:
    """A run of records as lists of equal length; `headers` has only the rows with headers."""

    offsets: Sequence[int]
    timestamps: list[int]
    keys: Bytes
    values: Bytes
    headers: dict[int, Headers] = attrs.Factory(dict)

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, start: int, stop: int) -> Rows:
        rows = slice(start, stop)
        return Rows(
            self.offsets[rows],
            self.timestamps[rows],
            self.keys[rows],
            self.values[rows],
            {row - start: headers for row, headers in self.headers.items() if start <= row < stop},
        )

    def headers_list(self) -> list[Headers]:
        return [self.headers.get(row) or [] for row in range(len(self.offsets))]


@slotted(eq=False)
class HeaderArrays:
    """The positions of headers in a buffer, in order, and the row of each one's record. Never empty."""

    rows: Any
    name_at: Any
    name_sizes: Any
    value_at: Any
    value_sizes: Any

    def cut(self, start: int, stop: int) -> HeaderArrays | None:
        """Return the headers of some rows, which are numbered from `start`; None if there are none."""
        wanted = slice(*self.rows.searchsorted([start, stop]).tolist())
        if wanted.start == wanted.stop:
            return None
        return HeaderArrays(
            self.rows[wanted] - start,
            self.name_at[wanted],
            self.name_sizes[wanted],
            self.value_at[wanted],
            self.value_sizes[wanted],
        )

    def add_to(self, rows: list[Headers], buffer: bytes) -> None:
        """Add each header to the list of its row."""
        columns = (self.rows, self.name_at, self.name_sizes, self.value_at, self.value_sizes)
        for row, name_at, name_size, at, size in zip(*(one.tolist() for one in columns), strict=True):
            name = buffer[name_at : name_at + name_size].decode("utf-8", "surrogateescape")
            rows[row].append((name, None if size < 0 else buffer[at : at + size]))


@slotted(eq=False)
class ArrayRun:
    """Records of any layout in `buffer`, with the places of their fields in numpy arrays.

    A size of -1 means null; fields ascend in the buffer, key before value.
    """

    buffer: bytes
    offsets: Sequence[int]
    times: Any
    key_at: Any
    key_sizes: Any
    value_at: Any
    value_sizes: Any
    headers: HeaderArrays | None

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, start: int, stop: int) -> ArrayRun:
        wanted = slice(start, stop)
        return ArrayRun(
            self.buffer,
            self.offsets[wanted],
            self.times[wanted],
            self.key_at[wanted],
            self.key_sizes[wanted],
            self.value_at[wanted],
            self.value_sizes[wanted],
            None if self.headers is None else self.headers.cut(start, stop),
        )

    @property
    def timestamps(self) -> list[int]:
        found: list[int] = self.times.tolist()
        return found

    @property
    def keys(self) -> Bytes:
        return self._field(self.key_at, self.key_sizes)

    @property
    def values(self) -> Bytes:
        return self._field(self.value_at, self.value_sizes)

    def headers_list(self) -> list[Headers]:
        found: list[Headers] = [[] for _ in range(len(self.offsets))]
        if self.headers is not None:
            self.headers.add_to(found, self.buffer)
        return found

    def _field(self, at: Any, sizes: Any) -> Bytes:
        buffer, is_null = self.buffer, sizes < 0
        if is_null.all():
            return [None] * len(sizes)
        ends = (at + sizes).tolist()
        if not is_null.any():
            return [buffer[start:end] for start, end in zip(at.tolist(), ends, strict=True)]
        # A null ends before it begins.
        return [
            buffer[start:end] if start <= end else None for start, end in zip(at.tolist(), ends, strict=True)
        ]


@slotted
class Field:
    """The position of one field in each record of a `UniformRun`, from its start; -1 for null."""

    at: int
    size: int


@attrs.define
class UniformRun:
    """Records of one layout, back to back in `buffer` from `start` on; no headers, offsets ascending by 1.

    Their timestamps are all `base_timestamp`, or that plus the delta of `timestamp` bytes.
    """

    buffer: bytes
    start: int
    stride: int
    offsets: range
    base_timestamp: int
    timestamp: Field | None
    key: Field
    value: Field

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, start: int, stop: int) -> UniformRun:
        start, stop, _ = slice(start, stop).indices(len(self.offsets))
        return attrs.evolve(
            self, start=self.start + start * self.stride, offsets=self.offsets[start : max(start, stop)]
        )

    def byte_column(self, at: int) -> bytes:
        """Return the byte at this place of each record."""
        stop = self.start + len(self.offsets) * self.stride
        return self.buffer[self.start + at : stop : self.stride]

    @property
    def timestamps(self) -> list[int]:
        base, field = self.base_timestamp, self.timestamp
        if field is None:
            return [base] * len(self.offsets)
        columns = [self.byte_column(field.at + index) for index in range(field.size)]
        # A batch spans few milliseconds, so each different delta is decoded once.
        deltas: Sequence[Any] = columns[0] if field.size == 1 else list(zip(*columns, strict=True))
        times = {delta: base + zigzag_varint(delta) for delta in set(deltas)}
        if len(times) == 1:
            return [*times.values()] * len(deltas)
        return list(map(times.__getitem__, deltas))

    @property
    def keys(self) -> Bytes:
        return self._field(self.key)

    @property
    def values(self) -> Bytes:
        return self._field(self.value)

    def headers_list(self) -> list[Headers]:
        return [[] for _ in self.offsets]

    def _field(self, field: Field) -> Bytes:
        count, position = len(self.offsets), self.start
        if field.size < 0:
            return [None] * count
        found: Bytes = []
        while count > 0:
            records = min(count, RECORDS_AT_ONCE)
            found += field_struct(self.stride, field.at, field.size, records).unpack_from(
                self.buffer, position
            )
            position += records * self.stride
            count -= records
        return found


@lru_cache(maxsize=64)
def field_struct(stride: int, at: int, size: int, records: int) -> Struct:
    """Return a struct that reads one field of so many records, in a quarter of the time of slices."""
    return Struct(f"{at}x{size}s{stride - at - size}x" * records)


def zigzag_varint(encoded: int | tuple[int, ...]) -> int:
    """Decode a zigzag varint: an int if it has one byte, a tuple of its bytes if it has more."""
    raw = encoded if isinstance(encoded, int) else reduce(_longer, reversed(encoded))
    return (raw >> 1) ^ -(raw & 1)


def _longer(higher: int, lower: int) -> int:
    return higher << 7 | lower & 0x7F


Run = Rows | UniformRun | ArrayRun
"""Records that follow one another, decoded in one of three ways."""
