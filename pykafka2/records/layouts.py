"""How records are laid out, whether others are laid out so too, and what a batch was made of.

Pure, any thread; column_decoder.py uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import attrs

from pykafka2.records.batch import RecordBatch
from pykafka2.records.runs import Field

Frame = list[tuple[int, int]]
"""Bytes that are the same in all records of a layout: where they lie within the record, and what they are."""

MOST_PLANS = 32
# So many records are compared before more are.
FIRST_TRY = 16

_ENDS_VARINT = bytes([1] * 128 + [0] * 128)
"""Translates a byte that ends a varint to 1 and one after which it goes on to 0."""


def looks_uniform(batch: RecordBatch, buffer: bytes) -> bool:
    """Whether the first records, a look at a few of them tells, have one length, no gaps and no headers."""
    if batch.count < FIRST_TRY or batch.last_offset_delta != batch.count - 1 or not buffer:
        return False
    length = buffer[0]
    if length < 0x80:
        stride = 1 + (length >> 1)
    elif len(buffer) > 1 and buffer[1] < 0x80:
        stride = 2 + ((length & 0x7F | buffer[1] << 7) >> 1)
    else:
        return False
    if buffer[stride - 1 : stride] != b"\0":
        return False  # of a record without headers the last byte says so
    return stride > 1 and buffer[: FIRST_TRY * stride : stride] == buffer[:1] * FIRST_TRY


@attrs.define
class Layout:
    """How one record is laid out, from its first byte on."""

    stride: int
    time: Field
    key: Field
    value: Field

    def frame(self, offset_bytes: int) -> Iterator[int]:
        """The bytes that must be equal for another record to be laid out so: its lengths, and no headers."""
        after_offset = self.time.at + self.time.size + offset_bytes
        return chain(
            range(self.time.at - 1),  # the byte of attributes after the length has no meaning yet
            range(after_offset, self.key.at),
            range(self.key.at + max(self.key.size, 0), self.value.at),
            range(self.value.at + max(self.value.size, 0), self.stride),
        )


def matching(buffer: bytes, start: int, count: int, layout: Layout, frame: Frame) -> int:
    """How many of the next `count` records from `start` on are laid out so, one after the other."""
    stride = layout.stride
    stop = start + count * stride
    for at, byte in frame:
        column = buffer[start + at : stop : stride]
        if column.count(byte) != count:
            count -= len(column.lstrip(bytes((byte,))))
            stop = start + count * stride
    last = layout.time.at + layout.time.size - 1
    for at in range(layout.time.at, last + 1):
        column = buffer[start + at : stop : stride].translate(_ENDS_VARINT)
        other = column.find(0 if at == last else 1)
        if other >= 0:
            count = other
            stop = start + count * stride
    return count


def offset_bytes(index: int) -> tuple[int, int]:
    """How many bytes the offset of the record with this index takes, in a batch without gaps, and up to which
    index that is so."""
    return (1, 64) if index < 64 else (2, 8192) if index < 8192 else (3, 1 << 20)


@attrs.define
class PlannedRun:
    """A run that another batch had: its first record's index and place, and how many there were."""

    index: int
    start: int
    count: int
    layout: Layout
    frame: Frame


class Plans:
    """The runs that batches of the same bytes and records consisted of.

    Any thread may ask and tell: what is found is only a guess, which is compared with the bytes.
    """

    def __init__(self) -> None:
        self._plans: dict[tuple[int, int], Sequence[PlannedRun]] = {}

    def find(self, size: int, count: int) -> Sequence[PlannedRun] | None:
        return self._plans.get((size, count))

    def keep(self, size: int, count: int, plan: Sequence[PlannedRun]) -> None:
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[size, count] = plan


plans = Plans()
