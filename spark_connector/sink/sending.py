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
    """Rows of one task on their way.  `rows` counts them."""

    _producer: KafkaProducer
    _topic: str | None
    rows: int = 0
    _counts: dict[str, int] = attrs.field(factory=dict, init=False)
    _under_way: deque[BulkDelivery] = attrs.field(factory=deque, init=False)

    def send(self, batch: pa.RecordBatch) -> None:
        """Hand a batch to the producer.

        Raises:
            WrongRow: a row cannot be written; none of the batch was sent.
            KafkaError: an earlier row could not be written, or these cannot be taken.
        """
        for rows in RowSplitter(self._topic, self._partition_count).split(batch):
            self._under_way.append(self._producer.send_many(rows.topic, **rows.columns))
        self.rows += batch.num_rows
        while self._under_way and self._under_way[0].done():
            self._under_way.popleft().result(0)

    def finish(self) -> None:
        """Wait until all is written; raises the first error."""
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
"""Of `send_many`, by column."""


@attrs.define(frozen=True)
class TopicRows:
    """Rows for one topic: `columns` are keyword arguments of `send_many`, with `values` among them."""

    topic: str
    columns: dict[str, Any]


@attrs.define
class RowSplitter:
    """Splits batches by topic.  `topic` is the option, which wins over the column."""

    _topic: str | None
    _partition_count: Callable[[str], int]
    """How many partitions a topic has; asked for where rows name theirs."""

    def split(self, batch: pa.RecordBatch) -> list[TopicRows]:
        """The rows of each topic, in their order.

        Raises:
            WrongRow: a row has no topic, or a partition, a time or headers that cannot be written.
        """
        if not batch.num_rows:
            return []
        columns = {name.lower(): batch.column(at) for at, name in enumerate(batch.schema.names)}
        if self._topic is None and columns["topic"].null_count:
            _refuse("topic", columns["topic"].is_null(), "is null, and the option topic is not given")
        _check_values(columns)
        given = {argument: columns[name] for name, argument in _ARGUMENTS.items() if name in columns}
        found: list[TopicRows] = []
        for name, mask in self._topics(columns):
            self._check_partitions(name, columns.get("partition"), mask)
            chosen = given if mask is None else {one: column.filter(mask) for one, column in given.items()}
            found.append(TopicRows(name, chosen))
        return found

    # ------------------------------------------------------------------ inside

    def _topics(self, columns: dict[str, Any]) -> Iterator[tuple[str, pa.Array | None]]:
        """Each topic with a mask of its rows; None if all rows are for it."""
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
                f"is not among the {count} partitions of topic {topic!r} (rows that were read from "
                "a topic have a column partition: leave it out, and the key decides)",
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
            _refuse("timestamp", early, "is before 1970, which Kafka cannot say", times)
    headers = columns.get("headers")
    if headers is not None and not pa.types.is_null(headers.type):
        entries = headers.flatten()
        if entries.null_count or entries.field(0).null_count:
            name = entries.type.field(0).name  # as the user spells it
            nameless = [
                row is not None and any(one is None or one[name] is None for one in row)
                for row in headers.to_pylist()
            ]
            if any(nameless):
                _refuse("headers", pa.array(nameless), "has a header without a key")


def _refuse(column: str, wrong: pa.Array, because: str, values: pa.Array | None = None) -> NoReturn:
    row = pc.index(wrong, True).as_py()
    shown = "" if values is None else f" ({values[row].as_py()!r})"
    count = pc.sum(wrong.cast(pa.int64())).as_py()
    more = f"; so it is in {count} of {len(wrong)} rows" if count > 1 else ""
    raise WrongRow(f"row {row} of a batch: {column}{shown} {because}{more}; no row of that batch was sent")
