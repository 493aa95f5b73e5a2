"""The data of one fetch of one partition, decoded in steps on the caller's thread.

The driver's thread finds the batch boundaries. Decoding can stop after any record, or while a large batch
is being decompressed, and continue later; after an error or an interrupt it restarts at the caller's
position, so no record is skipped or lost. Control batches are hidden, and aborted ones too with
read_committed (KIP-98).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import copy
from heapq import heapify, heappop
from itertools import islice
from typing import Any

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.compression.steps import Steps
from pykafka2.errors import CorruptData, KafkaError, LogTruncated, RecordTooLarge, SerializationError
from pykafka2.protocol.messages.fetch import AbortedTransaction, EpochEndOffset
from pykafka2.records.batch import HEADER_BYTES, MAGIC, MAGIC_AT, RecordBatch, slices
from pykafka2.records.batch_reader import AnyBatch, Opened, any_batches, decode_any_in_steps
from pykafka2.records.column_group import MOST_AT_ONCE, ColumnGroup, ColumnPart
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.control import read_marker
from pykafka2.slotted import slotted
from pykafka2.types import ConsumerRecord, TopicPartition


class Visibility:
    """Decides which batches of one fetch are hidden; `hides` must be called once for each batch, in order.

    Without aborted transactions (always with read_uncommitted) only control batches are hidden.
    """

    __slots__ = ("_aborted", "_active", "_partition")

    def __init__(self, aborted: Iterable[AbortedTransaction] | None, partition: TopicPartition) -> None:
        # Brokers sort aborted transactions by first offset, but the protocol does not guarantee it (KIP-98).
        self._aborted: list[tuple[int, int]] = []
        if aborted:
            self._aborted = [(each.first_offset, each.producer_id) for each in aborted]
            heapify(self._aborted)
        self._active: set[int] = set()
        """Producers with an open transaction at this offset that is aborted later in the log."""
        self._partition = partition

    def hides(self, batch: AnyBatch) -> bool:
        """Return whether all records of the batch are hidden.

        Raise `CorruptData` if a relevant control batch cannot be decoded.
        """
        aborted = self._aborted
        while aborted and aborted[0][0] <= batch.last_offset:
            self._active.add(heappop(aborted)[1])
        if not isinstance(batch, RecordBatch):
            return False
        if batch.is_control:
            # A commit marker of an active producer belongs to an earlier transaction of it. A batch that
            # compaction has emptied ends none, as in Java.
            is_relevant = batch.producer_id in self._active and batch.count
            if is_relevant and read_marker(batch, str(self._partition)).is_abort:
                self._active.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._active


FIRST_OFFSET = struct.Struct(">q")
LAST_OFFSET_DELTA = struct.Struct(">i")
LAST_OFFSET_DELTA_AT = 23
# Placeholder until reading starts.
NOTHING_HIDDEN = Visibility((), TopicPartition("", -1))


def without_frames(error: KafkaError) -> KafkaError:
    """Remove the tracebacks of the error and its causes, whose frames keep the decoded data alive.

    The cause of a SerializationError is the application's exception and stays unchanged.
    """
    cause: BaseException | None = error
    while cause is not None and cause.__traceback__ is not None:
        cause.__traceback__ = None
        cause = None if isinstance(cause, SerializationError) else cause.__cause__ or cause.__context__
    return error


@slotted(eq=False)
class Problem:
    """The error that replaces the data from this offset on."""

    partition: TopicPartition
    generation: int
    offset: int
    error: KafkaError
    is_new_topic: bool = False
    """Whether the topic was deleted and created again, which makes the position invalid."""
    size_bytes: int = 0


@slotted
class Damage:
    """An unreadable part of a log: its first offset, the next offset after it, and its bytes."""

    offset: int
    next_offset: int
    view: memoryview


def claimed_offsets(view: memoryview) -> tuple[int, int]:
    """Return the first offset of a batch and the one after it, according to its header, damaged or not."""
    (offset,) = FIRST_OFFSET.unpack_from(view)
    if view[MAGIC_AT] < MAGIC or len(view) < HEADER_BYTES:
        return offset, offset + 1
    (delta,) = LAST_OFFSET_DELTA.unpack_from(view, LAST_OFFSET_DELTA_AT)
    return offset, offset + max(delta, 0) + 1


def _slices(raw: memoryview) -> Iterator[tuple[int, memoryview]]:
    with suppress(CorruptData):
        yield from slices(raw, "")


class FetchedData:
    """Whole batches of one partition, in order.

    `next_offset` is the offset of the next fetch; `error` is the error of the data after the whole batches,
    if that cannot be decoded.
    """

    __slots__ = (
        "_aborted",
        "_at",
        "_batches",
        "_columns_at",
        "_index",
        "_is_behind_batches",
        "_opened_bytes",
        "_opening",
        "_part",
        "_raw",
        "_records",
        "_shown_from",
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
        self._raw: memoryview | None = None
        self._aborted = tuple(aborted or ())
        try:
            # One by one, so that the batches before a damaged one are kept.
            for batch in any_batches(records, partition):
                self._batches.append(batch)
        except CorruptData as error:
            self.error = without_frames(error)
            self._raw = records[sum(batch.size_bytes for batch in self._batches) :]
        self.next_offset = max(offset, self._batches[-1].next_offset) if self._batches else offset
        if not self._batches and self.error is None:
            self.error = RecordTooLarge(
                f"{partition} at offset {offset}: the next batch does not fit into a fetch of "
                f"{len(records)} bytes; raise max_partition_fetch_bytes and fetch_max_bytes"
            )
        self._at = self._columns_at = -1  # the offset to continue from; -1 to restart
        self._index = 0
        self._shown_from = 0
        self._is_behind_batches = False
        self._records: Iterator[ConsumerRecord[Any, Any]] | None = None
        self._opening: Steps[Opened] | None = None
        self._part: ColumnPart | None = None
        self._opened_bytes = 0
        self._visibility = NOTHING_HIDDEN

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch; -1 if there is no batch or it has no epoch."""
        return self._batches[-1].partition_leader_epoch if self._batches else -1

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last batch that was read; -1 before the first one."""
        return self._batches[self._index - 1].partition_leader_epoch if self._index else -1

    @property
    def open_bytes(self) -> int:
        """The decompressed bytes of a partly read batch."""
        if self._part is not None:
            return self._part.open_bytes
        return 0 if self._records is None and self._opening is None else self._opened_bytes

    @property
    def is_unfinished(self) -> bool:
        """Whether a take has stopped inside a large batch, where the next one continues."""
        return self._opening is not None or self._part is not None

    def take(
        self,
        position: int,
        limit: int,
        into: list[ConsumerRecord[Any, Any]],
        check_crcs: bool,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> int:
        """Append records from `position` on until `into` holds `limit` of them; return the next position.

        Stop earlier after one step of decompressing a large batch; then `is_unfinished` is True.

        Raises:
            CorruptData, CorruptMessage, UnsupportedCompressionType, CodecUnavailable: with the records before
                the damage in `into`; the message names topic, partition and offset.
        """
        if position != self._at:
            self._restart(position)
        self._at = self._columns_at = -1  # in case of an error or a Ctrl-C
        began_at, before = position, len(into)
        count = before
        while count < limit:
            records = self._records
            if records is None:
                opening = self._opening
                if opening is None:
                    batch = self._next_batch(position)
                    if batch is None:
                        break
                    opening = self._open(batch, position, check_crcs, max_output_bytes)
                records = self._records = self._advance(opening)
                if records is None:
                    # Without records the caller can keep its position, so the next call continues from it.
                    self._at = position if count > before else began_at
                    return self._at
            into.extend(islice(records, limit - count))
            count = len(into)
            if count < limit:
                self._records = None
                position = max(position, self._batches[self._index - 1].next_offset)
            else:
                position = into[-1].offset + 1
        if self._records is None and self._index == len(self._batches):
            position = max(position, self.next_offset)
            if self.error is not None:
                self._is_behind_batches = True
                raise copy(self.error)  # not the one kept here, whose traceback would lead back here
        self._at = position
        return position

    def _open(self, batch: AnyBatch, position: int, check_crcs: bool, max_output_bytes: int) -> Steps[Opened]:
        self._opened_bytes = batch.size_bytes
        return decode_any_in_steps(batch, *self.partition, position, check_crcs, max_output_bytes)

    def _advance(self, opening: Steps[Opened]) -> Iterator[ConsumerRecord[Any, Any]] | None:
        """Take one step; return the batch's records after the last one."""
        self._opening = None  # an error or a Ctrl-C ends it
        try:
            self._opened_bytes = max(self._opened_bytes, next(opening))
        except StopIteration as end:
            records: Iterator[ConsumerRecord[Any, Any]]
            records, self._opened_bytes = end.value
            return records
        self._opening = opening
        return None

    def take_columns(
        self,
        position: int,
        limit: int,
        into: GrowingColumns,
        check_crcs: bool,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        end: int | None = None,
    ) -> int:
        """Take whole batches like `take`, as columns: the last batch can exceed `limit`.

        A very large batch is taken in several steps; between them `is_unfinished` is True. Records at or
        after the offset `end` are not taken, if it is set.
        """
        if position != self._columns_at:
            self._restart(position)
        self._at = self._columns_at = -1  # `take` must not continue where this ends or is interrupted
        if self._part is None:
            position = self._take_batches(position, limit, into, check_crcs, max_output_bytes, end)
        if self._part is not None and len(into) < limit:
            position = self._take_part(self._part, position, into, end)
        if end is None or self._part is not None:  # otherwise the last batch can have records after `end`
            self._columns_at = position
        return position

    def _take_batches(
        self,
        position: int,
        limit: int,
        into: GrowingColumns,
        check_crcs: bool,
        max_output_bytes: int,
        end: int | None,
    ) -> int:
        """Take whole batches up to the first one that must be taken in parts."""
        group = ColumnGroup(into, str(self.partition), check_crcs, max_output_bytes)
        try:
            with group:
                return self._add_batches(group, position, limit, end)
        except KafkaError:
            if group.failed is not None:  # `damage` needs the failed batch, which may not be the last one
                self._index = self._batches.index(group.failed) + 1
            raise

    def _take_part(self, part: ColumnPart, position: int, into: GrowingColumns, end: int | None) -> int:
        self._part = None  # an error or a Ctrl-C ends it
        try:
            part.step(into)
        finally:
            if end is not None:
                into.end_before(end)
        if not part.is_done:
            self._part = part
        return max(position, part.next_offset)

    def _add_batches(self, group: ColumnGroup, position: int, limit: int, end: int | None) -> int:
        while len(group) < limit:
            if end is not None and position >= end:
                break
            batch = self._next_batch(position)
            if isinstance(batch, RecordBatch) and batch.count > MOST_AT_ONCE:
                self._part = group.part(batch, position)
                break
            if end is not None and (batch is None or batch.last_offset >= end):
                return self._add_upto(end, batch, position, group)
            if batch is None:
                if self.error is not None:
                    self._is_behind_batches = True
                    raise copy(self.error)  # not the one kept here, whose traceback would lead back here
                return max(position, self.next_offset)
            group.add(batch, position)
            position = max(position, batch.next_offset)
        return position

    def _add_upto(self, end: int, batch: AnyBatch | None, position: int, group: ColumnGroup) -> int:
        """Take the last batch of a range; unreadable data after the range does not matter."""
        if batch is None:
            if self.error is not None and self.next_offset < end:
                raise copy(self.error)
            return max(position, min(self.next_offset, end))
        group.end_offset = end
        group.add(batch, position)
        return end

    def damage(self, position: int, end: int | None) -> Damage | None:
        """Return what to skip after an error of `take` at `position`; None if that is unknown.

        Intact records after the damage must not be skipped. So the offsets in the damaged header are limited
        by the next batch, or by `end`, the end of the log.
        """
        views = [batch.buffer for batch in self._batches[max(self._index - 1, 0) :]]
        if self._is_behind_batches:
            views = [] if self._raw is None else [view for _, view in islice(_slices(self._raw), 2)]
        if not views:
            return None
        offset, next_offset = claimed_offsets(views[0])
        following = claimed_offsets(views[1])[0] if len(views) > 1 else position
        if following > position:
            next_offset = min(next_offset, following)
        if end is not None:
            next_offset = min(next_offset, end)
        if next_offset <= position:
            return None
        return Damage(max(offset, position), next_offset, views[0])

    def _restart(self, position: int) -> None:
        self._index = 0
        self._is_behind_batches = False
        # An earlier batch whose header also covers this position is damaged and was skipped.
        self._shown_from = 0
        for index, batch in enumerate(self._batches):
            if isinstance(batch, RecordBatch) and batch.base_offset == position:
                self._shown_from = index
        self._records = self._opening = self._part = None
        self._visibility = Visibility(self._aborted, self.partition)

    def _next_batch(self, position: int) -> AnyBatch | None:
        """Return the next batch with visible records at or after `position`."""
        batches = self._batches
        while self._index < len(batches):
            batch = batches[self._index]
            self._index += 1
            is_hidden = self._visibility.hides(batch)
            if not is_hidden and batch.last_offset >= position and self._index > self._shown_from:
                return batch
        return None


def log_truncated(partition: TopicPartition, offset: int, epoch: int, end: EpochEndOffset) -> LogTruncated:
    """Return the error for a log that was truncated below the fetch offset (KIP-320).

    `epoch` is the leader epoch of the record before `offset`, `end` the DivergingEpoch of the response."""
    error = LogTruncated(
        f"{partition}: the log was truncated to offset {min(end.end_offset, offset)} after records up to "
        f"{offset} (leader epoch {epoch}) had been fetched"
    )
    error.offset = min(end.end_offset, offset)
    # A later epoch is invalid: the broker returns its last epoch up to the requested one (KIP-320).  A fetch
    # from `offset` with a later one would diverge again.
    error.leader_epoch = end.epoch if end.epoch <= epoch else -1
    return error
