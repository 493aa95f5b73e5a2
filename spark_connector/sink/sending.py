"""Sends a task's Arrow batches through a producer, one `send_many` call per topic.

Used on a task's thread, in a worker. An invalid row is found before any row of its Arrow batch is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pykafka2 import KafkaProducer
from spark_connector.errors import WrongRow
from spark_connector.sink.clients import discard, kept_producer
from spark_connector.sink.exactly_once import crash_points as steps
from spark_connector.sink.exactly_once.crash_points import Step
from spark_connector.sink.exactly_once.messages import Written

if TYPE_CHECKING:
    import pyarrow as pa

    from pykafka2 import BulkDelivery
    from spark_connector.options.sink_options import SinkOptions


@attrs.define
class Sending:
    """Rows of one task that are being sent.  `rows` counts them."""

    _producer: KafkaProducer
    _topic: str | None
    rows: int = 0
    _counts: dict[str, int] = attrs.field(factory=dict, init=False)
    _under_way: deque[BulkDelivery] = attrs.field(factory=deque, init=False)

    def send(self, batch: pa.RecordBatch) -> None:
        """Hand a batch to the producer.

        Raises:
            WrongRow: a row cannot be written; no row of the batch was sent.
            KafkaError: an earlier row could not be written, or the producer cannot accept this batch.
        """
        for rows in RowSplitter(self._topic, self._partition_count).split(batch):
            self._under_way.append(self._producer.send_many(rows.topic, **rows.columns))
        self.rows += batch.num_rows
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft().result(0)

    def finish(self) -> None:
        """Wait until all rows are written; raise the first error."""
        self._producer.flush()
        while self._under_way:
            self._under_way.popleft().result()

    def _partition_count(self, topic: str) -> int:
        if topic not in self._counts:
            self._counts[topic] = len(self._producer.partitions_for(topic))
        return self._counts[topic]


def write_at_least_once(options: SinkOptions, batches: Iterable[pa.RecordBatch], partition: int) -> Written:
    """Write a task's rows with this process's idempotent producer."""
    producer = kept_producer(options.kafka)
    sending = Sending(producer, options.topic)
    try:
        for batch in batches:
            sending.send(batch)
        sending.finish()
    except BaseException:
        discard(producer)
        raise
    steps.reach(Step.AFTER_FLUSH, topic=options.topic)
    return Written(partition, sending.rows)


_ARGUMENTS = {
    "value": "values",
    "key": "keys",
    "headers": "headers",
    "partition": "partitions",
    "timestamp": "timestamps_ms",
}
"""Arguments of `send_many`, by column."""


@attrs.define(frozen=True)
class TopicRows:
    """Rows for one topic: `columns` are the keyword arguments of `send_many`, including `values`."""

    topic: str
    columns: dict[str, Any]


@attrs.define
class RowSplitter:
    """Splits batches by topic.  `topic` is the option, which overrides the column."""

    _topic: str | None
    _partition_count: Callable[[str], int]
    """Returns the number of partitions of a topic; called only for rows with a partition."""

    def split(self, batch: pa.RecordBatch) -> list[TopicRows]:
        """Return the rows of each topic, in order.

        Raises:
            WrongRow: a row has no topic, or an illegal partition, timestamp or header.
        """
        if not batch.num_rows:
            return []
        columns = {name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)}
        if self._topic is None and columns["topic"].null_count:
            _refuse("topic", columns["topic"].is_null(), "is null, and the option topic is not set")
        _check_values(columns)
        arguments = {argument: columns[name] for name, argument in _ARGUMENTS.items() if name in columns}
        found: list[TopicRows] = []
        for name, mask in self._topics(columns):
            self._check_partitions(name, columns.get("partition"), mask)
            chosen = (
                arguments
                if mask is None
                else {keyword: column.filter(mask) for keyword, column in arguments.items()}
            )
            found.append(TopicRows(name, chosen))
        return found

    # ------------------------------------------------------------------ inside

    def _topics(self, columns: dict[str, Any]) -> Iterator[tuple[str, pa.Array | None]]:
        """Yield each topic with a mask of its rows; None if all rows have the same topic."""
        if self._topic is not None:
            yield self._topic, None
            return
        encoded = columns["topic"].dictionary_encode()
        names = encoded.dictionary.to_pylist()
        for number, name in enumerate(names):
            yield name, None if len(names) == 1 else pc.equal(encoded.indices, number)

    def _check_partitions(self, topic: str, partitions: pa.Array | None, mask: pa.Array | None) -> None:
        """Raise WrongRow if one of the topic's rows names a partition that the topic does not have."""
        if partitions is None:
            return
        mine = partitions if mask is None else partitions.filter(mask)
        if mine.null_count == len(mine):
            return
        count = self._partition_count(topic)
        wrong = pc.greater_equal(partitions, count)
        if mask is not None:
            wrong = pc.and_(wrong, mask)
        if pc.any(wrong).as_py():
            _refuse(
                "partition",
                wrong,
                f"is not among the {count} partitions of topic {topic!r} (a topic that was read adds a "
                "column "
                "partition: drop it, and the key decides)",
                partitions,
            )


def _check_values(columns: dict[str, Any]) -> None:
    partitions = columns.get("partition")
    if partitions is not None and pc.any(pc.less(partitions, 0)).as_py():
        _refuse("partition", pc.less(partitions, 0), "is negative", partitions)
    times = columns.get("timestamp")
    if times is not None:
        early = pc.less(times.cast(pa.int64()), 0)
        if pc.any(early).as_py():
            _refuse("timestamp", early, "is before 1970, which Kafka cannot store", times)
    headers = columns.get("headers")
    if headers is not None and not pa.types.is_null(headers.type):
        entries = headers.flatten()
        if entries.null_count or entries.field(0).null_count:
            name = entries.type.field(0).name  # as the user spells it
            nameless = [
                row is not None and any(header is None or header[name] is None for header in row)
                for row in headers.to_pylist()
            ]
            if any(nameless):
                _refuse("headers", pa.array(nameless), "has a header without a key")


def _refuse(column: str, wrong: pa.Array, because: str, values: pa.Array | None = None) -> NoReturn:
    row = pc.index(wrong, True).as_py()
    shown = "" if values is None else f" ({values[row].as_py()!r})"
    count = pc.sum(wrong.cast(pa.int64())).as_py()
    more = f"; the same applies to {count} of {len(wrong)} rows" if count > 1 else ""
    raise WrongRow(
        f"Row {row} of a batch is illegal: {column}{shown} {because}{more}. No row of that batch was sent."
    )
