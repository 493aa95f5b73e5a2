"""Conversion between classic and KIP-848 groups: members, subscriptions, assignments; for migration.py.

Pure functions. The generation of a classic group becomes the epoch of its members, and vice versa.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from pykafka2.broker.coordinators.classic.state import (
    CONSUMER_PROTOCOL,
    ClassicGroup,
    ClassicMember,
    GroupState,
)
from pykafka2.broker.coordinators.consumer.state import ClassicMemberMetadata, ConsumerGroup, ConsumerMember
from pykafka2.broker.coordinators.groups.settings import Topics
from pykafka2.errors import CorruptData
from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)


def from_classic(group: ClassicGroup, topics: Topics) -> ConsumerGroup:
    """Return a KIP-848 group with the members of a classic one; the caller sets its metadata hash.

    Raises:
        CorruptData: a member's subscription or assignment cannot be decoded.
    """
    upgraded = ConsumerGroup(group.id)
    upgraded.epoch = upgraded.assignment_epoch = max(group.generation, 1)
    for member in group.members.values():
        assigned = _read_assignment(member.assignment, upgraded.epoch, topics)
        subscription = read_subscription(member.protocols)
        upgraded.put(
            ConsumerMember(
                member.id,
                upgraded.epoch,
                upgraded.epoch,
                member.instance_id,
                subscription.rack_id,
                member.client_id,
                member.client_host,
                frozenset(subscription.topics),
                "",
                member.rebalance_timeout,
                classic=ClassicMemberMetadata(member.session_timeout, member.protocols),
                assigned=assigned,
            )
        )
        upgraded.targets[member.id] = {topic: frozenset(numbers) for topic, numbers in assigned.items()}
    return upgraded


def _read_assignment(data: bytes, epoch: int, topics: Topics) -> dict[bytes, dict[int, int]]:
    if not data:
        return {}
    assignment = ConsumerProtocolAssignment.decode(data[2:], 0, allow_trailing=True)
    if assignment.user_data:
        raise CorruptData("the assignment has user data of a custom assignor")
    ids = ((topics.id_of(entry.topic), entry.partitions) for entry in assignment.assigned_partitions)
    return {topic: dict.fromkeys(partitions, epoch) for topic, partitions in ids if topic is not None}


def to_classic(
    group: ConsumerGroup, members: Sequence[ConsumerMember], topics: Topics, wall_ms: int
) -> ClassicGroup:
    """Return a classic group with the remaining members of a KIP-848 group."""
    downgraded = ClassicGroup(group.id, wall_ms)
    downgraded.generation = group.epoch
    for member in members:
        metadata = cast("ClassicMemberMetadata", member.classic)
        downgraded.add(
            ClassicMember(
                member.id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout,
                metadata.session_timeout,
                CONSUMER_PROTOCOL,
                metadata.protocols,
                assignment_bytes(member, group.targets.get(member.id, {}), topics),
            )
        )
    downgraded.state = downgraded.previous_state = GroupState.STABLE
    downgraded.protocol = downgraded.select_protocol()
    downgraded.subscribed_topics = downgraded.read_subscriptions()
    return downgraded


def assignment_bytes(member: ConsumerMember, partitions: Mapping[bytes, Any], topics: Topics) -> bytes:
    """Encode partitions for a classic consumer, in the version of its own subscription."""
    metadata = cast("ClassicMemberMetadata", member.classic)
    version = min(int.from_bytes(metadata.protocols[0][1][:2], "big"), ConsumerProtocolAssignment.MAX_VERSION)
    named = [
        ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=sorted(partitions[topic_id]))
        for topic_id in sorted(partitions)
        if (name := topics.name_of(topic_id)) is not None
    ]
    assignment = ConsumerProtocolAssignment(assigned_partitions=named)
    return version.to_bytes(2, "big") + assignment.encode(version)


def read_subscription(protocols: Sequence[tuple[str, bytes]]) -> ConsumerProtocolSubscription:
    """Decode a classic consumer's subscription, which is the same for all its protocols."""
    data = protocols[0][1]
    version = int.from_bytes(data[:2], "big")
    if len(data) < 2 or version < 0:
        raise CorruptData("a subscription must start with its version")
    version = min(version, ConsumerProtocolSubscription.MAX_VERSION)
    return ConsumerProtocolSubscription.decode(data[2:], version, allow_trailing=True)
