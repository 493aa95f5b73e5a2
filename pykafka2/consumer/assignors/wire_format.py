"""Subscriptions and assignments as bytes inside JoinGroup and SyncGroup, as all clients write them.

Each begins with its version as an int16.  What is newer than the newest version known here is read as that
one: later versions only append fields.  Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from pykafka2.consumer.assignors.assignor import NO_GENERATION, Assignment, MemberSubscription
from pykafka2.errors import CorruptData
from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from pykafka2.types import TopicPartition

PROTOCOL_TYPE = "consumer"
"""What JoinGroup calls groups whose members speak this."""
_VERSION_BYTES = 2


def subscription_bytes(
    subscription: MemberSubscription, version: int = ConsumerProtocolSubscription.MAX_VERSION
) -> bytes:
    """Encode a member's subscription for the leader.  The instance id is in JoinGroup instead."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in _by_topic(sorted(subscription.owned))
        ],
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _with_version(version, message.encode(version))


def read_subscription(data: bytes, instance_id: str | None = None) -> MemberSubscription:
    """Decode a member's subscription.  Raises `CorruptData` if the bytes are not one."""
    version = min(_version_of(data, "subscription"), ConsumerProtocolSubscription.MAX_VERSION)
    message, _ = ConsumerProtocolSubscription.decode_from(data, _VERSION_BYTES, version)
    return MemberSubscription(
        topics=tuple(message.topics),
        user_data=None if message.user_data is None else bytes(message.user_data),
        owned=tuple(
            TopicPartition(topic.topic, number)
            for topic in message.owned_partitions
            for number in topic.partitions
        ),
        generation=max(message.generation_id, NO_GENERATION),
        rack=message.rack_id or None,
        instance_id=instance_id,
    )


def assignment_bytes(assignment: Assignment, version: int = ConsumerProtocolAssignment.MAX_VERSION) -> bytes:
    """Encode the leader's assignment for one member."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in _by_topic(sorted(assignment.partitions))
        ],
        user_data=assignment.user_data,
    )
    return _with_version(version, message.encode(version))


def read_assignment(data: bytes) -> Assignment:
    """Decode the leader's assignment.  Raises `CorruptData` if the bytes are not one."""
    version = min(_version_of(data, "assignment"), ConsumerProtocolAssignment.MAX_VERSION)
    message, _ = ConsumerProtocolAssignment.decode_from(data, _VERSION_BYTES, version)
    return Assignment(
        tuple(
            # Each counts once, however often a leader names it.
            dict.fromkeys(
                TopicPartition(topic.topic, number)
                for topic in message.assigned_partitions
                for number in topic.partitions
            )
        ),
        None if message.user_data is None else bytes(message.user_data),
    )


def _with_version(version: int, body: bytes) -> bytes:
    return version.to_bytes(_VERSION_BYTES, "big") + body


def _version_of(data: bytes, what: str) -> int:
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if len(data) < _VERSION_BYTES or version < 0:
        raise CorruptData(
            f"no {what} of a consumer group: {bytes(data[:16])!r} does not begin with a version"
        )
    return version


def _by_topic(in_order: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    return [
        (topic, [partition.partition for partition in partitions])
        for topic, partitions in groupby(in_order, key=lambda partition: partition.topic)
    ]
