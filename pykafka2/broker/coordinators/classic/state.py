"""A classic group as its coordinator sees it: states, members, the protocol they share.

The log knows a group only as of its last complete rebalance (GroupMetadataValue); who is joining, who waits
and what the next generation will be is soft state that a coordinator loses with its partition.  group.py
decides, this module holds the group's state: no time, no timers, no replies.
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
"""The protocol type of groups whose subscriptions the coordinator can read."""


class GroupState(Enum):
    """Where a classic group stands; the value is Kafka's name."""

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
        """Whether waiting for a rebalance stands for a heartbeat; not before its first answer."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str) -> bytes:
        """What it said about itself under a protocol; empty if it does not speak it."""
        return dict(self.protocols).get(protocol, b"")


def protocols_of(request: JoinGroupRequest) -> Protocols:
    return tuple((one.name, one.metadata) for one in request.protocols)


class ClassicGroup:
    """One group of the classic protocol."""

    def __init__(self, group_id: str, changed_ms: int | None = None) -> None:
        self.id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.changed_ms = changed_ms  # when the state last changed, as the log will say
        self.members: dict[str, ClassicMember] = {}  # in the order of joining
        self.static_members: dict[str, str] = {}
        self.pending_join: set[str] = set()  # ids given out, not used yet
        self.pending_sync: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None
        self.new_member_added = False  # since the initial wait was last prolonged
        self.logged: GroupMetadataValue | None = None  # what the log says

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """The group that a record describes: Stable with members, Empty without."""
        group = cls(group_id, None if value.current_state_timestamp == -1 else value.current_state_timestamp)
        group.generation = value.generation
        for one in value.members:
            timeout = one.session_timeout if one.rebalance_timeout == -1 else one.rebalance_timeout
            group.add(
                ClassicMember(
                    one.member_id,
                    one.group_instance_id,
                    one.client_id,
                    one.client_host,
                    timeout / 1000,
                    one.session_timeout / 1000,
                    value.protocol_type,
                    ((value.protocol or "", one.subscription),),
                    one.assignment,
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
        """What the log is to say with these assignments."""
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
        """Take in a member; the first one decides the protocol type and leads."""
        if member.instance_id is not None:
            if member.instance_id in self.static_members:
                raise IllegalState(f"{member.instance_id} is in {self.id} already")
            self.static_members[member.instance_id] = member.id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self.pending_join.discard(member.id)

    def remove(self, member_id: str) -> None:
        """Forget a member or an id given out; the oldest one left leads if the leader goes."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            del self.static_members[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def replace_static(self, instance_id: str, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member its new id; its place and, if it led, the lead go with it (KIP-345)."""
        member = self.members[old_id]
        member.id = new_id
        # It keeps its place in the order, as it keeps everything else.
        self.members = {one.id: one for one in self.members.values()}
        self.static_members[instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)
        return member

    def elect_joined_leader(self) -> bool:
        """See to it that the leader is one who rejoined; False if nobody did."""
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is None:
            joined = next((one.id for one in self.members.values() if one.awaiting_join is not None), None)
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
        """The longest of the members', in seconds."""
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)

    @property
    def can_rebalance(self) -> bool:
        return GroupState.PREPARING_REBALANCE in LEGAL_MOVES[self.state]

    def begin_generation(self, wall_ms: int) -> None:
        """The join phase is over: count up, choose the protocol, and move on."""
        self.generation += 1
        self.pending_sync.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.move_to(GroupState.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol = None
            self.move_to(GroupState.EMPTY, wall_ms)
        self.subscribed_topics = self.read_subscriptions()

    # -- the protocol they share --------------------------------------------------------------------

    def common_protocols(self) -> set[str]:
        """The protocols that every member speaks."""
        spoken = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*spoken) if spoken else set()

    def select_protocol(self) -> str:
        """The common protocol that most members name first; of equals the one voted for first."""
        candidates = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = next(name for name, _ in member.protocols if name in candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member of these protocols can be in the group."""
        offered = set(names)
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(offered)
        if self.protocol_type != protocol_type:
            return False
        # Nobody is in it yet but one whose id was given out: anything goes.
        return bool(offered & self.common_protocols()) if self.members else True

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL

    def read_subscriptions(self) -> frozenset[str] | None:
        """The topics its members read; None where that is not known."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        if self.protocol is None:
            return None
        try:
            # Version 0 is the beginning of all versions.
            subscriptions = [
                ConsumerProtocolSubscription.decode(
                    member.metadata(self.protocol)[2:], 0, allow_trailing=True
                )
                for member in self.members.values()
            ]
        except CorruptData:
            return None
        return frozenset(topic for one in subscriptions for topic in one.topics)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    # -- who may ask what ---------------------------------------------------------------------------

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member; UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if its instance goes by another id now."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise UnknownMemberId(f"{self.id} has no static member {instance_id}")
            if known != member_id:
                raise FencedInstanceId(f"{instance_id} of {self.id} goes by another member id now")
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"{self.id} has no member {member_id}")
        return member

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, is_transactional: bool
    ) -> None:
        """Whether offsets may be committed by this member of this generation.

        See rule commits-without-a-generation-need-an-empty-group.
        """
        if self.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(f"{self.id} is gone from this coordinator")
        if generation < 0 and self.state is GroupState.EMPTY:
            return  # the admin client, or a consumer outside of groups
        if generation >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation != self.generation:
                raise IllegalGeneration(f"{self.id} is at generation {self.generation}, not {generation}")
        elif not is_transactional and self.state is not GroupState.EMPTY:
            raise UnknownMemberId(f"{self.id} has members: commits from outside are refused")
        if not is_transactional and self.state is GroupState.COMPLETING_REBALANCE:
            raise RebalanceInProgress(f"{self.id} waits for its leader's assignment")

    def assignments_of(self, request: SyncGroupRequest) -> dict[str, bytes]:
        """The leader's assignments, an empty one for whom it forgot."""
        given = {one.member_id: one.assignment for one in request.assignments}
        return {member_id: given.get(member_id, b"") for member_id in self.members}


def joined_members(group: ClassicGroup) -> Sequence[tuple[ClassicMember, bytes]]:
    """Members with what they said under the chosen protocol, for the leader."""
    return [(member, member.metadata(group.protocol or "")) for member in group.members.values()]
