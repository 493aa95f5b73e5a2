"""Invariants of a cluster and its clients under all faults: one small class per invariant.

`turned` runs after every turn of a broker's loops and must be very cheap; `finish` runs once, after
everything has healed and drained.  Both raise `InvariantViolated` with the evidence.  They read only the
history and the state of the brokers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka2.testing.simulation.history import FAILED, OK, OPEN
from pykafka2.testing.simulation.problems import InvariantViolated

if TYPE_CHECKING:
    from pykafka2.broker.base.image import ClusterImage
    from pykafka2.broker.broker import Broker
    from pykafka2.broker.log.partition_log import PartitionLog
    from pykafka2.broker.replication.replica_manager import ReplicaManager
    from pykafka2.testing.simulation.history import Read
    from pykafka2.testing.simulation.tasks import SimTask
    from pykafka2.testing.simulation.world import World

Log = list[tuple[int, bytes]]
"""Offsets and values."""


class Checker:
    """One invariant.  Its name is the class's, in words."""

    def turned(self, world: World, broker: Broker) -> None:
        """Called after a turn of a loop of this running broker."""

    def finish(self, world: World) -> None:
        """Called after recovery."""

    @property
    def name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def fail(self, evidence: str) -> None:
        """Raise `InvariantViolated` with the name and the evidence."""
        raise InvariantViolated(f"{self.name}: {evidence}")


class AckedIsKept(Checker):
    """After recovery, a record acknowledged with acks=all is in the log at the acknowledged offset."""

    def finish(self, world: World) -> None:
        logs = {one: dict(world.records(*one)) for one in world.partitions()}
        for sent in world.history.with_outcome(OK):
            found = logs[sent.topic, sent.partition].get(sent.offset)
            if found != sent.value:
                self.fail(f"{sent} was acknowledged at offset {sent.offset}, where the log has {found!r}")


class NothingIsInvented(Checker):
    """Each record in the log was sent to that partition, and its send did not fail."""

    def finish(self, world: World) -> None:
        known = world.history.by_value()
        for topic, partition in world.partitions():
            for offset, value in world.records(topic, partition):
                sent = known.get(value)
                where = f"{topic}-{partition} offset {offset}"
                if sent is None:
                    self.fail(f"{where} holds {value!r}, which no producer sent")
                elif (sent.topic, sent.partition) != (topic, partition):
                    self.fail(f"{where} holds {sent}")
                elif sent.outcome == FAILED:
                    self.fail(f"{where} holds {sent}, whose send failed: {sent.error}")


class WrittenOnce(Checker):
    """With idempotence no record is in the log twice."""

    def finish(self, world: World) -> None:
        if not world.is_idempotent:
            return
        for topic, partition in world.partitions():
            first: dict[bytes, int] = {}
            for offset, value in world.records(topic, partition):
                if value in first:
                    self.fail(f"{topic}-{partition} holds {value!r} at {first[value]} and again at {offset}")
                first[value] = offset


class SentOrderIsLogOrder(Checker):
    """The records of one producer are in a partition in the order in which they were sent."""

    def finish(self, world: World) -> None:
        if not world.is_idempotent:
            return
        known = world.history.by_value()
        for topic, partition in world.partitions():
            last: dict[str, int] = {}
            for offset, value in world.records(topic, partition):
                sent = known.get(value)
                if sent is None:
                    continue
                before = last.get(sent.producer, -1)
                if sent.number < before:
                    self.fail(
                        f"{topic}-{partition} offset {offset}: number {sent.number} after {before}: {sent}"
                    )
                last[sent.producer] = sent.number


class TimesAreKept(Checker):
    """A record is read with the timestamp with which it was sent, whatever the clocks show."""

    def finish(self, world: World) -> None:
        known = world.history.by_value()
        for read in world.history.reads:
            sent = known.get(read.value)
            if sent is not None and sent.timestamp != read.timestamp:
                self.fail(
                    f"{sent} was sent with time {sent.timestamp}, {read.consumer} read {read.timestamp}"
                )


