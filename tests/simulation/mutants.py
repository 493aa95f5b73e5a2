"""Planted bugs: each breaks one promise somewhere below the public API, and some checker must see it.

A mutant gets the world when its clients are made and patches it (undone by pytest's monkeypatch).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.consumer.fetched import FetchedData
from pykafka2.producer.batch import ProducerBatch
from pykafka2.producer.sequences import Sequences
from pykafka2.testing import controller
from pykafka2.testing.image import PartitionImage
from pykafka2.testing.log.partition_log import PartitionLog
from pykafka2.testing.log.producer_state import ProducerStates
from pykafka2.testing.replication.replica_manager import ReplicaManager
from pykafka2.testing.simulation.world import World

Mutant = Callable[[World, pytest.MonkeyPatch], None]


def producer_reuses_a_sequence(world: World, patch: pytest.MonkeyPatch) -> None:
    """Now and then the number of the batch before is given again: the broker takes the batch for a repeat."""
    assign = Sequences.assign
    counted = [0]

    def reuse(self: Sequences, batch: ProducerBatch) -> None:
        run = self._run(batch)
        counted[0] += 1
        if counted[0] % 50 == 0 and run.next_sequence >= batch.count:
            run.next_sequence -= batch.count
        assign(self, batch)

    patch.setattr(Sequences, "assign", reuse)


def broker_acknowledges_before_replication(world: World, patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered like acks=1; a crash then loses what was promised."""

    def answer_at_once(
        self: ReplicaManager, results: Any, deadline: float, on_done: Callable[[Any], None], now: float
    ) -> None:
        on_done(results)

    patch.setattr(ReplicaManager, "await_replicas", answer_at_once)


def broker_forgets_what_producers_wrote(world: World, patch: pytest.MonkeyPatch) -> None:
    """No check of sequences: a batch whose reply was lost is appended again."""
    patch.setattr(ProducerStates, "duplicate_of", lambda self, batch: None)
    patch.setattr(ProducerStates, "check", lambda self, batch: None)


def controller_keeps_the_epoch(world: World, patch: pytest.MonkeyPatch) -> None:
    """A new leader under the old epoch."""
    moved = controller._moved

    def same_epoch(partition: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage:
        import attrs

        return attrs.evolve(moved(partition, leader, isr), leader_epoch=partition.leader_epoch)

    patch.setattr(controller, "_moved", same_epoch)


def replica_loses_a_batch_in_the_middle(world: World, patch: pytest.MonkeyPatch) -> None:
    """A replica counts a batch as appended and does not keep it."""
    add = PartitionLog._add
    counted = [0]

    def forget(self: PartitionLog, batch: Any) -> None:
        counted[0] += 1
        if counted[0] % 40 == 0:
            self.log_end_offset = batch.next_offset
        else:
            add(self, batch)

    patch.setattr(PartitionLog, "_add", forget)


def callbacks_are_forgotten(world: World, patch: pytest.MonkeyPatch) -> None:
    """One batch in fifty is done without telling anybody."""
    tell = ProducerBatch._tell
    counted = [0]

    def forget(self: ProducerBatch) -> None:
        counted[0] += 1
        if counted[0] % 50:
            tell(self)

    patch.setattr(ProducerBatch, "_tell", forget)


def consumer_skips_a_record(world: World, patch: pytest.MonkeyPatch) -> None:
    """Now and then the last record read is not handed over, and the position moves all the same."""
    take = FetchedData.take
    counted = [0]

    def skip(self: FetchedData, position: int, wanted: int, into: Any, check_crcs: bool) -> int:
        after = take(self, position, wanted, into, check_crcs)
        counted[0] += 1
        if counted[0] % 25 == 0 and into:
            into.pop()
        return after

    patch.setattr(FetchedData, "take", skip)


def consumer_reads_a_record_twice(world: World, patch: pytest.MonkeyPatch) -> None:
    """Now and then the position stays behind what was handed over."""
    take = FetchedData.take
    counted = [0]

    def repeat(self: FetchedData, position: int, wanted: int, into: Any, check_crcs: bool) -> int:
        after = take(self, position, wanted, into, check_crcs)
        counted[0] += 1
        return after - 1 if counted[0] % 25 == 0 and after > position else after

    patch.setattr(FetchedData, "take", repeat)


def broker_shows_what_is_not_committed(world: World, patch: pytest.MonkeyPatch) -> None:
    """Consumers are served up to the log's end; what a crash then loses was read."""
    readable = ReplicaManager._readable

    def all_of_it(self: ReplicaManager, plan: Any, item: Any) -> Any:
        replica, _ = readable(self, plan, item)
        return replica, replica.log.log_end_offset

    patch.setattr(ReplicaManager, "_readable", all_of_it)
