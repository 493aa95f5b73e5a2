"""Encodes and decodes subscriptions and assignments in JoinGroup and SyncGroup, in the format of all clients.

Each starts with its version as an int16. A newer version than the newest known one is decoded as that one,
because later versions only append fields. Pure functions.
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
"""The protocol type in JoinGroup of groups that use this format."""
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
    """Decode a member's subscription.  Raise `CorruptData` if the bytes are not one."""
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
    """Decode the leader's assignment.  Raise `CorruptData` if the bytes are not one."""
    version = min(_version_of(data, "assignment"), ConsumerProtocolAssignment.MAX_VERSION)
    message, _ = ConsumerProtocolAssignment.decode_from(data, _VERSION_BYTES, version)
    return Assignment(
        tuple(
            # A partition that the leader lists more than once counts once.
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
            f"{bytes(data[:16])!r} is not the {what} of a consumer group: it does not start with a version"
        )
    return version


def _by_topic(in_order: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    return [
        (topic, [partition.partition for partition in partitions])
        for topic, partitions in groupby(in_order, key=lambda partition: partition.topic)
    ]
