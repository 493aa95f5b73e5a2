"""The demo's crash: the leader of partition 0 dies with a produce in flight, and comes back later."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from pykafka2.testing import KafkaCluster

WAIT = 5.0
PARTITION = 0


@attrs.define
class Crash:
    """The measurements around the crash of the leader."""

    broker: int
    in_flight: int
    """Produce requests that the broker had taken in and not answered."""
    unreplicated: int
    """Records that only the dead leader had, on all partitions it led."""
    epoch_before: int
    leader_after: int = -1
    epoch_after: int = -1


def stop_replication(cluster: KafkaCluster) -> None:
    """From now on no acks=all produce can be answered: what is sent next will be in flight at the crash."""
    cluster.controls.pause_followers()


def crash_leader(cluster: KafkaCluster, topic: str, partitions: int) -> Crash:
    """With replication stopped: wait until a produce hangs on the leader, then kill the leader.

    What hangs was appended by the leader alone: the tail that the crash drops, and that must be sent again.
    """
    leader = cluster.partition(topic, PARTITION).leader
    epoch = cluster.partition(topic, PARTITION).leader_epoch
    deadline = time.monotonic() + WAIT
    crash = Crash(leader, 0, 0, epoch)
    # A request is taken in a moment before its records are in the log.
    while not (crash.in_flight and crash.unreplicated) and time.monotonic() < deadline:
        time.sleep(0.001)
        crash.in_flight = unanswered(cluster, leader)
        crash.unreplicated = _unreplicated(cluster, topic, partitions, leader)
    cluster.controls.crash_broker(leader, lose_unreplicated=True)
    cluster.controls.resume_followers()
    return crash


def look_again(cluster: KafkaCluster, topic: str, crash: Crash) -> None:
    """Note who leads now."""
    after = cluster.partition(topic, PARTITION)
    crash.leader_after, crash.epoch_after = after.leader, after.leader_epoch


def wait_until_in_sync(cluster: KafkaCluster, topic: str, partitions: int) -> bool:
    """Return True once every replica of every partition is in sync again."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        views = [cluster.partition(topic, index) for index in range(partitions)]
        if all(len(view.isr) == len(view.replicas) for view in views):
            return True
        time.sleep(0.01)
    return False


def unanswered(cluster: KafkaCluster, broker: int) -> int:
    """Produce requests that the broker has taken in and not answered."""
    entries = cluster.history.entries("Produce", broker=broker)
    return sum(1 for entry in entries if entry.answered_at is None)


def _unreplicated(cluster: KafkaCluster, topic: str, partitions: int, leader: int) -> int:
    views = [cluster.partition(topic, index) for index in range(partitions)]
    return sum(view.log_end_offset - view.high_watermark for view in views if view.leader == leader)
