"""Migration between the group protocols: members of both protocols in one KIP-848 group.

The first heartbeat of a new-protocol member upgrades a classic group with all its members. These continue
with JoinGroup, SyncGroup and Heartbeat, with their member epoch as generation. When the last new-protocol
member leaves, the group becomes a classic one again. group.consumer.migration.policy enables each direction
(rule groups-change-their-protocol). As in Kafka 4.3, with one exception: a classic member that replaces the
last new-protocol member (static, same instance) does not downgrade the group, which stays a KIP-848 group.

Pure functions. The generation of a classic group becomes the epoch of its members, and vice versa.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs

from pykafka2.broker.coordinators.groups.classic.group import (
    FIRST_JOIN_WITH_REQUIRED_ID,
    FIRST_LEAVE_OF_MANY,
    FIRST_SYNC_WITH_PROTOCOL,
    ClassicGroups,
    leave_response,
)
from pykafka2.broker.coordinators.groups.classic.state import (
    CONSUMER_PROTOCOL,
    ClassicGroup,
    ClassicMember,
    GroupState,
    protocols_of,
)
from pykafka2.broker.coordinators.groups.consumer import records
from pykafka2.broker.coordinators.groups.consumer.group import ConsumerGroups
from pykafka2.broker.coordinators.groups.consumer.state import (
    ClassicMemberMetadata,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from pykafka2.broker.coordinators.replay import Caller, Deferred, Result
from pykafka2.broker.coordinators.settings import GroupSettings, MigrationPolicy, Topics
from pykafka2.errors import (
    BrokerError,
    CorruptData,
    FencedInstanceId,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from pykafka2.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pykafka2.protocol.messages.group_records import GroupMetadataKey


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


UPGRADES = (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)
DOWNGRADES = (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class MixedGroups(ConsumerGroups):
    """KIP-848 groups, some with members of the classic protocol."""

    def __init__(
        self,
        classic: ClassicGroups,
        settings: GroupSettings,
        wall_ms: Callable[[float], int],
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(classic.groups, classic.timers, settings, wall_ms, new_id)
        self.classic = classic

    # -- upgrade -----------------------------------------------------------------------------------------

    def upgraded(self, group: ClassicGroup, out: Result) -> ConsumerGroup:
        if group.state is GroupState.EMPTY:
            out.write(GroupMetadataKey(group=group.id), None)
            return ConsumerGroup(group.id)
        if self.settings.migration_policy not in UPGRADES:
            raise GroupIdNotFound(
                f"{group.id} has members of the classic protocol, and upgrades are disabled"
            )
        if not group.uses_consumer_protocol or len(group.members) > self.settings.consumer_max_size:
            raise GroupIdNotFound(
                f"{group.id} cannot be upgraded: its members are not consumers, or too many"
            )
        try:
            upgraded = from_classic(group, self.topics)
        except CorruptData as error:
            raise GroupIdNotFound(f"{group.id} cannot be upgraded: {error}") from error
        upgraded.metadata_hash = self.hash_of(upgraded)
        for member in group.members.values():
            for waiting in (member.awaiting_join, member.awaiting_sync):
                if waiting is not None:
                    out.refuse(waiting, RebalanceInProgress.code)
            member.awaiting_join = member.awaiting_sync = None
        out.write(GroupMetadataKey(group=group.id), None)
        for migrated in upgraded.members.values():
            records.write_member(out, group.id, migrated)
        records.write_epoch(out, group.id, upgraded.epoch, upgraded.metadata_hash)
        for member_id, target in upgraded.targets.items():
            records.write_target(out, group.id, member_id, target)
        records.write_target_epoch(out, group.id, upgraded.assignment_epoch, 0)
        for migrated in upgraded.members.values():
            records.write_current(out, group.id, migrated)
        return upgraded

    # -- downgrade ---------------------------------------------------------------------------------------

    def fence(self, group: ConsumerGroup, members: Sequence[ConsumerMember], out: Result, now: float) -> None:
        fenced_ids = {member.id for member in members}
        left = [member for member in group.members.values() if member.id not in fenced_ids]
        is_classic = bool(left) and all(member.classic is not None for member in left)
        is_allowed = self.settings.migration_policy in DOWNGRADES and len(left) <= self.settings.max_size
        if not is_classic or not is_allowed or all(member.classic is not None for member in members):
            super().fence(group, members, out, now)
            return
        downgraded = to_classic(group, left, self.topics, self._wall_ms(now))
        records.write_group_removal(out, group)
        assignments = {member.id: member.assignment for member in downgraded.members.values()}
        out.write(GroupMetadataKey(group=group.id), downgraded.to_record(assignments))

        def appended(out: Result) -> None:
            for member_id in group.members:
                self.cancel_timers(group.id, member_id)
            downgraded.logged = cast("ClassicGroup", self.groups[group.id]).logged
            self.groups[group.id] = downgraded
            for member in downgraded.members.values():
                self.classic.schedule_session_timeout(downgraded, member, now)
            self.classic.prepare_rebalance(downgraded, out, now)

        out.on_appended = appended

    # -- classic members of a KIP-848 group ---------------------------------------------------------

    def join_classic(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("JoinGroupRequest", deferred.request)
        group = self.get(request.group_id)
        self._check_join(group, request)
        member_id = request.member_id or self._new_id()
        if len(group.members) >= self.settings.consumer_max_size and member_id not in group.members:
            raise GroupMaxSizeReached
        instance_id = request.group_instance_id
        is_new = not request.member_id
        if is_new and instance_id is None and caller.version >= FIRST_JOIN_WITH_REQUIRED_ID:
            out.refuse(deferred, MemberIdRequired.code, member_id=member_id)
            return
        draft = group.draft()
        old = draft.static_member(instance_id)
        if old is None:
            if instance_id is not None and not is_new:
                raise UnknownMemberId(f"{group.id} has no static member {instance_id}")
            member = draft.members.get(member_id, ConsumerMember(member_id))
        elif is_new:
            member = self.take_over(draft, old, member_id, out)
        elif old.id != member_id:
            raise FencedInstanceId(f"{instance_id} of {group.id} has another member id now")
        else:
            member = old
        try:
            subscription = read_subscription(protocols_of(request))
        except CorruptData as error:
            if self.settings.is_before_4_4:
                raise  # UNKNOWN_SERVER_ERROR
            raise InconsistentGroupProtocol(f"a subscription of {group.id} is malformed") from error
        timeout_ms = request.rebalance_timeout_ms
        updated = attrs.evolve(
            member,
            instance_id=instance_id,
            rack_id=subscription.rack_id or member.rack_id,
            rebalance_timeout=(request.session_timeout_ms if timeout_ms == -1 else timeout_ms) / 1000,
            topics=frozenset(subscription.topics),
            regex="",
            assignor=None,
            client_id=caller.client_id,
            client_host=caller.client_host,
            classic=ClassicMemberMetadata(request.session_timeout_ms / 1000, protocols_of(request)),
        )
        if updated != member or member_id not in group.members:
            records.write_member(out, group.id, updated)
        draft.put(updated)
        has_patterns = self.resolve_patterns(caller, draft, member, updated, out, now)
        has_changed = updated.topics != member.topics or (has_patterns and bool(member.regex))
        self.bump_epoch(draft, has_changed, out)
        self.assign(draft, out, now)
        owned = [
            (topic_id, entry.partitions)
            for entry in subscription.owned_partitions
            if (topic_id := self.topics.id_of(entry.topic)) is not None
        ]
        moved = self.reconcile(draft, updated, owned, has_changed, out)
        out.respond(deferred, _joined(moved, caller.version))

        def appended(out: Result) -> None:
            if old is not None and old.id != moved.id:
                self.cancel_timers(group.id, old.id)
            live = self.groups.get(group.id)
            if isinstance(live, ConsumerGroup):
                live.topics_seen, live.rules_seen = self.topics, caller.rules
            self.timers.cancel(("rejoin", group.id, moved.id))
            self.schedule_session_timeout(group.id, moved, now)
            self.schedule_fencing("resync", group.id, moved.id, now + moved.rebalance_timeout)

        out.on_appended = appended

    def _check_join(self, group: ConsumerGroup, request: JoinGroupRequest) -> None:
        """Raise INCONSISTENT_GROUP_PROTOCOL unless it shares a protocol with the classic members.

        The member's own earlier protocols count, too.
        """
        names = {protocol.name for protocol in request.protocols}
        for member in group.members.values():
            if member.classic is not None:
                names &= {name for name, _ in member.classic.protocols}
        if request.protocol_type != CONSUMER_PROTOCOL or not names:
            raise InconsistentGroupProtocol(f"{group.id} has members of the consumer protocol")

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> ConsumerMember:
        if instance_id is None:
            member = group.get_member(member_id)
        else:
            member = group.get_static(instance_id, member_id)
        if member.classic is None:
            raise UnknownMemberId(f"{member_id} does not use the classic protocol")
        if member.epoch != generation:
            raise IllegalGeneration(f"{member_id} is at generation {member.epoch}, not {generation}")
        return member

    def sync_classic(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("SyncGroupRequest", deferred.request)
        protocol = (request.protocol_type, request.protocol_name)
        if caller.version >= FIRST_SYNC_WITH_PROTOCOL and None in protocol:
            raise InconsistentGroupProtocol
        group = self.get(request.group_id)
        member = self._classic_member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        name = cast("ClassicMemberMetadata", member.classic).protocols[0][0]
        if protocol[0] not in (None, CONSUMER_PROTOCOL) or protocol[1] not in (None, name):
            raise InconsistentGroupProtocol
        if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._expect_rejoin(group, member, now)
            raise RebalanceInProgress
        self.timers.cancel(("resync", group.id, member.id))
        self.schedule_session_timeout(group.id, member, now)
        data = assignment_bytes(member, member.assigned, self.topics)
        out.respond(
            deferred,
            SyncGroupResponse(protocol_type=CONSUMER_PROTOCOL, protocol_name=name, assignment=data),
        )

    def heartbeat_classic(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("HeartbeatRequest", deferred.request)
        group = self.get(request.group_id)
        member = self._classic_member(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        self.schedule_session_timeout(group.id, member, now)
        code = 0
        if (
            member.epoch < group.epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not self._is_waiting(group, member))
        ):
            code = RebalanceInProgress.code
            self._expect_rejoin(group, member, now)
        out.respond(deferred, HeartbeatResponse(error_code=code))

    def _is_waiting(self, group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Return whether another member still owns a partition of its target."""
        return any(
            group.owners.get((topic_id, partition), member.id) != member.id
            for topic_id, partitions in group.targets.get(member.id, {}).items()
            for partition in partitions
        )

    def _expect_rejoin(self, group: ConsumerGroup, member: ConsumerMember, now: float) -> None:
        if self.timers.deadline(("rejoin", group.id, member.id)) is None:
            self.schedule_fencing("rejoin", group.id, member.id, now + member.rebalance_timeout)

    def leave_classic(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("LeaveGroupRequest", deferred.request)
        group = self.get(request.group_id)
        leaving = request.members
        if caller.version < FIRST_LEAVE_OF_MANY:
            leaving = [MemberIdentity(member_id=request.member_id)]
        responses: list[MemberResponse] = []
        leavers: dict[str, ConsumerMember] = {}
        for leaver in leaving:
            code = 0
            try:
                member = self._leaving(group, leaver)
                leavers[member.id] = member
            except BrokerError as error:
                code = error.code or 0
            responses.append(
                MemberResponse(
                    member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=code
                )
            )
        if leavers:
            self.fence(group, list(leavers.values()), out, now)
        out.respond(deferred, leave_response(caller.version, responses))

    def _leaving(self, group: ConsumerGroup, leaver: MemberIdentity) -> ConsumerMember:
        if leaver.group_instance_id is None:
            return group.get_member(leaver.member_id)
        if leaver.member_id:
            return group.get_static(leaver.group_instance_id, leaver.member_id)
        member = group.static_member(leaver.group_instance_id)
        if member is None:
            raise UnknownMemberId(f"{group.id} has no static member {leaver.group_instance_id}")
        return member


def _joined(member: ConsumerMember, version: int) -> JoinGroupResponse:
    """Return a response without a leader, because the coordinator assigns."""
    return JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=cast("ClassicMemberMetadata", member.classic).protocols[0][0],
        leader="",
        member_id=member.id,
        members=[],
    )
