"""Converts columns to Arrow tables, from buffer to buffer if records have one layout.

Any thread; pure. Imports pyarrow and numpy, so only `Columns.to_arrow` and tables/ import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

import numpy as np
import pyarrow as pa

from pykafka2.errors import IllegalArgument
from pykafka2.records.runs import ArrayRun, Bytes, HeaderArrays, Run, UniformRun
from pykafka2.types import Headers, TopicPartition

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.dictionary(pa.int32(), pa.string())),
        ("partition", pa.dictionary(pa.int32(), pa.int32())),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
# The columns that the records themselves have.
DECODED = ("offset", "timestamp", "key", "value", "headers")
# Fewer records of one size than this share an array with their neighbors.
FEWEST_ALIKE = 256
# Wrong timestamps can exceed 64 bits; they wrap around as in Java.
WRAP = 1 << 63
# An array's offsets are 32 bits wide.
MAX_ARRAY_BYTES = 1 << 30


def to_table(
    runs: Sequence[Run],
    topic_partition: TopicPartition | None,
    timestamp_types: int | list[int],
    columns: Iterable[str] | None = None,
) -> pa.Table:
    """Return a table of the runs, in order; see `Columns.to_arrow`."""
    names = checked_names(columns)
    wanted = [name for name in DECODED if name in names]
    batches: list[Any] = []
    others: list[Run] = []
    for run in runs:
        if isinstance(run, ArrayRun) and len(run.buffer) <= MAX_ARRAY_BYTES:
            batches += _of_lists(others, wanted)
            batches.append(_of_arrays(run, wanted))
            others = []
        else:
            others.append(run)
    batches += _of_lists(others, wanted)
    return _with_partition(batches, runs, topic_partition, timestamp_types, names)


def checked_names(columns: Iterable[str] | None) -> list[str]:
    """Return the names of the columns. Raise IllegalArgument for one that does not exist or comes twice."""
    if columns is None:
        return list(SCHEMA.names)
    names = [columns] if isinstance(columns, str) else list(columns)
    for at, name in enumerate(names):
        if name not in SCHEMA.names or name in names[:at]:
            what = "is given twice" if name in names[:at] else "is not a column of records"
            raise IllegalArgument(f"columns: {name!r} {what}; columns are {', '.join(SCHEMA.names)}")
    return names


def _with_partition(
    batches: list[Any],
    runs: Sequence[Run],
    topic_partition: TopicPartition | None,
    timestamp_types: int | list[int],
    names: list[str],
) -> pa.Table:
    """Return the table with the columns that all records share."""
    schema = pa.schema([SCHEMA.field(name) for name in names])
    # Batches without a column have no length.
    counts = [len(one) for one in batches if one.num_columns] or [sum(map(len, runs))]
    shared = {
        name: _shared(name, topic_partition, timestamp_types, counts) for name in names if name not in DECODED
    }
    columns = [
        shared[name] if name in shared else pa.chunked_array([one.column(name) for one in batches], kind.type)
        for name, kind in zip(names, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _shared(
    name: str, topic_partition: TopicPartition | None, timestamp_types: int | list[int], counts: list[int]
) -> Any:
    """Return a column in chunks of these lengths; topic and partition are null without a partition."""
    kind = SCHEMA.field(name).type
    if name == "timestampType":
        if isinstance(timestamp_types, int):
            chunks = [pa.repeat(pa.scalar(timestamp_types, kind), count) for count in counts]
        else:
            types, ends = pa.array(timestamp_types, kind), list(accumulate(counts))
            chunks = [types.slice(end - count, count) for end, count in zip(ends, counts, strict=True)]
    elif topic_partition is None:
        chunks = [pa.nulls(count, kind) for count in counts]
    else:
        values = pa.array([getattr(topic_partition, name)], kind.value_type)
        chunks = [
            pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), values, safe=False) for count in counts
        ]
    return pa.chunked_array(chunks, kind)


def _of_lists(runs: list[Run], wanted: list[str]) -> list[Any]:
    batches: list[Any] = []
    others: list[Run] = []
    for sizes, alike in groupby(_pieces(runs), _sizes):
        group = list(alike)
        if sizes is None or sum(map(len, group)) < FEWEST_ALIKE:
            others += group
            continue
        batches += (_of_rows(part, wanted) for part in _groups(others))
        batches += (_of_one_size(part, *sizes, wanted) for part in _groups(group))
        others = []
    batches += (_of_rows(part, wanted) for part in _groups(others))
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


def _batch(wanted: list[str], columns: dict[str, Callable[[], Any]]) -> Any:
    """Return a batch of the wanted columns; the others are not made."""
    return pa.RecordBatch.from_arrays([columns[name]() for name in wanted], wanted)


def _of_times(times: Any) -> Any:
    return _of_numbers(times, SCHEMA.field("timestamp").type)


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


def _of_one_size(runs: list[Run], key_size: int, value_size: int, wanted: list[str]) -> Any:
    """Return a batch whose key and value columns are matrices with a row per record."""
    count = sum(map(len, runs))
    offsets, timestamps = np.empty(count, np.int64), np.empty(count, np.int64)
    copied_keys, copied_values = key_size * ("key" in wanted), value_size * ("value" in wanted)
    keys, values = (
        np.empty((count, max(copied_keys, 0)), np.uint8),
        np.empty((count, max(copied_values, 0)), np.uint8),
    )
    at = 0
    for run in runs:
        part = slice(at, at := at + len(run))
        if isinstance(run, UniformRun):
            size = len(run) * run.stride
            records = np.frombuffer(run.buffer, np.uint8, size, run.start).reshape(len(run), run.stride)
            offsets[part] = np.arange(run.offsets.start, run.offsets.stop)
            timestamps[part] = _times(run, records)
            if copied_keys > 0:
                keys[part] = records[:, run.key.at : run.key.at + key_size]
            if copied_values > 0:
                values[part] = records[:, run.value.at : run.value.at + value_size]
            continue
        offsets[part] = run.offsets
        timestamps[part] = _of_64_bits(run.timestamps)
        if copied_keys > 0:
            keys[part] = _matrix(run.keys, key_size)
        if copied_values > 0:
            values[part] = _matrix(run.values, value_size)
    return _batch(
        wanted,
        {
            "offset": lambda: _of_numbers(offsets, pa.int64()),
            "timestamp": lambda: _of_times(timestamps),
            "key": lambda: _array(keys, key_size),
            "value": lambda: _array(values, value_size),
            "headers": lambda: pa.nulls(count, HEADERS),
        },
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


def _of_arrays(run: ArrayRun, wanted: list[str]) -> Any:
    """Return a batch of keys and values, each copied once out of the buffer, without a step in Python."""
    count, offsets, found = len(run), run.offsets, run.headers
    numbers = np.arange(offsets.start, offsets.stop) if isinstance(offsets, range) else offsets
    return _batch(
        wanted,
        {
            "offset": lambda: _of_numbers(numbers, pa.int64()),
            "timestamp": lambda: _of_times(run.times),
            "key": lambda: _taken(run.buffer, run.key_at, run.key_sizes),
            "value": lambda: _taken(run.buffer, run.value_at, run.value_sizes),
            "headers": lambda: pa.nulls(count, HEADERS) if found is None else _header_arrays(run, found),
        },
    )


def _header_arrays(run: ArrayRun, found: HeaderArrays) -> Any:
    count = len(run)
    names = _taken(run.buffer, found.name_at, found.name_sizes)
    _, ends, data = names.buffers()
    if data is not None and np.frombuffer(data, np.uint8).max(initial=0) >= 0x80:
        return _header_column(run.headers_list())  # some may be invalid UTF-8
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


def _of_rows(runs: list[Run], wanted: list[str]) -> Any:
    def joined(name: str) -> list[Any]:
        return [one for run in runs for one in getattr(run, name)]

    return _batch(
        wanted,
        {
            "offset": lambda: _of_numbers(joined("offsets"), pa.int64()),
            "timestamp": lambda: _of_times(joined("timestamps")),
            "key": lambda: pa.array(joined("keys"), pa.binary()),
            "value": lambda: pa.array(joined("values"), pa.binary()),
            "headers": lambda: _headers(runs),
        },
    )


def _headers(runs: list[Run]) -> Any:
    count = sum(map(len, runs))
    if not any(not isinstance(run, UniformRun) and run.headers for run in runs):
        return pa.nulls(count, HEADERS)
    return _header_column(one for run in runs for one in run.headers_list())


def _header_column(headers: Iterable[Headers]) -> Any:
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
