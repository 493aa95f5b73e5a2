"""Records of KIP-848 groups: written by group.py, replayed here.

Writing and replaying of each type are next to each other. Replay creates the group with its first record and
removes it with the tombstone of its epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pykafka2.broker.coordinators.groups.classic.rebalance import Groups
from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroup, ConsumerMember, Target
from pykafka2.broker.coordinators.replay import Result
from pykafka2.protocol.messages import consumer_group_records as wire
from pykafka2.protocol.struct import RecordKey, RecordValue

KEYS: Final = (
    wire.ConsumerGroupMetadataKey,
    wire.ConsumerGroupPartitionMetadataKey,
    wire.ConsumerGroupMemberMetadataKey,
    wire.ConsumerGroupTargetAssignmentMetadataKey,
    wire.ConsumerGroupTargetAssignmentMemberKey,
    wire.ConsumerGroupCurrentMemberAssignmentKey,
    wire.ConsumerGroupRegularExpressionKey,
)
"""Key types of the records of such a group."""


def write_member(out: Result, group_id: str, member: ConsumerMember) -> None:
    key = wire.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.id)
    out.write(key, member.metadata_value())


def write_current(out: Result, group_id: str, member: ConsumerMember) -> None:
    key = wire.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.id)
    out.write(key, member.current_value())


def write_target(out: Result, group_id: str, member_id: str, target: Target) -> None:
    key = wire.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    out.write(
        key,
        wire.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                wire.TopicPartition(topic_id=topic_id, partitions=sorted(target[topic_id]))
                for topic_id in sorted(target)
            ]
        ),
    )


def write_target_epoch(out: Result, group_id: str, epoch: int, timestamp_ms: int) -> None:
    out.write(
        wire.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        wire.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp_ms
        ),
    )


def write_epoch(out: Result, group_id: str, epoch: int, metadata_hash: int) -> None:
    out.write(
        wire.ConsumerGroupMetadataKey(group_id=group_id),
        wire.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def write_regex(
    out: Result, group_id: str, regex: str, topics: frozenset[str] | None, timestamp_ms: int = 0
) -> None:
    """Write the topics that match a pattern; None once it has no subscribers."""
    out.write(
        wire.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        None
        if topics is None
        else wire.ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=0, timestamp=timestamp_ms
        ),
    )


def write_removal(out: Result, group_id: str, member_id: str) -> None:
    """Write the removal of a member with all its state."""
    for key in (
        wire.ConsumerGroupCurrentMemberAssignmentKey,
        wire.ConsumerGroupTargetAssignmentMemberKey,
        wire.ConsumerGroupMemberMetadataKey,
    ):
        out.write(key(group_id=group_id, member_id=member_id), None)


def write_group_removal(out: Result, group: ConsumerGroup) -> None:
    """Write the removal of a group: its members first, its epoch last."""
    for member_id in group.members:
        write_removal(out, group.id, member_id)
    for regex in group.regexes:
        write_regex(out, group.id, regex, None)
    out.write(wire.ConsumerGroupTargetAssignmentMetadataKey(group_id=group.id), None)
    out.write(wire.ConsumerGroupMetadataKey(group_id=group.id), None)


def replay(groups: Groups, key: RecordKey, value: RecordValue | None) -> None:
    """Apply one of these records."""
    if isinstance(key, wire.ConsumerGroupPartitionMetadataKey):
        return  # Kafka 4.0's; replaced by the hash in the group's epoch
    group_id: str = key.group_id  # type: ignore[attr-defined]
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if value is None:
            return
        group = groups[group_id] = ConsumerGroup(group_id)
    if value is None:
        _remove(groups, group, key)
    else:
        _set(group, key, value)


def _set(group: ConsumerGroup, key: RecordKey, value: RecordValue) -> None:
    if isinstance(value, wire.ConsumerGroupMetadataValue):
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif isinstance(value, wire.ConsumerGroupTargetAssignmentMetadataValue):
        group.assignment_epoch, group.assigned_at_ms = value.assignment_epoch, value.assignment_timestamp
    elif isinstance(value, wire.ConsumerGroupMemberMetadataValue):
        group.replay_member_metadata(_member_of(key), value)
    elif isinstance(value, wire.ConsumerGroupCurrentMemberAssignmentValue):
        group.replay_current(_member_of(key), value)
    elif isinstance(value, wire.ConsumerGroupTargetAssignmentMemberValue):
        group.targets[_member_of(key)] = {
            topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
        }
    elif isinstance(value, wire.ConsumerGroupRegularExpressionValue):
        assert isinstance(key, wire.ConsumerGroupRegularExpressionKey)  # noqa: S101 - narrows the type
        group.regexes[key.regular_expression] = frozenset(value.topics)


def _remove(groups: Groups, group: ConsumerGroup, key: RecordKey) -> None:
    if isinstance(key, wire.ConsumerGroupMetadataKey):
        del groups[group.id]
    elif isinstance(key, wire.ConsumerGroupMemberMetadataKey):
        group.remove_member(key.member_id)
    elif isinstance(key, wire.ConsumerGroupCurrentMemberAssignmentKey):
        group.remove_current(key.member_id)
    elif isinstance(key, wire.ConsumerGroupTargetAssignmentMemberKey):
        group.targets.pop(key.member_id, None)
    elif isinstance(key, wire.ConsumerGroupTargetAssignmentMetadataKey):
        group.assignment_epoch = group.assigned_at_ms = 0
    elif isinstance(key, wire.ConsumerGroupRegularExpressionKey):
        group.regexes.pop(key.regular_expression, None)


def _member_of(key: RecordKey) -> str:
    return key.member_id  # type: ignore[attr-defined,no-any-return]


def target_of(partitions: Mapping[bytes, set[int]]) -> Target:
    """Return a target assignment in the groups' format."""
    return {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items() if numbers}
