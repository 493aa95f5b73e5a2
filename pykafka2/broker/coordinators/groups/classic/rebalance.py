"""Rebalances of classic groups: preparation, join phase, sync phase, and expired members.

Every wait is a timer that can produce records (Kafka 4 has no purgatory here): the initial delay of an empty
group, which is extended while members join; the join phase; the sync phase; each member's session. group.py
handles the requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from pykafka2.broker.coordinators.groups.classic.state import (
    ClassicGroup,
    ClassicMember,
    GroupState,
    joined_members,
)
from pykafka2.broker.coordinators.refusals import append_error_code
from pykafka2.broker.coordinators.replay import Deferred, Result
from pykafka2.broker.coordinators.settings import GroupSettings
from pykafka2.broker.coordinators.timers import Timers
from pykafka2.errors import (
    BrokerError,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
)
from pykafka2.protocol.messages.group import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)
from pykafka2.protocol.messages.group_records import GroupMetadataKey

if TYPE_CHECKING:
    from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroup
    from pykafka2.broker.coordinators.groups.share.state import ShareGroup

AnyGroup: TypeAlias = "ClassicGroup | ConsumerGroup | ShareGroup"

Groups = dict[str, "AnyGroup"]
"""Every group of a shard, by id."""

FIRST_JOIN_WITH_SKIPPED_ASSIGNMENT = 9


class ClassicRebalance:
    """Rebalances, and the timers of members."""

    def __init__(
        self, groups: Groups, timers: Timers, settings: GroupSettings, wall_ms: Callable[[float], int]
    ) -> None:
        self.groups = groups
        self.timers = timers
        self.settings = settings
        self.wall_ms = wall_ms

    # -- preparing ----------------------------------------------------------------------------------

    def rebalance_or_complete(self, group: ClassicGroup, out: Result, now: float) -> None:
        """Start a rebalance, or complete the join phase of the current one if all members have joined."""
        if group.can_rebalance:
            self.prepare_rebalance(group, out, now)
        else:
            self.complete_join_if_all_joined(group, out, now)

    def prepare_rebalance(self, group: ClassicGroup, out: Result, now: float) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.propagate_error(group, RebalanceInProgress.code, out, now)
        group.pending_sync.clear()
        self.timers.cancel(("sync", group.id))
        is_initial = group.state is GroupState.EMPTY
        group.move_to(GroupState.PREPARING_REBALANCE, self.wall_ms(now))
        if is_initial:
            delay = self.settings.initial_rebalance_delay
            remaining = max(group.rebalance_timeout - delay, 0.0)
            self._wait_for_first_members(group, delay, remaining, now)
        elif group.have_all_joined:
            self.complete_join(group, out, now)
        else:
            self._wait_for_members(group, now)

    def _wait_for_members(self, group: ClassicGroup, now: float) -> None:
        self._schedule(("join", group.id), group, now + group.rebalance_timeout, self.complete_join)

    def _wait_for_first_members(
        self, group: ClassicGroup, delay: float, remaining: float, now: float
    ) -> None:
        """Wait for more members of an empty group, longer while some join.

        See rule the-first-rebalance-waits.
        """

        def wait_on(group: ClassicGroup, out: Result, now: float) -> None:
            if not group.new_member_added or remaining == 0:
                self.complete_join(group, out, now)
                return
            group.new_member_added = False
            longer = min(self.settings.initial_rebalance_delay, remaining)
            self._wait_for_first_members(group, longer, max(remaining - delay, 0.0), now)

        self._schedule(("join", group.id), group, now + delay, wait_on)

    def complete_join_if_all_joined(self, group: ClassicGroup, out: Result, now: float) -> None:
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.previous_state is not GroupState.EMPTY
            and group.have_all_joined
        ):
            self.complete_join(group, out, now)

    # -- completing ---------------------------------------------------------------------------------

    def complete_join(self, group: ClassicGroup, out: Result, now: float) -> None:
        """Complete the join phase and start the generation.

        Members that did not join are removed, except static ones.
        """
        self.timers.cancel(("join", group.id))
        for member in list(group.members.values()):
            if member.awaiting_join is None and not member.is_static:
                group.remove(member.id)
                self.timers.cancel(("member", group.id, member.id))
        if group.state is GroupState.DEAD:
            return
        if not group.elect_joined_leader() and group.members:
            # Only absent static members are left: their sessions decide.
            self._wait_for_members(group, now)
            return
        group.begin_generation(self.wall_ms(now))
        if group.state is GroupState.EMPTY:
            out.write(GroupMetadataKey(group=group.id), group.to_record({}))
            return
        for member in group.members.values():
            self.respond_to_join(group, member, out)
            self.schedule_session_timeout(group, member, now)
            member.is_new = False
            group.pending_sync.add(member.id)
        self._schedule(("sync", group.id), group, now + group.rebalance_timeout, self._expire_sync)

    def respond_to_join(self, group: ClassicGroup, member: ClassicMember, out: Result) -> None:
        deferred, member.awaiting_join = member.awaiting_join, None
        if deferred is not None:
            out.respond(deferred, join_response(group, member, deferred.version))

    def _expire_sync(self, group: ClassicGroup, out: Result, now: float) -> None:
        """Remove members that did not sync in time (rule members-that-do-not-sync-are-removed)."""
        if not group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
            return
        for member_id in sorted(group.pending_sync):
            group.remove(member_id)
            self.timers.cancel(("member", group.id, member_id))
        self.prepare_rebalance(group, out, now)

    def stabilize(self, group: ClassicGroup, assignments: dict[str, bytes], out: Result, now: float) -> None:
        """Distribute the leader's assignment, which is in the log now."""
        for member in group.members.values():
            member.assignment = assignments.get(member.id, b"")
        self._respond_to_syncs(group, 0, out, now)
        group.move_to(GroupState.STABLE, self.wall_ms(now))

    def propagate_error(self, group: ClassicGroup, code: int, out: Result, now: float) -> None:
        """End the generation without an assignment; waiting members get the error."""
        for member in group.members.values():
            member.assignment = b""
        self._respond_to_syncs(group, code, out, now)

    def assignment_not_stored(
        self, group: ClassicGroup, generation: int, error: BrokerError, out: Result, now: float
    ) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            return
        deferred = next(
            member.awaiting_sync for member in group.members.values() if member.awaiting_sync is not None
        )
        self.propagate_error(group, append_error_code(deferred.request.API_KEY, error.code or 0), out, now)
        self.rebalance_or_complete(group, out, now)

    def _respond_to_syncs(self, group: ClassicGroup, code: int, out: Result, now: float) -> None:
        for member in group.members.values():
            deferred, member.awaiting_sync = member.awaiting_sync, None
            if deferred is None:
                continue
            out.respond(deferred, sync_response(group, member, code))
            # Its session did not run while it waited.
            self.schedule_session_timeout(group, member, now)

    def note_synced(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self.timers.cancel(("sync", group.id))

    # -- sessions -----------------------------------------------------------------------------------

    def schedule_session_timeout(
        self, group: ClassicGroup, member: ClassicMember, now: float, timeout: float | None = None
    ) -> None:
        self.schedule_member_expiration(
            group, member.id, now + (member.session_timeout if timeout is None else timeout)
        )

    def schedule_member_expiration(self, group: ClassicGroup, member_id: str, deadline: float) -> None:
        """Set the deadline of a member, or of an unused member id."""

        def expire(group: ClassicGroup, out: Result, now: float) -> None:
            self._expire_member(group, member_id, out, now)

        self._schedule(("member", group.id, member_id), group, deadline, expire)

    def _expire_member(self, group: ClassicGroup, member_id: str, out: Result, now: float) -> None:
        if member_id in group.pending_join:
            group.remove(member_id)
            self.complete_join_if_all_joined(group, out, now)
            return
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return
        self.drop_member(group, member, out)
        if group.is_in(GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.rebalance_or_complete(group, out, now)
        else:
            self.complete_join_if_all_joined(group, out, now)

    def drop_member(self, group: ClassicGroup, member: ClassicMember, out: Result) -> None:
        """Remove a member; its waiting requests get an error that makes a live client rejoin."""
        self.timers.cancel(("member", group.id, member.id))
        self.dismiss(member, UnknownMemberId.code, "", out)
        group.remove(member.id)

    def dismiss(self, member: ClassicMember, code: int, member_id: str, out: Result) -> None:
        """Complete a member's waiting requests with an error; for JoinGroup with this member id."""
        joining, syncing = member.awaiting_join, member.awaiting_sync
        member.awaiting_join = member.awaiting_sync = None
        if joining is not None:
            out.refuse(joining, code, member_id=member_id)
        if syncing is not None:
            out.refuse(syncing, code)

    # -- endings ------------------------------------------------------------------------------------

    def on_loaded(self, group: ClassicGroup, out: Result, now: float) -> None:
        """Continue a loaded group: its members get a full session, without a rebalance."""
        for member in group.members.values():
            self.schedule_session_timeout(group, member, now)
        if len(group.members) > self.settings.max_size:
            self.prepare_rebalance(group, out, now)

    def on_unloaded(self, group: ClassicGroup, out: Result) -> None:
        """End the group here; waiting requests are sent to the new coordinator."""
        group.move_to(GroupState.DEAD, group.changed_ms or 0)
        for member in group.members.values():
            self.dismiss(member, NotCoordinator.code, member.id, out)

    def park_join(self, member: ClassicMember, deferred: Deferred[Any], out: Result) -> None:
        """Let a member wait for the join phase.

        Its earlier waiting request gets an error (Apache drops it).
        """
        if member.awaiting_join is not None:
            out.refuse(member.awaiting_join, RebalanceInProgress.code)
        member.awaiting_join = deferred

    def park_sync(self, member: ClassicMember, deferred: Deferred[Any], out: Result) -> None:
        if member.awaiting_sync is not None:
            out.refuse(member.awaiting_sync, RebalanceInProgress.code)
        member.awaiting_sync = deferred

    def _schedule(
        self,
        name: tuple[str, ...],
        group: ClassicGroup,
        deadline: float,
        action: Callable[[ClassicGroup, Result, float], None],
    ) -> None:
        def fire(now: float) -> Result | None:
            # The id can belong to another group by now.
            if self.groups.get(group.id) is not group or group.state is GroupState.DEAD:
                return None
            out = Result()
            action(group, out, now)
            return out

        self.timers.set(name, deadline, fire)


def join_response(
    group: ClassicGroup,
    member: ClassicMember,
    version: int,
    *,
    leader: str | None = None,
    lists_members: bool | None = None,
    skips_assignment: bool = False,
) -> JoinGroupResponse:
    """Return the response about the current generation; only the leader gets the member list."""
    if lists_members is None:
        lists_members = group.leader == member.id
    members = joined_members(group) if lists_members else ()
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol if version >= 7 else group.protocol or "",
        leader=(leader if leader is not None else group.leader) or "",
        skip_assignment=skips_assignment,
        member_id=member.id,
        members=[
            JoinGroupResponseMember(
                member_id=joined.id, group_instance_id=joined.instance_id, metadata=metadata
            )
            for joined, metadata in members
        ],
    )


def sync_response(group: ClassicGroup, member: ClassicMember, code: int = 0) -> SyncGroupResponse:
    """Return a member's assignment, or an error."""
    if code:
        return SyncGroupResponse(error_code=code, assignment=b"")
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
    )
