"""Reads a range of offsets of one partition as Arrow record batches: the work of one task.

Runs in Spark's Python workers.  Neighbor: connections.py keeps the consumer from task to task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa

from pykafka2 import Columns, KafkaConsumer, TopicPartition
from pykafka2.errors import KafkaTimeoutError, LogTruncated, OffsetOutOfRange, UnknownTopicOrPartition
from spark_connector import connections
from spark_connector.errors import SparkConnectorError
from spark_connector.options.source_options import SourceOptions
from spark_connector.source.arrow import ARROW_TYPES, arrow_schema
from spark_connector.source.losses import report_loss
from spark_connector.source.ranges import OffsetRange

ROWS_PER_BATCH = 10_000
"""Spark's own default; larger batches are slower."""

FETCH_BYTES = 2 << 20
"""Bytes per fetch, unless kafka.max.partition.fetch.bytes is set.  A task reads a single partition, and
twice Kafka's default takes a third less CPU time per row."""


@attrs.define
class RangeTask:
    """Reads ranges for one query; copied to the workers.  Holds no connection."""

    _options: SourceOptions
    _columns: tuple[str, ...]

    def read(self, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
        partition = TopicPartition(offset_range.topic, offset_range.partition)
        shape = _Shape(self._columns, partition)
        for columns in self._pieces(partition, offset_range.start, offset_range.end):
            yield from shape.batches(columns)

    # ------------------------------------------------------------------ inside

    def _pieces(self, partition: TopicPartition, start: int, end: int) -> Iterator[Columns]:
        consumer = connections.consumer(self._consumer_options())
        max_bytes = int(self._options.kafka.get("max.partition.fetch.bytes", FETCH_BYTES))
        isolation = self._options.isolation_level
        while start < end:
            try:
                for piece in consumer.read_range(
                    partition, start, end, isolation=isolation, max_bytes=max_bytes
                ):
                    start = piece.last_offset + 1
                    yield piece
                return
            except LogTruncated as error:
                self._report_loss(str(error))  # continues with the records written after the truncation
            except OffsetOutOfRange:
                start = self._after_loss(consumer, partition, start, end)
            except UnknownTopicOrPartition as error:
                self._report_loss(f"{partition.topic}-{partition.partition} was deleted ({error})")
                return
            except KafkaTimeoutError as error:
                raise KafkaTimeoutError(f"{error} (kafkaConsumer.pollTimeoutMs)") from None

    def _after_loss(self, consumer: KafkaConsumer, partition: TopicPartition, start: int, end: int) -> int:
        """Return where to continue: at the first remaining offset, or at the end."""
        first = consumer.beginning_offsets([partition])[partition]
        if first <= start:  # after the end of the log: truncated or recreated
            self._report_loss(f"{partition.topic}-{partition.partition} ends before offset {start}")
            return end
        self._report_loss(
            f"{partition.topic}-{partition.partition}: offsets {start} to {min(first, end) - 1} were deleted"
        )
        return min(first, end)

    def _report_loss(self, what: str) -> None:
        report_loss(what, fails=self._options.fail_on_data_loss)

    def _consumer_options(self) -> dict[str, str]:
        return {**self._options.kafka, "default.api.timeout.ms": self._options.task_timeout_ms}


class _Shape:
    """Converts pykafka2's columns to Spark's."""

    def __init__(self, names: Sequence[str], partition: TopicPartition) -> None:
        self._schema = arrow_schema(names)
        # Offsets are in messages about rows; the columns left out here are made once for a task.
        self._decoded = ["offset", *({"timestamp", "key", "value", "headers"}.intersection(names))]
        self._partition = partition
        self._repeated: dict[tuple[str, object], pa.Array] = {}

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        types, done = self._types_of(columns), 0
        table = columns.to_arrow(self._decoded)
        for batch in table.to_batches(max_chunksize=ROWS_PER_BATCH):
            count = batch.num_rows
            known_arrays = {
                "topic": self._constant("topic", self._partition.topic, count),
                "partition": self._constant("partition", self._partition.partition, count),
                "timestampType": types.slice(done, count),
            }
            try:
                arrays = [
                    known_arrays[field.name]
                    if field.name in known_arrays
                    else _as(field.type, batch.column(field.name))
                    for field in self._schema
                ]
            except pa.ArrowInvalid as error:
                raise self._unreadable(batch.column("offset"), error) from None
            done += count
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _unreadable(self, offsets: pa.Array, error: pa.ArrowInvalid) -> SparkConnectorError:
        """Return the error for timestamps that Spark's microseconds cannot hold."""
        return SparkConnectorError(
            f"{self._partition.topic}-{self._partition.partition}: a record between offsets {offsets[0]} and "
            f"{offsets[-1]} has a value that its column cannot hold ({error}). Set the option columns "
            "without "
            "that column to read the records."
        )

    def _types_of(self, columns: Columns) -> pa.Array:
        """Return the timestamp types, which are mostly one constant."""
        if columns.timestamp_type is not None:
            return self._constant("timestampType", columns.timestamp_type, len(columns))
        return pa.array(columns.timestamp_types, pa.int32())

    def _constant(self, name: str, value: object, count: int) -> pa.Array:
        """Return a constant column: a slice of one array, as most batches have the same length."""
        repeated = self._repeated.get((name, value))
        if repeated is None or len(repeated) < count:
            scalar = pa.scalar(value, ARROW_TYPES[name])
            repeated = self._repeated[name, value] = pa.repeat(scalar, max(count, 1))
        return repeated.slice(0, count)


def _as(kind: pa.DataType, column: pa.Array) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
