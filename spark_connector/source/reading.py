"""What one task does: a range of offsets of one partition as Arrow's record batches.

Runs in Spark's Python workers.  Neighbour: connections.py keeps the consumer from task to task.
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
from spark_connector.source.losses import tell
from spark_connector.source.ranges import OffsetRange

ROWS_PER_BATCH = 10_000
"""As Spark's own default; more at once is slower."""

FETCH_BYTES = 2 << 20
"""What is asked for at a time, where the option kafka.max.partition.fetch.bytes does not say.  A task reads
one partition alone, and with twice Kafka's default it takes a third less processor time for a row."""


@attrs.define
class RangeTask:
    """Reads ranges for one query; travels to the workers.  Holds no connection."""

    _options: SourceOptions
    _columns: tuple[str, ...]

    def read(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        partition = TopicPartition(wanted.topic, wanted.partition)
        shape = _Shape(self._columns, partition)
        for columns in self._pieces(partition, wanted.start, wanted.end):
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
                self._tell(str(error))  # what was written there instead is read from here on
            except OffsetOutOfRange:
                start = self._after_loss(consumer, partition, start, end)
            except UnknownTopicOrPartition as error:
                self._tell(f"{partition.topic}-{partition.partition} is gone ({error})")
                return
            except KafkaTimeoutError as error:
                raise KafkaTimeoutError(f"{error} (kafkaConsumer.pollTimeoutMs)") from None

    def _after_loss(self, consumer: KafkaConsumer, partition: TopicPartition, start: int, end: int) -> int:
        """Where to go on: at what is left, or at the end."""
        first = consumer.beginning_offsets([partition])[partition]
        if first <= start:  # behind the end of the log: it was cut, or made anew
            self._tell(f"{partition.topic}-{partition.partition} ends before offset {start}")
            return end
        self._tell(
            f"{partition.topic}-{partition.partition}: offsets {start} to {min(first, end) - 1} are gone"
        )
        return min(first, end)

    def _tell(self, what: str) -> None:
        tell(what, fails=self._options.fail_on_data_loss)

    def _consumer_options(self) -> dict[str, str]:
        return {**self._options.kafka, "default.api.timeout.ms": self._options.task_timeout_ms}


class _Shape:
    """Makes Spark's columns of pykafka2's."""

    def __init__(self, names: Sequence[str], partition: TopicPartition) -> None:
        self._schema = arrow_schema(names)
        self._partition = partition
        self._repeated: dict[tuple[str, object], pa.Array] = {}

    def batches(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        types, done = self._types_of(columns), 0
        for batch in columns.to_arrow().to_batches(max_chunksize=ROWS_PER_BATCH):
            count = batch.num_rows
            given = {
                "topic": self._constant("topic", self._partition.topic, count),
                "partition": self._constant("partition", self._partition.partition, count),
                "timestampType": types.slice(done, count),
            }
            try:
                arrays = [
                    given[field.name] if field.name in given else _as(field.type, batch.column(field.name))
                    for field in self._schema
                ]
            except pa.ArrowInvalid as error:
                raise self._unreadable(batch.column("offset"), error) from None
            done += count
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _unreadable(self, offsets: pa.Array, error: pa.ArrowInvalid) -> SparkConnectorError:
        """Producers may write times that Spark's microseconds cannot hold."""
        return SparkConnectorError(
            f"{self._partition.topic}-{self._partition.partition}: a record of offsets {offsets[0]} to "
            f"{offsets[-1]} has what a column cannot hold ({error}); with the option columns, which leaves "
            "that column out, they can be read"
        )

    def _types_of(self, columns: Columns) -> pa.Array:
        """Of timestamps, mostly one for all."""
        if columns.timestamp_type is not None:
            return self._constant("timestampType", columns.timestamp_type, len(columns))
        return pa.array(columns.timestamp_types, pa.int32())

    def _constant(self, name: str, value: object, count: int) -> pa.Array:
        """Most batches are of one length, and those alike can be slices of one array."""
        known = self._repeated.get((name, value))
        if known is None or len(known) < count:
            one = pa.scalar(value, ARROW_TYPES[name])
            known = self._repeated[name, value] = pa.repeat(one, max(count, 1))
        return known.slice(0, count)


def _as(kind: pa.DataType, column: pa.Array) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
