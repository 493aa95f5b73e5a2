"""What one fetch brought of one partition, and how far the application has read in it.

Made on the driver's thread (batch boundaries only), decoded on the caller's thread inside poll().  Decoding
can stop after any record and go on later; after an error or an interrupt it starts again at the position that
the caller names, so that nothing is skipped and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from itertools import islice

import attrs

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.consumer.isolation import Visibility
from pykafka2.errors import CorruptData, KafkaError, RecordTooLarge, SerializationError
from pykafka2.protocol.messages.fetch import AbortedTransaction
from pykafka2.records.columns import Columns
from pykafka2.records.decoder import RecordTuple
from pykafka2.records.legacy import AnyBatch, any_batches, decode_any_records, decode_any_tuples
from pykafka2.types import ConsumerRecord, TopicPartition


def without_frames(error: KafkaError) -> KafkaError:
    """The error and its causes without tracebacks, whose frames hold what was being decoded.

    The cause of a SerializationError is the application's own and stays as it is.
    """
    one: BaseException | None = error
    while one is not None and one.__traceback__ is not None:
        one.__traceback__ = None
        one = None if isinstance(one, SerializationError) else one.__cause__ or one.__context__
    return error


@attrs.define(eq=False)
class Problem:
    """Instead of data: why there is none from this offset on."""

    partition: TopicPartition
    generation: int
    offset: int
    error: KafkaError
    is_new_topic: bool = False
    """The topic was deleted and made anew: the position means nothing in it."""
    size_bytes: int = 0


class FetchedData:
    """Whole batches of one partition, in order.

    `next_offset` is where the next fetch goes on; `error` is what follows the whole batches, if that cannot
    be read.
    """

    __slots__ = (
        "_aborted",
        "_at",
        "_batches",
        "_index",
        "_records",
        "_visibility",
        "error",
        "generation",
        "next_offset",
        "offset",
        "partition",
        "size_bytes",
    )

    def __init__(
        self,
        partition: TopicPartition,
        generation: int,
        offset: int,
        records: memoryview,
        aborted: Iterable[AbortedTransaction] | None = None,
    ) -> None:
        self.partition = partition
        self.generation = generation
        self.offset = offset
        self.size_bytes = len(records)
        self.error: KafkaError | None = None
        self._batches: list[AnyBatch] = []
        self._aborted = tuple(aborted or ())
        try:
            # One by one, so that the batches before a damaged one are kept.
            for batch in any_batches(records, str(partition)):
                self._batches.append(batch)
        except CorruptData as error:
            self.error = without_frames(error)
        self.next_offset = max(offset, self._batches[-1].next_offset) if self._batches else offset
        if not self._batches and self.error is None:
            self.error = RecordTooLarge(
                f"{partition} at offset {offset}: the next batch does not fit into a fetch of "
                f"{len(records)} bytes; raise max_partition_fetch_bytes and fetch_max_bytes"
            )
        self._at = -1  # where reading goes on; -1 begins anew
        self._index = 0
        self._records: Iterator[ConsumerRecord] | None = None
        self._visibility = Visibility((), "")

    @property
    def leader_epoch(self) -> int:
        """Of the batch that was read last; -1 before the first."""
        return self._batches[self._index - 1].partition_leader_epoch if self._index else -1

    def take(
        self,
        position: int,
        limit: int,
        into: list[ConsumerRecord],
        check_crcs: bool,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> int:
        """Append records from `position` on, until `into` holds `limit` of them; the position after that.

        Raises:
            CorruptData, CorruptMessage, UnsupportedCompressionType, CodecUnavailable: with the records before
                the damage in `into`; the message names topic, partition and offset.
        """
        if position != self._at:
            self._restart()
        self._at = -1  # until all went well
        topic, partition = self.partition
        while len(into) < limit:
            if self._records is None:
                batch = self._next_batch(position)
                if batch is None:
                    break
                self._records = decode_any_records(
                    batch, topic, partition, position, check_crcs, max_output_bytes
                )
            before = len(into)
            into.extend(islice(self._records, limit - before))
            if len(into) < limit:
                self._records = None
                position = max(position, self._batches[self._index - 1].next_offset)
            elif len(into) > before:
                position = into[-1].offset + 1
        if self._records is None and self._index == len(self._batches):
            position = max(position, self.next_offset)
            if self.error is not None:
                raise copy(self.error)  # not the one kept here, whose traceback would lead back here
        self._at = position
        return position

    def take_columns(
        self,
        position: int,
        limit: int,
        into: Columns,
        check_crcs: bool,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> int:
        """As `take`, column by column and in whole batches: `limit` may be exceeded by the last one."""
        self._restart()
        while len(into) < limit:
            batch = self._next_batch(position)
            if batch is None:
                if self.error is not None:
                    raise copy(self.error)  # not the one kept here, whose traceback would lead back here
                return max(position, self.next_offset)
            rows: list[RecordTuple] = []
            try:
                for row in decode_any_tuples(batch, str(self.partition), check_crcs, max_output_bytes):
                    rows.append(row)  # noqa: PERF402 (an error must leave the rows before it)
            finally:
                if rows and rows[0][0] < position:
                    rows = [row for row in rows if row[0] >= position]
                into.extend(rows)
            position = max(position, batch.next_offset)
        return position

    def _restart(self) -> None:
        self._index = 0
        self._records = None
        self._visibility = Visibility(self._aborted, str(self.partition))

    def _next_batch(self, position: int) -> AnyBatch | None:
        """The next batch that has something to show from `position` on."""
        batches = self._batches
        while self._index < len(batches):
            batch = batches[self._index]
            self._index += 1
            if not self._visibility.hides(batch) and batch.last_offset >= position:
                return batch
        return None
