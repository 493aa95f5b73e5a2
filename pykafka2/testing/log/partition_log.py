"""One replica's log: what was appended, where it starts and ends, and how much of it is safe.

Offsets are given out here (on the leader) or checked here (on a follower); the bytes are in a `BatchStore`.
Knows nothing of replicas: who may read how far and what the high watermark is, is decided in replication/.
All calls come under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from pykafka2.errors import IllegalState, OffsetOutOfRange
from pykafka2.records.batch import Buffer, RecordBatch, batches
from pykafka2.testing.log.batch import placed
from pykafka2.testing.log.leader_epochs import EpochEnd, LeaderEpochs
from pykafka2.testing.log.producer_state import ProducerStates
from pykafka2.testing.log.store import BatchStore, MemoryStore
from pykafka2.types import LOG_APPEND_TIME


@attrs.define
class Appended:
    """Where a batch went; of a duplicate, where its first copy went."""

    base_offset: int
    last_offset: int
    log_append_time: int = -1
    is_duplicate: bool = False


@attrs.define
class ReadResult:
    """Batches as they are stored, whole, from the one that holds the offset asked for."""

    batches: list[RecordBatch]

    @property
    def size_bytes(self) -> int:
        return sum(len(batch.buffer) for batch in self.batches)

    def joined(self) -> Buffer:
        """Their bytes in one piece; no copy where there is one batch or none."""
        if len(self.batches) == 1:
            return self.batches[0].buffer
        return b"".join(batch.buffer for batch in self.batches)


class PartitionLog:
    """The log of one replica.  Always: start <= high watermark <= end; only truncation takes batches away."""

    def __init__(self, topic: str, partition: int, topic_id: bytes, store: BatchStore | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()
        self._store: BatchStore = MemoryStore() if store is None else store

    def __repr__(self) -> str:
        return (
            f"PartitionLog({self.topic}-{self.partition}, start={self.log_start_offset}, "
            f"high_watermark={self.high_watermark}, end={self.log_end_offset})"
        )

    @property
    def size_bytes(self) -> int:
        return self._store.size_bytes

    @property
    def last_stable_offset(self) -> int:
        """Up to where read_committed reads.  Without transactions: the high watermark."""
        return self.high_watermark

    # ------------------------------------------------------------------ appending

    def append_as_leader(self, batch: RecordBatch, leader_epoch: int) -> Appended:
        """Give a validated batch of a client its offsets (rules 23 and 30 to 34).

        Raises `OutOfOrderSequenceNumber` or `InvalidProducerEpoch`; nothing is appended then.
        """
        if batch.has_producer_id:
            duplicate = self.producers.duplicate_of(batch)
            if duplicate is not None:
                return Appended(duplicate.base_offset, duplicate.last_offset, is_duplicate=True)
            self.producers.check(batch)
        stored = placed(batch, self.log_end_offset, leader_epoch)
        self._add(stored)
        append_time = stored.max_timestamp if stored.timestamp_type == LOG_APPEND_TIME else -1
        return Appended(stored.base_offset, stored.last_offset, append_time)

    def append_as_follower(self, records: Buffer) -> int:
        """Add what the leader sent, offsets and all; the number of batches added."""
        count = 0
        for batch in batches(records):
            if batch.next_offset <= self.log_end_offset:
                continue  # fetched twice, after a lost answer
            # An empty log may begin within a batch: the leader's start is there (after DeleteRecords).
            if batch.base_offset < self.log_end_offset and self._store.last() is not None:
                raise IllegalState(f"{self!r} cannot append a batch at {batch.base_offset}")
            self._add(batch)
            count += 1
        return count

    def _add(self, batch: RecordBatch) -> None:
        self.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        self._store.append(batch)
        self.producers.record(batch)
        self.log_end_offset = batch.next_offset

    # ------------------------------------------------------------------ reading

    def read(self, offset: int, upper_offset: int, max_bytes: int, *, min_one: bool) -> ReadResult:
        """Whole batches from the one that holds `offset`, below `upper_offset` (rules 53 to 55).

        At most `max_bytes`, but the first batch whatever its size with `min_one`.  Raises `OffsetOutOfRange`
        below the log's start or beyond its end.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"{self.topic}-{self.partition}: offset {offset} is outside "
                f"[{self.log_start_offset}, {self.log_end_offset}]"
            )
        if offset >= upper_offset:
            return ReadResult([])
        return ReadResult(self._store.read(offset, upper_offset, max_bytes, min_one))

    def batches(self, offset: int = 0) -> Iterator[RecordBatch]:
        return self._store.iterate(offset)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The largest epoch not above `epoch` and its end (rule 63)."""
        return self.epochs.end_of(epoch, self.log_end_offset)

    # ------------------------------------------------------------------ moving its ends

    def advance_high_watermark(self, offset: int) -> bool:
        """Up to `offset`, within the log; never backwards.  True if it moved."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        return True

    def truncate_to(self, end_offset: int) -> bool:
        """Drop what is at or after `end_offset`: replicas parted there.  True if anything was dropped.

        Whole batches go, so the log may end before `end_offset`, where the last batch that stays ends.
        """
        if end_offset >= self.log_end_offset:
            # As leader it may have begun an epoch without writing in it; that epoch was another's after all.
            self.epochs.truncate_to(self.log_end_offset)
            return False
        first_dropped = next(self._store.iterate(max(end_offset, self.log_start_offset)), None)
        self._store.truncate_to(max(end_offset, self.log_start_offset))
        if first_dropped is not None:
            end_offset = min(end_offset, first_dropped.base_offset)
        self.log_end_offset = max(end_offset, self.log_start_offset)
        self.high_watermark = min(self.high_watermark, self.log_end_offset)
        self.epochs.truncate_to(self.log_end_offset)
        self.producers.rebuild(self._store.iterate())
        return True

    def start_again_at(self, offset: int) -> None:
        """Drop everything; the next record has `offset`: the leader's log begins after ours ended."""
        self._store.clear()
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset
        self.epochs = LeaderEpochs()
        self.producers.rebuild(())

    def advance_log_start(self, offset: int) -> bool:
        """Drop what lies wholly before `offset` (retention, DeleteRecords).  True if the start moved."""
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = min(offset, self.log_end_offset)
        self.high_watermark = max(self.high_watermark, self.log_start_offset)
        self._store.drop_before(self.log_start_offset)
        self.epochs.drop_before(self.log_start_offset)
        return True
