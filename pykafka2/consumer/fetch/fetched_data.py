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

import attrs

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.compression.steps import Steps
from pykafka2.errors import CorruptData, KafkaError, LogTruncated, RecordTooLarge, SerializationError
from pykafka2.protocol.messages.fetch import AbortedTransaction, EpochEndOffset
from pykafka2.records.batch import HEADER_BYTES, MAGIC, MAGIC_AT, RecordBatch, slices
from pykafka2.records.batch_reader import AnyBatch, Opened, any_batches, decode_any_in_steps
from pykafka2.records.column_group import MOST_AT_ONCE, ColumnGroup, ColumnPart
from pykafka2.records.columns import Columns
from pykafka2.records.control import read_marker
from pykafka2.types import ConsumerRecord, TopicPartition


class Visibility:
    """Passes over the batches of one fetch in order; `hides` must see each of them once.

    Without aborted transactions (always so with read_uncommitted) only control batches are hidden.
    """

    __slots__ = ("_aborted", "_active", "_partition")

    def __init__(self, aborted: Iterable[AbortedTransaction] | None, partition: TopicPartition) -> None:
        # The broker lists aborted transactions by first offset but does not promise it: a heap does (KIP-98).
        self._aborted = [(one.first_offset, one.producer_id) for one in aborted or ()]
        heapify(self._aborted)
        self._active: set[int] = set()
        """Producers whose open transaction, at this place of the log, will turn out to be aborted."""
        self._partition = partition

    def hides(self, batch: AnyBatch) -> bool:
        """True if no record of the batch may be shown.

        Raises `CorruptData` if a control batch that matters cannot be read.
        """
        aborted = self._aborted
        while aborted and aborted[0][0] <= batch.last_offset:
            self._active.add(heappop(aborted)[1])
        if not isinstance(batch, RecordBatch):
            return False
        if batch.is_control:
            # A commit marker of an active producer belongs to an earlier transaction of it.
            if batch.producer_id in self._active and read_marker(batch, str(self._partition)).is_abort:
                self._active.discard(batch.producer_id)
            return True
        return batch.is_transactional and batch.producer_id in self._active


FIRST_OFFSET = struct.Struct(">q")
LAST_OFFSET_DELTA = struct.Struct(">i")
LAST_OFFSET_DELTA_AT = 23
# Until reading begins, which knows what was aborted.
NOTHING_HIDDEN = Visibility((), TopicPartition("", -1))


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


@attrs.define
class Damage:
    """A part of a log that cannot be read: its first offset, the next one behind it, and its bytes."""

    offset: int
    next_offset: int
    view: memoryview


