"""Planted bugs of the broker: replication, elections, sequences, fetches; see mutants.py for the rest."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pykafka2.broker.base.image import PartitionImage
from pykafka2.broker.controller import controller
from pykafka2.broker.controller import partition_changes as elections
from pykafka2.broker.log.leader_epochs import LeaderEpochs
from pykafka2.broker.log.partition_log import Appended, PartitionLog, ReadResult
from pykafka2.broker.log.producer_state import AppendedBatch, ProducerStates
from pykafka2.broker.replication.follower_fetcher import FollowerFetchers
from pykafka2.broker.replication.replica import FollowerState, Replica
from pykafka2.records.batch import RecordBatch
from pykafka2.testing.simulation.world import World


def leader_believes_in_one_record_more(world: World, patch: pytest.MonkeyPatch) -> None:
    """A follower that asks for an offset counts as if it had that record already."""
    fetched = FollowerState.fetched

    def one_more(self: FollowerState, offset: int, start: int, end: int, *args: Any, **kwargs: Any) -> None:
        fetched(self, min(offset + 1, end), start, end, *args, **kwargs)

    patch.setattr(FollowerState, "fetched", one_more)


def watermark_counts_the_leader_alone(world: World, patch: pytest.MonkeyPatch) -> None:
    """The high watermark follows the leader's log end, whatever the followers have."""

    def advance(self: Replica, *args: Any, **kwargs: Any) -> bool:
        return self.log.advance_high_watermark(self.log.log_end_offset)

    patch.setattr(Replica, "advance_high_watermark", advance)


def followers_join_before_they_caught_up(world: World, patch: pytest.MonkeyPatch) -> None:
    """A replica that fetches counts as in sync, and may lead without having all records."""
    patch.setattr(FollowerState, "may_join", lambda self, high_watermark, start: True)
    patch.setattr(Replica, "advance_high_watermark", lambda self, *args, **kwargs: _by_fetchers(self))


def _by_fetchers(replica: Replica) -> bool:
    """Only those in sync at the time count, so that a newcomer does not hold the watermark back."""
    ends = [
        follower.log_end_offset
        for follower in replica.followers.values()
        if follower.broker_id in replica.image.isr and follower.log_end_offset >= replica.log.high_watermark
    ]
    return replica.log.advance_high_watermark(min([replica.log.log_end_offset, *ends]))


def controller_elects_anybody(world: World, patch: pytest.MonkeyPatch) -> None:
    """Any live replica may lead, in sync or not, although unclean elections are off."""
    elect = elections.elect

    def unclean(partition: PartitionImage, is_eligible: Any, **how: Any) -> PartitionImage:
        alive = [replica for replica in partition.replicas if is_eligible(replica)]
        if partition.leader in alive or not alive:
            return elect(partition, is_eligible, **how)
        outside = [replica for replica in alive if replica not in partition.isr]
        chosen = (outside or alive)[0]
        return elections.moved(partition, chosen, (chosen,))

    patch.setattr(controller, "elect", unclean)


def followers_do_not_truncate(world: World, patch: pytest.MonkeyPatch) -> None:
    """A follower that learns where the logs diverged keeps its own records and continues behind them."""
    patch.setattr(FollowerFetchers, "_truncate", lambda self, replica, epoch, end: None)
    patch.setattr(Replica, "divergence", lambda self, epoch, offset: None)


def duplicates_are_known_by_their_number_of_records(world: World, patch: pytest.MonkeyPatch) -> None:
    """A batch is taken for a repeat if an earlier one was as long: acknowledged, and not written."""
    duplicate_of = ProducerStates.duplicate_of

    def alike(self: ProducerStates, batch: RecordBatch) -> AppendedBatch | None:
        state = self.get(batch.producer_id)
        if state is not None and batch.count > 3 and batch.producer_epoch == state.epoch:
            for known in state.batches:
                if known.last_offset - known.base_offset + 1 == batch.count:
                    return known
        return duplicate_of(self, batch)

    patch.setattr(ProducerStates, "duplicate_of", alike)


def followers_do_not_learn_of_producers(world: World, patch: pytest.MonkeyPatch) -> None:
    """Only a leader notes what producers wrote, so that the next one takes their repeats for news."""
    follow = PartitionLog.append_as_follower

    def forget(self: PartitionLog, records: Any) -> int:
        count = follow(self, records)
        self.producers = ProducerStates()
        return count

    patch.setattr(PartitionLog, "append_as_follower", forget)


def replies_name_another_offset(world: World, patch: pytest.MonkeyPatch) -> None:
    """A repeat is acknowledged with the offset where the log ends, not where its first copy is."""
    append = PartitionLog.append_as_leader

    def elsewhere(self: PartitionLog, batch: RecordBatch, epoch: int, **options: Any) -> Appended:
        appended = append(self, batch, epoch, **options)
        if appended.is_duplicate:
            count = appended.last_offset - appended.base_offset
            return attrs.evolve(
                appended, base_offset=self.log_end_offset, last_offset=self.log_end_offset + count
            )
        return appended

    patch.setattr(PartitionLog, "append_as_leader", elsewhere)


def reads_miss_the_first_batch(world: World, patch: pytest.MonkeyPatch) -> None:
    """Now and then a read begins with the batch after the one that holds the offset."""
    locate = PartitionLog.locate
    counted = [0]

    def miss(self: PartitionLog, *args: Any, **options: Any) -> ReadResult:
        result = locate(self, *args, **options)
        counted[0] += 1
        if counted[0] % 30 == 0 and len(result.batches) > 1:
            del result.batches[0]
        return result

    patch.setattr(PartitionLog, "locate", miss)


def logs_forget_their_epochs(world: World, patch: pytest.MonkeyPatch) -> None:
    """No leader epoch is remembered, so a divergence of two logs is not found."""
    patch.setattr(LeaderEpochs, "assign", lambda self, epoch, offset: None)
    patch.setattr(Replica, "divergence", lambda self, epoch, offset: None)
