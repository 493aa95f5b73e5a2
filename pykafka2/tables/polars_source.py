"""Scans for polars: a frame of all records, and a lazy frame whose conditions choose what is read.

Imports polars, so scan.py imports this module only if it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.driver.read_ahead import read_ahead
from pykafka2.errors import ConcurrentUse
from pykafka2.tables.bounds import OffsetRange
from pykafka2.tables.libraries import load

pl = load("polars")

if TYPE_CHECKING:
    import polars
    import pyarrow

NOTICE_SECONDS = 0.2
"""After so long without a batch, polars gets an empty frame, because it notices Ctrl-C between frames."""
COMPARISONS = {"Eq": "==", "Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<="}
FLIPPED = {"==": "==", ">": "<", ">=": "<=", "<": ">", "<=": ">="}


class Source(Protocol):
    """The members of a scan that a lazy frame uses."""

    @property
    def columns(self) -> list[str]: ...

    _ranges: list[OffsetRange]

    @property
    def consumer_options(self) -> dict[str, Any]: ...
    def schema(self) -> pyarrow.Schema: ...
    def with_fields(self, schema: pyarrow.Schema) -> Source: ...
    def _batches(self, consumer: KafkaConsumer | None) -> Generator[pyarrow.RecordBatch, None, None]: ...
    def restricted(
        self, ranges: Sequence[OffsetRange] | None = None, columns: Iterable[str] | None = None
    ) -> Source: ...


def frame_of(batches: Iterator[pyarrow.RecordBatch], schema: pyarrow.Schema) -> polars.DataFrame:
    """Return a frame of the batches, each freed as Arrow data once it is polars'."""
    frames = [_frame(batch) for batch in batches]
    if not frames:
        frames = [pl.DataFrame(schema.empty_table())]
    frame: polars.DataFrame = pl.concat(frames, rechunk=False)
    return frame


def _frame(batch: pyarrow.RecordBatch) -> polars.DataFrame:
    """Return a frame of one batch. Nulls of Arrow take 16 bytes each, those of polars share them."""
    frame: polars.DataFrame = pl.DataFrame(pl.from_arrow(batch, rechunk=False))
    empty = [
        name
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
        if column.null_count == len(column)
    ]
    return (
        frame.with_columns(pl.lit(None, frame.schema[name]).alias(name) for name in empty) if empty else frame
    )


def lazy_frame(scan: Source) -> polars.LazyFrame:
    """Return the lazy frame of a scan; see `Scan.lazy`."""
    found = scan.schema()
    scan, schema = scan.with_fields(found), pl.DataFrame(found.empty_table()).schema

    def source(
        with_columns: list[str] | None, predicate: Any, n_rows: int | None, batch_size: int | None
    ) -> Iterator[polars.DataFrame]:
        names = list(schema) if with_columns is None else with_columns
        yield from _read(scan, schema, names, predicate, n_rows)

    lazy: polars.LazyFrame = pl.io.plugins.register_io_source(source, schema=schema, is_pure=True)
    return lazy


def _read(
    scan: Source, schema: Any, names: list[str], predicate: Any, n_rows: int | None
) -> Iterator[polars.DataFrame]:
    needed = set(names) if predicate is None else {*names, *predicate.meta.root_names()}
    chosen = scan.restricted(columns=[name for name in scan.columns if name in needed])
    if predicate is not None:
        chosen = chosen.restricted(chosen_ranges(scan, predicate))
    if not needed:  # only the number of rows is needed, and a frame without a column has none
        chosen = chosen.restricted(columns=["offset"])
    waiting = pl.DataFrame(schema={one: schema[one] for one in names or ["offset"]})
    left = n_rows
    with closing(_awaited(chosen)) as batches:
        for batch in batches:
            if batch is None:
                yield waiting
                continue
            frame = pl.from_arrow(batch, rechunk=False).cast(
                {one: schema[one] for one in names if one in needed}
            )
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= len(frame)
            yield frame.select(names) if needed else frame
            if left == 0:
                return


def _awaited(scan: Source) -> Generator[pyarrow.RecordBatch | None, None, None]:
    """Yield each batch, and None while the next one takes longer.

    A thread reads, one batch ahead. At the end, the consumer is closed here, which ends a fetch that waits.
    """
    with KafkaConsumer(**scan.consumer_options) as consumer:

        def close() -> None:
            with suppress(ConcurrentUse):  # during a lookup it is closed after the thread's end
                consumer.close()

        yield from read_ahead(lambda: scan._batches(consumer), close, NOTICE_SECONDS, "pykafka2-scan")


