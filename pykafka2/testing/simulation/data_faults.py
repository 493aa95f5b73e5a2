"""Kinds of faults of stored data: full disks, slow replication, deletions, topics that grow.

Like those of fault_kinds.py: small objects with start, stop, and an outcome.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.driver.pollable import ToLeader
from pykafka2.errors import KafkaError, error_or_none
from pykafka2.testing.simulation.fault_kinds import Crash
from pykafka2.testing.simulation.world import GROUP_ID, World
from pykafka2.testing.views.groups import coordinator_partition

if TYPE_CHECKING:
    from pykafka2.protocol.messages.topics import DeleteRecordsResponse

# A topic that grows for ever would make the last virtual seconds of a seed the dearest.
MOST_PARTITIONS = 6

DELETION_TIMEOUT = 5.0

CHANGE_TIMEOUT = 3.0
"""Seconds that a change waits for a controller; other faults can end that much later."""


class DiskFull:
    """Every append of one broker fails, as leader (KAFKA_STORAGE_ERROR) and as follower."""

    def __init__(self, broker: int) -> None:
        self._broker = broker
        self._before = 0

    def start(self, world: World) -> None:
        disk = world.cluster.broker(self._broker).logs.disk
        self._before = disk.refused
        disk.is_full = True

    def stop(self, world: World) -> None:
        disk = world.cluster.broker(self._broker).logs.disk
        disk.is_full = False
        self._before = disk.refused - self._before

    def outcome(self, world: World) -> str:
        return "appends failed" if self._before else ""


class SlowReplication:
    """The link from one broker to another is slow: a follower lags, and may leave the ISR."""

    def __init__(self, one: int, other: int, bytes_per_second: int) -> None:
        self._one, self._other, self._rate = one, other, bytes_per_second
        self._before = 0
        self._slowed = 0

    def start(self, world: World) -> None:
        self._before = world.cluster.links.throttled_frames
        world.cluster.controls.throttle_link(self._one, self._other, self._rate, one_way=True)

    def stop(self, world: World) -> None:
        self._slowed = world.cluster.links.throttled_frames - self._before
        world.cluster.controls.throttle_link(self._one, self._other, None, one_way=True)

    def outcome(self, world: World) -> str:
        return "replication slowed" if self._slowed else ""


class DoubleFailure:
    """The controller fails together with the group's coordinator, or with a leader if there is none."""

    def __init__(self) -> None:
        self._crashes: list[Crash] = []

    def start(self, world: World) -> None:
        if len(world.live_brokers) < 3:
            return
        victims = {world.cluster.controller.id: None, self._coordinator(world): None}
        self._crashes = [Crash(broker, clean=False) for broker in victims if broker in world.live_brokers]
        for crash in self._crashes:
            crash.start(world)

    def stop(self, world: World) -> None:
        for crash in self._crashes:
            crash.stop(world)

    def outcome(self, world: World) -> str:
        fell = sum(bool(crash.outcome(world)) for crash in self._crashes)
        return ("", "one fell", "both fell")[fell]

    def _coordinator(self, world: World) -> int:
        if not world.groups.operations:
            return world.partition(*world.partitions()[0]).leader
        return world.partition(*coordinator_partition(world.cluster.running, GROUP_ID, "group")).leader


class AddPartition:
    """A topic gets one more partition while producers, consumers and a group use it."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._became = ""

    def start(self, world: World) -> None:
        from pykafka2.broker.controller.topics import added_partitions

        topic, wanted = self._topic, world.topics[self._topic] + 1
        if wanted > MOST_PARTITIONS:
            return
        try:
            world.cluster.controller.run(
                f"add a partition to {topic}",
                lambda active: active.write(added_partitions(active.state, topic, wanted, None)),
                timeout=CHANGE_TIMEOUT,
            )
        finally:
            # Also if the outcome is unknown.
            image = world.cluster.controller.image.topics[topic]
            if len(image.partitions) == wanted:
                world.topics[topic] = wanted
                self._became = "grew"

    def stop(self, world: World) -> None:
        pass

    def outcome(self, world: World) -> str:
        return self._became


class DeleteRecords:
    """Records of a partition are deleted during reads: late readers continue at the new start."""

    def __init__(self, topic: str, partition: int, share: float) -> None:
        self._topic, self._partition, self._share = topic, partition, share
        self._start = 0
        self._became = ""

    def start(self, world: World) -> None:
        state = world.partition(self._topic, self._partition)
        if state.leader not in world.live_brokers or state.leader not in state.replicas:
            return
        self._start = state.replicas[state.leader].log_start_offset
        upto = self._start + int((state.high_watermark - self._start) * self._share)
        if upto <= self._start:
            return
        world.will_delete(self._topic, self._partition, upto)
        self._ask(world, upto)

    def _ask(self, world: World, upto: int) -> None:
        from pykafka2.protocol.messages.topics import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsTopic,
        )

        one = DeleteRecordsPartition(partition_index=self._partition, offset=upto)
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=self._topic, partitions=[one])],
            timeout_ms=int(DELETION_TIMEOUT * 1000),
        )

        def check(answer: DeleteRecordsResponse) -> KafkaError | None:
            code = answer.topics[0].partitions[0].error_code
            return error_or_none(code)

        world.admin.request(request, ToLeader(self._topic, self._partition), DELETION_TIMEOUT, check)

    def stop(self, world: World) -> None:
        state = world.partition(self._topic, self._partition)
        starts = [replica.log_start_offset for replica in state.replicas.values()]
        self._became = "deleted" if max(starts, default=0) > self._start > -1 else ""

    def outcome(self, world: World) -> str:
        return self._became
