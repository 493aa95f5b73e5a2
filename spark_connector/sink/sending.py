"""Sends a task's Arrow batches through a producer; what all deliveries have in common.

A task's thread, in a worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from pykafka2 import KafkaProducer
from spark_connector.sink import steps
from spark_connector.sink.clients import discard, kept_producer
from spark_connector.sink.messages import Written
from spark_connector.sink.rows import RowSplitter
from spark_connector.sink.steps import Step

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