class EverySendEnds(Checker):
    """After recovery and a flush, every send has an outcome."""

    def finish(self, world: World) -> None:
        for sent in world.history.with_outcome(OPEN):
            self.fail(f"{sent}, sent at {sent.sent_at:.3f}, has no outcome at {world.now:.3f}")


class ReplicasAgree(Checker):
    """Replicas agree below the high watermark; in-sync replicas have all of it."""

    def finish(self, world: World) -> None:
        for topic, partition in world.partitions():
            state = world.partition(topic, partition)
            upto = state.high_watermark
            leader = [one for one in world.records(topic, partition) if one[0] < upto]
            for broker in state.isr:
                other = [one for one in world.records(topic, partition, broker) if one[0] < upto]
                if other != leader:
                    differs = first_difference(leader, other)
                    self.fail(
                        f"{topic}-{partition}: broker {state.leader} (leader) and {broker} differ: {differs}"
                    )


class CommittedStaysCommitted(Checker):
    """A record that a consumer has read stays in the log, and all consumers read the same."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int], dict[int, bytes]] = {}

    def finish(self, world: World) -> None:
        for read in world.history.reads:
            seen = self._seen.setdefault((read.topic, read.partition), {})
            value = seen.setdefault(read.offset, read.value)
            if value != read.value:
                self.fail(
                    f"{read.topic}-{read.partition} offset {read.offset}: "
                    f"{read.consumer} read {read.value!r}, another read {value!r}"
                )
        for (topic, partition), seen in self._seen.items():
            log = dict(world.records(topic, partition))
            for offset, value in seen.items():
                if log.get(offset) != value:
                    found = log.get(offset)
                    self.fail(
                        f"{topic}-{partition} offset {offset}: {value!r} was read, the log has {found!r}"
                    )


class HighWatermarkOnlyRises(Checker):
    """A running replica's high watermark never decreases, and never exceeds its log's end.

    A restarted replica or a new leader may have a lower one, but still not beyond its log.
    """

    def __init__(self) -> None:
        self._managers: dict[int, ReplicaManager] = {}
        self._images: dict[int, ClusterImage] = {}
        self._logs: dict[int, list[PartitionLog]] = {}
        self._marks: dict[int, list[int]] = {}
        """By broker, the last seen high watermarks of its logs, in order."""

    def turned(self, world: World, broker: Broker) -> None:
        manager = broker.replicas
        if self._images.get(broker.id) is not manager.image or self._managers.get(broker.id) is not manager:
            self._find_logs(broker.id, manager)
        logs = self._logs[broker.id]
        # Hot: after every turn.  Most turns change nothing; then only two lists of numbers are compared.
        marks = [log.high_watermark for log in logs]
        if marks != self._marks[broker.id]:
            now = world.simulation.scheduler.now
            for log, before, mark in zip(logs, self._marks[broker.id], marks, strict=True):
                if mark < before:
                    self.fail(f"{self._where(broker.id, log)} after {before}")
                if mark != before:
                    where = (broker.id, log.topic, log.partition)
                    world.watermarks.setdefault(where, []).append((now, mark))
            self._marks[broker.id] = marks
        for log in logs:
            if log.high_watermark > log.log_end_offset:
                self.fail(f"{self._where(broker.id, log)} beyond the log's end {log.log_end_offset}")

    def _find_logs(self, broker_id: int, manager: ReplicaManager) -> None:
        """Replicas change with images; a manager is recreated with each start of its broker."""
        is_new = self._managers.get(broker_id) is not manager
        known = {} if is_new else dict(zip(self._logs[broker_id], self._marks[broker_id], strict=True))
        logs = [replica.log for replica in manager.replicas.values()]
        self._managers[broker_id], self._images[broker_id] = manager, manager.image
        self._logs[broker_id] = logs
        self._marks[broker_id] = [known.get(log, 0) for log in logs]

    def _where(self, broker_id: int, log: PartitionLog) -> str:
        return f"{log.topic}-{log.partition} on broker {broker_id}: high watermark {log.high_watermark}"


class OneLeaderPerEpoch(Checker):
    """In one leader epoch all brokers have the same leader, and each broker's epochs only increase."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[str, int, int], int] = {}
        self._epochs: dict[tuple[int, str, int], int] = {}
        self._images: dict[int, ClusterImage] = {}

    def turned(self, world: World, broker: Broker) -> None:
        image = broker.image
        if self._images.get(broker.id) is image:
            return
        self._images[broker.id] = image
        for topic, partition in world.partitions():
            state = image.partition(topic, partition)
            if state is None:
                continue
            where, epoch = f"{topic}-{partition}", state.leader_epoch
            before = self._epochs.get((broker.id, topic, partition), 0)
            if epoch < before:
                self.fail(f"broker {broker.id}: {where} is in leader epoch {epoch} after {before}")
            self._epochs[broker.id, topic, partition] = epoch
            if state.leader < 0:
                continue
            known = self._leaders.setdefault((topic, partition, epoch), state.leader)
            if known != state.leader:
                self.fail(f"{where}: brokers {known} and {state.leader} lead in epoch {epoch}")


