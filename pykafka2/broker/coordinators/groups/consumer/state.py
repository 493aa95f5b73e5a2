"""State of a KIP-848 group, rebuilt from records alone.

Members are values: an operation computes a new one, a record stores it, and replay replaces the old one.
Partition owners follow from the members' current assignments; a partition that a member must still revoke
belongs to it until it confirms. group.py decides, assignment.py moves one member one step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import Final

import attrs

from pykafka2.broker.coordinators.settings import Topics
from pykafka2.errors import (
    FencedInstanceId,
    IllegalGeneration,
    StaleMemberEpoch,
    UnknownMemberId,
    UnknownServerError,
    UnsupportedVersion,
)
from pykafka2.protocol.messages import consumer_group_records as records

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2

FIRST_COMMIT_WITH_MEMBER_EPOCH: Final = 9

Assignment = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id, each with the epoch at which it was assigned (KIP-1251)."""
Target = Mapping[bytes, frozenset[int]]


class MemberState(IntEnum):
    """A member's progress towards its target; the value is the one in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerGroupState(Enum):
    """The state of a group; it follows from its epochs and members."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@attrs.define(frozen=True)
class ClassicMemberMetadata:
    """The JoinGroup metadata of a member with the classic protocol, in a group that is being migrated."""

    session_timeout: float
    protocols: tuple[tuple[str, bytes], ...]


@attrs.define(frozen=True)
class ConsumerMember:
    """One member; timeouts in seconds."""

    id: str
    epoch: int = 0
    previous_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str | None = None
    rebalance_timeout: float = -0.001
    assignor: str | None = None
    state: MemberState = MemberState.STABLE
    classic: ClassicMemberMetadata | None = None
    assigned: Assignment = attrs.field(factory=dict)
    pending_revocation: Assignment = attrs.field(factory=dict)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def metadata_value(self) -> records.ConsumerGroupMemberMetadataValue:
        """Return the record of its subscription."""
        return records.ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topics),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=round(self.rebalance_timeout * 1000),
            server_assignor=self.assignor,
            classic_member_metadata=None
            if self.classic is None
            else records.ClassicMemberMetadata(
                session_timeout_ms=round(self.classic.session_timeout * 1000),
                supported_protocols=[
                    records.ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in self.classic.protocols
                ],
            ),
        )

    def current_value(self) -> records.ConsumerGroupCurrentMemberAssignmentValue:
        """Return the record of its partitions."""
        return records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            assigned_partitions=_to_wire(self.assigned),
            partitions_pending_revocation=_to_wire(self.pending_revocation),
        )


def _to_wire(assignment: Assignment) -> list[records.TopicPartitions]:
    return [
        records.TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(assignment[topic_id]),
            assignment_epochs=[epoch for _, epoch in sorted(assignment[topic_id].items())],
        )
        for topic_id in sorted(assignment)
        if assignment[topic_id]
    ]


