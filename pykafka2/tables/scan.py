"""`scan`: a bounded part of topics as a table, for Arrow, polars, DuckDB, pandas and Parquet.

A scan looks up its bounds at the call and closes its connections. Each read opens a consumer of its own, in
the generator that reads, and closes it when the generator ends, whether by an error, by Ctrl-C or because
the rest is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext
from html import escape
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2 import lifecycle
from pykafka2.clock import SystemClock
from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.errors import IllegalArgument
from pykafka2.tables.bounds import Bound, Last, OffsetRange, partitions_of, position_of, resolve
from pykafka2.tables.libraries import load
from pykafka2.tables.progress import progress_bar
from pykafka2.tables.reader import Order, arriving, limits_of, pieces_of
from pykafka2.text import counted
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

    from pykafka2.tables.arrow import BatchMaker, Decoding

DEFAULT_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value")
DEFAULT_BYTES_IN_FLIGHT = 64 << 20
FIELDS_BYTES = 16 << 20
"""Size of the batches in which the fields of JSON are found for a stream, which needs its schema first."""
SAMPLED_PARTITIONS = 3
SAMPLE_BYTES = 64 << 10


@attrs.frozen
class Estimate:
    """How much a scan reads at most.

    Attributes:
        rows: the offsets between the bounds; compacted topics and transactions have fewer records.
        bytes: the size of the batches as they are fetched, which can be compressed; extrapolated from the
            first batches of the largest partitions.
        partitions: the partitions with offsets to read.
    """

    rows: int
    bytes: int
    partitions: int


@attrs.frozen
class Reading:
    """How a scan reads: the arguments of `scan` that are not bounds."""

    columns: tuple[str, ...]
    decodings: tuple[Decoding, ...]
    order: Order
    max_bytes_in_flight: int
    progress: bool | None
    options: dict[str, Any] = attrs.field(repr=False)


def scan(
    topics: str | Iterable[str],
    *,
    start: Bound = "earliest",
    end: Bound = "now",
    last: int | None = None,
    last_per_partition: int | None = None,
    partitions: Iterable[int] | None = None,
    columns: Iterable[str] = DEFAULT_COLUMNS,
    key: Any = None,
    value: Any = None,
    key_schema: Any = None,
    value_schema: Any = None,
    order: Order = "arrival",
    max_bytes_in_flight: int = DEFAULT_BYTES_IN_FLIGHT,
    progress: bool | None = None,
    **options: Any,
) -> Scan:
    """Return a bounded part of topics as a table that is read when it is used, once for each use.

    The bounds are looked up now, so records that arrive later are not read. Needs pyarrow and numpy.

    Args:
        topics: a topic, or several.
        start: the first record: an offset, 'earliest', a time before now such as '-10m' (s, m, h, d), a time
            as ISO 8601, a datetime, or a dict of TopicPartition and offset. A time is the first record of
            each partition that has this timestamp or a later one. Offsets that are no longer in the log are
            left out.
        end: where to end, exclusive, like `start`; 'now' and 'latest' are the end of each partition.
        last: only the newest records between the bounds, so many over all partitions, by timestamp.
        last_per_partition: only so many of the last records of each partition.
        partitions: the numbers of the partitions; all by default.
        columns: of topic, partition, offset, timestamp, timestampType, key, value and headers, in any order.
        key, value: how keys and values are decoded: None (bytes), 'text', 'json' (an Arrow struct), or a
            deserializer, which needs `key_schema` or `value_schema`. Nulls stay null.
        key_schema, value_schema: the Arrow type that a deserializer returns; with 'json' the fields, as a
            pyarrow.Schema, in place of those that the records turn out to have.
        order: 'arrival' (each partition in the order of its offsets, partitions in turn) or 'timestamp'
            (merged over all partitions; each keeps the order of its offsets).
        max_bytes_in_flight: the maximum size of the fetched batches that wait to be converted, over all
            partitions; a batch of a producer that is larger than its share is fetched whole.
        progress: whether a progress bar is shown; by default in a terminal and in a notebook.
        options: the options of `KafkaConsumer`, such as bootstrap_servers; isolation_level is
            'read_committed' unless it is set.

    Raises:
        ImportError: pyarrow or numpy is not installed.
        IllegalArgument: an argument is wrong.
        UnknownTopicOrPartition: a topic or partition does not exist.
        KafkaTimeoutError: a partition has no leader, or no broker responded, within default_api_timeout_ms.
    """
    names = [topics] if isinstance(topics, str) else list(dict.fromkeys(_listed("topics", topics, "names")))
    if partitions is not None:
        partitions = _listed("partitions", partitions, "numbers")
    now_ms = SystemClock().wall_ms()
    first, stop = position_of("start", start, now_ms), position_of("end", end, now_ms)
    reading = _reading(
        columns, (key, value, key_schema, value_schema), order, max_bytes_in_flight, progress, options
    )
    newest = _last(last, last_per_partition)
    with KafkaConsumer(**reading.options) as consumer:
        found = partitions_of(consumer, names, partitions)
        return Scan(resolve(consumer, found, first, stop, newest), reading)


def _listed(name: str, entries: Any, kind: str) -> list[Any]:
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        raise IllegalArgument(f"{name}={entries!r}: use a list of {kind}")
    return list(entries)


def _last(last: int | None, last_per_partition: int | None) -> Last | None:
    if last is not None and last_per_partition is not None:
        raise IllegalArgument("last and last_per_partition are both set; give one of them")
    for name, count in (("last", last), ("last_per_partition", last_per_partition)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise IllegalArgument(f"{name}={count!r} must be a number of records, at least 1")
    count = last if last is not None else last_per_partition
    return None if count is None else Last(count, last is None)


def _reading(
    columns: Iterable[str],
    decoded: tuple[Any, Any, Any, Any],
    order: Any,
    max_bytes_in_flight: int,
    progress: bool | None,
    options: dict[str, Any],
) -> Reading:
    with lifecycle.loading:
        load("numpy")
        load("pyarrow")
        from pykafka2.records.arrow_columns import checked_names
        from pykafka2.tables.arrow import Decoding
    if order not in ("arrival", "timestamp"):
        raise IllegalArgument(f"order={order!r}: use 'arrival' or 'timestamp'")
    if (
        isinstance(max_bytes_in_flight, bool)
        or not isinstance(max_bytes_in_flight, int)
        or max_bytes_in_flight < 1
    ):
        raise IllegalArgument(f"max_bytes_in_flight={max_bytes_in_flight!r} must be a number of bytes")
    for name in ("key_deserializer", "value_deserializer"):
        if name in options:
            raise IllegalArgument(
                f"{name}: a scan takes {name.split('_')[0]}=, with the Arrow type of its results"
            )
    key, value, key_schema, value_schema = decoded
    decodings = (Decoding("key", key, key_schema), Decoding("value", value, value_schema))
    for one in decodings:
        one.start()  # wrong arguments are errors of the call, not of the first read
    chosen = tuple(checked_names(columns))
    if not chosen:
        raise IllegalArgument("columns is empty; a table without columns has no rows")
    return Reading(
        chosen,
        decodings,
        order,
        max_bytes_in_flight,
        progress,
        {"isolation_level": "read_committed", "allow_auto_create_topics": False, **options},
    )


class Scan:
    """A bounded part of topics; see `pykafka2.scan`. It holds no connection, and each use reads it again.

    It is an Arrow stream (`__arrow_c_stream__`), so libraries take it where they take a table:
    `polars.DataFrame(scan)`, `pyarrow.table(scan)`, `duckdb.sql("select count(*) from scan")`.
    """

    def __init__(self, ranges: Sequence[OffsetRange], reading: Reading) -> None:
        self._ranges = list(ranges)
        self._reading = reading

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._reading.columns)

    @property
    def offsets(self) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset and the end of each partition, fixed when the scan was made."""
        return {one.topic_partition: (one.start, one.end) for one in self._ranges}

    @property
    def consumer_options(self) -> dict[str, Any]:
        """A copy of the options of the consumer that reads."""
        return dict(self._reading.options)

    def schema(self) -> pyarrow.Schema:
        """Return the Arrow schema. For JSON without a schema it reads the first records (about 16 MiB)."""
        if not self._finds_fields:
            return self._maker().schema
        batches = self.batches()
        try:
            return self._sampled(batches)[1]
        finally:
            batches.close()  # type: ignore[attr-defined]

    def with_fields(self, schema: pyarrow.Schema) -> Scan:
        """Return the scan with the fields of JSON that `schema` returned; other fields become errors."""
        decodings = tuple(
            attrs.evolve(one, schema=schema.field(one.column).type, is_found=True)
            if one.finds_fields and one.column in self._reading.columns
            else one
            for one in self._reading.decodings
        )
        return Scan(self._ranges, attrs.evolve(self._reading, decodings=decodings))

    def _sampled(self, batches: Iterator[Any]) -> tuple[list[Any], Any]:
        """Return the first batches, and the schema with all of their fields."""
        found: list[Any] = []
        size = 0
        for batch in batches:
            found.append(batch)
            size += batch.nbytes
            if size >= FIELDS_BYTES:
                break
        return found, found[-1].schema if found else self._maker().schema  # fields are only added

    def restricted(
        self, ranges: Sequence[OffsetRange] | None = None, columns: Iterable[str] | None = None
    ) -> Scan:
        """Return the scan of other ranges, or with other columns."""
        reading = self._reading
        if columns is not None:
            reading = attrs.evolve(reading, columns=tuple(columns))
        return Scan(self._ranges if ranges is None else ranges, reading)

    # ------------------------------------------------------------------ reading

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """Iterate over record batches of about 2 MiB; ending the iteration early closes its connections.

        With value='json' and no schema, later batches can have more fields than earlier ones.

        Raises:
            UnknownTopicOrPartition: a topic was deleted, or deleted and created again.
            OffsetOutOfRange: the log was truncated below records that were returned. Records that retention
                deletes meanwhile are left out, which logs a warning.
            SerializationError: a key or value cannot be decoded.
            KafkaError: as for `KafkaConsumer.read_range`.
        """
        return self._batches(None)

    def _batches(self, consumer: KafkaConsumer | None) -> Generator[pyarrow.RecordBatch, None, None]:
        """Return the batches that `consumer` reads, which is left open; None opens one."""
        with lifecycle.loading:
            from pykafka2.tables.arrow import joined
        return joined(self._read(consumer))

    def _read(self, own: KafkaConsumer | None) -> Iterator[pyarrow.RecordBatch]:
        if not any(self._ranges):
            return
        with (
            KafkaConsumer(**self._reading.options) if own is None else nullcontext(own) as consumer,
            progress_bar(self._reading.progress, sum(map(len, self._ranges)), self._topics()) as advance,
        ):
            ranges = [one for one in self._ranges if one]
            if self._reading.order == "timestamp" and len(ranges) > 1:
                yield from self._merged(consumer, ranges, advance)
                return
            maker = self._maker()
            limits = limits_of(len(ranges), "arrival", self._reading.max_bytes_in_flight)
            for piece in arriving(consumer, ranges, limits):
                advance(len(piece))
                yield from maker.batches(piece)

    def _merged(
        self, consumer: KafkaConsumer, ranges: list[OffsetRange], advance: Any
    ) -> Iterator[pyarrow.RecordBatch]:
        from pykafka2.tables.merge import merged

        names = self.columns
        maker = self._maker(names if "timestamp" in names else [*names, "timestamp"])
        limits = limits_of(len(ranges), "timestamp", self._reading.max_bytes_in_flight)

        def batches(pieces: Iterator[Any]) -> Iterator[pyarrow.RecordBatch]:
            for piece in pieces:
                advance(len(piece))
                yield from maker.batches(piece)

        pieces = [pieces_of(consumer, one, limits.fetch_bytes) for one in ranges]
        try:
            for batch in merged(batches(one) for one in pieces):
                yield batch.select(names)
        finally:
            for one in pieces:
                one.close()  # type: ignore[attr-defined]

    def reader(self) -> pyarrow.RecordBatchReader:
        """Return a reader of the batches, all with one schema; nothing is read before its first batch.

        For JSON without a schema the fields are those of the first records (about 16 MiB), which are read
        now. A later field is an error that names it: pass `value_schema` to read it, or use `to_arrow`, which
        has no schema in advance.
        """
        import pyarrow

        with lifecycle.loading:
            from pykafka2.tables.arrow import widened
        if not self._finds_fields:
            return pyarrow.RecordBatchReader.from_batches(self._maker().schema, self.batches())
        batches = self.batches()
        try:
            first, schema = self._sampled(batches)
        except BaseException:
            batches.close()  # type: ignore[attr-defined]
            raise

        def alike() -> Iterator[pyarrow.RecordBatch]:
            try:
                first.reverse()
                while first:
                    yield widened(first.pop(), schema)
                for batch in batches:
                    yield _narrowed(batch, schema, widened)
            finally:
                batches.close()  # type: ignore[attr-defined]

        return pyarrow.RecordBatchReader.from_batches(schema, alike())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the scan to other libraries (the Arrow PyCapsule interface)."""
        return self.reader().__arrow_c_stream__(requested_schema)

    # ------------------------------------------------------------------ libraries

    def to_arrow(self) -> pyarrow.Table:
        """Return a pyarrow.Table."""
        return self.table_of(list(self.batches()))

    def table_of(self, batches: list[pyarrow.RecordBatch]) -> pyarrow.Table:
        """Return a table of all batches of one read."""
        import pyarrow

        with lifecycle.loading:
            from pykafka2.tables.arrow import widened
        schema = batches[-1].schema if batches else self._maker().schema  # fields are only added
        return pyarrow.Table.from_batches([widened(one, schema) for one in batches], schema)

    def to_polars(self) -> polars.DataFrame:
        """Return a polars.DataFrame. Arrow's buffers become polars' without a copy of keys and values.

        Raises:
            ImportError: polars is not installed.
        """
        from pykafka2.tables.polars_source import frame_of

        if self._finds_fields:
            return frame_of(iter(self.to_arrow().to_batches()), self._maker().schema)
        return frame_of(self.batches(), self._maker().schema)

    def lazy(self) -> polars.LazyFrame:
        """Return a polars.LazyFrame that reads only the columns, partitions and offsets that a query needs.

        Conditions on topic and partition choose partitions, and those on offset and lower bounds of timestamp
        choose offsets; the rest of a condition is applied to each batch. Upper bounds of timestamp are such a
        rest, because later records can have earlier timestamps.

        Raises:
            ImportError: polars is not installed.
        """
        from pykafka2.tables.polars_source import lazy_frame

        return lazy_frame(self)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Return a pandas.DataFrame; `options` are those of `pyarrow.Table.to_pandas`.

        Raises:
            ImportError: pandas is not installed.
        """
        load("pandas")
        return self.to_arrow().to_pandas(**{"self_destruct": True, "split_blocks": True, **options})

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation, which reads the scan each time that it is executed, batch by batch.

        `connection` is DuckDB's default connection if it is None.

        Raises:
            ImportError: duckdb is not installed.
        """
        module = load("duckdb")
        relation: duckdb.DuckDBPyRelation = (connection or module.default_connection()).from_arrow(self)
        return relation

    def to_parquet(self, path: str | os.PathLike[str], **options: Any) -> int:
        """Write a Parquet file batch by batch, and return the number of rows.

        The file appears under its name when it is complete. `options` are those of
        `pyarrow.parquet.ParquetWriter`; the compression is zstd by default.
        """
        from pykafka2.tables.parquet import write_parquet

        return write_parquet(self.reader(), os.fspath(path), options)

    # ------------------------------------------------------------------ description

    def estimate(self) -> Estimate:
        """Return how many rows and bytes the scan reads at most, extrapolated from some batches."""
        ranges = sorted((one for one in self._ranges if one), key=len, reverse=True)
        rows, sampled_bytes, sampled_rows = sum(map(len, ranges)), 0, 0
        if not ranges:
            return Estimate(0, 0, 0)
        with KafkaConsumer(**self._reading.options) as consumer:
            for one in ranges[:SAMPLED_PARTITIONS]:
                pieces = pieces_of(consumer, one, SAMPLE_BYTES)
                piece = next(pieces, None)
                pieces.close()  # type: ignore[attr-defined]
                if piece is not None:
                    sampled_bytes += piece.size_bytes
                    sampled_rows += piece.last_offset + 1 - max(one.start, piece.offsets[0])
        return Estimate(rows, round(rows * sampled_bytes / max(sampled_rows, 1)), len(ranges))

    def __repr__(self) -> str:
        rows = sum(map(len, self._ranges))
        return (
            f"<Scan of {', '.join(self._topics())}: {counted(len(self._ranges), 'partition')}, up to "
            f"{rows:,} rows, columns {', '.join(self._reading.columns)}>"
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the offsets of each partition. Sends no request."""
        shown = self._ranges[:20]
        rows = "".join(
            f"<tr><td>{escape(one.topic_partition.topic)}</td><td>{one.topic_partition.partition}</td>"
            f"<td>{one.start:,}</td><td>{one.end:,}</td><td>{len(one):,}</td></tr>"
            for one in shown
        )
        left = len(self._ranges) - len(shown)
        more = f"<p>and {counted(left, 'more partition')}</p>" if left else ""
        head = "".join(f"<th>{one}</th>" for one in ("topic", "partition", "start", "end", "rows at most"))
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        return f"<p>{escape(repr(self))}</p>{table}{more}"

    # ------------------------------------------------------------------ inside

    @property
    def _finds_fields(self) -> bool:
        return any(
            one.finds_fields and one.column in self._reading.columns for one in self._reading.decodings
        )

    def _topics(self) -> list[str]:
        return list(dict.fromkeys(one.topic_partition.topic for one in self._ranges))

    def _maker(self, names: Sequence[str] | None = None) -> BatchMaker:
        with lifecycle.loading:
            from pykafka2.tables.arrow import BatchMaker
        return BatchMaker(
            [one.topic_partition for one in self._ranges],
            self._reading.columns if names is None else names,
            self._reading.decodings,
        )


def _narrowed(batch: Any, schema: Any, widened: Any) -> Any:
    """Return the batch with this schema, or raise if it has more fields."""
    from pykafka2.errors import SerializationError

    for field, wanted in zip(batch.schema, schema, strict=True):
        if not field.type.equals(wanted.type):
            raise SerializationError(
                f"{field.name} has fields or types that its first records did not have: {field.type} in "
                f"place of {wanted.type}. Pass {field.name}_schema, or use to_arrow() or to_polars()"
            )
    return widened(batch, schema)
