"""Converts columns to Arrow tables, from buffer to buffer if records have one layout.

Any thread; pure. Imports pyarrow and numpy, so only `Columns.to_arrow` imports it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from pykafka2.records.runs import ArrayRun, Bytes, HeaderArrays, Run, UniformRun
from pykafka2.types import Headers

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
# Fewer records of one size than this share an array with their neighbors.
FEWEST_ALIKE = 256
# Wrong timestamps can exceed 64 bits; they wrap around as in Java.
WRAP = 1 << 63
# An array's offsets are 32 bits wide.
MAX_ARRAY_BYTES = 1 << 30


def to_table(runs: Sequence[Run]) -> pa.Table:
    """Return a table of the runs, in order; see `Columns.to_arrow`."""
    batches: list[Any] = []
    others: list[Run] = []
    for run in runs:
        if isinstance(run, ArrayRun) and len(run.buffer) <= MAX_ARRAY_BYTES:
            batches += _of_lists(others)
            batches.append(_of_arrays(run))
            others = []
        else:
            others.append(run)
    return pa.Table.from_batches(batches + _of_lists(others), SCHEMA)


def _of_lists(runs: list[Run]) -> list[Any]:
    batches: list[Any] = []
    others: list[Run] = []
    for sizes, alike in groupby(_pieces(runs), _sizes):
        group = list(alike)
        if sizes is None or sum(map(len, group)) < FEWEST_ALIKE:
            others += group
            continue
        batches += map(_of_rows, _groups(others))
        batches += (_of_one_size(part, *sizes) for part in _groups(group))
        others = []
    batches += map(_of_rows, _groups(others))
    return batches


def _pieces(runs: Iterable[Run]) -> Iterator[Run]:
    """Iterate over the runs, cut into parts that each fit into an array."""
    for run in runs:
        if isinstance(run, UniformRun) and len(run) * run.stride > MAX_ARRAY_BYTES:
            most = max(MAX_ARRAY_BYTES // run.stride, 1)
            yield from (run.cut(start, start + most) for start in range(0, len(run), most))
        else:
            yield run


def _sizes(run: Run) -> tuple[int, int] | None:
    """Return the size of all keys and that of all values (-1: null), None if they differ or headers exist."""
    if isinstance(run, UniformRun):
        return run.key.size, run.value.size
    keys = {-1 if key is None else len(key) for key in run.keys}
    values = {-1 if value is None else len(value) for value in run.values}
    return None if run.headers or len(keys) > 1 or len(values) > 1 else (keys.pop(), values.pop())


def _groups(runs: list[Run]) -> Iterator[list[Run]]:
    """Yield groups of runs that fit into one array."""
    group: list[Run] = []
    group_bytes = 0
    for run in runs:
        size = _bytes_of(run)
        if group and group_bytes + size > MAX_ARRAY_BYTES:
            yield group
            group, group_bytes = [], 0
        group.append(run)
        group_bytes += size
    if group:
        yield group


def _bytes_of(run: Run) -> int:
    if isinstance(run, UniformRun):
        return len(run) * run.stride
    return sum(len(one) for one in (*run.values, *run.keys) if one)


def _batch(offsets: Any, timestamps: Any, keys: Any, values: Any, headers: Any) -> Any:
    times = _of_numbers(timestamps, SCHEMA.field("timestamp").type)
    return pa.RecordBatch.from_arrays(
        [_of_numbers(offsets, pa.int64()), times, keys, values, headers], schema=SCHEMA
    )


def _of_numbers(numbers: Any, kind: Any) -> Any:
    """Return an array over the same memory if the numbers are in a numpy array."""
    numbers = _of_64_bits(numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _of_64_bits(numbers: Any) -> Any:
    try:
        return np.ascontiguousarray(numbers, np.int64)
    except OverflowError:
        return np.array([(one + WRAP) % (2 * WRAP) - WRAP for one in numbers], np.int64)


# ---------------------------------------------------------------------------------------- of one size


def _of_one_size(runs: list[Run], key_size: int, value_size: int) -> Any:
    """Return a batch whose key and value columns are matrices with a row per record."""
    count = sum(map(len, runs))
    offsets, timestamps = np.empty(count, np.int64), np.empty(count, np.int64)
    keys, values = (
        np.empty((count, max(key_size, 0)), np.uint8),
        np.empty((count, max(value_size, 0)), np.uint8),
    )
    at = 0
    for run in runs:
        part = slice(at, at := at + len(run))
        if isinstance(run, UniformRun):
            size = len(run) * run.stride
            records = np.frombuffer(run.buffer, np.uint8, size, run.start).reshape(len(run), run.stride)
            offsets[part] = np.arange(run.offsets.start, run.offsets.stop)
            timestamps[part] = _times(run, records)
            if key_size > 0:
                keys[part] = records[:, run.key.at : run.key.at + key_size]
            if value_size > 0:
                values[part] = records[:, run.value.at : run.value.at + value_size]
            continue
        offsets[part] = run.offsets
        timestamps[part] = _of_64_bits(run.timestamps)
        if key_size > 0:
            keys[part] = _matrix(run.keys, key_size)
        if value_size > 0:
            values[part] = _matrix(run.values, value_size)
    return _batch(
        offsets, timestamps, _array(keys, key_size), _array(values, value_size), pa.nulls(count, HEADERS)
    )


def _matrix(entries: Bytes, size: int) -> Any:
    return np.frombuffer(b"".join(one for one in entries if one), np.uint8).reshape(len(entries), size)


def _times(run: UniformRun, records: Any) -> Any:
    if run.timestamp is None:
        return run.base_timestamp
    first, digits = run.timestamp.at, run.timestamp.size
    raw = records[:, first].astype(np.int64) & 0x7F
    for index in range(1, digits):
        raw |= (records[:, first + index].astype(np.int64) & 0x7F) << 7 * index
    return run.base_timestamp + ((raw >> 1) ^ -(raw & 1))


def _array(matrix: Any, size: int) -> Any:
    """Return a binary array over the matrix, without a copy; of nulls for a size of -1."""
    if size < 0:
        return pa.nulls(len(matrix), pa.binary())
    return _fields(matrix.reshape(-1), len(matrix), size)


def _fields(data: Any, count: int, size: int) -> Any:
    """Return an array of `count` fields of one size, which are adjacent in `data`."""
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(data)])


# ---------------------------------------------------------------------------------------- of any size


def _of_arrays(run: ArrayRun) -> Any:
    """Return a batch of keys and values, each copied once out of the buffer, without a step in Python."""
    count, offsets = len(run), run.offsets
    headers = pa.nulls(count, HEADERS) if run.headers is None else _header_arrays(run, run.headers)
    return _batch(
        np.arange(offsets.start, offsets.stop) if isinstance(offsets, range) else offsets,
        run.times,
        _taken(run.buffer, run.key_at, run.key_sizes),
        _taken(run.buffer, run.value_at, run.value_sizes),
        headers,
    )


def _header_arrays(run: ArrayRun, found: HeaderArrays) -> Any:
    count = len(run)
    names = _taken(run.buffer, found.name_at, found.name_sizes)
    _, ends, data = names.buffers()
    if data is not None and np.frombuffer(data, np.uint8).max(initial=0) >= 0x80:
        return _headers(run.headers_list(), count)  # some may be invalid UTF-8
    names = pa.Array.from_buffers(pa.string(), len(names), [None, ends, data])
    values = _taken(run.buffer, found.value_at, found.value_sizes)
    entries = pa.StructArray.from_arrays([names, values], fields=list(HEADERS.value_type))
    counts = np.bincount(found.rows, minlength=count)
    ends_of_rows = np.zeros(count + 1, np.int32)
    np.cumsum(counts, out=ends_of_rows[1:])
    has_some = pa.py_buffer(np.packbits(counts > 0, bitorder="little"))
    return pa.Array.from_buffers(HEADERS, count, [has_some, pa.py_buffer(ends_of_rows)], children=[entries])


def _taken(buffer: bytes, at: Any, sizes: Any) -> Any:
    """Return the pieces of the buffer at these places, in ascending order; a size of -1 is null."""
    count, size = len(at), int(sizes[0])
    if (sizes == size).all():
        if size < 0:
            return pa.nulls(count, pa.binary())
        if size > 0:
            # An item of that size can begin at each place of the buffer.
            items = np.ndarray((len(buffer) - size + 1,), f"V{size}", buffer, 0, (1,))
            return _fields(items[at], count, size)
    # The bytes between two pieces count as a piece too, so every other one is taken.
    ends = np.empty(2 * count, np.int32)
    ends[0::2] = at
    ends[1::2] = at + np.maximum(sizes, 0)
    pieces = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(ends), pa.py_buffer(buffer)]
    )
    taken = pieces.take(pa.array(np.arange(0, 2 * count - 1, 2, dtype=np.int32)))
    if sizes.min() >= 0:
        return taken
    _, taken_ends, data = taken.buffers()
    is_there = pa.py_buffer(np.packbits(sizes >= 0, bitorder="little"))
    return pa.Array.from_buffers(pa.binary(), count, [is_there, taken_ends, data])


# ---------------------------------------------------------------------------------------- others


def _of_rows(runs: list[Run]) -> Any:
    offsets: list[int] = []
    timestamps: list[int] = []
    keys: Bytes = []
    values: Bytes = []
    headers: list[Headers] | None = None
    for run in runs:
        if not isinstance(run, UniformRun) and run.headers:
            headers = [] if headers is None else headers
            headers += [[]] * (len(offsets) - len(headers))
            headers += run.headers_list()
        offsets += run.offsets
        timestamps += run.timestamps
        keys += run.keys
        values += run.values
    return _batch(
        offsets,
        timestamps,
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        _headers(headers, len(offsets)),
    )


def _headers(headers: list[Headers] | None, count: int) -> Any:
    if headers is None:
        return pa.nulls(count, HEADERS)
    headers += [[]] * (count - len(headers))
    return pa.array(
        [[{"key": _text(name), "value": value} for name, value in one] if one else None for one in headers],
        HEADERS,
    )


def _text(name: str) -> str:
    """Return the name with replacement characters for bytes that are not UTF-8, which Arrow refuses."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return name
