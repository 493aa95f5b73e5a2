"""`write`: a table or data frame as records of a topic.

Runs on the caller's thread, batch by batch, through one producer that it opens and closes. Imports pyarrow at
the call.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2 import lifecycle
from pykafka2.errors import IllegalArgument, IncompleteSend, KafkaError, RecordTooLarge, SerializationError
from pykafka2.producer.producer import KafkaProducer
from pykafka2.tables.libraries import load

if TYPE_CHECKING:
    import pyarrow

    from pykafka2.producer.bulk.delivery import BulkDelivery

ROWS_PER_CALL = 50_000
"""Rows that are encoded at a time."""


@attrs.frozen
class Written:
    """The result of `write`.

    Attributes:
        rows: the number of rows of the table.
        failures: row numbers of the table, and the error with which these rows failed.
    """

    rows: int
    failures: list[tuple[Sequence[int], KafkaError]]

    @property
    def failed(self) -> int:
        """The number of rows that failed."""
        return sum(len(rows) for rows, _ in self.failures)

    @property
    def written(self) -> int:
        """The number of rows that are in the topic."""
        return self.rows - self.failed


def write(
    data: Any,
    topic: str,
    *,
    key: str | None = None,
    value: str | Sequence[str] | None = None,
    partition: str | int | None = None,
    timestamp: str | None = None,
    headers: str | None = None,
    **options: Any,
) -> Written:
    """Write each row of a table as a record, and return the counts and the rows that failed.

    Rows keep their order within a partition. Needs pyarrow and numpy.

    Args:
        data: a pyarrow Table, RecordBatch or RecordBatchReader, a polars or pandas frame, a DuckDB relation,
            a `Scan`, or another object with Arrow's stream interface; a stream is written batch by batch.
        topic: the topic; it must exist.
        key: the column of the keys; without it 'key', if `value` is a column and there is one.
        value: the column of the values, or several columns, which become one JSON object. Without it 'value',
            if there is one, and otherwise a JSON object of all columns that have no other use.
        partition: the column of partition numbers, or the number for all; the partitioner chooses by default.
        timestamp: the column of timestamps; without it 'timestamp', as for `key`.
        headers: the column of headers, as `Scan` returns them; without it 'headers', as for `key`.
        options: the options of `KafkaProducer`, such as bootstrap_servers; without serializers.

    Bytes and text are written as they are, structs and lists as JSON, and other types, such as numbers, as
    text. NaN and infinity are null in JSON, which has neither. Rows above max_request_size are failures.

    Raises:
        ImportError: pyarrow or numpy is not installed.
        IllegalArgument: an argument is wrong, or a column does not exist.
        SerializationError: a value cannot be written as JSON.
        KafkaError: as for `KafkaProducer.send_many`, if nothing of a batch could be queued. Batches before it
            were written.
    """
    for name in ("key_serializer", "value_serializer"):
        if name in options:
            raise IllegalArgument(f"{name}: write() takes bytes, text, or columns that it writes as JSON")
    load("numpy")
    load("pyarrow")
    reader = reader_of(data)
    layout = _Layout.of(reader.schema.names, key, value, partition, timestamp, headers)
    with KafkaProducer(**options) as producer:
        return _write(producer, topic, layout, parts_of(reader))


def reader_of(data: Any) -> pyarrow.RecordBatchReader:
    """Return a reader of what `write` takes. Raise IllegalArgument for anything else."""
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        data = pa.Table.from_pandas(data, preserve_index=False)
    if hasattr(data, "collect") and not hasattr(data, "__arrow_c_stream__"):  # polars' LazyFrame
        data = data.collect()
    if hasattr(data, "__arrow_c_stream__"):
        with suppress(pa.ArrowInvalid):  # of a single column, such as a Series of polars
            return pa.RecordBatchReader.from_stream(data)
    raise IllegalArgument(
        f"data is {type(data).__name__}; give a pyarrow Table, a polars or pandas frame, a DuckDB "
        "relation, or an object with __arrow_c_stream__"
    )


def parts_of(reader: pyarrow.RecordBatchReader) -> Iterator[pyarrow.RecordBatch]:
    """Iterate over the batches in parts that are encoded at a time."""
    for batch in reader:
        for start in range(0, batch.num_rows, ROWS_PER_CALL):
            yield batch.slice(start, ROWS_PER_CALL)


@attrs.frozen
class _Layout:
    """The columns of a table by their use."""

    key: str | None
    value: str | tuple[str, ...]
    partition: str | int | None
    timestamp: str | None
    headers: str | None

    @classmethod
    def of(
        cls,
        names: list[str],
        key: str | None,
        value: str | Sequence[str] | None,
        partition: str | int | None,
        timestamp: str | None,
        headers: str | None,
    ) -> _Layout:
        if value is None and "value" in names:
            value = "value"
        if isinstance(value, str):
            key, timestamp, headers = (
                default if one is None and default in names else one
                for one, default in ((key, "key"), (timestamp, "timestamp"), (headers, "headers"))
            )
        used = [one for one in (key, partition, timestamp, headers) if isinstance(one, str)]
        if value is None:
            value = [name for name in names if name not in used]
        chosen = [value] if isinstance(value, str) else list(value)
        missing = [one for one in (*used, *chosen) if one not in names]
        twice = [one for one in (*used, *chosen) if names.count(one) > 1]
        if twice:
            raise IllegalArgument(f"the table has two columns {twice[0]!r}; rename one")
        if missing:
            raise IllegalArgument(f"the table has no column {missing[0]!r}, but {', '.join(names)}")
        if not chosen:
            raise IllegalArgument("no column is left for the values; set value= to a column, or to several")
        return cls(key, value if isinstance(value, str) else tuple(chosen), partition, timestamp, headers)

    def arguments(self, batch: pyarrow.RecordBatch) -> dict[str, Any]:
        """Return the arguments of `send_many`."""
        values = (
            _encoded(self.value, batch.column(self.value))
            if isinstance(self.value, str)
            else _json(" and ".join(self.value), batch.select(list(self.value)).to_pylist())
        )
        columns = {
            "keys": None if self.key is None else _encoded(self.key, batch.column(self.key)),
            "timestamps_ms": None if self.timestamp is None else batch.column(self.timestamp),
            "headers": None if self.headers is None else batch.column(self.headers),
            "partitions": batch.column(self.partition) if isinstance(self.partition, str) else None,
            "partition": None if isinstance(self.partition, str) else self.partition,
        }
        if columns["partitions"] is not None and hasattr(columns["partitions"], "dictionary_decode"):
            columns["partitions"] = columns["partitions"].dictionary_decode()
        return {"values": values, **{name: one for name, one in columns.items() if one is not None}}


def _encoded(name: str, column: pyarrow.Array) -> pyarrow.Array:
    """Return the column as bytes or text."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        values = _encoded(name, column.dictionary)  # Arrow takes no views, such as polars' categories
        column = pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()
        kind = column.type
    if pa.types.is_nested(kind):
        return _json(name, column.to_pylist())
    is_bytes = any(
        getattr(pa.types, test)(kind)
        for test in ("is_binary", "is_large_binary", "is_fixed_size_binary", "is_string", "is_large_string")
    )
    views = {"binary_view": pa.binary(), "string_view": pa.string(), "null": pa.binary()}
    if str(kind) in views:
        return column.cast(views[str(kind)])
    return column if is_bytes else column.cast(pa.string())


