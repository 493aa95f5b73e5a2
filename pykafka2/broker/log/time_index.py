"""Looks up offsets by timestamp: first the batch, then the record in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.record_validation import SLICE
from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.compression.steps import Steps
from pykafka2.records.batch import RecordBatch, open_in_steps


class OffsetAtTime(NamedTuple):
    """A record's offset, timestamp and leader epoch; all -1 if no record was found."""

    offset: int
    timestamp: int
    leader_epoch: int


NOTHING = OffsetAtTime(-1, -1, -1)


def first_at(log: PartitionLog, timestamp: int) -> Steps[OffsetAtTime]:
    """Return the first record with a timestamp of at least `timestamp` (milliseconds), in short steps."""
    from pykafka2.records.decoder import STILL_READING, decode_tuples

    where = str(log)
    for batch in _batches_from(log, timestamp):
        if batch is None:
            yield 0
            continue
        body = bytes((yield from open_in_steps(batch, where, False, MAX_OUTPUT_BYTES)))
        rows = decode_tuples(batch, where, keeps_headers=False, buffer=body)
        for count, row in enumerate(rows, 1):
            if row is STILL_READING or not count % SLICE:
                yield len(body)
            offset, at, _, _, _ = row
            if at >= timestamp and offset >= log.log_start_offset:
                return OffsetAtTime(offset, at, batch.partition_leader_epoch)
    return NOTHING


def _batches_from(log: PartitionLog, timestamp: int) -> Iterator[RecordBatch | None]:
    """Iterate over batches with such a record, and None for the end of a step; skips segments without one."""
    for segment in [*log.segments]:  # segments can be deleted between two steps
        if segment.largest_timestamp >= timestamp:
            start = max(log.log_start_offset, segment.offset_before(timestamp))
            for count, batch in enumerate(segment.iterate(start), 1):
                if batch.max_timestamp >= timestamp:
                    yield batch
                elif not count % SLICE:
                    yield None


def latest(log: PartitionLog) -> Steps[OffsetAtTime]:
    """Return the first record with the largest timestamp (KIP-734), in short steps."""
    largest = max(segment.largest_timestamp for segment in log.segments)
    found = NOTHING if largest < 0 else (yield from first_at(log, largest))
    if found is not NOTHING or largest < 0:
        return found
    # That record was removed: by compaction, or because the log starts after it.
    largest = -1
    for count, batch in enumerate(log.batches(log.log_start_offset), 1):
        if batch.count:
            largest = max(largest, batch.max_timestamp)
        if not count % SLICE:
            yield 0
    return NOTHING if largest < 0 else (yield from first_at(log, largest))
