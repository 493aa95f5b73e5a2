"""State of a share group, rebuilt from records alone.

Members are values, as those of KIP-848 groups. A partition is assigned only after the share coordinator has
initialized its state; until then it is initializing, and while its state is deleted it is deleting.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from enum import Enum
from typing import Final

import attrs

from pykafka2.broker.coordinators.settings import Topics
from pykafka2.errors import UnknownMemberId
from pykafka2.protocol.messages import share_group_records as records

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1

Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id."""


class ShareGroupState(Enum):
    """The state of a group."""

    EMPTY = "Empty"
    STABLE = "Stable"


@attrs.define(frozen=True)
class ShareMember:
    """One member."""

    id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    assigned: Assignment = attrs.field(factory=dict)

    def metadata_value(self) -> records.ShareGroupMemberMetadataValue:
        """Return the record of its subscription."""
        return records.ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
        )

    def current_value(self) -> records.ShareGroupCurrentMemberAssignmentValue:
        """Return the record of its partitions."""
        return records.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=STABLE,
            assigned_partitions=[
                records.TopicPartitions(topic_id=topic_id, partitions=sorted(self.assigned[topic_id]))
                for topic_id in sorted(self.assigned)
            ],
        )


STABLE: Final = 0
"""The only state of members in the log."""


@attrs.define(frozen=True)
class PartitionStates:
    """The partitions with a state at the share coordinator, by topic id."""

    initializing: Assignment = attrs.field(factory=dict)
    initialized: Assignment = attrs.field(factory=dict)
    deleting: frozenset[bytes] = frozenset()
    names: Mapping[bytes, str] = attrs.field(factory=dict)
    """The names of the topics when the record was written."""
    recorded_ms: int = 0
    """When the record was replayed; initializing partitions are retried later."""

    def to_value(self, topics: Topics) -> records.ShareGroupStatePartitionMetadataValue:
        """Return the record."""

        def name_of(topic_id: bytes) -> str:
            return topics.name_of(topic_id) or self.names.get(topic_id, "<UNKNOWN>")

        def to_wire(partitions: Assignment) -> list[records.TopicPartitionsInfo]:
            return [
                records.TopicPartitionsInfo(
                    topic_id=topic_id, topic_name=name_of(topic_id), partitions=sorted(partitions[topic_id])
                )
                for topic_id in sorted(partitions)
            ]

        return records.ShareGroupStatePartitionMetadataValue(
            initializing_topics=to_wire(self.initializing),
            initialized_topics=to_wire(self.initialized),
            deleting_topics=[
                records.TopicInfo(topic_id=topic_id, topic_name=name_of(topic_id))
                for topic_id in sorted(self.deleting)
            ],
        )

    @classmethod
    def from_value(cls, value: records.ShareGroupStatePartitionMetadataValue, now_ms: int) -> PartitionStates:
        """Return the state of a record."""
        return cls(
            {topic.topic_id: frozenset(topic.partitions) for topic in value.initializing_topics},
            {topic.topic_id: frozenset(topic.partitions) for topic in value.initialized_topics},
            frozenset(topic.topic_id for topic in value.deleting_topics),
            {
                **{topic.topic_id: topic.topic_name for topic in value.initializing_topics},
                **{topic.topic_id: topic.topic_name for topic in value.initialized_topics},
                **{topic.topic_id: topic.topic_name for topic in value.deleting_topics},
            },
            now_ms,
        )


def united(*assignments: Assignment) -> Assignment:
    """Return all partitions of these assignments."""
    merged: dict[bytes, frozenset[int]] = {}
    for assignment in assignments:
        for topic_id, partitions in assignment.items():
            merged[topic_id] = merged.get(topic_id, frozenset()) | partitions
    return merged


def without(assignment: Assignment, removed: Assignment) -> Assignment:
    """Return an assignment without some partitions."""
    left = {
        topic_id: partitions - removed.get(topic_id, frozenset())
        for topic_id, partitions in assignment.items()
    }
    return {topic_id: partitions for topic_id, partitions in left.items() if partitions}


def without_topics(assignment: Assignment, removed: Container[bytes]) -> Assignment:
    """Return an assignment without the partitions of some topics."""
    return {topic_id: partitions for topic_id, partitions in assignment.items() if topic_id not in removed}


class ShareGroup:
    """One group. Only replay changes it."""

    kind = "share"
    protocol_type = "share"

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assigned_at_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.states: PartitionStates | None = None
        # Soft state: the topics that its hash was last compared with.
        self.topics_seen: Topics | None = None

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def get_member(self, member_id: str) -> ShareMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{self.id} has no member {member_id}")
        return member

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed()

    def subscribed(self, members: Iterable[ShareMember] | None = None) -> frozenset[str]:
        """Return the topics of its members, or of these."""
        every = self.members.values() if members is None else members
        return frozenset[str]().union(*(member.topics for member in every))
