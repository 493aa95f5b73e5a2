"""Planted bugs of logs, replicas and the requests that wait for them, found by thinking of what goes wrong in
brokers; and one for each kind of fault that concerns data.  See mutants.py for the rest.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from pykafka2.broker.base.image import Key
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.producer_state import ProducerStates
from pykafka2.broker.replication.fetch import FetchInfo
from pykafka2.broker.replication.log_manager import LogManager
from pykafka2.broker.replication.purgatory import DelayedProduce, Purgatory
from pykafka2.broker.replication.replica import Replica
from pykafka2.errors import KafkaStorageError
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.producer.producer import KafkaProducer
from pykafka2.records.batch import RecordBatch
from pykafka2.records.encoder import Row
from pykafka2.testing.simulation.world import World


def acks_come_one_record_early(world: World, patch: pytest.MonkeyPatch) -> None:
    """An acks=all waits for the high watermark before its last record, not behind it."""
    check = DelayedProduce._check

    def early(self: DelayedProduce, key: Key) -> None:
        result = self.results[key]
        result.required_offset -= 1
        check(self, key)
        result.required_offset += 1

    patch.setattr(DelayedProduce, "_check", early)


def truncation_keeps_what_producers_wrote(world: World, patch: pytest.MonkeyPatch) -> None:
    """A log that was cut still takes a lost batch for written when it is sent again."""
    patch.setattr(ProducerStates, "rebuild", lambda self, batches, before=None: None)


def fetches_of_a_parted_log_count(world: World, patch: pytest.MonkeyPatch) -> None:
    """A follower whose log parted from the leader's counts as far as it asks, whatever it has there."""
    record_fetch = Replica.record_fetch

    def credulous(self: Replica, broker_id: int, item: FetchInfo, *args: Any) -> bool:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Replica, "divergence", lambda self, epoch, offset: None)
            return record_fetch(self, broker_id, item, *args)

    patch.setattr(Replica, "record_fetch", credulous)


def purgatory_loses_a_completion(world: World, patch: pytest.MonkeyPatch) -> None:
    """Now and then what could complete is no longer watched: it ends with its timeout."""
    check = Purgatory.check
    counted = [0]

    def lose(self: Purgatory[Any], key: Hashable, now: float) -> int:
        if self.name == "produce" and self._watchers.get(key):
            counted[0] += 1
            if counted[0] % 10 == 0:
                del self._watchers[key]
        return check(self, key, now)

    patch.setattr(Purgatory, "check", lose)


# ---------------------------------------------------------------------- one for each kind of fault


def a_failed_append_is_remembered(world: World, patch: pytest.MonkeyPatch) -> None:
    """A batch that the disk did not take counts as written: its repeat is acknowledged (disk full)."""
    add = PartitionLog._add

    def remember(self: PartitionLog, batch: RecordBatch) -> None:
        try:
            add(self, batch)
        except KafkaStorageError:
            self.producers.record(batch)
            raise

    patch.setattr(PartitionLog, "_add", remember)


def times_never_run_back(world: World, patch: pytest.MonkeyPatch) -> None:
    """A record gets the latest time that any record before it had (client clock jump)."""
    append = PartitionQueue.try_append
    latest = [0]

    def clamped(self: PartitionQueue, row: Row, size_bytes: int) -> Delivery | None:
        latest[0] = max(latest[0], row[2])
        return append(self, (row[0], row[1], latest[0], row[3], row[4]), size_bytes)

    patch.setattr(PartitionQueue, "try_append", clamped)


def deletions_take_one_record_more(world: World, patch: pytest.MonkeyPatch) -> None:
    """The log begins one record behind the requested offset (delete records)."""
    delete = LogManager._delete
    patch.setattr(
        LogManager,
        "_delete",
        lambda self, key, offset: delete(self, key, offset + 1 if offset > 0 else offset),
    )


def new_partitions_are_taken_for_the_first(world: World, patch: pytest.MonkeyPatch) -> None:
    """Records for a partition that was added later go to the first (add partition)."""
    send = KafkaProducer.send

    def misled(self: KafkaProducer, topic: str, *args: Any, partition: int, **options: Any) -> Delivery:
        return send(self, topic, *args, partition=partition if partition < 2 else 0, **options)

    patch.setattr(KafkaProducer, "send", misled)
