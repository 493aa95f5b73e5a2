"""Checks Arrow columns for `send_many`; their bytes stay in Arrow's buffers.

Used on callers' threads. It loads pyarrow and numpy, so only a call with an Arrow column imports it.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from pykafka2.errors import IllegalArgument
from pykafka2.producer.arguments import refuse
from pykafka2.producer.bulk.columns import (
    BulkArguments,
    BulkPart,
    as_list,
    bytes_column,
    check_length,
    is_arrow,
    read_headers,
    read_partitions,
    read_timestamps,
    refuse_row,
)
from pykafka2.records.arrow_encoder import BINARY, ArrowColumns, encoded_headers

FEW_ROWS = 4096
"""Chunks with fewer rows are joined, as each chunk becomes batches of its own."""

# Column names of a table and their arguments; the second names are Spark's.
TABLE_COLUMNS = {
    "value": "values",
    "key": "keys",
    "headers": "headers",
    "partition": "partitions",
    "timestamp_ms": "timestamps_ms",
    "timestamp": "timestamps_ms",
}


def is_table(values: Any) -> bool:
    """Return whether values that were `loaded` have named columns."""
    return isinstance(values, pa.Table | pa.RecordBatch)


def loaded(arguments: BulkArguments) -> BulkArguments:
    """Return the arguments with pyarrow's objects for other libraries' columns and tables.

    Each is read once, as a stream of batches is empty the second time.
    """
    columns = ("values", "keys", "headers", "partitions", "timestamps_ms")
    return attrs.evolve(
        arguments, **{name: _as_arrow(name, getattr(arguments, name), arguments.topic) for name in columns}
    )


def _as_arrow(argument: str, column: Any, topic: str) -> Any:
    """Return pyarrow's object for another library's column; other columns are returned unchanged."""
    if isinstance(column, pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch) or not is_arrow(column):
        return column
    try:
        arrow = pa.chunked_array(column) if hasattr(column, "__arrow_c_stream__") else pa.array(column)
    except Exception as error:
        raise IllegalArgument(
            f"{argument}={column!r} of the records for topic {topic!r} cannot be read as Arrow: {error!r}"
        ) from error
    return pa.Table.from_struct_array(arrow) if pa.types.is_struct(arrow.type) else arrow


def with_columns_of(arguments: BulkArguments) -> BulkArguments:
    """Return the arguments with the columns of the Table or RecordBatch in `values`.

    Raise IllegalArgument for an unknown column name, and for a column that is also an argument.
    """
    table, topic, known = arguments.values, arguments.topic, ", ".join(TABLE_COLUMNS)
    columns: dict[str, Any] = {}
    for number, name in enumerate(table.schema.names):
        argument = TABLE_COLUMNS.get(name)
        if argument is None:
            raise IllegalArgument(
                f"values has a column {name!r} (of the records for topic {topic!r}); columns are {known}; "
                "leave out others with table.select([...])"
            )
        beside = None if argument == "values" else getattr(arguments, argument)
        if (
            argument in columns
            or beside is not None
            or (argument == "partitions" and arguments.partition is not None)
        ):
            raise IllegalArgument(
                f"{argument} of the records for topic {topic!r} is given twice: here, and as the table's "
                f"column {name!r}"
            )
        columns[argument] = table.column(number)
    if "values" not in columns:
        raise IllegalArgument(
            f"values has no column 'value' (of the records for topic {topic!r}), but {table.schema.names}; "
            f"columns are {known}"
        )
    return attrs.evolve(arguments, **columns)


def values_as_list(topic: str, values: Any) -> list[bytes | None]:
    """Return an Arrow column of values as bytes objects."""
    entries: list[bytes | None] = _binary("values", topic, values).cast(BINARY).to_pylist()
    return entries


def as_lists(arguments: BulkArguments, *, serializes_keys: bool, now_ms: int) -> BulkArguments:
    """Return the arguments with Arrow columns converted to lists; `values` is a list already."""
    topic, count = arguments.topic, len(arguments.values)
    keys, times = arguments.keys, arguments.timestamps_ms
    if is_arrow(keys):
        keys = (keys if serializes_keys else _binary("keys", topic, keys).cast(BINARY)).to_pylist()
    if is_arrow(times):
        times = _timestamps(topic, times, count, now_ms).tolist()
    partitions = _whole("partitions", topic, arguments.partitions)
    headers = header_lists(topic, arguments.headers)
    return attrs.evolve(arguments, keys=keys, headers=headers, partitions=partitions, timestamps_ms=times)


def read_arrow(arguments: BulkArguments, *, now_ms: int) -> list[BulkPart]:
    """Return the columns in parts of one chunk each; `values` is an Arrow array or chunked array.

    Raises:
        IllegalArgument: an argument is not what `send_many` takes.
        SerializationError: keys is a list whose entries are not bytes.
    """
    topic, keys, partitions = arguments.topic, arguments.keys, arguments.partitions
    count = len(arguments.values)
    columns = {"value": _binary("values", topic, arguments.values)}
    if keys is not None:
        if not isinstance(keys, pa.Array | pa.ChunkedArray):
            keys = pa.array(bytes_column("keys", topic, as_list("keys", topic, keys, count)), BINARY)
        columns["key"] = _binary("keys", topic, keys)
        check_length("keys", len(columns["key"]), count)
    pieces = _encoded_headers(topic, arguments.headers, count)
    numbers = (
        None if partitions is None else read_partitions(topic, _whole("partitions", topic, partitions), count)
    )
    times = (
        None
        if arguments.timestamps_ms is None
        else _timestamps(topic, arguments.timestamps_ms, count, now_ms)
    )
    table = pa.table(columns)
    if table.column(0).num_chunks > 1 and count < FEW_ROWS * table.column(0).num_chunks:
        table = table.combine_chunks()
    parts, first = [], 0
    for batch in table.to_batches():
        stop = first + batch.num_rows
        part = ArrowColumns(
            batch.column(0),
            batch.column(1) if batch.num_columns > 1 else None,
            pieces if isinstance(pieces, bytes) else pieces[first:stop],
            now_ms if times is None else times[first:stop],
        )
        parts.append(BulkPart(part, None if numbers is None else numbers[first:stop], times is None))
        first = stop
    return parts


def _binary(argument: str, topic: str, column: Any) -> Any:
    """Return the column as bytes; buffers of other types than bytes and text are copied."""
    kind = column.type
    types = pa.types
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    views = [name for name in ("is_binary_view", "is_string_view") if hasattr(types, name)]
    if types.is_null(kind) or any(getattr(types, name)(kind) for name in views):
        return column.cast(BINARY)
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if not (is_bytes or types.is_string(kind) or types.is_large_string(kind)):
        refuse(argument, kind, topic, "takes an Arrow column of binary, string, or fixed_size_binary")
    return column


def _whole(argument: str, topic: str, column: Any) -> Any:
    """Return an Arrow column of integers as a list; other columns unchanged."""
    if not isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if not pa.types.is_integer(column.type):
        refuse(argument, column.type, topic, "takes an Arrow column of whole numbers")
    return column.to_pylist()


def _timestamps(topic: str, column: Any, count: int, now_ms: int) -> Any:
    """Return the timestamps in milliseconds as a numpy array of int64."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        if not pa.types.is_integer(column.type):
            refuse(
                "timestamps_ms", column.type, topic, "takes an Arrow column of whole numbers, or timestamps"
            )
        if pa.types.is_uint64(column.type):
            column = read_timestamps(topic, column.to_pylist(), count, now_ms)
            return np.array(column, np.int64)
        column = column.cast(pa.int64()).fill_null(now_ms).to_numpy()
    elif isinstance(column, np.ndarray):
        column = column.tolist()
    if not isinstance(column, np.ndarray):
        return np.array(read_timestamps(topic, column, count, now_ms), np.int64)
    check_length("timestamps_ms", len(column), count)
    if count and column.min() < 0:
        row = int(np.argmin(column))
        refuse_row("timestamps_ms", row, int(column[row]), topic, "must be milliseconds since the epoch")
    return column


def _encoded_headers(topic: str, headers: Any, count: int) -> bytes | list[bytes] | Any:
    """Encode the headers: the same bytes for all records, or a list or Arrow array with those of each."""
    if isinstance(headers, pa.Array | pa.ChunkedArray):
        encoded = encoded_headers(headers)
        if encoded is not None:
            check_length("headers", len(encoded), count)
            return encoded
    return read_headers(topic, header_lists(topic, headers), count)[1]


def header_lists(topic: str, headers: Any) -> Any:
    """Return lists of pairs from a column of maps, or of lists of key-value structs (Spark's)."""
    if not isinstance(headers, pa.Array | pa.ChunkedArray):
        return headers
    kind, types = headers.type, pa.types
    if not (types.is_map(kind) or types.is_list(kind) or types.is_large_list(kind) or types.is_null(kind)):
        refuse(
            "headers",
            kind,
            topic,
            "takes an Arrow column of maps, or of lists of structs of a key and a value",
        )
    return [row if row is None else [_pair(entry) for entry in row] for row in headers.to_pylist()]


def _pair(entry: Any) -> Any:
    if isinstance(entry, dict) and len(entry) == 2:
        return tuple(entry.values())
    return entry
