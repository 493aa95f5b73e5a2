"""Members of share groups: ShareGroupHeartbeat and sessions.

A heartbeat joins, changes a subscription, or leaves. Members of one group can share a partition, so they
never wait for each other: each one takes over its target assignment with its next heartbeat. Partitions are
assigned once they are initialized (partition_states.py). Kafka 4.4's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import attrs

from pykafka2.broker.coordinators.groups.classic.rebalance import Groups
from pykafka2.broker.coordinators.groups.share import records
from pykafka2.broker.coordinators.groups.share.assignor import simple
from pykafka2.broker.coordinators.groups.share.partition_states import Place, ShareContext, ShareGroupStates
from pykafka2.broker.coordinators.groups.share.state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    Assignment,
    ShareGroup,
    ShareMember,
    united,
)
from pykafka2.broker.coordinators.replay import Caller, Deferred, Result, decode_record
from pykafka2.broker.coordinators.settings import (
    GroupConfigs,
    GroupSettings,
    Topics,
    hash_of_topics,
    no_group_configs,
    seconds_of,
)
from pykafka2.broker.coordinators.timers import Timers
from pykafka2.errors import FencedMemberEpoch, GroupIdNotFound, GroupMaxSizeReached, InvalidRequest
from pykafka2.protocol.messages.share_group import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponseAssignment,
    ShareGroupHeartbeatResponseTopicPartitions,
)


def check_heartbeat(request: ShareGroupHeartbeatRequest) -> None:
    """Reject an invalid request, before the group is looked up."""
    problem = None
    if not request.group_id:
        problem = "the group id is empty"
    elif request.rack_id == "":
        problem = "the rack id is empty; use null for none"
    elif request.member_epoch < LEAVE_EPOCH:
        problem = f"invalid member epoch {request.member_epoch}"
    elif request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        problem = "the first request needs topics"
    if problem is not None:
        raise InvalidRequest(problem)


class ShareGroups:
    """All share groups of a shard."""

    def __init__(
        self,
        groups: Groups,
        timers: Timers,
        settings: GroupSettings,
        wall_ms: Callable[[float], int],
        context: ShareContext,
    ) -> None:
        self.groups = groups
        self.timers = timers
        self.settings = settings
        self.states = ShareGroupStates(groups, settings, wall_ms, context)
        self.group_configs: GroupConfigs = no_group_configs
        self._wall_ms = wall_ms

    @property
    def topics(self) -> Topics:
        """The cluster's topics."""
        return self.states.topics

    def get(self, group_id: str) -> ShareGroup:
        group = self.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            reason = "not found" if group is None else "is not a share group"
            raise GroupIdNotFound(f"Group {group_id} {reason}.")
        return group

    def replay(self, key: bytes, value: bytes | None, now: float) -> None:
        """Apply a record if it is of a share group."""
        decoded = decode_record(records.SHARE_GROUP_RECORDS, key, value)
        if decoded is not None:
            records.replay(self.groups, *decoded, self._wall_ms(now))

    # -- heartbeats ---------------------------------------------------------------------------------

    def heartbeat(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("ShareGroupHeartbeatRequest", deferred.request)
        check_heartbeat(request)
        if request.member_epoch == LEAVE_EPOCH:
            self._leave(deferred, request, out)
            return
        is_joining = request.member_epoch == JOIN_EPOCH
        group = self._group_for(request.group_id, is_joining)
        if request.member_id not in group.members and len(group.members) >= self.settings.share_max_size:
            raise GroupMaxSizeReached
        member = self._member_for(group, request, is_joining)
        updated = self._with_request(member, request, caller)
        if updated != member:
            records.write_member(out, group.id, updated)
        members = {**group.members, updated.id: updated}
        is_bumped, epoch = self._bump_epoch(group, members, member.topics != updated.topics, out)
        target_epoch, target = self._assign(group, members, epoch, updated.id, out, now)
        moved = self._reconcile(group.id, updated, target_epoch, target, is_bumped, out)
        sends_assignment = is_joining or request.subscribed_topic_names is not None
        configs = self.group_configs(group.id)
        interval = self.settings.share_heartbeat_interval
        response = ShareGroupHeartbeatResponse(
            member_id=moved.id,
            member_epoch=moved.epoch,
            heartbeat_interval_ms=round(1000 * seconds_of(configs, "share.heartbeat.interval.ms", interval)),
            assignment=_assignment(moved) if sends_assignment or moved.assigned != member.assigned else None,
        )
        out.respond(deferred, response)
        self.states.initialize_new(group, group.subscribed(members.values()), epoch, deferred, out, now)

        def appended(out: Result) -> None:
            live = self.groups.get(group.id)
            if isinstance(live, ShareGroup):
                live.topics_seen = self.topics
            self._schedule_session_timeout(group.id, moved.id, now)

        out.on_appended = appended

    def _group_for(self, group_id: str, is_joining: bool) -> ShareGroup:
        if is_joining and group_id not in self.groups:
            return ShareGroup(group_id)
        return self.get(group_id)

    @staticmethod
    def _member_for(group: ShareGroup, request: ShareGroupHeartbeatRequest, is_joining: bool) -> ShareMember:
        if is_joining:
            return group.members.get(request.member_id, ShareMember(request.member_id))
        member = group.get_member(request.member_id)
        # The previous epoch is accepted after a lost response.
        if request.member_epoch not in (member.epoch, member.previous_epoch):
            raise FencedMemberEpoch(
                f"{member.id} is at epoch {member.epoch}, not {request.member_epoch}; it must rejoin"
            )
        return member

    @staticmethod
    def _with_request(
        member: ShareMember, request: ShareGroupHeartbeatRequest, caller: Caller
    ) -> ShareMember:
        """Return the member updated by the heartbeat; null fields keep their value."""
        topics, rack_id = request.subscribed_topic_names, request.rack_id
        return attrs.evolve(
            member,
            rack_id=member.rack_id if rack_id is None else rack_id,
            topics=member.topics if topics is None else frozenset(topics),
            client_id=caller.client_id,
            client_host=caller.client_host,
        )

    def _bump_epoch(
        self, group: ShareGroup, members: Mapping[str, ShareMember], must: bool, out: Result
    ) -> tuple[bool, int]:
        """Increment the epoch if subscriptions, topics or initialized partitions changed.

        Return whether it was incremented, and the epoch.
        """
        must = must or (group.assignment_epoch >= group.epoch and self._has_unassigned(group))
        if not must and group.topics_seen is self.topics:
            return False, group.epoch
        metadata_hash = hash_of_topics(self.topics, group.subscribed(members.values()))
        if not must and metadata_hash == group.metadata_hash:
            return False, group.epoch
        records.write_epoch(out, group.id, group.epoch + 1, metadata_hash)
        return True, group.epoch + 1

    def _has_unassigned(self, group: ShareGroup) -> bool:
        """Return whether the target assignment lacks an initialized partition of a subscribed topic."""
        if group.states is None or not group.members:
            return False
        subscribed = group.subscribed()
        assigned = united(*group.targets.values())
        return any(
            self.topics.name_of(topic_id) in subscribed and assigned.get(topic_id) != partitions
            for topic_id, partitions in group.states.initialized.items()
        )

    def _assign(
        self,
        group: ShareGroup,
        members: Mapping[str, ShareMember],
        epoch: int,
        member_id: str,
        out: Result,
        now: float,
    ) -> tuple[int, Assignment]:
        """Compute a new target assignment if the group epoch is ahead of it; once per assignment interval.

        Return its epoch, and the member's target.
        """
        last = group.assignment_epoch, group.targets.get(member_id, {})
        if epoch <= group.assignment_epoch:
            return last
        at_ms = self._wall_ms(now)
        interval = seconds_of(
            self.group_configs(group.id),
            "share.assignment.interval.ms",
            self.settings.share_assignment_interval,
        )
        if interval and group.assigned_at_ms and group.assigned_at_ms + interval * 1000 > at_ms:
            return last
        subscriptions = {one.id: self._subscribed_ids(one) for one in members.values()}
        held = {
            one: [(topic_id, number) for topic_id, numbers in target.items() for number in numbers]
            for one, target in group.targets.items()
        }
        initialized = {} if group.states is None else group.states.initialized
        targets = {one: _by_topic(places) for one, places in simple(subscriptions, held, initialized).items()}
        for one, target in targets.items():
            if target != group.targets.get(one):
                records.write_target(out, group.id, one, target)
        records.write_target_epoch(out, group.id, epoch, at_ms)
        return epoch, targets[member_id]

    def _subscribed_ids(self, member: ShareMember) -> frozenset[bytes]:
        ids = map(self.topics.id_of, member.topics)
        return frozenset(topic_id for topic_id in ids if topic_id is not None)

    def _reconcile(
        self,
        group_id: str,
        member: ShareMember,
        epoch: int,
        target: Assignment,
        is_bumped: bool,
        out: Result,
    ) -> ShareMember:
        """Return the member with its target assignment, without topics that it does not subscribe to."""
        if not is_bumped and member.epoch == epoch:
            return member
        subscribed = self._subscribed_ids(member)
        assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}
        moved = attrs.evolve(member, assigned=assigned)
        if member.epoch != epoch:
            moved = attrs.evolve(moved, previous_epoch=member.epoch, epoch=epoch)
        if moved != member:
            records.write_current(out, group_id, moved)
        return moved

    # -- leaving and fencing ------------------------------------------------------------------------

    def _leave(self, deferred: Deferred[Any], request: ShareGroupHeartbeatRequest, out: Result) -> None:
        group = self.get(request.group_id)
        member = group.get_member(request.member_id)
        self._fence(group, member, out)
        out.respond(
            deferred,
            ShareGroupHeartbeatResponse(
                member_id=member.id, member_epoch=LEAVE_EPOCH, heartbeat_interval_ms=0
            ),
        )

    def _fence(self, group: ShareGroup, member: ShareMember, out: Result) -> None:
        """Remove a member; a new epoch assigns its partitions to others."""
        left = [one for one in group.members.values() if one.id != member.id]
        records.write_removal(out, group.id, member.id)
        metadata_hash = hash_of_topics(self.topics, group.subscribed(left))
        records.write_epoch(out, group.id, group.epoch + 1, metadata_hash)
        if not left and not self.settings.is_before_4_4:
            records.write_target_epoch(out, group.id, group.epoch + 1, 0)  # nothing is to be assigned
        out.on_appended = lambda out: self.timers.cancel(("session", group.id, member.id))

    def on_loaded(self, group: ShareGroup, now: float) -> None:
        """Continue a loaded group: its members get a full session."""
        for member_id in group.members:
            self._schedule_session_timeout(group.id, member_id, now)

    def _schedule_session_timeout(self, group_id: str, member_id: str, now: float) -> None:
        configs = self.group_configs(group_id)
        timeout = seconds_of(configs, "share.session.timeout.ms", self.settings.share_session_timeout)
        name = ("session", group_id, member_id)
        self.timers.set(name, now + timeout, lambda now: self._expire(group_id, member_id))

    def _expire(self, group_id: str, member_id: str) -> Result | None:
        group = self.groups.get(group_id)
        if not isinstance(group, ShareGroup) or member_id not in group.members:
            return None
        out = Result()
        self._fence(group, group.members[member_id], out)
        return out


def _by_topic(places: Iterable[Place]) -> Assignment:
    by_topic: dict[bytes, set[int]] = {}
    for topic_id, number in places:
        by_topic.setdefault(topic_id, set()).add(number)
    return {topic_id: frozenset(numbers) for topic_id, numbers in by_topic.items()}


def _assignment(member: ShareMember) -> ShareGroupHeartbeatResponseAssignment:
    return ShareGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ShareGroupHeartbeatResponseTopicPartitions(
                topic_id=topic_id, partitions=sorted(member.assigned[topic_id])
            )
            for topic_id in sorted(member.assigned)
        ]
    )