def claimed_offsets(view: memoryview) -> tuple[int, int]:
    """The first offset of a batch and the one behind it, as its header says, damaged or not."""
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

    `next_offset` is where the next fetch goes on; `error` is what follows the whole batches, if that cannot
    be read.
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
            for batch in any_batches(records, str(partition)):
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
        self._at = self._columns_at = -1  # where reading goes on; -1 begins anew
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
        """The leader epoch of the last batch; -1 if there is none, or it does not say."""
        return self._batches[-1].partition_leader_epoch if self._batches else -1

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the batch that was read last; -1 before the first."""
        return self._batches[self._index - 1].partition_leader_epoch if self._index else -1

    @property
    def open_bytes(self) -> int:
        """The decompressed bytes of a batch that is read in part."""
        if self._part is not None:
            return self._part.open_bytes
        return 0 if self._records is None and self._opening is None else self._opened_bytes

    @property
    def is_unfinished(self) -> bool:
        """True if a take has stopped after one step into a large batch: the next one goes on there."""
        return self._opening is not None or self._part is not None

    def take(
        self,
        position: int,
        limit: int,
        into: list[ConsumerRecord[Any, Any]],
        check_crcs: bool,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> int:
        """Append records from `position` on, until `into` holds `limit` of them; the position after that.

        Stops earlier after one step of opening a large batch; then it `is_unfinished`.

        Raises:
            CorruptData, CorruptMessage, UnsupportedCompressionType, CodecUnavailable: with the records before
                the damage in `into`; the message names topic, partition and offset.
        """
        if position != self._at:
            self._restart(position)
        self._at = self._columns_at = -1  # until all went well
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
                    # Without records the caller's position may stay, and must be that of the next call.
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
        """Take one step; the batch's records if it was the last one."""
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
        into: Columns,
        check_crcs: bool,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        end: int | None = None,
    ) -> int:
        """Take whole batches like `take`, as columns: the last batch can exceed `limit`.

        A batch of very many records is taken step by step; between two of them this `is_unfinished`.
        Nothing at or behind the offset `end` is taken, if that is given.
        """
        if position != self._columns_at:
            self._restart(position)
        self._at = self._columns_at = -1  # `take` does not go on where this ends, or is interrupted
        if self._part is None:
            position = self._take_batches(position, limit, into, check_crcs, max_output_bytes, end)
        if self._part is not None and len(into) < limit:
            position = self._take_part(self._part, position, into, end)
        if end is None or self._part is not None:  # else the last batch may have more behind it
            self._columns_at = position
        return position

    def _take_batches(
        self,
        position: int,
        limit: int,
        into: Columns,
        check_crcs: bool,
        max_output_bytes: int,
        end: int | None,
    ) -> int:
        """Whole batches, up to one that is to be taken in parts."""
        group = ColumnGroup(into, str(self.partition), check_crcs, max_output_bytes)
        try:
            with group:
                return self._add_batches(group, position, limit, end)
        except KafkaError:
            if group.failed is not None:  # not the last one that was added: what passes over it must know
                self._index = self._batches.index(group.failed) + 1
            raise

    def _take_part(self, part: ColumnPart, position: int, into: Columns, end: int | None) -> int:
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
        """The last batch of a range; what cannot be read behind it is none of its concern."""
        if batch is None:
            if self.error is not None and self.next_offset < end:
                raise copy(self.error)
            return max(position, min(self.next_offset, end))
        group.end_offset = end
        group.add(batch, position)
        return end

    def damage(self, position: int, end: int | None) -> Damage | None:
        """After an error of `take` at `position`: what to pass over; None if there is no telling.

        Nothing behind the damage may be passed over, so the next batch here, or else the end of the log as
        the broker told it, bounds what the damaged header says.
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
        # A batch before it that says it reaches further is damaged, and was passed over.
        self._shown_from = 0
        for index, batch in enumerate(self._batches):
            if isinstance(batch, RecordBatch) and batch.base_offset == position:
                self._shown_from = index
        self._records = self._opening = self._part = None
        self._visibility = Visibility(self._aborted, self.partition)

    def _next_batch(self, position: int) -> AnyBatch | None:
        """The next batch that has something to show from `position` on."""
        batches = self._batches
        while self._index < len(batches):
            batch = batches[self._index]
            self._index += 1
            is_hidden = self._visibility.hides(batch)
            if not is_hidden and batch.last_offset >= position and self._index > self._shown_from:
                return batch
        return None


def log_truncated(partition: TopicPartition, offset: int, epoch: int, end: EpochEndOffset) -> LogTruncated:
    """The log does not hold what was read last, up to `offset` and of this leader epoch: it was cut, and
    perhaps written anew from there on.  `end` is where the logs part, as the broker says."""
    error = LogTruncated(
        f"{partition}: the log was truncated to offset {min(end.end_offset, offset)} after records up to "
        f"{offset} (leader epoch {epoch}) had been fetched"
    )
    error.offset = min(end.end_offset, offset)
    # The logs part at an epoch that was asked for, or before it; any other would never be heard of again.
    error.leader_epoch = end.epoch if end.epoch <= epoch else -1
    return error
