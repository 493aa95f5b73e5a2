"""Encodes Arrow columns as the records of batches, from their buffers.

Any thread; pure. Imports pyarrow and numpy, so it is imported only for Arrow columns. The bytes are those of
column_encoder.py. Fields of one length are copied into a matrix whose rows are the records; others are joined
row by row by Arrow, with their lengths from a table. A column of headers becomes the ends of records, as
`encoder.encode_headers` writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pykafka2.records.column_encoder import (
    MAX_BATCH_RECORDS,
    MAX_NUMBERS_BYTES,
    MAX_OFFSET_BYTES,
    SAMPLE_RECORDS,
    EncodedRecords,
    Entry,
    cuts_of,
)
from pykafka2.records.encoder import NO_HEADERS
from pykafka2.records.pieces import ATTRIBUTES, OFFSET_SPANS, framed_offsets, merged, spans
from pykafka2.records.varint import NULL, VARINTS, varint, varint_size

BINARY = pa.large_binary()
"""The type of all columns here; its offsets cannot overflow."""
_EMPTY = pa.scalar(b"", BINARY)

Numbers = Any
"""A numpy array of whole numbers."""

_TABLE = pa.array([*VARINTS, NULL], BINARY)
_NULL_AT = len(VARINTS)
_EMPTY = pa.scalar(b"", BINARY)

Piece = bytes | Any
"""The same bytes in every record, or an Arrow array with those of each."""


@attrs.define(eq=False)
class BytesColumn:
    """A column of bytes, and the place of each entry in its buffer.

    `lengths` has -1 for a null; `same_length` is the length of all, if they have one and there is no null.
    """

    array: Any
    data: Numbers
    offsets: Numbers
    lengths: Numbers
    same_length: int | None

    @classmethod
    def of(cls, array: Any) -> BytesColumn:
        """Return the column of an Arrow array of any bytes or text type."""
        array = array if array.type == BINARY else array.cast(BINARY)
        _, offsets, data = array.buffers()
        if offsets is None or offsets.size == 0:  # Arrow can leave both out of an empty array
            offsets = pa.py_buffer(bytes(8 * (len(array) + array.offset + 1)))
        ends = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        lengths = np.diff(ends)
        shortest, longest = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
        has_nulls = array.null_count > 0
        if has_nulls:
            lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
        same = shortest if shortest == longest and not has_nulls else None
        return cls(array, np.frombuffer(data or b"", np.uint8), ends, lengths, same)

    def sizes(self, first: int, stop: int) -> Numbers | int:
        """Return the sizes of the entries with their length prefixes."""
        if self.same_length is not None:
            return self.same_length + varint_size(self.same_length)
        lengths = self.lengths[first:stop]
        return np.maximum(lengths, 0) + varint_sizes(lengths)

    def matrix(self, first: int, stop: int) -> Numbers:
        """Return entries of one length as a matrix with a row for each."""
        return self.data[self.offsets[first] : self.offsets[stop]].reshape(stop - first, self.same_length)

    def pieces(self, first: int, stop: int) -> list[Piece]:
        part = self.array.slice(first, stop - first)
        if self.same_length is not None:
            return [varint(self.same_length), part]
        return [varints(self.lengths[first:stop]), part.fill_null(_EMPTY) if part.null_count else part]


class ArrowColumns:
    """Records as Arrow's arrays; see `column_encoder.RecordColumns`.

    Args:
        values: an array of any bytes or text type; may contain nulls.
        keys: the same, as long as values; None for no keys at all.
        headers: as `encode_headers` writes them: the same for all records, or a list or Arrow array.
        timestamps: milliseconds since the epoch: the same for all records, or a numpy array of int64.
    """

    def __init__(
        self,
        values: Any,
        keys: Any = None,
        headers: bytes | list[bytes] | Any = NO_HEADERS,
        timestamps: int | Numbers = 0,
    ) -> None:
        self.values = values if isinstance(values, BytesColumn) else BytesColumn.of(values)
        self.keys = keys if keys is None or isinstance(keys, BytesColumn) else BytesColumn.of(keys)
        self.headers: bytes | BytesColumn
        if isinstance(headers, bytes | BytesColumn):
            self.headers = headers
        else:
            self.headers = BytesColumn.of(pa.array(headers, BINARY) if isinstance(headers, list) else headers)
        self.timestamps = timestamps

    def __len__(self) -> int:
        return len(self.values.array)

    def rows(self, first: int, stop: int) -> ArrowColumns:
        if first == 0 and stop == len(self):
            return self
        return self._selected(lambda array: array.slice(first, stop - first), slice(first, stop))

    def take(self, numbers: Sequence[int]) -> ArrowColumns:
        index = np.asarray(numbers, np.int64)
        return self._selected(lambda array: array.take(pa.array(index)), index)

    def _selected(self, select: Callable[[Any], Any], index: Any) -> ArrowColumns:
        return ArrowColumns(
            select(self.values.array),
            None if self.keys is None else select(self.keys.array),
            self.headers if isinstance(self.headers, bytes) else select(self.headers.array),
            self.timestamps if isinstance(self.timestamps, int) else self.timestamps[index],
        )

    def cuts(self, max_bytes: int) -> list[int]:
        count = len(self)
        if not count:
            return []
        delta_bytes = 1
        if not isinstance(self.timestamps, int):
            delta_bytes = varint_size(int(self.timestamps.max()) - int(self.timestamps.min()))
        sizes = self._sizes(0, count)
        more = len(ATTRIBUTES) + delta_bytes + MAX_OFFSET_BYTES
        if isinstance(sizes, int):
            size = sizes + more
            step = min(max(1, max_bytes // (size + varint_size(size))), MAX_BATCH_RECORDS)
            return [*range(step, count, step), count]
        more += varint_size(int(sizes.max()) + more)
        ends: Any = np.cumsum(sizes)
        return cuts_of(ends, more, max_bytes)

    def oversized(self, max_bytes: int) -> int | None:
        sizes = np.maximum(self.values.lengths, 0)
        if self.keys is not None:
            sizes = sizes + np.maximum(self.keys.lengths, 0)
        if isinstance(self.headers, bytes):
            max_bytes -= len(self.headers)
        else:
            sizes = sizes + self.headers.lengths
        too_large = np.nonzero(sizes > max_bytes - MAX_NUMBERS_BYTES)[0]
        return int(too_large[0]) if len(too_large) else None

    def entries(self, first: int, stop: int) -> Iterator[Entry]:
        keys: Iterable[bytes | None] = repeat(None)
        if self.keys is not None:
            keys = self.keys.array.slice(first, stop - first).to_pylist()
        return zip(
            self.values.array.slice(first, stop - first).to_pylist(),
            keys,
            repeat(self.timestamps)
            if isinstance(self.timestamps, int)
            else self.timestamps[first:stop].tolist(),
            repeat(self.headers)
            if isinstance(self.headers, bytes)
            else self.headers.array.slice(first, stop - first).to_pylist(),
            strict=False,  # `repeat` has no end
        )

    def record_bytes(self) -> int:
        some = self.values.lengths[:SAMPLE_RECORDS]
        return MAX_NUMBERS_BYTES + int(np.maximum(some, 0).mean())

    def encode(self, first: int, stop: int) -> EncodedRecords:
        base, highest, deltas = self._deltas(first, stop)
        sizes = self._sizes(first, stop)
        parts = []
        for width, begin, end in spans(stop - first):
            part = slice(begin, end)
            more = len(ATTRIBUTES) + width
            if isinstance(sizes, int) and deltas is None:
                parts.append(self._matrix(first, begin, end, sizes + more + len(varint(0))))
                continue
            own_deltas: Piece = varint(0) if deltas is None else varints(deltas[part])
            delta_bytes = 1 if deltas is None else varint_sizes(deltas[part])
            own_sizes = (sizes if isinstance(sizes, int) else sizes[part]) + delta_bytes + more
            parts.append(self._joined(first, begin, end, own_sizes, own_deltas))
        return EncodedRecords(parts[0] if len(parts) == 1 else b"".join(parts), stop - first, base, highest)

    # ------------------------------------------------------------------ inside

    def _sizes(self, first: int, stop: int) -> Numbers | int:
        """Return the size of each record after its offset delta: one number, or an array."""
        sizes = self.values.sizes(first, stop) + (
            len(NULL) if self.keys is None else self.keys.sizes(first, stop)
        )
        headers = self.headers
        if isinstance(headers, bytes):
            return sizes + len(headers)
        return sizes + (headers.lengths[first:stop] if headers.same_length is None else headers.same_length)

    def _deltas(self, first: int, stop: int) -> tuple[int, int, Numbers | None]:
        """Return the first timestamp, the highest, and all relative to the first (None if all are equal)."""
        if isinstance(self.timestamps, int):
            return self.timestamps, self.timestamps, None
        own = self.timestamps[first:stop]
        base, highest, lowest = int(own[0]), int(own.max()), int(own.min())
        return base, highest, None if lowest == highest else own - base

    def _matrix(self, shift: int, begin: int, end: int, size: int) -> bytes:
        """Encode the records with offset deltas from begin up to end, all of the same size."""
        first, stop = shift + begin, shift + end
        head = varint(size) + ATTRIBUTES + varint(0)
        offsets = np.frombuffer(b"".join(framed_offsets(head, b"", begin, end)), np.uint8)
        columns: list[Any] = [offsets.reshape(end - begin, -1)]
        for field in (self.keys, self.values):
            if field is None:
                columns.append(NULL)
            else:
                columns += (varint(field.same_length or 0), field.matrix(first, stop))
        headers = self.headers
        columns.append(headers if isinstance(headers, bytes) else headers.matrix(first, stop))
        out = np.empty((end - begin, size + varint_size(size)), np.uint8)
        place = 0
        for column in columns:
            data = np.frombuffer(column, np.uint8) if isinstance(column, bytes) else column
            width = data.shape[-1]
            out[:, place : place + width] = data
            place += width
        return out.tobytes()

    def _joined(self, shift: int, begin: int, end: int, sizes: Numbers | int, deltas: Piece) -> bytes:
        """Encode the records with offset deltas from begin up to end."""
        first, stop = shift + begin, shift + end
        pieces: list[Piece] = [
            varint(sizes) if isinstance(sizes, int) else varints(sizes),
            ATTRIBUTES,
            deltas,
        ]
        pieces.append(_offset_array(begin, end))
        for field in (self.keys, self.values):
            pieces += [NULL] if field is None else field.pieces(first, stop)
        headers = self.headers
        pieces.append(headers if isinstance(headers, bytes) else headers.array.slice(first, stop - first))
        arrays = [pa.scalar(piece, BINARY) if isinstance(piece, bytes) else piece for piece in merged(pieces)]
        body = BytesColumn.of(pc.binary_join_element_wise(*arrays, _EMPTY))
        joined: bytes = body.data[body.offsets[0] : body.offsets[-1]].tobytes()
        return joined


def varints(numbers: Numbers) -> Any:
    """Return each number as a varint, in an Arrow array."""
    if len(numbers) and (numbers.max() >= _NULL_AT or numbers.min() < -1):
        distinct, places = np.unique(numbers, return_inverse=True)
        written = pa.array([varint(int(number)) for number in distinct], BINARY)
        return written.take(pa.array(places.reshape(-1)))
    return _TABLE.take(pa.array(np.where(numbers < 0, _NULL_AT, numbers)))


def varint_sizes(numbers: Numbers) -> Numbers:
    """Return how many bytes each number takes as a varint."""
    raw = ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)
    sizes = np.ones(len(raw), np.int64)
    for bits in range(7, 64, 7):
        beyond = raw >> np.uint64(bits) != 0
        if not beyond.any():
            break
        sizes += beyond
    return sizes


def _offset_array(begin: int, end: int) -> Any:
    if end <= OFFSET_SPANS[2]:  # batch after batch needs these
        return _span_array(begin, OFFSET_SPANS[OFFSET_SPANS.index(begin) + 1]).slice(0, end - begin)
    return pa.array(framed_offsets(b"", b"", begin, end), BINARY)


@lru_cache(maxsize=2)
def _span_array(begin: int, end: int) -> Any:
    return pa.array(framed_offsets(b"", b"", begin, end), BINARY)


# ------------------------------------------------------------------ headers


def encoded_headers(column: Any) -> Any | None:
    """Return each row's headers in an array of BINARY, for an array of maps or of lists of structs.

    Return None if names are not text, values are not bytes, or a name or a pair is null.
    """
    if isinstance(column, pa.ChunkedArray):
        try:
            column = column.combine_chunks()
        except pa.ArrowInvalid:  # more than the offsets of one array can address
            return None
        if isinstance(column, pa.ChunkedArray):
            return None
    kind, types = column.type, pa.types
    if not (types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind)):
        return None
    if not len(column):
        return pa.array([], BINARY)  # its offsets can be left out, for which pyarrow ends the process
    ends = column.offsets.to_numpy().astype(np.int64)
    counts = np.diff(ends)
    if column.null_count and counts[column.is_null().to_numpy(zero_copy_only=False)].any():
        return None  # nulls that have entries
    first, stop = int(ends[0]), int(ends[-1])
    pairs = _names_and_values(column)
    if pairs is None:
        return None
    names, values = (one.slice(first, stop - first) for one in pairs)
    if names.null_count:
        return None
    encoded = _joined([*_field(names), *_field(values)], stop - first)
    joined = BytesColumn.of(encoded)
    # The entries of a row are adjacent, so its begin and end are enough.
    bounds = np.ascontiguousarray(joined.offsets[ends - first])
    data = encoded.buffers()[2]
    rows = pa.Array.from_buffers(BINARY, len(column), [None, pa.py_buffer(bounds), data])
    return pc.binary_join_element_wise(varints(counts), rows, _EMPTY)


def _names_and_values(column: Any) -> tuple[Any, Any] | None:
    if pa.types.is_map(column.type):
        names, values = column.keys, column.items
    else:
        entries = column.values
        if not pa.types.is_struct(entries.type) or entries.type.num_fields != 2 or entries.null_count:
            return None
        names, values = entries.field(0), entries.field(1)
    is_text = pa.types.is_string(names.type) or pa.types.is_large_string(names.type)
    is_bytes = pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
    return (names, values) if is_text and is_bytes else None


def _field(array: Any) -> list[Any]:
    """Return a length and bytes."""
    column = BytesColumn.of(array)
    pieces = column.pieces(0, len(array))
    if len(array) and (column.lengths < 0).all():
        return [NULL]
    return pieces


def _joined(pieces: list[Any], count: int) -> Any:
    if not count:
        return pa.array([], BINARY)
    arrays = [pa.scalar(piece, BINARY) if isinstance(piece, bytes) else piece for piece in merged(pieces)]
    if not any(isinstance(one, pa.Array) for one in arrays):
        return pa.repeat(arrays[0], count)
    return pc.binary_join_element_wise(*arrays, _EMPTY)