def _from_wire(topics: Iterable[records.TopicPartitions], default_epoch: int) -> Assignment:
    assignment: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        # Records from before 4.3 have no epochs; the member's own is the safe default.
        epochs = topic.assignment_epochs or [default_epoch] * len(topic.partitions)
        assignment[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return assignment


class ConsumerGroup:
    """One group. Only the replay_* and remove_* methods change durable state."""

    kind = "consumer"
    protocol_type = "consumer"

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assigned_at_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Target] = {}
        self.regexes: dict[str, frozenset[str]] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        # Soft state: the topics and access rules that its hash and patterns were last compared with.
        self.topics_seen: Topics | None = None
        self.rules_seen: object = None

    def draft(self) -> ConsumerGroup:
        """Return a copy on which an operation runs before its records are in the log."""
        draft = ConsumerGroup(self.id)
        draft.epoch, draft.metadata_hash = self.epoch, self.metadata_hash
        draft.assignment_epoch, draft.assigned_at_ms = self.assignment_epoch, self.assigned_at_ms
        draft.members, draft.static_members = dict(self.members), dict(self.static_members)
        draft.targets, draft.regexes = dict(self.targets), dict(self.regexes)
        draft.owners = dict(self.owners)
        draft.topics_seen, draft.rules_seen = self.topics_seen, self.rules_seen
        return draft

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        return self.members.get(self.static_members.get(instance_id or "", ""))

    def get_member(self, member_id: str) -> ConsumerMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{self.id} has no member {member_id}")
        return member

    def get_static(self, instance_id: str, member_id: str) -> ConsumerMember:
        member = self.static_member(instance_id)
        if member is None:
            raise UnknownMemberId(f"{self.id} has no static member {instance_id}")
        if member.id != member_id:
            raise FencedInstanceId(f"{instance_id} of {self.id} has another member id now")
        return member

    def subscribed_topics(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics by name and by pattern; an unresolved pattern matches nothing."""
        return member.topics | self.regexes.get(member.regex or "", frozenset())

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in self.subscribed_topics(member) for member in self.members.values())

    def subscribers_of_regex(self, regex: str) -> int:
        return sum(member.regex == regex for member in self.members.values())

    def preferred_assignor(self, default: str) -> str:
        """Return the assignor that most members request."""
        requested = Counter(
            member.assignor for member in self.members.values() if member.assignor is not None
        )
        return requested.most_common(1)[0][0] if requested else default

    # -- replay -------------------------------------------------------------------------------------

    def replay_member_metadata(self, member_id: str, value: records.ConsumerGroupMemberMetadataValue) -> None:
        old = self.members.get(member_id, ConsumerMember(member_id))
        classic = value.classic_member_metadata
        self.put(
            attrs.evolve(
                old,
                instance_id=value.instance_id,
                rack_id=value.rack_id,
                client_id=value.client_id,
                client_host=value.client_host,
                topics=frozenset(value.subscribed_topic_names),
                regex=value.subscribed_topic_regex,
                rebalance_timeout=value.rebalance_timeout_ms / 1000,
                assignor=value.server_assignor,
                classic=None
                if classic is None
                else ClassicMemberMetadata(
                    classic.session_timeout_ms / 1000,
                    tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
                ),
            )
        )

    def replay_current(
        self, member_id: str, value: records.ConsumerGroupCurrentMemberAssignmentValue
    ) -> None:
        old = self.members.get(member_id, ConsumerMember(member_id))
        self.put(
            attrs.evolve(
                old,
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState(value.state),
                assigned=_from_wire(value.assigned_partitions, value.member_epoch),
                pending_revocation=_from_wire(value.partitions_pending_revocation, value.member_epoch),
            )
        )

    def remove_current(self, member_id: str) -> None:
        old = self.members.get(member_id)
        if old is not None:
            self.put(attrs.evolve(old, epoch=LEAVE_EPOCH, assigned={}, pending_revocation={}))

    def remove_member(self, member_id: str) -> None:
        old = self.members.pop(member_id, None)
        if old is not None:
            self._release(old)
            if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
                del self.static_members[old.instance_id]

    def put(self, member: ConsumerMember) -> None:
        """Add or replace a member, and update the owners of its partitions."""
        old = self.members.get(member.id)
        if old is not None:
            self._release(old)
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                for partition in partitions:
                    self.owners[topic_id, partition] = member.id

    def _release(self, member: ConsumerMember) -> None:
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                for partition in partitions:
                    if self.owners.get((topic_id, partition)) == member.id:
                        del self.owners[topic_id, partition]

    # -- offsets ------------------------------------------------------------------------------------

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        is_transactional: bool,
        version: int,
        partitions: Iterable[tuple[bytes | None, int]],
    ) -> None:
        """Raise unless a member of this epoch can commit; `partitions` by topic id (KIP-1251)."""
        if epoch < 0 and not self.members:
            return
        if is_transactional and epoch == -1 and not member_id and instance_id is None:
            return
        member = self.get_member(member_id)
        if member.classic is not None:
            if epoch != member.epoch:
                raise IllegalGeneration(f"{member_id} is at generation {member.epoch}, not {epoch}")
            return
        if not is_transactional and version < FIRST_COMMIT_WITH_MEMBER_EPOCH:
            raise UnsupportedVersion("members of the consumer protocol commit with OffsetCommit 9 or newer")
        if epoch > member.epoch:
            raise StaleMemberEpoch(f"{member_id} is at epoch {member.epoch}, not {epoch}")
        if epoch == member.epoch:
            return
        for topic_id, partition in partitions:
            assigned_epoch = self._assigned_epoch(member, topic_id, partition)
            if assigned_epoch is None or assigned_epoch > epoch:
                raise StaleMemberEpoch(f"{member_id} is at epoch {member.epoch}, not {epoch}")

    @staticmethod
    def _assigned_epoch(member: ConsumerMember, topic_id: bytes | None, partition: int) -> int | None:
        for assignment in (member.assigned, member.pending_revocation):
            assigned_epoch = assignment.get(topic_id or b"", {}).get(partition)
            if assigned_epoch is not None:
                return assigned_epoch
        return None

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise unless a member of this epoch can read committed offsets; without a member id anyone can."""
        if member_id is None:
            if epoch < 0:
                return
            raise UnknownServerError("a member epoch without a member id")  # Kafka fails internally here
        member = self.get_member(member_id)
        if epoch != member.epoch:
            raise StaleMemberEpoch(f"{member_id} is at epoch {member.epoch}, not {epoch}")