def _json(name: str, rows: list[Any]) -> pyarrow.Array:
    import pyarrow as pa

    encoder = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=_plain)
    found: list[str | None] = []
    for number, row in enumerate(rows):
        try:
            found.append(None if row is None else encoder.encode(row))
        except ValueError:  # NaN or infinity
            found.append(encoder.encode(_finite(row)))
        except TypeError as error:
            raise SerializationError(
                f"{name} of row {number} of a batch cannot be written as JSON: {error}"
            ) from error
    return pa.array(found, pa.string())


def _finite(value: Any) -> Any:
    """Return the value with null for numbers that JSON does not have, as pandas and polars write it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value


def _plain(value: Any) -> Any:
    """Return dates and times as ISO 8601, decimals and UUIDs as text."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if type(value).__name__ in ("Decimal", "UUID", "timedelta"):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON; cast the column, for example bytes to text")


def _write(
    producer: KafkaProducer, topic: str, layout: _Layout, parts: Iterator[pyarrow.RecordBatch]
) -> Written:
    failures: list[tuple[Sequence[int], KafkaError]] = []
    sent: list[tuple[int, BulkDelivery]] = []
    rows = 0
    with lifecycle.loading:
        import pykafka2.producer.bulk.arrow  # noqa: F401  (before the first call, whose time is limited)
    for part in parts:
        try:
            sent += _sent(producer, topic, layout.arguments(part), rows, failures)
        except KafkaError as error:
            last = rows + part.num_rows - 1
            error.add_note(f"in rows {rows:,} to {last:,} of the table; the rows before them were sent")
            raise
        rows += part.num_rows
        while sent and sent[0][1].done():
            _settle(*sent.pop(0), failures)
    for first, delivery in sent:
        _settle(first, delivery, failures)
    return Written(rows, failures)


def _sent(
    producer: KafkaProducer,
    topic: str,
    columns: dict[str, Any],
    first: int,
    failures: list[tuple[Sequence[int], KafkaError]],
) -> Iterator[tuple[int, BulkDelivery]]:
    """Send rows, of which `first` is the number of the first one; those that are too large are failures."""

    def part_of(start: int, stop: int) -> dict[str, Any]:
        return {
            name: one.slice(start, stop - start) if hasattr(one, "slice") else one
            for name, one in columns.items()
        }

    while len(columns["values"]):
        try:
            yield first, producer.send_many(topic, **columns)
            return
        except IncompleteSend as error:
            yield first, error.delivery
            cause = error.__cause__
            failures.append((_shifted(error.left, first), cause if isinstance(cause, KafkaError) else error))
            return
        except RecordTooLarge as error:
            if error.row is None:
                raise
            row = error.row
            error.add_note(f"row {first + row:,} of the table")
            failures.append((range(first + row, first + row + 1), error))
        yield from _sent(producer, topic, part_of(0, row), first, failures)
        columns, first = part_of(row + 1, len(columns["values"])), first + row + 1


def _settle(first: int, delivery: BulkDelivery, failures: list[tuple[Sequence[int], KafkaError]]) -> None:
    failures += [(_shifted(rows, first), error) for rows, error in delivery.failures()]


def _shifted(rows: Sequence[int], first: int) -> Sequence[int]:
    """Return row numbers of the table for those of a batch."""
    if isinstance(rows, range):
        return range(rows.start + first, rows.stop + first, rows.step)
    return [row + first for row in rows]
