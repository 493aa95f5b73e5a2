"""Requests of classic group members: SyncGroup, Heartbeat, LeaveGroup; classic/join.py has JoinGroup.

Kafka 4.3's rules in its order of checks (GroupMetadataManager). classic/rebalance.py has the consequences,
classic/state.py the state. Difference from Apache: a JoinGroup or SyncGroup that is superseded by a later one
of the same member gets REBALANCE_IN_PROGRESS; Apache sends no response.
"""

from __future__ import annotations

from typing import Any, cast

from pykafka2.broker.coordinators.classic.join import ClassicJoins
from pykafka2.broker.coordinators.classic.rebalance import (
    sync_response,
)
from pykafka2.broker.coordinators.classic.state import (
    ClassicGroup,
    GroupState,
)
from pykafka2.broker.coordinators.replay import Caller, Deferred, Result
from pykafka2.errors import (
    BrokerError,
    CoordinatorNotAvailable,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka2.protocol.messages.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
)
from pykafka2.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue

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
            out.reply(deferred, sync_response(group, member))
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
        out.reply(deferred, HeartbeatResponse(error_code=RebalanceInProgress.code if is_preparing else 0))

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
        answers = [
            MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.group_instance_id,
                error_code=UnknownMemberId.code if group is None else self._leave(group, leaver, out),
            )
            for leaver in leaving
        ]
        if group is not None and any(answer.error_code == 0 for answer in answers):
            if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                self.rebalance_or_complete(group, out, now)
            else:
                self.complete_join_if_all_joined(group, out, now)
        out.reply(deferred, leave_response(caller.version, answers))

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


def leave_response(version: int, answers: list[MemberResponse]) -> LeaveGroupResponse:
    """Return the response with one result per member; versions below 3 have a single member."""
    if version >= FIRST_LEAVE_OF_MANY:
        return LeaveGroupResponse(members=answers)
    return LeaveGroupResponse(error_code=answers[0].error_code)
