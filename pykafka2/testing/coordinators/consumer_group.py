"""Requests of KIP-848: ConsumerGroupHeartbeat in all its meanings.

A heartbeat joins, changes a subscription, reports what was given up, or leaves.  It goes through three steps,
each tried on a draft of the group and written as records: the member and the group's epoch, the target
assignment, and one step of this member towards it (reconciliation.py).  Kafka 4.3's rules; a pattern is
resolved at once where Apache does it in the background, and is Python's syntax, not RE2's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, cast

import attrs

from pykafka2.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRegularExpression,
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
from pykafka2.protocol.messages.group_records import GroupMetadataKey
from pykafka2.testing.coordinators import consumer_records as records
from pykafka2.testing.coordinators.assignors import ASSIGNORS, Subscriber
from pykafka2.testing.coordinators.classic_rebalance import Groups
from pykafka2.testing.coordinators.classic_state import ClassicGroup, GroupState
from pykafka2.testing.coordinators.consumer_state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from pykafka2.testing.coordinators.reconciliation import Owned, reconcile
from pykafka2.testing.coordinators.replay import Caller, Deferred, Result
from pykafka2.testing.coordinators.settings import NO_TOPICS, GroupSettings, Topics
from pykafka2.testing.coordinators.timers import Timers


class ConsumerGroups:
    """Every KIP-848 group of a shard."""

    def __init__(
        self,
        groups: Groups,
        timers: Timers,
        settings: GroupSettings,
        wall_ms: Callable[[float], int],
        new_id: Callable[[], str],
    ) -> None:
        self.groups = groups
        self.timers = timers
        self.settings = settings
        self.topics: Topics = NO_TOPICS
        self._wall_ms = wall_ms
        self._new_id = new_id

    def get(self, group_id: str) -> ConsumerGroup:
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"no consumer group {group_id}")
        return group

    # -- heartbeats ---------------------------------------------------------------------------------

    def heartbeat(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("ConsumerGroupHeartbeatRequest", deferred.request)
        check_heartbeat(request, caller.version, self.settings.consumer_assignors)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            self._leave(deferred, request, out)
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
        has_new_patterns = self._resolve_patterns(draft, member, updated, out, now)
        has_changed = updated.topics != member.topics or has_new_patterns
        self._bump_epoch(draft, has_changed or draft.epoch == 0, out)
        self._assign(draft, out, now)
        moved = self._reconcile(draft, updated, request, has_changed, out)
        is_full = (
            request.rebalance_timeout_ms != -1
            and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
            and request.topic_partitions is not None
        )
        tells = request.member_epoch == JOIN_EPOCH or is_full or _partitions(member) != _partitions(moved)
        out.reply(
            deferred,
            ConsumerGroupHeartbeatResponse(
                member_id=moved.id,
                member_epoch=moved.epoch,
                heartbeat_interval_ms=round(self.settings.consumer_heartbeat_interval * 1000),
                assignment=_assignment(moved) if tells else None,
            ),
        )

        def appended(out: Result) -> None:
            if replaced is not None and replaced.id != moved.id:
                self._disarm(group.id, replaced.id)
            live = self.groups.get(group.id)
            if isinstance(live, ConsumerGroup):
                live.topics_seen = self.topics
            self._arm_session(group.id, moved.id, now)
            if moved != updated:
                self._arm_revocation(group.id, moved, now)

        out.on_appended = appended

    def _get_or_make(self, request: ConsumerGroupHeartbeatRequest, out: Result) -> ConsumerGroup:
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if request.member_epoch != JOIN_EPOCH:
            raise GroupIdNotFound(f"no consumer group {request.group_id}")
        if isinstance(group, ClassicGroup):
            # Rule 87, the part that costs nothing: a classic group without members becomes one of ours.
            if group.state is not GroupState.EMPTY:
                raise GroupIdNotFound(f"{request.group_id} has members of the classic protocol")
            out.write(GroupMetadataKey(group=group.id), None)
        return ConsumerGroup(request.group_id)

    def _replaced(
        self, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerMember | None:
        if request.instance_id is None or request.member_epoch != JOIN_EPOCH:
            return None
        return group.static_member(request.instance_id)

    def _member(
        self, draft: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest, out: Result
    ) -> ConsumerMember:
        """Who sends the heartbeat, as known so far; a static one is taken over from its former id."""
        epoch = request.member_epoch
        if request.instance_id is None:
            if epoch == JOIN_EPOCH:
                return draft.members.get(member_id, ConsumerMember(member_id))
            member = draft.get_member(member_id)
            check_epoch(member, epoch, _owned(request))
            return member
        if epoch != JOIN_EPOCH:
            member = draft.get_static(request.instance_id, member_id)
            check_epoch(member, epoch, _owned(request))
            return member
        old = draft.static_member(request.instance_id)
        if old is None:
            return ConsumerMember(member_id)
        if old.epoch != STATIC_LEAVE_EPOCH:
            raise UnreleasedInstanceId(f"{request.instance_id} of {draft.id} is in use by {old.id}")
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
        """The member with what the heartbeat says; null stands for "as before"."""
        said: dict[str, Any] = {
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
        given = {name: value for name, value in said.items() if value is not None}
        return attrs.evolve(member, client_id=caller.client_id, client_host=caller.client_host, **given)

    # -- the three steps ----------------------------------------------------------------------------

    def _resolve_patterns(
        self, draft: ConsumerGroup, member: ConsumerMember, updated: ConsumerMember, out: Result, now: float
    ) -> bool:
        """Bring what patterns match up to date; whether anybody's topics changed."""
        old, new = member.regex or None, updated.regex or None
        changed = False
        if old is not None and old != new and draft.subscribers_of_regex(old) == 0:
            draft.regexes.pop(old, None)
            records.write_regex(out, draft.id, old, None)
            changed = True
        stale = set(draft.regexes) if draft.topics_seen is not self.topics else set()
        if new is not None and new not in draft.regexes:
            stale.add(new)
        for regex in sorted(stale):
            topics = self._matching(regex)
            if topics != draft.regexes.get(regex):
                draft.regexes[regex] = topics
                records.write_regex(out, draft.id, regex, topics, self._wall_ms(now))
                changed = True
        return changed or old != new

    def _matching(self, regex: str) -> frozenset[str]:
        try:
            pattern = re.compile(regex)
        except re.error as error:
            raise InvalidRegularExpression(f"{regex!r} is no regular expression: {error}") from None
        return frozenset(name for name in self.topics.names() if pattern.fullmatch(name))

    def _bump_epoch(self, draft: ConsumerGroup, must: bool, out: Result) -> None:
        """A new epoch where subscriptions or the topics behind them changed."""
        if not must and draft.topics_seen is self.topics:
            return
        metadata_hash = self._hash(draft)
        # A group begins at epoch 1, and its first member moves it on, as seen in Kafka 4.3.1.
        draft.epoch = max(draft.epoch, 1)
        if must or metadata_hash != draft.metadata_hash:
            draft.epoch += 1
            draft.metadata_hash = metadata_hash
            records.write_epoch(out, draft.id, draft.epoch, metadata_hash)

    def _hash(self, group: ConsumerGroup) -> int:
        """What a change of the topics that the group reads changes."""
        names = sorted(
            {name for member in group.members.values() for name in group.subscribed_topics(member)}
        )
        digest = blake2b(digest_size=8)
        for name in names:
            topic_id = self.topics.id_of(name)
            if topic_id is not None:
                digest.update(topic_id + b"%d" % self.topics.partition_count(name))
        return int.from_bytes(digest.digest(), "big", signed=True)

    def _assign(self, draft: ConsumerGroup, out: Result, now: float) -> None:
        """A new target where the epoch is ahead of it, at most one per assignment interval (KIP-1263)."""
        at_ms = self._wall_ms(now)
        if draft.epoch <= draft.assignment_epoch:
            return
        if draft.assigned_at_ms + self.settings.consumer_assignment_interval * 1000 > at_ms:
            return
        members = {
            member.id: Subscriber(
                self._subscribed_ids(draft, member),
                frozenset(
                    (topic_id, partition)
                    for topic_id, partitions in draft.targets.get(member.id, {}).items()
                    for partition in partitions
                ),
                member.instance_id,
            )
            for member in draft.members.values()
        }
        names = {name for member in draft.members.values() for name in draft.subscribed_topics(member)}
        sizes = {
            topic_id: self.topics.partition_count(name)
            for name in names
            if (topic_id := self.topics.id_of(name)) is not None
        }
        assignor = ASSIGNORS[draft.preferred_assignor(self.settings.consumer_assignors[0])]
        for member_id, partitions in sorted(assignor(members, sizes).items()):
            by_topic: dict[bytes, set[int]] = {}
            for topic_id, partition in partitions:
                by_topic.setdefault(topic_id, set()).add(partition)
            target = records.target_of(by_topic)
            if target != draft.targets.get(member_id):
                draft.targets[member_id] = target
                records.write_target(out, draft.id, member_id, target)
        draft.assignment_epoch, draft.assigned_at_ms = draft.epoch, at_ms
        records.write_target_epoch(out, draft.id, draft.epoch, at_ms)

    def _subscribed_ids(self, group: ConsumerGroup, member: ConsumerMember) -> frozenset[bytes]:
        ids = (self.topics.id_of(name) for name in group.subscribed_topics(member))
        return frozenset(topic_id for topic_id in ids if topic_id is not None)

    def _reconcile(
        self,
        draft: ConsumerGroup,
        member: ConsumerMember,
        request: ConsumerGroupHeartbeatRequest,
        has_changed: bool,
        out: Result,
    ) -> ConsumerMember:
        moved = reconcile(
            draft,
            member,
            draft.assignment_epoch,
            draft.targets.get(member.id, {}),
            self._subscribed_ids(draft, member),
            has_changed,
            _owned(request),
        )
        if moved != member:
            records.write_current(out, draft.id, moved)
        return moved

    # -- leaving and being put out ------------------------------------------------------------------

    def _leave(self, deferred: Deferred[Any], request: ConsumerGroupHeartbeatRequest, out: Result) -> None:
        group = self.get(request.group_id)
        if request.instance_id is None:
            member = group.get_member(request.member_id)
        else:
            member = group.get_static(request.instance_id, request.member_id)
        if request.member_epoch == STATIC_LEAVE_EPOCH:
            # It will be back: its partitions stay its own until its session ends.
            gone = attrs.evolve(member, epoch=STATIC_LEAVE_EPOCH, pending_revocation={})
            records.write_current(out, group.id, gone)
            out.on_appended = lambda out: self.timers.cancel(("revocation", group.id, member.id))
        else:
            self.fence(group, member, out)
        out.reply(
            deferred,
            ConsumerGroupHeartbeatResponse(
                member_id=member.id, member_epoch=request.member_epoch, heartbeat_interval_ms=0
            ),
        )

    def fence(self, group: ConsumerGroup, member: ConsumerMember, out: Result) -> None:
        """Put a member out; a new epoch gives its partitions to others."""
        draft = group.draft()
        draft.remove_member(member.id)
        records.write_removal(out, group.id, member.id)
        if member.regex and draft.subscribers_of_regex(member.regex) == 0:
            records.write_regex(out, group.id, member.regex, None)
        records.write_epoch(out, group.id, group.epoch + 1, self._hash(draft))
        out.on_appended = lambda out: self._disarm(group.id, member.id)

    # -- timers -------------------------------------------------------------------------------------

    def loaded(self, group: ConsumerGroup, now: float) -> None:
        """Another coordinator's group goes on: its members get a full session."""
        for member in group.members.values():
            self._arm_session(group.id, member.id, now)
            self._arm_revocation(group.id, member, now)

    def _arm_session(self, group_id: str, member_id: str, now: float) -> None:
        def expire(now: float) -> Result | None:
            return self._fence_by_id(group_id, member_id, None)

        deadline = now + self.settings.consumer_session_timeout
        self.timers.set(("session", group_id, member_id), deadline, expire)

    def _arm_revocation(self, group_id: str, member: ConsumerMember, now: float) -> None:
        """A member has its rebalance timeout to give up what is no longer its own."""
        name = ("revocation", group_id, member.id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self.timers.cancel(name)
            return

        def expire(now: float) -> Result | None:
            return self._fence_by_id(group_id, member.id, member.epoch)

        self.timers.set(name, now + member.rebalance_timeout, expire)

    def _fence_by_id(self, group_id: str, member_id: str, epoch: int | None) -> Result | None:
        group = self.groups.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if not isinstance(group, ConsumerGroup) or not isinstance(member, ConsumerMember):
            return None
        if epoch is not None and member.epoch != epoch:
            return None
        out = Result()
        self.fence(group, member, out)
        return out

    def _disarm(self, group_id: str, member_id: str) -> None:
        self.timers.cancel(("session", group_id, member_id))
        self.timers.cancel(("revocation", group_id, member_id))


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: tuple[str, ...]) -> None:
    """Refuse what makes no sense, before looking at the group."""
    epoch = request.member_epoch
    problem = None
    if not request.group_id:
        problem = "the group id is empty"
    elif not request.member_id and (version >= 1 or epoch != JOIN_EPOCH):
        problem = "the member id is empty"
    elif request.instance_id == "" or request.rack_id == "":
        problem = "an instance id or rack id is empty; null says that there is none"
    elif epoch < STATIC_LEAVE_EPOCH:
        problem = f"there is no member epoch {epoch}"
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        problem = "only static members leave for a while"
    elif epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            problem = "the rebalance timeout is missing in a first request"
        elif request.topic_partitions is None or request.topic_partitions:
            problem = "the list of owned partitions is empty in a first request, not missing"
        elif request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            problem = "neither topics nor a pattern in a first request"
    if problem is not None:
        raise InvalidRequest(problem)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignor(f"no assignor {request.server_assignor}, only {', '.join(assignors)}")


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    """FENCED_MEMBER_EPOCH unless the epoch is the member's, or the one before and the answer may be lost."""
    if epoch == member.epoch:
        return
    is_subset = owned is not None and all(
        partition in member.assigned.get(topic_id, {})
        for topic_id, partitions in owned
        for partition in partitions
    )
    if epoch < member.epoch and epoch == member.previous_epoch and is_subset:
        return
    raise FencedMemberEpoch(f"{member.id} is at epoch {member.epoch}, not {epoch}; it has to join anew")


def _owned(request: ConsumerGroupHeartbeatRequest) -> Owned:
    if request.topic_partitions is None:
        return None
    return [(one.topic_id, one.partitions) for one in request.topic_partitions]


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
