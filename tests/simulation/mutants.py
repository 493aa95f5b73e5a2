"""Planted bugs: each breaks one promise somewhere below the public API, and some checker must see it.

A mutant gets the world when its clients are made and patches it (undone by pytest's monkeypatch).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.broker.base.image import PartitionImage
from pykafka2.broker.controller import controller
from pykafka2.broker.controller import partition_changes as elections
from pykafka2.broker.log.batch import placed
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.producer_state import ProducerStates
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.replication.replica_reader import ReplicaReader
from pykafka2.consumer.fetch.fetched_data import FetchedData
from pykafka2.errors import BufferExhausted
from pykafka2.producer.accumulator import batch as batch_module
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.producer.idempotence import Sequences
from pykafka2.producer.producer import KafkaProducer
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
    moved = elections.moved

    def same_epoch(partition: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage:
        import attrs

        return attrs.evolve(moved(partition, leader, isr), leader_epoch=partition.leader_epoch)

    patch.setattr(elections, "moved", same_epoch)
    patch.setattr(controller, "moved", same_epoch)


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
    """One batch in fifty is done without a callback."""
    counted = [0]

    def forgetful(tell: Any) -> Any:
        def forget(*outcome: Any) -> None:
            counted[0] += 1
            if counted[0] % 50:
                tell(*outcome)

        return forget

    patch.setattr(batch_module, "call_written", forgetful(batch_module.call_written))
    patch.setattr(batch_module, "call_failed", forgetful(batch_module.call_failed))


def consumer_skips_a_record(world: World, patch: pytest.MonkeyPatch) -> None:
    """Now and then the last record read is not handed over, and the position moves all the same."""
    take = FetchedData.take
    counted = [0]

    def skip(self: FetchedData, position: int, wanted: int, into: Any, *how: Any) -> int:
        after = take(self, position, wanted, into, *how)
        counted[0] += 1
        if counted[0] % 25 == 0 and into:
            into.pop()
        return after

    patch.setattr(FetchedData, "take", skip)


def consumer_reads_a_record_twice(world: World, patch: pytest.MonkeyPatch) -> None:
    """Now and then the position stays behind what was handed over."""
    take = FetchedData.take
    counted = [0]

    def repeat(self: FetchedData, position: int, wanted: int, into: Any, *how: Any) -> int:
        after = take(self, position, wanted, into, *how)
        counted[0] += 1
        return after - 1 if counted[0] % 25 == 0 and after > position else after

    patch.setattr(FetchedData, "take", repeat)


def broker_shows_what_is_not_committed(world: World, patch: pytest.MonkeyPatch) -> None:
    """Consumers are served up to the log's end; what a crash then loses was read."""
    readable = ReplicaReader._readable

    def all_of_it(self: ReplicaReader, plan: Any, item: Any) -> Any:
        replica, _ = readable(self, plan, item)
        return replica, replica.log.log_end_offset

    patch.setattr(ReplicaReader, "_readable", all_of_it)


def watermark_runs_back(world: World, patch: pytest.MonkeyPatch) -> None:
    """A replica sometimes believes a smaller high watermark from the leader."""
    advance = PartitionLog.advance_high_watermark
    counted = [0]

    def fall_back(self: PartitionLog, offset: int) -> bool:
        counted[0] += 1
        if counted[0] % 100 == 0 and self.high_watermark > 0:
            self.high_watermark -= 1
            return True
        return advance(self, offset)

    patch.setattr(PartitionLog, "advance_high_watermark", fall_back)


def send_fails_after_it_appended(world: World, patch: pytest.MonkeyPatch) -> None:
    """The application gets an error although the record was written."""
    send = KafkaProducer.send
    counted = [0]

    def fail(self: KafkaProducer, *args: Any, **kwargs: Any) -> Delivery:
        counted[0] += 1
        kwargs["on_delivery"] = kwargs["on_delivery"] if counted[0] % 40 else None
        delivery = send(self, *args, **kwargs)
        if counted[0] % 40 == 0:
            raise BufferExhausted("no room")
        return delivery

    patch.setattr(KafkaProducer, "send", fail)


def retries_overtake_each_other(world: World, patch: pytest.MonkeyPatch) -> None:
    """A batch is sent again behind those that came after it, and the broker does not check."""
    patch.setattr(ProducerStates, "check", lambda self, batch: None)
    patch.setattr(
        Sequences, "may_send", lambda self, batch: self.is_known and self._may_begin(self._run(batch))
    )


def follower_keeps_other_bytes(world: World, patch: pytest.MonkeyPatch) -> None:
    """A follower stores the batch before once more in the place of the one it was sent."""
    add = PartitionLog._add
    before: dict[PartitionLog, Any] = {}
    counted = [0]

    def store(self: PartitionLog, batch: Any) -> None:
        counted[0] += 1
        last = before.get(self)
        before[self] = batch
        is_follower = sys._getframe(1).f_code.co_name == "append_as_follower"
        if is_follower and counted[0] % 10 == 0 and last is not None and last.count == batch.count:
            batch = placed(last, batch.base_offset, batch.partition_leader_epoch)
        add(self, batch)

    patch.setattr(PartitionLog, "_add", store)