class OneControllerPerEpoch(Checker):
    """A controller epoch belongs to one broker, and no broker becomes the controller in an old epoch."""

    def __init__(self) -> None:
        self._holders: dict[int, int] = {}
        self._known: dict[int, int] = {}
        """The epoch in which each broker was last seen as the controller."""

    def turned(self, world: World, broker: Broker) -> None:
        active = broker.controller_node.active
        if active is None or self._known.get(broker.id) == active.epoch:
            return
        self._known[broker.id] = active.epoch
        latest = max(self._holders, default=-1)
        holder = self._holders.setdefault(active.epoch, broker.id)
        if holder != broker.id:
            self.fail(f"brokers {holder} and {broker.id} are the controller in epoch {active.epoch}")
        if active.epoch < latest:
            self.fail(f"broker {broker.id} became the controller in epoch {active.epoch} after {latest}")


class ReadInOrderWithoutGaps(Checker):
    """Each consumer receives every committed record once, in the order of offsets (scenarios do not seek).

    It can miss records that were deleted on request before.
    """

    def finish(self, world: World) -> None:
        for (consumer, partition), reads in world.history.reads_by_partition.items():
            log = world.records(*partition)
            read = [(one.offset, one.value) for one in reads]
            deletions = world.deletions.get((partition.topic, partition.partition))
            if deletions:
                log = _without_missed(log, reads, deletions)
            if read != log[: len(read)]:
                self.fail(f"{consumer} of {partition}: {first_difference(log, read)} (log, read)")


def _without_missed(log: Log, reads: list[Read], deletions: list[tuple[float, int]]) -> Log:
    """Return the log without records that were deleted before the reader reached them."""
    left: Log = []
    position = 0
    for read in reads:
        gone = max((upto for asked_at, upto in deletions if asked_at <= read.read_at), default=0)
        while position < len(log) and log[position][0] < min(read.offset, gone):
            position += 1
        if position < len(log):
            left.append(log[position])
            position += 1
    return left


def first_difference(one: Log, other: Log) -> str:
    """Describe the first difference of two lists."""
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            return f"{mine} against {theirs}"
    return f"{len(one)} records against {len(other)}"


def watch(world: World, checkers: Iterable[Checker]) -> None:
    """Call these checkers after every later turn of a loop of a running broker."""
    watching = [one for one in checkers if type(one).turned is not Checker.turned]
    brokers = {f"broker-{broker.id}": broker for broker in world.cluster.brokers}

    def turned(task: SimTask) -> None:
        broker = brokers.get(task.place)
        if broker is not None and broker.is_running:
            for checker in watching:
                checker.turned(world, broker)

    world.simulation.scheduler.after_turn = turned


def all_checkers() -> list[Checker]:
    """Return a new object of each class."""
    return [
        AckedIsKept(),
        NothingIsInvented(),
        WrittenOnce(),
        SentOrderIsLogOrder(),
        TimesAreKept(),
        EverySendEnds(),
        ReplicasAgree(),
        CommittedStaysCommitted(),
        HighWatermarkOnlyRises(),
        OneLeaderPerEpoch(),
        OneControllerPerEpoch(),
        ReadInOrderWithoutGaps(),
    ]
