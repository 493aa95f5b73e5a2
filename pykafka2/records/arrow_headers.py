"""A column of headers, in Arrow's buffers, as each record ends with them; no step in Python for any record.

Any thread; pure.  Loads pyarrow and numpy.  The bytes are those of `encoder.encode_headers`.  Columns that
it does not understand, or that have something wrong in them, are for the caller to go through row by row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pykafka2.records.arrow_encoder import BINARY, BytesColumn, varints
from pykafka2.records.pieces import merged
from pykafka2.records.varint import NULL

_EMPTY = pa.scalar(b"", BINARY)


def encoded_headers(column: Any) -> Any | None:
    """Each row's headers in an array of BINARY, of an array of maps or of lists of structs.

    None for names that are no text, values that are no bytes, and where a name or a pair is null.
    """
    if isinstance(column, pa.ChunkedArray):
        try:
            column = column.combine_chunks()
        except pa.ArrowInvalid:  # more than the offsets of one array hold
            return None
        if isinstance(column, pa.ChunkedArray):
            return None
    kind, types = column.type, pa.types
    if not (types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind)):
        return None
    if not len(column):
        return pa.array([], BINARY)  # whose offsets may be left out, where pyarrow ends the process
    ends = column.offsets.to_numpy().astype(np.int64)
    counts = np.diff(ends)
    if column.null_count and counts[column.is_null().to_numpy(zero_copy_only=False)].any():
        return None  # nulls with something behind them
    first, stop = int(ends[0]), int(ends[-1])
    pairs = _names_and_values(column)
    if pairs is None:
        return None
    names, values = (one.slice(first, stop - first) for one in pairs)
    if names.null_count:
        return None
    encoded = _joined([*_field(names), *_field(values)], stop - first)
    joined = BytesColumn.of(encoded)
    # What belongs to a row lies side by side already, so a row is where it begins and where it ends.
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
    """A length and bytes."""
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
