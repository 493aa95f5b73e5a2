"""State of a classic group: its phase, members, and common protocol.

The log knows a group only as of its last complete rebalance (GroupMetadataValue). Joining members, waiting
requests and the next generation are soft state, which a coordinator loses with its partition. group.py
decides; this module only holds the state, without time, timers or responses.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Final

import attrs

from pykafka2.broker.coordinators.replay import Deferred
from pykafka2.errors import (
    CoordinatorNotAvailable,
    CorruptData,
    FencedInstanceId,
    IllegalGeneration,
    IllegalState,
    IllegalTransition,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka2.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from pykafka2.protocol.messages.group import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest
from pykafka2.protocol.messages.group_records import GroupMetadataValue, MemberMetadata

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of groups whose subscriptions the coordinator can decode."""


class GroupState(Enum):
    """The state of a classic group; the value is Kafka's name."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_MOVES: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD}
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset({GroupState.DEAD}),
}

Protocols = tuple[tuple[str, bytes], ...]


@attrs.define(eq=False)
class ClassicMember:
    """One member; timeouts in seconds."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout: float
    session_timeout: float
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    awaiting_join: Deferred[JoinGroupResponse] | None = None
    awaiting_sync: Deferred[Any] | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whether waiting for a rebalance counts as a heartbeat; not before its first response."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str) -> bytes:
        """Return the member's metadata for a protocol; empty if it does not support it."""
        return dict(self.protocols).get(protocol, b"")


def protocols_of(request: JoinGroupRequest) -> Protocols:
    return tuple((protocol.name, protocol.metadata) for protocol in request.protocols)