# ---------------------------------------------------------------------------------------- conditions


@attrs.define
class Limits:
    """The offsets and the earliest time that conditions leave."""

    start: int = 0
    end: int = (1 << 63) - 1
    since_ms: int | None = None

    def add(self, column: str, operator: str, literal: int) -> None:
        """Narrow the limits by one comparison."""
        if column == "timestamp":
            if operator in ("==", ">", ">="):
                self.since_ms = literal if self.since_ms is None else max(self.since_ms, literal)
            return
        if operator in ("==", ">", ">="):
            self.start = max(self.start, literal + (operator == ">"))
        if operator in ("==", "<", "<="):
            self.end = min(self.end, literal + (operator != "<"))


def chosen_ranges(scan: Source, predicate: Any) -> list[OffsetRange]:
    """Return the ranges that can have rows for which the predicate is true."""
    ranges = scan._ranges
    limits = Limits()
    for condition in _conditions(predicate):
        columns = set(condition.meta.root_names())
        if columns and columns <= {"topic", "partition"}:
            ranges = _of_partitions(ranges, condition)
        elif (found := _comparison(condition)) is not None:
            limits.add(*found)
    ranges = [
        attrs.evolve(one, start=max(one.start, limits.start), end=min(one.end, limits.end)) for one in ranges
    ]
    ranges = [one for one in ranges if one]
    return ranges if limits.since_ms is None or not ranges else _since(scan, ranges, limits.since_ms)


def _conditions(predicate: Any) -> Iterator[Any]:
    """Yield the conditions that all must be true."""
    tree = _tree(predicate)
    if isinstance(tree, dict) and tree.get("BinaryExpr", {}).get("op") in ("And", "LogicalAnd"):
        for part in predicate.meta.pop():
            yield from _conditions(part)
    else:
        yield predicate


def _tree(expression: Any) -> Any:
    """Return an expression as polars serializes it; {} if this version of polars does not."""
    try:
        return json.loads(expression.meta.serialize(format="json"))
    except Exception:  # then nothing is pushed down, and the predicate is applied to each batch
        return {}


def _of_partitions(ranges: Iterable[OffsetRange], condition: Any) -> list[OffsetRange]:
    ranges = list(ranges)
    frame = pl.DataFrame(
        {
            "topic": [one.topic_partition.topic for one in ranges],
            "partition": [one.topic_partition.partition for one in ranges],
            "at": list(range(len(ranges))),
        },
        schema={"topic": pl.Categorical, "partition": pl.Int32, "at": pl.Int64},
    )
    return [ranges[at] for at in frame.filter(condition)["at"]]


def _comparison(condition: Any) -> tuple[str, str, int] | None:
    """Return column, operator and number of a comparison of offset or timestamp with a literal."""
    binary = _tree(condition).get("BinaryExpr", {})
    operator = COMPARISONS.get(binary.get("op"))
    if operator is None:
        return None
    right, left = condition.meta.pop()
    if not left.meta.root_names():
        left, right, operator = right, left, FLIPPED[operator]
    if (
        right.meta.root_names()
        or not left.meta.is_column()
        or left.meta.output_name() not in ("offset", "timestamp")
    ):
        return None
    name = left.meta.output_name()
    try:
        literal = pl.select(right.alias("literal")).to_series()
        if name == "timestamp":
            if literal.dtype != pl.Datetime:
                return None
            return name, operator, int(literal.dt.cast_time_unit("ms").cast(pl.Int64).item())
        return (name, operator, int(literal.item())) if literal.dtype.is_integer() else None
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        return None


def _since(scan: Source, ranges: list[OffsetRange], since_ms: int) -> list[OffsetRange]:
    """Leave out the records before the first one with this timestamp or a later one."""
    with KafkaConsumer(**scan.consumer_options) as consumer:
        found = consumer.offsets_for_times({one.topic_partition: since_ms for one in ranges})
        ids = {topic: consumer.topic_id(topic) for topic in {one.topic for one in found}}
    since = []
    for one in ranges:
        at = found[one.topic_partition]
        if ids[one.topic_partition.topic] != one.topic_id:
            since.append(one)  # of a topic that was created again: the read raises
        elif at is not None and at.offset < one.end:
            since.append(attrs.evolve(one, start=max(one.start, at.offset)))
    return since
