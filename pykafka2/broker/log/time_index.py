"""Which offset belongs to a time: found by batch, then by record within the one batch that can hold it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.records.batch import RecordBatch


class OffsetAtTime(NamedTuple):
    """A record's offset and timestamp, and the epoch that wrote it; all -1 where there is none."""

    offset: int
    timestamp: int
    leader_epoch: int


NOTHING = OffsetAtTime(-1, -1, -1)


def first_at(log: PartitionLog, timestamp: int) -> OffsetAtTime:
    """The first record whose timestamp is not below `timestamp` (milliseconds)."""
    from pykafka2.records.tuple_decoder import decode_tuples

    for batch in _batches_from(log, timestamp):
        for offset, at, _, _, _ in decode_tuples(batch, str(log), check_crcs=False):
            if at >= timestamp and offset >= log.log_start_offset:
                return OffsetAtTime(offset, at, batch.partition_leader_epoch)
    return NOTHING


def _batches_from(log: PartitionLog, timestamp: int) -> Iterator[RecordBatch]:
    """Batches with a record not older than that; segments without one are not looked into."""
    for segment in log.segments:
        if segment.largest_timestamp >= timestamp:
            for batch in segment.iterate(log.log_start_offset):
                if batch.max_timestamp >= timestamp:
                    yield batch


def latest(log: PartitionLog) -> OffsetAtTime:
    """The first of the records with the largest timestamp (KIP-734)."""
    largest = max((batch.max_timestamp for batch in log.batches(log.log_start_offset)), default=-1)
    return NOTHING if largest < 0 else first_at(log, largest)
