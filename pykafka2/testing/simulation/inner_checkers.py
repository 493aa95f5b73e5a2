"""Invariants inside a cluster: violations that clients would notice late or by chance.

Like those of checkers.py; these compare the states of the brokers.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from pykafka2.broker.lifecycle import BrokerState
from pykafka2.errors import RequestTimedOut
from pykafka2.testing.simulation.checkers import Checker

if TYPE_CHECKING:
    from pykafka2.broker.base.image import ClusterImage
    from pykafka2.broker.broker import Broker
    from pykafka2.broker.log.partition_log import PartitionLog
    from pykafka2.broker.observed.history import Entry
    from pykafka2.testing.simulation.world import World

ALL_REPLICAS = -1
TIMED_OUT = RequestTimedOut.code

# A replica that restarts without its tail leaves the ISR when it registers; until then it cannot lead.
NOT_YET = (BrokerState.STARTING, BrokerState.RECOVERY)

# Seconds: high watermarks are recorded after a turn, responses are sent within it.
MARGIN = 0.001


class InSyncHasAll(Checker):
    """Each replica in the ISR has all records that any replica counts as committed; a replica that joins also
    has the leader's log up to the start of its epoch.
    """

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._committed: dict[tuple[str, int], int] = {}
        self._isrs: dict[tuple[str, int], tuple[int, tuple[int, ...]]] = {}
        """The last seen leader epoch and ISR of a partition."""

    def turned(self, world: World, broker: Broker) -> None:
        image = world.cluster.controller.image
        if image is not self._image or self._has_moved(world, broker):
            self._image = image
            self._look_at(world, image)

    def finish(self, world: World) -> None:
        self._look_at(world, world.cluster.controller.image)

    def _has_moved(self, world: World, broker: Broker) -> bool:
        """Return whether this broker raises the highest known committed offset."""
        replicas, committed = broker.replicas.replicas, self._committed
        return any(
            key in replicas and replicas[key].log.high_watermark > committed.get(key, 0)
            for key in world.partitions()
        )

    def _look_at(self, world: World, image: ClusterImage) -> None:
        running = {
            broker.id: broker.replicas.replicas
            for broker in world.cluster.brokers
            if broker.is_running and broker.lifecycle.state not in NOT_YET
        }
        for key in world.partitions():
            state = image.partition(*key)
            logs = {one: replicas[key].log for one, replicas in running.items() if key in replicas}
            known = max((log.high_watermark for log in logs.values()), default=0)
            committed = self._committed[key] = max(known, self._committed.get(key, 0))
            if state is None:
                continue
            epoch, before = self._isrs.get(key, (-1, ()))
            self._isrs[key] = (state.leader_epoch, state.isr)
            leader = running.get(state.leader, {}).get(key)
            if leader is not None and leader.is_leader and leader.leader_epoch == epoch == state.leader_epoch:
                for member in state.isr:
                    if member in logs and member not in before:
                        self._look_at_newcomer(key, member, logs[member], leader.leader_epoch_start)
            for member in state.isr:
                if member in logs and logs[member].log_end_offset < committed:
                    self.fail(
                        f"{key[0]}-{key[1]}: broker {member} is in sync (ISR {state.isr}), "
                        f"its log ends at {logs[member].log_end_offset}, {committed} is committed"
                    )

    def _look_at_newcomer(self, key: tuple[str, int], member: int, log: PartitionLog, start: int) -> None:
        if log.log_end_offset < start:
            self.fail(
                f"{key[0]}-{key[1]}: broker {member} has joined the ISR, its log ends at "
                f"{log.log_end_offset}, the leader's epoch began at {start}"
            )


class AnswersAreTrue(Checker):
    """A produce with acks=all succeeds only after the high watermark has passed it, and fails with a timeout
    only if the replicas did not catch up in time.
    """

    def finish(self, world: World) -> None:
        names = world.cluster.controller.image.topic_names
        for entry in world.cluster.history.entries("Produce"):
            request: Any = entry.request
            response: Any = entry.response
            if response is None or entry.answered_at is None or request.acks != ALL_REPLICAS:
                continue
            for topic in response.responses:
                name = topic.name or names.get(topic.topic_id, "")
                for one in topic.partition_responses:
                    if one.base_offset >= 0:
                        self._look_at(world, entry, (entry.broker, name, one.index), one)

    def _look_at(self, world: World, entry: Entry, where: tuple[int, str, int], one: Any) -> None:
        answered_at: float = entry.answered_at or 0.0
        what = f"{entry} was answered {one.error_code} for {where[1]}-{where[2]} offset {one.base_offset}"
        if one.error_code == 0 and one.base_offset >= _mark_at(world, where, answered_at + MARGIN):
            self.fail(f"{what} before the high watermark had passed it")
        if one.error_code == TIMED_OUT and one.base_offset < _mark_at(world, where, answered_at - MARGIN):
            self.fail(f"{what}, which the high watermark had passed")


class LogsKnowThemselves(Checker):
    """A log's state of producers and leader epochs matches its batches, also after truncation."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, str, int], int] = {}

    def turned(self, world: World, broker: Broker) -> None:
        replicas, ends = broker.replicas.replicas, self._ends
        for topic, partition in world.partitions():
            replica = replicas.get((topic, partition))
            if replica is None:
                continue
            where, end = (broker.id, topic, partition), replica.log.log_end_offset
            if end < ends.get(where, 0):
                self._look_at(replica.log, broker.id)
            ends[where] = end

    def finish(self, world: World) -> None:
        for broker in world.cluster.brokers:
            for replica in broker.replicas.replicas.values():
                self._look_at(replica.log, broker.id)

    def _look_at(self, log: PartitionLog, broker_id: int) -> None:
        where = f"{log!r} on broker {broker_id}"
        newest = log.epochs.entries[-1] if log.epochs.entries else None
        if newest is not None and newest.start_offset > log.log_end_offset:
            self.fail(f"{where} remembers leader epoch {newest.epoch} from {newest.start_offset} on")
        written: dict[tuple[int, int], list[int]] = {}
        for batch in log.batches():
            epoch = log.epochs.epoch_at(max(batch.base_offset, log.log_start_offset))
            if epoch != batch.partition_leader_epoch:
                self.fail(
                    f"{where}: offset {batch.base_offset} was written in leader epoch "
                    f"{batch.partition_leader_epoch}, the log remembers {epoch}"
                )
            if batch.has_producer_id and not batch.is_control:
                key = (batch.producer_id, batch.producer_epoch)
                written.setdefault(key, []).append(batch.base_sequence)
        for state in log.producers:
            held = written.get((state.producer_id, state.epoch), [])
            known = [
                batch.first_sequence for batch in state.batches if batch.base_offset >= log.log_start_offset
            ]
            if known != held[len(held) - len(known) :]:
                self.fail(f"{where}: producer {state.producer_id} wrote {held[-5:]}, it remembers {known}")


def _mark_at(world: World, where: tuple[int, str, int], when: float) -> int:
    """Return a replica's high watermark at a moment of the brokers' clock."""
    moves = world.watermarks.get(where, [])
    index = bisect_right(moves, when, key=lambda move: move[0])
    return moves[index - 1][1] if index else 0
