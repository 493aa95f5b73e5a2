"""Requests of KIP-848: all variants of ConsumerGroupHeartbeat.

A heartbeat joins, changes a subscription, reports revoked partitions, or leaves. It goes through the steps
of assignment.py on a draft of the group; changes are written as records. Kafka 4.3's rules, except that a
pattern is resolved at once (Apache does it in the background) and uses Python's syntax instead of RE2's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import attrs

from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup
from pykafka2.broker.coordinators.groups.consumer import records
from pykafka2.broker.coordinators.groups.consumer.assignment import ConsumerSteps, Owned
from pykafka2.broker.coordinators.groups.consumer.state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from pykafka2.broker.coordinators.replay import Caller, Deferred, Result
from pykafka2.broker.coordinators.settings import seconds_of
from pykafka2.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from pykafka2.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Reject an invalid request, before the group is looked up."""
    epoch = request.member_epoch
    problem = None
    if not request.group_id:
        problem = "the group id is empty"
    elif not request.member_id and (version >= 1 or epoch != JOIN_EPOCH):
        problem = "the member id is empty"
    elif request.instance_id == "" or request.rack_id == "":
        problem = "an instance id or rack id is empty; use null for none"
    elif epoch < STATIC_LEAVE_EPOCH:
        problem = f"invalid member epoch {epoch}"
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        problem = "only static members can leave temporarily"
    elif epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            problem = "the first request needs a rebalance timeout"
        elif request.topic_partitions is None or request.topic_partitions:
            problem = "the first request needs an empty list of owned partitions"
        elif request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            problem = "the first request needs topics or a pattern"
    if problem is not None:
        raise InvalidRequest(problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(
            f"unknown assignor {request.server_assignor}; use one of {', '.join(assignors)}"
        )


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's.

    The previous epoch is accepted after a lost response.
    """
    if epoch == member.epoch:
        return
    is_subset = owned is not None and all(
        partition in member.assigned.get(topic_id, {})
        for topic_id, partitions in owned
        for partition in partitions
    )
    if epoch < member.epoch and epoch == member.previous_epoch and is_subset:
        return
    raise FencedMemberEpoch(f"{member.id} is at epoch {member.epoch}, not {epoch}; it must rejoin")


def owned_of(request: ConsumerGroupHeartbeatRequest) -> Owned:
    if request.topic_partitions is None:
        return None
    return [(topic.topic_id, topic.partitions) for topic in request.topic_partitions]


class ConsumerGroups(ConsumerSteps):
    """All KIP-848 groups of a shard."""

    # -- heartbeats ---------------------------------------------------------------------------------

    def heartbeat(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("ConsumerGroupHeartbeatRequest", deferred.request)
        check_heartbeat(request, caller.version, self.settings.consumer_assignors)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            self._leave(deferred, request, out, now)
            return
        group = self._get_or_make(request, out)
        member_id = request.member_id or self._new_id()
        if len(group.members) >= self.settings.consumer_max_size and member_id not in group.members:
            raise GroupMaxSizeReached
        draft = group.draft()
        replaced = self._replaced(group, request)
        member = self._member(draft, member_id, request, out)
        updated = self._with_request(member, request, caller)
        if updated != member or member_id not in group.members:
            records.write_member(out, group.id, updated)
        draft.put(updated)
        has_new_patterns = self.resolve_patterns(caller, draft, member, updated, out, now)
        has_changed = updated.topics != member.topics or has_new_patterns
        self.bump_epoch(draft, has_changed, out)
        self.assign(draft, out, now)
        moved = self.reconcile(draft, updated, owned_of(request), has_changed, out)
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        sends_assignment = (
            request.member_epoch == JOIN_EPOCH or is_full or _partitions(member) != _partitions(moved)
        )
        out.respond(
            deferred,
            ConsumerGroupHeartbeatResponse(
                member_id=moved.id,
                member_epoch=moved.epoch,
                heartbeat_interval_ms=self._heartbeat_interval_ms(group.id),
                assignment=_assignment(moved) if sends_assignment else None,
            ),
        )

        def appended(out: Result) -> None:
            if replaced is not None and replaced.id != moved.id:
                self.cancel_timers(group.id, replaced.id)
            live = self.groups.get(group.id)
            if isinstance(live, ConsumerGroup):
                live.topics_seen, live.rules_seen = self.topics, caller.rules
                if live is not group:  # it can have been upgraded with members that have left by now
                    for member in live.members.values():
                        self.schedule_session_timeout(group.id, member, now)
            self.schedule_session_timeout(group.id, moved, now)
            if moved != updated:
                self._schedule_revocation_timeout(group.id, moved, now)

        out.on_appended = appended

    def _get_or_make(self, request: ConsumerGroupHeartbeatRequest, out: Result) -> ConsumerGroup:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if request.member_epoch != JOIN_EPOCH:
            raise GroupIdNotFound(f"no consumer group {request.group_id}")
        if isinstance(group, ClassicGroup):
            return self.upgraded(group, out)
        return ConsumerGroup(request.group_id)

    def upgraded(self, group: ClassicGroup, out: Result) -> ConsumerGroup:
        """Convert a classic group; with members only if it is allowed (migration.py)."""
        raise NotImplementedError

    def _replaced(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerMember | None:
        if request.instance_id is None or request.member_epoch != JOIN_EPOCH:
            return None
        return group.static_member(request.instance_id)

    def _member(
        self, draft: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, out: Result
    ) -> ConsumerMember:
        """Return the sender of the heartbeat; a static member is taken over from its former id."""
        epoch = request.member_epoch
        if request.instance_id is None:
            if epoch == JOIN_EPOCH:
                return draft.members.get(member_id, ConsumerMember(member_id))
            member = draft.get_member(member_id)
            check_epoch(member, epoch, owned_of(request))
            return member
        if epoch != JOIN_EPOCH:
            member = draft.get_static(request.instance_id, member_id)
            check_epoch(member, epoch, owned_of(request))
            return member
        old = draft.static_member(request.instance_id)
        if old is None:
            return ConsumerMember(member_id)
        if old.epoch != STATIC_LEAVE_EPOCH and old.classic is None:
            raise UnreleasedInstanceId(f"{request.instance_id} of {draft.id} is in use by {old.id}")
        return self.take_over(draft, old, member_id, out)

    def take_over(
        self, draft: ConsumerGroup, old: ConsumerMember, member_id: str, out: Result
    ) -> ConsumerMember:
        """Move a static member with all its state to a new id."""
        member = attrs.evolve(old, id=member_id, epoch=JOIN_EPOCH, previous_epoch=0)
        records.write_removal(out, draft.id, old.id)
        target = draft.targets.pop(old.id, {})
        draft.targets.pop(member_id, None)
        draft.remove_member(old.id)
        draft.put(member)
        draft.targets[member_id] = target
        records.write_member(out, draft.id, member)
        records.write_target(out, draft.id, member_id, target)
        records.write_current(out, draft.id, member)
        return member

    def _with_request(
        self, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
    ) -> ConsumerMember:
        """Return the member updated by the heartbeat; null fields keep their value."""
        values: dict[str, Any] = {
            "instance_id": request.instance_id,
            "rack_id": request.rack_id,
            "rebalance_timeout": None
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms / 1000,
            "topics": None
            if request.subscribed_topic_names is None
            else frozenset(request.subscribed_topic_names),
            "regex": request.subscribed_topic_regex,
            "assignor": request.server_assignor,
        }
        changes = {name: value for name, value in values.items() if value is not None}
        return attrs.evolve(
            member, client_id=caller.client_id, client_host=caller.client_host, classic=None, **changes
        )

    # -- leaving and fencing ------------------------------------------------------------------

    def _leave(
        self, deferred: Deferred[Any], request: ConsumerGroupHeartbeatRequest, out: Result, now: float
    ) -> None:
        group = self.get(request.group_id)
        if request.instance_id is None:
            member = group.get_member(request.member_id)
        else:
            member = group.get_static(request.instance_id, request.member_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            # It will return: its partitions stay assigned to it until its session expires.
            left = attrs.evolve(member, epoch=STATIC_LEAVE_EPOCH, pending_revocation={})
            records.write_current(out, group.id, left)
            out.on_appended = lambda out: self.timers.cancel(("revocation", group.id, member.id))
        else:
            self.fence(group, [member], out, now)
        out.respond(
            deferred,
            ConsumerGroupHeartbeatResponse(
                member_id=member.id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
            ),
        )

    def fence(self, group: ConsumerGroup, members: Sequence[ConsumerMember], out: Result, now: float) -> None:
        """Fence members; a new epoch assigns their partitions to others."""
        draft = group.draft()
        for member in members:
            draft.remove_member(member.id)
            records.write_removal(out, group.id, member.id)
        for regex in sorted({member.regex for member in members if member.regex}):
            if draft.subscribers_of_regex(regex) == 0:
                records.write_regex(out, group.id, regex, None)
        records.write_epoch(out, group.id, group.epoch + 1, self.hash_of(draft))
        if not draft.members and not self.settings.is_before_4_4:
            records.write_target_epoch(out, group.id, group.epoch + 1, 0)  # nothing is to be assigned

        def appended(out: Result) -> None:
            for member in members:
                self.cancel_timers(group.id, member.id)

        out.on_appended = appended

    def _heartbeat_interval_ms(self, group_id: str) -> int:
        default = self.settings.consumer_heartbeat_interval
        return round(
            1000 * seconds_of(self.group_configs(group_id), "consumer.heartbeat.interval.ms", default)
        )

    # -- timers -------------------------------------------------------------------------------------

    def on_loaded(self, group: ConsumerGroup, now: float) -> None:
        """Continue a loaded group: its members get a full session."""
        for member in group.members.values():
            self.schedule_session_timeout(group.id, member, now)
            self._schedule_revocation_timeout(group.id, member, now)

    def schedule_session_timeout(self, group_id: str, member: ConsumerMember, now: float) -> None:
        configs = self.group_configs(group_id)
        timeout = seconds_of(configs, "consumer.session.timeout.ms", self.settings.consumer_session_timeout)
        if member.classic is not None:
            timeout = member.classic.session_timeout
        self.schedule_fencing("session", group_id, member.id, now + timeout)

    def schedule_fencing(self, name: str, group_id: str, member_id: str, deadline: float) -> None:
        """Fence the member at this time, unless the timer is cancelled before."""
        self.timers.set(
            (name, group_id, member_id),
            deadline,
            lambda now: self._fence_by_id(group_id, member_id, None, now),
        )

    def _schedule_revocation_timeout(self, group_id: str, member: ConsumerMember, now: float) -> None:
        """Start the rebalance timeout within which a member must revoke partitions."""
        name = ("revocation", group_id, member.id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS or member.classic is not None:
            self.timers.cancel(name)
            return

        def expire(now: float) -> Result | None:
            return self._fence_by_id(group_id, member.id, member.epoch, now)

        self.timers.set(name, now + member.rebalance_timeout, expire)

    def _fence_by_id(self, group_id: str, member_id: str, epoch: int | None, now: float) -> Result | None:
        group = self.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if not isinstance(group, ConsumerGroup) or not isinstance(member, ConsumerMember):
            return None
        if epoch is not None and member.epoch != epoch:
            return None
        out = Result()
        self.fence(group, [member], out, now)
        return out

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        for name in ("session", "revocation", "rejoin", "resync"):
            self.timers.cancel((name, group_id, member_id))


def _partitions(member: ConsumerMember) -> dict[bytes, set[int]]:
    return {topic_id: set(partitions) for topic_id, partitions in member.assigned.items()}


def _assignment(member: ConsumerMember) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(
                topic_id=topic_id, partitions=sorted(member.assigned[topic_id])
            )
            for topic_id in sorted(member.assigned)
        ]
    )
