"""One replica's log: its batches, start and end offsets, and high watermark.

Assigns offsets on the leader and checks them on a follower; `Segments` hold the bytes. Knows nothing of
replicas: replication/ decides the high watermark and how far each reader can read. Access requires the
cluster's lock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Final
from zlib import crc32

import attrs

from pykafka2.broker.log.batch import parse_batch, placed
from pykafka2.broker.log.compaction import Cleaned
from pykafka2.broker.log.file_system import FileRegion, part_of
from pykafka2.broker.log.leader_epochs import EpochEnd, LeaderEpochs
from pykafka2.broker.log.log_files import LogFiles, MemoryLogFiles
from pykafka2.broker.log.producer_state import VerificationGuard, Verifications
from pykafka2.broker.log.segments import MAX_OFFSET_SPAN, RollLimits, Segments
from pykafka2.broker.log.transaction_index import AbortedTransaction, TransactionIndex
from pykafka2.errors import IllegalState, KafkaStorageError, OffsetOutOfRange
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.gathered_part import GatheredPart
from pykafka2.records.batch import LOG_APPEND_TIME_FLAG, TRANSACTIONAL_FLAG, Buffer, RecordBatch, batches

MIN_GATHERED_BYTES: Final = 8192
"""The mean size from which batches are sent as they are; copying smaller ones into one buffer is cheaper."""


@attrs.define
class ReadResult:
    """Whole batches as stored, starting with the one that contains the requested offset.

    `region`: where the batches are in a file, if they were only located.
    """

    batches: list[RecordBatch]
    region: FileRegion | None = None

    @property
    def size_bytes(self) -> int:
        if self.region is not None:
            return self.region.length
        return sum(len(batch.buffer) for batch in self.batches)

    def end_offset(self, otherwise: int) -> int:
        """Return the offset after the last batch, or `otherwise` if there is none."""
        if self.region is not None:
            return self.region.next_offset
        return self.batches[-1].next_offset if self.batches else otherwise

    def records(self) -> Buffer | FilePart | GatheredPart:
        """Return the batches for a response; those in a file as a part of it, for the kernel to send."""
        if self.region is not None:
            return part_of(self.region)
        if len(self.batches) < 2:
            return self.joined()
        part = GatheredPart([batch.buffer for batch in self.batches])
        return part if len(part) >= MIN_GATHERED_BYTES * len(self.batches) else part.read()

    def joined(self) -> Buffer:
        """Return the bytes in one buffer, without a copy if there is at most one batch."""
        if len(self.batches) == 1:
            return self.batches[0].buffer
        return b"".join(batch.buffer for batch in self.batches)


NEVER: Final = 2**63 - 1


@attrs.define
class Appended:
    """The offsets of an appended batch; for a duplicate, those of the original."""

    base_offset: int
    last_offset: int
    log_append_time: int = -1
    is_duplicate: bool = False


@attrs.define(frozen=True)
class EndMarker:
    """A transaction marker that a coordinator has a leader append (WriteTxnMarkers, KIP-98)."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int = 0


