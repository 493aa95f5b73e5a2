"""Requests of classic group members: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Kafka 4.3's rules in its order of checks (GroupMetadataManager). New members get a member id first, each state
has its own rejection, and static members return without a rebalance. rebalance.py has the consequences,
state.py the state. Difference from Apache: a JoinGroup or SyncGroup that is superseded by a later one of the
same member gets REBALANCE_IN_PROGRESS; Apache sends no response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pykafka2.broker.coordinators.groups.classic.rebalance import (
    FIRST_JOIN_WITH_SKIPPED_ASSIGNMENT,
    ClassicRebalance,
    Groups,
    join_response,
    sync_response,
)
from pykafka2.broker.coordinators.groups.classic.state import (
    ClassicGroup,
    ClassicMember,
    GroupState,
    protocols_of,
)
from pykafka2.broker.coordinators.replay import Caller, Deferred, Result
from pykafka2.broker.coordinators.settings import GroupSettings
from pykafka2.broker.coordinators.timers import Timers
from pykafka2.errors import (
    BrokerError,
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka2.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
)
from pykafka2.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue

FIRST_JOIN_WITH_REQUIRED_ID = 4


class ClassicJoins(ClassicRebalance):
    """Joins of members of classic groups."""

    def __init__(
        self,
        groups: Groups,
        timers: Timers,
        settings: GroupSettings,
        wall_ms: Callable[[float], int],
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(groups, timers, settings, wall_ms)
        self._new_id = new_id

    def get(self, group_id: str) -> ClassicGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def join(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("JoinGroupRequest", deferred.request)
        if not request.group_id:
            raise InvalidGroupId
        self.check_session_timeout(request)
        group = self.get(request.group_id)
        is_new_group = group is None
        if group is None:
            if request.member_id:
                raise UnknownMemberId
            group = ClassicGroup(request.group_id, self.wall_ms(now))
            self.groups[request.group_id] = group
        if not self._has_room_for(group, request.member_id):
            group.remove(request.member_id)
            out.refuse(deferred, GroupMaxSizeReached.code, member_id="")
        elif group.state is GroupState.DEAD:
            out.refuse(deferred, CoordinatorNotAvailable.code)
        elif not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
            out.refuse(deferred, InconsistentGroupProtocol.code)
        elif not request.member_id:
            self._join_new(group, caller, deferred, out, now)
        else:
            self._join_known(group, caller, deferred, out, now)
        if is_new_group and not out.records:
            self._store_new_group(group, deferred, out)

    def check_session_timeout(self, request: JoinGroupRequest) -> None:
        """Raise INVALID_SESSION_TIMEOUT outside the broker's limits."""
        low, high = self.settings.min_session_timeout, self.settings.max_session_timeout
        if not low * 1000 <= request.session_timeout_ms <= high * 1000:
            raise InvalidSessionTimeout

    def _store_new_group(self, group: ClassicGroup, deferred: Deferred[Any], out: Result) -> None:
        """Write the group to the log with its first member's first request."""
        value = ClassicGroup(group.id, group.changed_ms).to_record({})
        out.write(GroupMetadataKey(group=group.id), value)

        def remove(error: BrokerError, repair: Result) -> None:
            if self.groups.get(group.id) is group:
                del self.groups[group.id]
            for member in list(group.members.values()):
                if member.awaiting_join is not None:
                    repair.refuse(member.awaiting_join, CoordinatorNotAvailable.code)

        out.on_append_error = remove

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        """Return whether group.max.size allows a member.

        Count joining members while the group prepares, all members afterwards.
        """
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            is_waiting = member is not None and member.awaiting_join is not None
            return is_waiting or group.awaiting_join < self.settings.max_size
        if group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return member is not None or len(group.members) < self.settings.max_size
        return True

    def _join_new(
        self, group: ClassicGroup, caller: Caller, deferred: Deferred[Any], out: Result, now: float
    ) -> None:
        request = cast("JoinGroupRequest", deferred.request)
        instance_id = request.group_instance_id
        member_id = f"{caller.client_id if instance_id is None else instance_id}-{self._new_id()}"
        if instance_id is not None:
            old_id = group.static_members.get(instance_id)
            if old_id is not None:
                self._replace_static(group, old_id, member_id, caller, deferred, out, now)
                return
        elif caller.version >= FIRST_JOIN_WITH_REQUIRED_ID:
            # The client joins again with this id, or the id expires (rule new-members-are-given-an-id-first).
            group.pending_join.add(member_id)
            self.schedule_member_expiration(group, member_id, now + request.session_timeout_ms / 1000)
            out.refuse(deferred, MemberIdRequired.code, member_id=member_id)
            return
        self._add(group, member_id, caller, deferred, out, now)

    def _join_known(
        self, group: ClassicGroup, caller: Caller, deferred: Deferred[Any], out: Result, now: float
    ) -> None:
        request = cast("JoinGroupRequest", deferred.request)
        if request.member_id in group.pending_join:
            self._add(group, request.member_id, caller, deferred, out, now)
            return
        member = group.check_member(request.member_id, request.group_instance_id)
        is_same = member.protocols == protocols_of(request)
        if group.state is GroupState.PREPARING_REBALANCE:
            self._update(group, member, deferred, out, now)
        elif group.state is GroupState.COMPLETING_REBALANCE:
            if is_same:  # it can have missed the response
                out.respond(deferred, join_response(group, member, caller.version))
            else:
                self._update(group, member, deferred, out, now)
        elif group.state is GroupState.STABLE:
            # The leader can always trigger a rebalance: it may have detected changed topics.
            if group.leader == member.id or not is_same:
                self._update(group, member, deferred, out, now)
            else:
                out.respond(deferred, join_response(group, member, caller.version, lists_members=False))
        else:
            raise UnknownMemberId

    def _add(
        self,
        group: ClassicGroup,
        member_id: str,
        caller: Caller,
        deferred: Deferred[Any],
        out: Result,
        now: float,
    ) -> None:
        request = cast("JoinGroupRequest", deferred.request)
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            caller.client_id,
            caller.client_host,
            _rebalance_timeout(request),
            request.session_timeout_ms / 1000,
            request.protocol_type,
            protocols_of(request),
            is_new=True,
            awaiting_join=deferred,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add(member)
        # It cannot send heartbeats yet; this bounds how long an absent member counts.
        self.schedule_session_timeout(group, member, now, self.settings.new_member_join_timeout)
        self.rebalance_or_complete(group, out, now)

    def _update(
        self,
        group: ClassicGroup,
        member: ClassicMember,
        deferred: Deferred[Any],
        out: Result,
        now: float,
    ) -> None:
        self._take_over(member, cast("JoinGroupRequest", deferred.request))
        self.park_join(member, deferred, out)
        self.rebalance_or_complete(group, out, now)

    def _take_over(self, member: ClassicMember, request: JoinGroupRequest) -> None:
        member.protocols = protocols_of(request)
        member.rebalance_timeout = _rebalance_timeout(request)
        member.session_timeout = request.session_timeout_ms / 1000

    def _replace_static(
        self,
        group: ClassicGroup,
        old_id: str,
        new_id: str,
        caller: Caller,
        deferred: Deferred[Any],
        out: Result,
        now: float,
    ) -> None:
        """Replace a static member's id after it returned; the old id is fenced.

        See rule static-members-return-without-a-rebalance.
        """
        request = cast("JoinGroupRequest", deferred.request)
        old_leader = group.leader
        member = group.members[old_id]
        before = (member.protocols, member.rebalance_timeout, member.session_timeout)
        self.dismiss(member, FencedInstanceId.code, old_id, out)
        instance_id = cast("str", request.group_instance_id)
        group.replace_static(instance_id, old_id, new_id)
        self.timers.cancel(("member", group.id, old_id))
        self._take_over(member, request)
        self.schedule_session_timeout(group, member, now)
        if group.state is not GroupState.STABLE:
            member.awaiting_join = deferred
            if group.state is GroupState.COMPLETING_REBALANCE:
                # The leader can be assigning partitions to the old id at the moment.
                self.prepare_rebalance(group, out, now)
            else:
                self.complete_join_if_all_joined(group, out, now)
            return
        if group.select_protocol() != group.protocol:
            member.awaiting_join = deferred
            self.rebalance_or_complete(group, out, now)
            return
        assignments = {known.id: known.assignment for known in group.members.values()}
        out.write(GroupMetadataKey(group=group.id), group.to_record(assignments))
        if caller.version >= FIRST_JOIN_WITH_SKIPPED_ASSIGNMENT:
            is_leader = group.leader == new_id
            response = join_response(group, member, caller.version, skips_assignment=is_leader)
        else:
            # Old clients would run an assignment again if the response named them as the leader.
            response = join_response(group, member, caller.version, leader=old_leader, lists_members=False)
        out.respond(deferred, response)

        def revert(error: BrokerError, repair: Result) -> None:
            group.replace_static(instance_id, new_id, old_id)
            member.protocols, member.rebalance_timeout, member.session_timeout = before
            self.timers.cancel(("member", group.id, new_id))
            self.schedule_session_timeout(group, member, now)

        out.on_append_error = revert


