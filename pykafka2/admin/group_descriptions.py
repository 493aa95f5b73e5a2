"""Reads groups out of the responses of DescribeGroups, ConsumerGroupDescribe and ShareGroupDescribe.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pykafka2.admin.group_values import GroupDescription, MemberDescription
from pykafka2.errors import CorruptData
from pykafka2.protocol.acl_terms import Operation
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.protocol.messages.consumer_group import (
        ConsumerGroupDescribeResponseAssignment,
        Member,
    )
    from pykafka2.protocol.messages.consumer_group import DescribedGroup as DescribedConsumerGroup
    from pykafka2.protocol.messages.group_admin import DescribedGroup, DescribedGroupMember
    from pykafka2.protocol.messages.share_group import DescribedGroup as DescribedShareGroup
    from pykafka2.protocol.messages.share_group import Member as ShareMember
    from pykafka2.protocol.messages.share_group import ShareGroupDescribeResponseAssignment

CONSUMER = "consumer"
SHARE = "share"
NOT_REQUESTED = -(2**31)
CLASSIC_MEMBER = 0
VERSION_BYTES = 2


def consumer_group(group: DescribedConsumerGroup) -> GroupDescription:
    """Return a group of the protocol of KIP-848."""
    return _group_with_epochs(group, CONSUMER, _consumer_member)


def share_group(group: DescribedShareGroup) -> GroupDescription:
    """Return a share group (KIP-932)."""
    return _group_with_epochs(group, SHARE, _share_member)


def _group_with_epochs(
    group: DescribedConsumerGroup | DescribedShareGroup,
    protocol: str,
    read_member: Callable[[Any], MemberDescription],
) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        group.group_state,
        protocol.capitalize(),
        group.assignor_name,
        None,
        tuple(map(read_member, sorted(group.members, key=lambda member: member.member_id))),
        protocol=protocol,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        authorized_operations=operations(group.authorized_operations),
    )


def classic_group(group: DescribedGroup) -> GroupDescription:
    """Return a group of the classic protocol, of consumers or of other members."""
    return GroupDescription(
        group.group_id,
        group.group_state,
        "Classic",
        group.protocol_data,
        None,
        tuple(
            _classic_member(member, group.protocol_type)
            for member in sorted(group.members, key=lambda member: member.member_id)
        ),
        protocol=group.protocol_type,
        authorized_operations=operations(group.authorized_operations),
    )


def operations(bits: int) -> tuple[str, ...] | None:
    """Return the names of the operations in a bit field; None if they were not requested."""
    if bits == NOT_REQUESTED:
        return None
    return tuple(operation.name for operation in Operation if bits >> operation.value & 1)


def _consumer_member(member: Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        target=_partitions(member.target_assignment),
        epoch=member.member_epoch,
        rack=member.rack_id,
        topics=tuple(sorted(member.subscribed_topic_names)),
        topic_pattern=member.subscribed_topic_regex or None,
        is_classic=None if member.member_type < 0 else member.member_type == CLASSIC_MEMBER,
    )


def _share_member(member: ShareMember) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        None,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        epoch=member.member_epoch,
        rack=member.rack_id,
        topics=tuple(sorted(member.subscribed_topic_names)),
    )


def _partitions(
    assignment: ConsumerGroupDescribeResponseAssignment | ShareGroupDescribeResponseAssignment,
) -> tuple[TopicPartition, ...]:
    return _sorted((topic.topic_name, topic.partitions) for topic in assignment.topic_partitions)


def _classic_member(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    from pykafka2.protocol.messages.consumer_protocol import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
    )

    assigned: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    if protocol_type == CONSUMER:  # others, such as Connect's workers, have formats of their own
        assignment = _decoded(ConsumerProtocolAssignment, member.member_assignment)
        if assignment is not None:
            assigned = _sorted((topic.topic, topic.partitions) for topic in assignment.assigned_partitions)
        subscription = _decoded(ConsumerProtocolSubscription, member.member_metadata)
        if subscription is not None:
            topics = tuple(sorted(subscription.topics))
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        assigned,
        topics=topics,
    )


def _decoded(kind: Any, data: bytes) -> Any:
    """Return the message; None if it is empty, as during a rebalance, or not one of a consumer."""
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if len(data) < VERSION_BYTES or version < 0:
        return None
    try:
        message, _ = kind.decode_from(data, VERSION_BYTES, min(version, kind.MAX_VERSION))
    except CorruptData:
        return None
    return message


def _sorted(topics: Iterable[tuple[str, Iterable[int]]]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(topic, number) for topic, numbers in topics for number in numbers))