class ClassicGroup:
    """One group of the classic protocol."""

    kind = "classic"

    def __init__(self, group_id: str, changed_ms: int | None = None) -> None:
        self.id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.changed_ms = changed_ms  # time of the last state change, as written to the log
        self.members: dict[str, ClassicMember] = {}  # in the order of joining
        self.static_members: dict[str, str] = {}
        self.pending_join: set[str] = set()  # assigned member ids that were not used yet
        self.pending_sync: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None
        self.new_member_added = False  # since the initial delay was last extended
        self.logged: GroupMetadataValue | None = None  # the latest record in the log

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Return the group that a record describes: Stable with members, Empty without."""
        group = cls(group_id, None if value.current_state_timestamp == -1 else value.current_state_timestamp)
        group.generation = value.generation
        for stored in value.members:
            timeout = stored.session_timeout if stored.rebalance_timeout == -1 else stored.rebalance_timeout
            group.add(
                ClassicMember(
                    stored.member_id,
                    stored.group_instance_id,
                    stored.client_id,
                    stored.client_host,
                    timeout / 1000,
                    stored.session_timeout / 1000,
                    value.protocol_type,
                    ((value.protocol or "", stored.subscription),),
                    stored.assignment,
                )
            )
        group.state = group.previous_state = GroupState.STABLE if value.members else GroupState.EMPTY
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        group.leader = value.leader
        group.logged = value
        group.subscribed_topics = group.read_subscriptions()
        return group

    def to_record(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """Return the record of the group with these assignments."""
        protocol = self.protocol
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=protocol,
            leader=self.leader,
            current_state_timestamp=-1 if self.changed_ms is None else self.changed_ms,
            members=[
                MemberMetadata(
                    member_id=member.id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=round(member.rebalance_timeout * 1000),
                    session_timeout=round(member.session_timeout * 1000),
                    subscription=member.metadata(protocol or ""),
                    assignment=assignments.get(member.id, b""),
                )
                for member in self.members.values()
            ],
        )

    def move_to(self, state: GroupState, wall_ms: int) -> None:
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(self.state, state)
        self.previous_state, self.state, self.changed_ms = self.state, state, wall_ms

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    # -- members ------------------------------------------------------------------------------------

    def add(self, member: ClassicMember) -> None:
        """Add a member; the first one determines the protocol type and is the leader."""
        if member.instance_id is not None:
            if member.instance_id in self.static_members:
                raise IllegalState(f"{member.instance_id} is already a member of {self.id}")
            self.static_members[member.instance_id] = member.id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self.pending_join.discard(member.id)

    def remove(self, member_id: str) -> None:
        """Remove a member or an unused member id.

        If it was the leader, the oldest member becomes the leader.
        """
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Change a static member's id; its position and leadership are kept (KIP-345)."""
        member = self.members[old_id]
        member.id = new_id
        # Keep its position in the order of joining.
        self.members = {known.id: known for known in self.members.values()}
        self.static_members[instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        return member

    def elect_joined_leader(self) -> bool:
        """Ensure that the leader is a member that rejoined. Return False if there is none."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is None:
            joined = next(
                (member.id for member in self.members.values() if member.awaiting_join is not None), None
            )
            if joined is None:
                return False
            self.leader = joined
        return True

    @property
    def have_all_joined(self) -> bool:
        return not self.pending_join and all(
            member.awaiting_join is not None for member in self.members.values()
        )

    @property
    def awaiting_join(self) -> int:
        return sum(member.awaiting_join is not None for member in self.members.values())

    @property
    def rebalance_timeout(self) -> float:
        """The maximum of the members' rebalance timeouts, in seconds."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    @property
    def can_rebalance(self) -> bool:
        return GroupState.PREPARING_REBALANCE in LEGAL_MOVES[self.state]

    def begin_generation(self, wall_ms: int) -> None:
        """End the join phase: increment the generation, select the protocol, and change the state."""
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.move_to(GroupState.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol = None
            self.move_to(GroupState.EMPTY, wall_ms)
        self.subscribed_topics = self.read_subscriptions()

    # -- common protocol --------------------------------------------------------------------

    def common_protocols(self) -> set[str]:
        """Return the protocols that every member supports."""
        supported = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*supported) if supported else set()

    def select_protocol(self) -> str:
        """Return the common protocol with the most votes; of equals, the one that got a vote first."""
        candidates = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a member with these protocols can join the group."""
        offered = set(names)
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(offered)
        if self.protocol_type != protocol_type:
            return False
        # Without members, only assigned member ids exist: any protocol is accepted.
        return bool(offered & self.common_protocols()) if self.members else True

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL

    def read_subscriptions(self) -> frozenset[str] | None:
        """Return the topics its members subscribe to; None if they are unknown."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        try:
            # All versions start like version 0.
            subscriptions = [
                ConsumerProtocolSubscription.decode(
                    member.metadata(self.protocol)[2:], 0, allow_trailing=True
                )
                for member in self.members.values()
            ]
        except CorruptData:
            return None
        return frozenset(topic for subscription in subscriptions for topic in subscription.topics)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    # -- request checks ---------------------------------------------------------------------------

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """Return the member.

        Raise UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if its instance has another member id now.
        """
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise UnknownMemberId(f"{self.id} has no static member {instance_id}")
            if known != member_id:
                raise FencedInstanceId(f"{instance_id} of {self.id} has another member id now")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{self.id} has no member {member_id}")
        return member

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, is_transactional: bool
    ) -> None:
        """Raise unless this member of this generation can commit offsets.

        See rule commits-without-a-generation-need-an-empty-group.
        """
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"{self.id} is no longer on this coordinator")
        if generation < 0 and self.state is GroupState.EMPTY:
            return  # the admin client, or a consumer outside of groups
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise IllegalGeneration(f"{self.id} is at generation {self.generation}, not {generation}")
        elif not is_transactional and self.state is not GroupState.EMPTY:
            raise UnknownMemberId(f"{self.id} has members, so only they can commit")
        if not is_transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"{self.id} is waiting for its leader's assignment")

    def assignments_of(self, request: SyncGroupRequest) -> dict[str, bytes]:
        """Return the leader's assignments, with an empty one for missing members."""
        assignments = {entry.member_id: entry.assignment for entry in request.assignments}
        return {member_id: assignments.get(member_id, b"") for member_id in self.members}


def joined_members(group: ClassicGroup) -> Sequence[tuple[ClassicMember, bytes]]:
    """Return members with their metadata for the selected protocol, for the leader."""
    return [(member, member.metadata(group.protocol or "")) for member in group.members.values()]