def _rebalance_timeout(request: JoinGroupRequest) -> float:
    """Return the rebalance timeout in seconds; version 0 uses the session timeout."""
    timeout_ms = request.rebalance_timeout_ms
    return (request.session_timeout_ms if timeout_ms == -1 else timeout_ms) / 1000


FIRST_LEAVE_OF_MANY = 3
FIRST_SYNC_WITH_PROTOCOL = 5


class ClassicGroups(ClassicJoins):
    """All classic groups of a shard."""

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None, is_loading: bool) -> None:
        """Apply a group's record: a live group has that state already, a loaded one is created from it."""
        group = self.groups.get(key.group)
        if value is None:
            if isinstance(group, ClassicGroup):
                del self.groups[key.group]
        elif is_loading or not isinstance(group, ClassicGroup):
            self.groups[key.group] = ClassicGroup.from_record(key.group, value)
        else:
            group.logged = value

    # -- SyncGroup ----------------------------------------------------------------------------------

    def sync(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("SyncGroupRequest", deferred.request)
        names = (request.protocol_type, request.protocol_name)
        if caller.version >= FIRST_SYNC_WITH_PROTOCOL and None in names:
            raise InconsistentGroupProtocol
        if not request.group_id:
            raise InvalidGroupId
        group = self.get(request.group_id)
        if group is None or group.state is GroupState.EMPTY:
            raise UnknownMemberId
        if group.state is GroupState.DEAD:
            raise CoordinatorNotAvailable
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise IllegalGeneration
        if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
            None,
            group.protocol,
        ):
            raise InconsistentGroupProtocol
        if group.state is GroupState.PREPARING_REBALANCE:
            raise RebalanceInProgress
        if group.state is GroupState.STABLE:
            self.note_synced(group, member.id)
            out.respond(deferred, sync_response(group, member))
            return
        self.park_sync(member, deferred, out)
        self.note_synced(group, member.id)
        if group.leader == member.id:
            self._store_assignment(group, request, out, now)

    def _store_assignment(
        self, group: ClassicGroup, request: SyncGroupRequest, out: Result, now: float
    ) -> None:
        generation = group.generation
        assignments = group.assignments_of(request)
        out.write(GroupMetadataKey(group=group.id), group.to_record(assignments))
        out.on_appended = lambda out: self.stabilize(group, assignments, out, now)
        out.on_append_error = lambda error, repair: self.assignment_not_stored(
            group, generation, error, repair, now
        )

    # -- Heartbeat and LeaveGroup -------------------------------------------------------------------

    def heartbeat(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("HeartbeatRequest", deferred.request)
        if not request.group_id:
            raise InvalidGroupId
        group = self.get(request.group_id)
        if group is None:
            raise UnknownMemberId
        if group.state is GroupState.DEAD:
            raise CoordinatorNotAvailable
        member = group.check_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise IllegalGeneration
        self.schedule_session_timeout(group, member, now)
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        out.respond(deferred, HeartbeatResponse(error_code=RebalanceInProgress.code if is_preparing else 0))

    def leave(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("LeaveGroupRequest", deferred.request)
        if not request.group_id:
            raise InvalidGroupId
        leaving = request.members
        if caller.version < FIRST_LEAVE_OF_MANY:
            leaving = [MemberIdentity(member_id=request.member_id)]
        group = self.get(request.group_id)
        if group is not None and group.state is GroupState.DEAD:
            raise CoordinatorNotAvailable
        responses = [
            MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.group_instance_id,
                error_code=UnknownMemberId.code if group is None else self._leave(group, leaver, out),
            )
            for leaver in leaving
        ]
        if group is not None and any(response.error_code == 0 for response in responses):
            if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                self.rebalance_or_complete(group, out, now)
            else:
                self.complete_join_if_all_joined(group, out, now)
        out.respond(deferred, leave_response(caller.version, responses))

    def _leave(self, group: ClassicGroup, leaver: MemberIdentity, out: Result) -> int:
        """Remove a member. Return the error code."""
        member_id = leaver.member_id
        if not member_id:
            # Administrators name static members by their instance id.
            known = group.static_members.get(leaver.group_instance_id or "")
            if known is None:
                return UnknownMemberId.code
            member_id = known
        elif member_id in group.pending_join:
            group.remove(member_id)
            self.timers.cancel(("member", group.id, member_id))
            return 0
        try:
            member = group.check_member(member_id, leaver.group_instance_id)
        except BrokerError as error:
            return error.code or 0
        self.drop_member(group, member, out)
        return 0


def leave_response(version: int, responses: list[MemberResponse]) -> LeaveGroupResponse:
    """Return the response with one result per member; versions below 3 have a single member."""
    if version >= FIRST_LEAVE_OF_MANY:
        return LeaveGroupResponse(members=responses)
    return LeaveGroupResponse(error_code=responses[0].error_code)
