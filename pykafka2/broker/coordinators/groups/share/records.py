"""Records of share groups in __consumer_offsets: written by group.py and offsets.py, replayed here."""

from __future__ import annotations

from typing import Any, Final

import attrs

from pykafka2.broker.coordinators.groups.classic.rebalance import Groups
from pykafka2.broker.coordinators.groups.share.state import (
    LEAVE_EPOCH,
    Assignment,
    PartitionStates,
    ShareGroup,
    ShareMember,
)
from pykafka2.broker.coordinators.replay import Kinds, Result
from pykafka2.broker.coordinators.settings import Topics
from pykafka2.protocol.messages import share_group_records as wire
from pykafka2.protocol.struct import RecordKey, RecordValue

SHARE_GROUP_RECORDS: Final[Kinds] = {
    key.RECORD_KIND: (key, value)
    for key, value in (
        (wire.ShareGroupMemberMetadataKey, wire.ShareGroupMemberMetadataValue),
        (wire.ShareGroupMetadataKey, wire.ShareGroupMetadataValue),
        (wire.ShareGroupTargetAssignmentMetadataKey, wire.ShareGroupTargetAssignmentMetadataValue),
        (wire.ShareGroupTargetAssignmentMemberKey, wire.ShareGroupTargetAssignmentMemberValue),
        (wire.ShareGroupCurrentMemberAssignmentKey, wire.ShareGroupCurrentMemberAssignmentValue),
        (wire.ShareGroupStatePartitionMetadataKey, wire.ShareGroupStatePartitionMetadataValue),
    )
}


def write_member(out: Result, group_id: str, member: ShareMember) -> None:
    key = wire.ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.id)
    out.write(key, member.metadata_value())


def write_current(out: Result, group_id: str, member: ShareMember) -> None:
    key = wire.ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id)
    out.write(key, member.current_value())


def write_target(out: Result, group_id: str, member_id: str, target: Assignment) -> None:
    out.write(
        wire.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        wire.ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                wire.TopicPartition(topic_id=topic_id, partitions=sorted(target[topic_id]))
                for topic_id in sorted(target)
            ]
        ),
    )


def write_target_epoch(out: Result, group_id: str, epoch: int, timestamp_ms: int) -> None:
    out.write(
        wire.ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        wire.ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def write_epoch(out: Result, group_id: str, epoch: int, metadata_hash: int) -> None:
    out.write(
        wire.ShareGroupMetadataKey(group_id=group_id),
        wire.ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def write_states(out: Result, group_id: str, states: PartitionStates, topics: Topics) -> None:
    key = wire.ShareGroupStatePartitionMetadataKey(group_id=group_id)
    out.write(key, states.to_value(topics))


def write_removal(out: Result, group_id: str, member_id: str) -> None:
    """Write the removal of a member with all its state."""
    for key in (
        wire.ShareGroupCurrentMemberAssignmentKey,
        wire.ShareGroupTargetAssignmentMemberKey,
        wire.ShareGroupMemberMetadataKey,
    ):
        out.write(key(group_id=group_id, member_id=member_id), None)


def write_group_removal(out: Result, group: ShareGroup) -> None:
    """Write the removal of a group without members."""
    out.write(wire.ShareGroupTargetAssignmentMetadataKey(group_id=group.id), None)
    out.write(wire.ShareGroupStatePartitionMetadataKey(group_id=group.id), None)
    out.write(wire.ShareGroupMetadataKey(group_id=group.id), None)


def replay(groups: Groups, key: RecordKey, value: RecordValue | None, now_ms: int) -> None:
    """Apply one of these records; the first one of a group creates it."""
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = groups.get(group_id)
    if not isinstance(group, ShareGroup):
        if value is None:
            return
        group = groups[group_id] = ShareGroup(group_id)
    if value is None:
        _remove(groups, group, key)
    else:
        _set(group, key, value, now_ms)


def _set(group: ShareGroup, key: RecordKey, value: RecordValue, now_ms: int) -> None:
    if isinstance(value, wire.ShareGroupMetadataValue):
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif isinstance(value, wire.ShareGroupTargetAssignmentMetadataValue):
        group.assignment_epoch, group.assigned_at_ms = value.assignment_epoch, value.assignment_timestamp
    elif isinstance(value, wire.ShareGroupMemberMetadataValue):
        _put(
            group,
            key,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
        )
    elif isinstance(value, wire.ShareGroupCurrentMemberAssignmentValue):
        _put(
            group,
            key,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned={topic.topic_id: frozenset(topic.partitions) for topic in value.assigned_partitions},
        )
    elif isinstance(value, wire.ShareGroupTargetAssignmentMemberValue):
        group.targets[_member_of(key)] = {
            topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
        }
    elif isinstance(value, wire.ShareGroupStatePartitionMetadataValue):
        group.states = PartitionStates.from_value(value, now_ms)


def _put(group: ShareGroup, key: RecordKey, **changes: Any) -> None:
    member_id = _member_of(key)
    known = group.members.get(member_id, ShareMember(member_id))
    group.members[member_id] = attrs.evolve(known, **changes)


def _remove(groups: Groups, group: ShareGroup, key: RecordKey) -> None:
    if isinstance(key, wire.ShareGroupMetadataKey):
        del groups[group.id]
    elif isinstance(key, wire.ShareGroupMemberMetadataKey):
        group.members.pop(key.member_id, None)
    elif isinstance(key, wire.ShareGroupCurrentMemberAssignmentKey):
        if key.member_id in group.members:
            _put(group, key, epoch=LEAVE_EPOCH, previous_epoch=LEAVE_EPOCH, assigned={})
    elif isinstance(key, wire.ShareGroupTargetAssignmentMemberKey):
        group.targets.pop(key.member_id, None)
    elif isinstance(key, wire.ShareGroupTargetAssignmentMetadataKey):
        group.assignment_epoch = group.assigned_at_ms = 0
    elif isinstance(key, wire.ShareGroupStatePartitionMetadataKey):
        group.states = None


def _member_of(key: RecordKey) -> str:
    return key.member_id  # type: ignore[attr-defined,no-any-return]
