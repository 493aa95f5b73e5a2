"""Views of share groups (KIP-932): the records in flight at the leaders of their partitions.

Read from the leaders' memory under the cluster's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pykafka2.broker.base.arguments import partition_key
from pykafka2.errors import GroupIdNotFound, LeaderNotAvailable
from pykafka2.testing.running import Running
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.broker.share.manager import SharePartitionManager
    from pykafka2.broker.share.share_partition import SharePartition


@attrs.define(frozen=True)
class ShareRecordView:
    """A record in flight. `state` is AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING or ARCHIVED; `member_id` is
    empty unless a member holds it.
    """

    state: str
    delivery_count: int
    member_id: str


@attrs.define(frozen=True)
class SharePartitionView:
    """A partition as a share group reads it. Records before `start_offset` have ended; those after
    `end_offset` were never delivered. `status` is initializing until the leader has read the stored state,
    then active.
    """

    group_id: str
    topic: str
    partition: int
    leader: int
    status: str
    leader_epoch: int
    state_epoch: int
    start_offset: int
    end_offset: int
    records: dict[int, ShareRecordView]
    """The records in flight by offset."""

    def offsets(self, state: str) -> list[int]:
        """Return the offsets of the records in this state."""
        return [offset for offset, record in self.records.items() if record.state == state]


@attrs.define(frozen=True)
class ShareGroupView:
    """A share group at the leaders: the members with a share session, by broker, and its partitions."""

    group_id: str
    sessions: dict[int, tuple[str, ...]]
    partitions: dict[TopicPartition, SharePartitionView]


def share_group_view(running: Running, group_id: str) -> ShareGroupView:
    """Implement `ClusterApi.share_group`."""
    running.check()
    with running.lock:
        sessions: dict[int, tuple[str, ...]] = {}
        partitions: dict[TopicPartition, SharePartitionView] = {}
        for broker_id, shares in _managers(running).items():
            members = shares.sessions.members_of(group_id)
            if members:
                sessions[broker_id] = tuple(members)
            for key, one in shares.partitions.items():
                if key.group_id == group_id:
                    partitions[TopicPartition(*key.place)] = _view(one, broker_id)
    if not sessions and not partitions:
        raise GroupIdNotFound(
            f"No broker has state of share group {group_id!r}: no member has fetched yet, or all have left."
        )
    return ShareGroupView(group_id, sessions, dict(sorted(partitions.items())))


def share_partition_view(
    running: Running, group_id: str, partition: TopicPartition | tuple[str, int]
) -> SharePartitionView:
    """Implement `ClusterApi.share_partition`."""
    running.check()
    with running.lock:
        topic, number = partition_key(running.controllers.image, partition)
        leader = running.controllers.partition(topic, number).leader
        if leader < 0:
            raise LeaderNotAvailable(f"{topic}-{number} has no leader now.")
        shares = _managers(running).get(leader)
        for key, one in {} if shares is None else shares.partitions.items():
            if key.group_id == group_id and key.place == (topic, number):
                return _view(one, leader)
    raise GroupIdNotFound(
        f"Broker {leader}, the leader of {topic}-{number}, has no state of share group {group_id!r}: no "
        "member has fetched from it yet, or all have left. Members fetch while they poll."
    )


def _managers(running: Running) -> dict[int, SharePartitionManager]:
    """Return the share partitions of each running broker that has any."""
    found = {broker.id: broker.parts.shares_or_none for broker in running.brokers if broker.is_running}
    return {broker_id: shares for broker_id, shares in found.items() if shares is not None}


def _view(one: SharePartition, leader: int) -> SharePartitionView:
    records = one.records
    return SharePartitionView(
        one.key.group_id,
        one.key.topic,
        one.key.partition,
        leader,
        one.status.value,
        one.leader_epoch,
        one.state_epoch,
        records.start_offset,
        records.end_offset,
        {
            offset: ShareRecordView(unit.state.state.name, unit.state.delivery_count, unit.state.member_id)
            for unit in records.units()
            for offset in range(unit.first_offset, unit.last_offset + 1)
            if offset >= records.start_offset
        },
    )
