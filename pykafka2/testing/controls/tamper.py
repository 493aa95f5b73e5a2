"""Corrupts data below the clients: rewrites the records of every replica of a partition.

For tests of checkers, which must be able to fail.  The rewritten log is valid for the protocol (offsets
without gaps, correct checksums), so only a comparison with the sent records detects it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pykafka2.records.encoder import BatchBuilder
from pykafka2.testing.running import Running
from pykafka2.testing.views.partitions import log_view
from pykafka2.types import ConsumerRecord

RECORDS_A_BATCH = 100

Change = Callable[[list[ConsumerRecord]], Sequence[ConsumerRecord]]


def tamper(running: Running, topic: str, partition: int, change: Change) -> None:
    """Replace the partition's records with the result of `change`, on every replica.

    The new records get consecutive offsets from the log's start; producer ids are lost.  No producer may
    write to the partition meanwhile.  Raise `NotLeaderOrFollower` without a running leader.
    """
    with running.lock:
        view = log_view(running, topic, partition, None)
        blob = _encode(change(list(view.records())), view.log_start_offset)
        for broker in running.brokers:
            replica = broker.replicas.replicas.get((topic, partition))
            if replica is not None:
                log = replica.log
                log.truncate_fully_and_start_at(view.log_start_offset)
                log.append_as_follower(blob)
                log.advance_high_watermark(log.log_end_offset)


def _encode(records: Sequence[ConsumerRecord], start: int) -> bytes:
    """Return batches of the records, with offsets from `start`."""
    built: list[bytes] = []
    for first in range(0, len(records), RECORDS_A_BATCH):
        builder = BatchBuilder(max_bytes=1 << 30)
        for record in records[first : first + RECORDS_A_BATCH]:
            builder.append(record.timestamp, record.key, record.value, record.headers)
        built.append(bytes(builder.build(base_offset=start + first, partition_leader_epoch=0)))
    return b"".join(built)