class PartitionLog:
    """The log of one replica.

    Invariant: start <= high watermark <= end; only truncation and deletion remove batches.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        files: LogFiles | None = None,
        known_elsewhere: Callable[[PartitionLog, RecordBatch], RecordBatch] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.files = files = MemoryLogFiles() if files is None else files
        self.disk = files.disk
        self._known_elsewhere = known_elsewhere
        state = files.load()
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.high_watermark = state.high_watermark
        self.recovery_point = state.recovery_point
        """The offset up to which everything has been flushed."""
        self.flush_messages = NEVER
        """flush.messages: the number of records after which an append flushes."""
        self.epochs = LeaderEpochs(state.epochs, files.epochs_changed)
        self.producers = state.producers
        self.verifications = Verifications(self.producers, f"{topic}-{partition}")
        self._aborted = TransactionIndex(state.aborted)
        self.segments = Segments(state.segments, files.new_segment, crc32(topic_id, partition))
        self.clean_offset = state.clean_offset
        """The first offset that no compaction has cleaned (Kafka's cleaner-offset-checkpoint)."""
        self.changes = 0
        """The number of truncations and of moves of the files: a compaction in steps ends after one."""

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.topic}-{self.partition}, start={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, end={self.log_end_offset})"
        )

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def is_offline(self) -> bool:
        """Whether its data directory has failed, so that it can be neither read nor written."""
        return self.files.is_offline

    @property
    def last_stable_offset(self) -> int:
        """The end of what read_committed consumers read.

        This is the first offset of the earliest transaction that is open or has an unreplicated marker.
        Without one it is the high watermark.
        """
        unstable = self.producers.transactions.first_unstable_offset(self.high_watermark)
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    # ------------------------------------------------------------------ appending

    def append_as_leader(
        self,
        batch: RecordBatch,
        leader_epoch: int,
        *,
        from_client: bool = True,
        guard: VerificationGuard | None = None,
    ) -> Appended:
        """Append a validated batch of a client or a coordinator and assign its offsets.

        A coordinator's batches have no sequences (`from_client=False`). `guard` is the result of
        `Verifications.begin` before the transaction was verified. Raise `OutOfOrderSequenceNumber`,
        `InvalidProducerEpoch`, `InvalidTxnState` or `KafkaStorageError`; then nothing is appended.
        """
        if batch.has_producer_id:
            if from_client:
                duplicate = self.producers.duplicate_of(batch)
                if duplicate is not None:
                    # As in Kafka, a duplicate's timestamp is returned even for CreateTime topics.
                    return Appended(
                        duplicate.base_offset, duplicate.last_offset, duplicate.timestamp, is_duplicate=True
                    )
            self.verifications.check(batch, guard)
            if from_client:
                self.verifications.check_first_sequence(batch)
                self.producers.check(batch)
            else:
                self.producers.check_epoch(batch)
                self.producers.check_transaction(batch)
        stored = placed(batch, self.log_end_offset, leader_epoch)
        self._add(stored)
        append_time = stored.max_timestamp if stored.attributes & LOG_APPEND_TIME_FLAG else -1
        return Appended(stored.base_offset, stored.last_offset, append_time)

    def append_marker(self, marker: EndMarker, leader_epoch: int, now_ms: int) -> Appended:
        """Append a control batch of one offset that ends a producer's transaction.

        The marker is appended even if the producer has no open transaction or is unknown. Raise
        `InvalidProducerEpoch` or `TransactionCoordinatorFenced` for a late marker.
        """
        from pykafka2.records.control import build_end_marker

        self.producers.check_marker(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version
        )
        data = build_end_marker(
            marker.committed, now_ms, marker.producer_id, marker.producer_epoch, marker.coordinator_epoch
        )
        stored = placed(parse_batch(data), self.log_end_offset, leader_epoch)
        self._add(stored)
        return Appended(stored.base_offset, stored.last_offset)

    def append_as_follower(self, records: Buffer) -> int:
        """Append batches from the leader with their offsets. Return the number of appended batches."""
        count = 0
        for batch in batches(records):
            if batch.next_offset <= self.log_end_offset:
                continue  # fetched again after a lost response
            # An empty log can start within a batch, if the leader's log does (after DeleteRecords).
            if batch.base_offset < self.log_end_offset and self.segments.size_bytes:
                raise IllegalState(f"{self!r} cannot append a batch at {batch.base_offset}")
            self._add(batch if self._known_elsewhere is None else self._known_elsewhere(self, batch))
            count += 1
        return count

    def _add(self, batch: RecordBatch) -> None:
        if self.disk.is_full:
            self.disk.refused += 1
            raise KafkaStorageError(f"{self.topic}-{self.partition}: the disk is full")
        segments = self.segments
        if segments.is_full(batch):
            # At the log's end, so that a segment without the records before it is known as damaged.
            fits = batch.last_offset - self.log_end_offset <= MAX_OFFSET_SPAN
            segments.roll(self.log_end_offset if fits else batch.base_offset)
            self.files.rolled(self)
        segments.append(batch)
        epochs = self.epochs.entries
        if not epochs or epochs[-1].epoch < batch.partition_leader_epoch:
            self.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        if batch.attributes & TRANSACTIONAL_FLAG:
            self.verifications.end(batch.producer_id)
        completed = self.producers.record(batch) if batch.has_producer_id else None
        if completed is not None and not completed.committed:
            aborted = AbortedTransaction(
                completed.producer_id,
                completed.first_offset,
                completed.marker_offset,
                completed.last_stable_offset,
            )
            self._aborted.append(aborted)
            segments.active.add_aborted(aborted)
        self.log_end_offset = end = batch.next_offset
        if end - self.recovery_point >= self.flush_messages:
            self.flush()

    # ------------------------------------------------------------------ reading

    def read(self, offset: int, upper_offset: int, max_bytes: int, *, min_one: bool) -> ReadResult:
        """Read whole batches from the one that contains `offset`, below `upper_offset`.

        Return at most `max_bytes`; with `min_one` the first batch is returned whatever its size. Raise
        `OffsetOutOfRange` below the log's start or beyond its end.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.topic}-{self.partition}: offset {offset} is outside "
                f"[{self.log_start_offset}, {self.log_end_offset}]"
            )
        if offset >= upper_offset:
            return ReadResult([])
        return ReadResult(self.segments.read(offset, upper_offset, max_bytes, min_one))

    def locate(self, offset: int, upper_offset: int, max_bytes: int, *, min_one: bool) -> ReadResult:
        """Read like `read`, but only locates batches that are in a file."""
        region = None
        if not self.files.is_in_memory:
            region = self.region(offset, upper_offset, max_bytes, min_one=min_one)
        if region is None:
            return self.read(offset, upper_offset, max_bytes, min_one=min_one)
        return ReadResult([], region)

    def region(self, offset: int, upper_offset: int, max_bytes: int, *, min_one: bool) -> FileRegion | None:
        """Return where the batches that `read` returns are in a file.

        None if they are in memory, or if there are none; then `read` decides.
        """
        if not self.log_start_offset <= offset < min(upper_offset, self.log_end_offset):
            return None
        return self.segments.region(offset, upper_offset, max_bytes, min_one)

    def batch_at(self, base_offset: int) -> RecordBatch | None:
        """Return the batch with this base offset, or None."""
        found = self.segments.read(base_offset, base_offset + 1, 0, min_one=True)
        return found[0] if found and found[0].base_offset == base_offset else None

    def batches(self, offset: int = 0) -> Iterator[RecordBatch]:
        """Iterate over batches from the one that contains `offset`, or the log's start."""
        return self.segments.iterate(max(offset, self.log_start_offset))

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return aborted transactions with data in [start, end), as a read_committed fetch lists them."""
        return self._aborted.overlapping(start_offset, end_offset)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Return the largest epoch up to `epoch` and its end offset."""
        return self.epochs.end_of(epoch, self.log_end_offset)

    # ------------------------------------------------------------------ moving the log's start and end

    def advance_high_watermark(self, offset: int) -> bool:
        """Advance the high watermark to at most the log's end, never backwards.

        Return whether it changed.
        """
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def truncate_to(self, end_offset: int) -> bool:
        """Drop records at or after `end_offset`, where replicas diverge. Return whether any were dropped.

        Whole batches are dropped, so the log can end before `end_offset`.
        """
        if end_offset >= self.log_end_offset:
            # A former leader can have started an epoch without writing in it, which another leader then used.
            self.epochs.truncate_to(self.log_end_offset)
            return False
        self.changes += 1
        first_dropped = next(self.segments.iterate(max(end_offset, self.log_start_offset)), None)
        dropped = self.segments.truncate_to(max(end_offset, self.log_start_offset))
        if first_dropped is not None:
            end_offset = min(end_offset, first_dropped.base_offset)
        self.log_end_offset = max(end_offset, self.log_start_offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self.epochs.truncate_to(self.log_end_offset)
        self._aborted.truncate_to(self.log_end_offset)
        self.clean_offset = min(self.clean_offset, self.log_end_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.files.truncated(self.log_end_offset, dropped)
        states, first_missing = self.files.producers_at(self, self.log_end_offset)
        self.producers.rebuild(self.segments.iterate(first_missing), states)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop all records; the next record has `offset`.

        Used if the leader's log starts after this one ends.
        """
        self.segments.truncate_fully_and_start_at(offset)
        self.log_start_offset = self.log_end_offset = self.high_watermark = self.clean_offset = offset
        self.recovery_point = offset
        self.changes += 1
        self.epochs.clear()
        self._aborted.clear()
        self.files.cleared()
        self.producers.rebuild(())

    def advance_log_start(self, offset: int) -> bool:
        """Advance the log's start to `offset` (retention, DeleteRecords). Return whether it changed.

        Whole segments before it are deleted at once; the rest of the first segment is no longer read.
        """
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = min(offset, self.log_end_offset)
        self.high_watermark = max(self.high_watermark, self.log_start_offset)
        self.drop_before_start()
        self._aborted.drop_before(self.log_start_offset)
        self.epochs.drop_before(self.log_start_offset)
        return True

    def drop_before_start(self) -> int:
        """Delete the segments that end before the log's start. Return their number."""
        dropped = self.segments.drop_first(self.segments.first_after(self.log_start_offset))
        if dropped:
            self.files.drop(dropped)
        return len(dropped)

    def replace_cleaned(self, cleaned: Cleaned) -> bool:
        """Replace segments by their cleaned ones. Return False if some have been deleted meanwhile."""
        first = self.segments.find(cleaned.replaced)
        if first is None:
            return False
        for aborted in cleaned.aborted:
            holder = bisect_right(cleaned.segments, aborted.last_offset, key=attrgetter("base_offset")) - 1
            cleaned.segments[holder].add_aborted(aborted)
        self.clean_offset = max(self.clean_offset, cleaned.end_offset)
        self.segments.replace(first, cleaned.replaced, cleaned.segments)
        self.files.replace(cleaned.replaced, cleaned.segments)
        self._aborted.replace_before(cleaned.end_offset, cleaned.aborted)
        return True

    def roll(self) -> bool:
        """Roll the active segment. Return False if it is empty."""
        if not self.segments.roll(self.log_end_offset):
            return False
        self.files.rolled(self)
        return True

    def roll_at(self, offset: int) -> None:
        """End the log at a later offset, by a segment that starts there."""
        self.log_end_offset = offset
        self.roll()

    def adopt(self, copy: PartitionLog) -> None:
        """Continue with the files of a complete copy of this log."""
        self.files = copy.files
        self.segments = copy.segments
        self.recovery_point = copy.recovery_point
        self.epochs = LeaderEpochs(self.epochs.entries, self.files.epochs_changed)
        self.changes += 1  # whatever runs on the old segments must not end on the new ones

    def flush(self) -> None:
        """Force all records to the disk. Raise `KafkaStorageError` if that fails."""
        self.files.flush(self)

    def limit_segments(self, limits: RollLimits) -> None:
        """Set segment.bytes, segment.ms and segment.jitter.ms for the following appends."""
        self.segments.limits = limits
