"""Runs of records within columns: one by one as lists, or of one layout, of which only the place is kept.

Pure data; made by column_decoder.py, looked at through columns.py and arrow_columns.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import attrs

from pykafka2.types import Headers

Bytes = list["bytes | None"]


@attrs.define
class Rows:
    """A run of records one by one, as lists; `headers` only names those that have some."""

    offsets: Sequence[int]
    timestamps: list[int]
    keys: Bytes
    values: Bytes
    headers: dict[int, Headers] = attrs.Factory(dict)

    def __len__(self) -> int:
        return len(self.offsets)

    def cut(self, start: int, stop: int) -> Rows:
        headers = {at - start: one for at, one in self.headers.items() if start <= at < stop}
        wanted = slice(start, stop)
        return Rows(
            self.offsets[wanted], self.timestamps[wanted], self.keys[wanted], self.values[wanted], headers
        )

    def headers_list(self) -> list[Headers]:
        if not self.headers:
            return [[] for _ in self.offsets]
        return [self.headers.get(at) or [] for at in range(len(self.offsets))]


@attrs.define
class Field:
    """Where one field lies in each record of a `UniformRun`, from the record's beginning on; -1 for null."""

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
        """One byte of each record."""
        stop = self.start + len(self.offsets) * self.stride
        return self.buffer[self.start + at : stop : self.stride]

    @property
    def timestamps(self) -> list[int]:
        base, field = self.base_timestamp, self.timestamp
        if field is None:
            return [base] * len(self.offsets)
        columns = [self.byte_column(field.at + index) for index in range(field.size)]
        if field.size == 1:
            return [base + ((delta >> 1) ^ -(delta & 1)) for delta in columns[0]]
        raws = [reduce(_longer, reversed(digits)) for digits in zip(*columns, strict=True)]
        return [base + ((delta >> 1) ^ -(delta & 1)) for delta in raws]

    @property
    def keys(self) -> Bytes:
        return self._field(self.key)

    @property
    def values(self) -> Bytes:
        return self._field(self.value)

    def headers_list(self) -> list[Headers]:
        return [[] for _ in self.offsets]

    def _field(self, field: Field) -> Bytes:
        buffer, size, count = self.buffer, field.size, len(self.offsets)
        if size < 0:
            return [None] * count
        first = self.start + field.at
        return [buffer[at : at + size] for at in range(first, first + count * self.stride, self.stride)]


def _longer(higher: int, lower: int) -> int:
    return higher << 7 | lower & 0x7F


Run = Rows | UniformRun
