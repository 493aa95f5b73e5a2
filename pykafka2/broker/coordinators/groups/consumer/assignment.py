"""A KIP-848 group's assignment: patterns, group epoch, target assignment, and each member's way to it.

Each step runs on a draft of the group and writes records; group.py calls them in order. A member first
revokes partitions, at its old epoch, and confirms that by no longer listing them; only then it moves to the
new epoch. It is assigned a partition only when that has no owner. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from pykafka2.broker.base.patterns import Steps, compile_pattern, steps_for_each
from pykafka2.broker.coordinators.groups.classic.rebalance import Groups
from pykafka2.broker.coordinators.groups.consumer import records
from pykafka2.broker.coordinators.groups.consumer.assignors import ASSIGNORS, Subscriber
from pykafka2.broker.coordinators.groups.consumer.state import (
    Assignment,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Target,
)
from pykafka2.broker.coordinators.replay import Caller, Result
from pykafka2.broker.coordinators.settings import (
    NO_TOPICS,
    GroupConfigs,
    GroupSettings,
    Topics,
    hash_of_topics,
    no_group_configs,
    seconds_of,
)
from pykafka2.broker.coordinators.timers import Timers
from pykafka2.errors import GroupIdNotFound, InvalidRegularExpression

Owned = Iterable[tuple[bytes, Iterable[int]]] | None
"""The partitions that a member reports as owned; None if the field is null."""


def reconcile(
    group: ConsumerGroup,
    member: ConsumerMember,
    target_epoch: int,
    target: Target,
    subscribed: frozenset[bytes],
    has_changed_subscription: bool,
    owned: Owned,
) -> ConsumerMember:
    """Return the member after one step, or the same object if it cannot move."""
    owned = None if owned is None else [(topic_id, list(partitions)) for topic_id, partitions in owned]
    if member.state is MemberState.STABLE:
        if member.epoch != target_epoch:
            return _next(group, member, target_epoch, target, subscribed, owned)
        return _strip(member, subscribed, owned) if has_changed_subscription else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(owned, member.pending_revocation):
        return _strip(member, subscribed, owned) if has_changed_subscription else member
    return _next(group, member, target_epoch, target, subscribed, owned)


def _next(
    group: ConsumerGroup,
    member: ConsumerMember,
    target_epoch: int,
    target: Target,
    subscribed: frozenset[bytes],
    owned: Owned,
) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    to_revoke: dict[bytes, dict[int, int]] = {}
    added: dict[bytes, dict[int, int]] = {}
    is_waiting = False
    for topic_id in sorted({*target, *member.assigned}):
        wanted = target.get(topic_id, frozenset()) if topic_id in subscribed else frozenset()
        has = member.assigned.get(topic_id, {})
        kept[topic_id] = {number: epoch for number, epoch in has.items() if number in wanted}
        to_revoke[topic_id] = {number: epoch for number, epoch in has.items() if number not in wanted}
        added[topic_id] = {}
        for partition in sorted(wanted - kept[topic_id].keys()):
            # Partitions that the member itself is revoking count as free: they have no other owner.
            if group.owners.get((topic_id, partition), member.id) == member.id:
                added[topic_id][partition] = target_epoch
            else:
                is_waiting = True
    kept, to_revoke = _without_empty(kept), _without_empty(to_revoke)
    if to_revoke and _still_owns(owned, to_revoke):
        return attrs.evolve(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=to_revoke,
        )
    assigned = {
        topic_id: {**kept.get(topic_id, {}), **added.get(topic_id, {})} for topic_id in {*kept, *added}
    }
    return attrs.evolve(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        previous_epoch=member.epoch,
        epoch=target_epoch,
        assigned=_without_empty(assigned),
        pending_revocation={},
    )


def _strip(member: ConsumerMember, subscribed: frozenset[bytes], owned: Owned) -> ConsumerMember:
    """Remove topics that the member no longer subscribes to, without waiting for a new target."""
    unsubscribed = {topic_id: has for topic_id, has in member.assigned.items() if topic_id not in subscribed}
    if not unsubscribed:
        return member
    kept = {topic_id: has for topic_id, has in member.assigned.items() if topic_id in subscribed}
    to_revoke = {
        topic_id: {**member.pending_revocation.get(topic_id, {}), **unsubscribed.get(topic_id, {})}
        for topic_id in {*member.pending_revocation, *unsubscribed}
    }
    if not _still_owns(owned, to_revoke):
        return attrs.evolve(member, previous_epoch=member.epoch, assigned=kept)
    return attrs.evolve(
        member,
        state=MemberState.UNREVOKED_PARTITIONS,
        previous_epoch=member.epoch,
        assigned=kept,
        pending_revocation=to_revoke,
    )


def _still_owns(owned: Owned, revoked: Assignment) -> bool:
    """Return whether the member can still own any of these; it can if it does not report."""
    if owned is None:
        return True
    return any(
        partition in revoked.get(topic_id, {}) for topic_id, partitions in owned for partition in partitions
    )


def _without_empty(assignment: dict[bytes, dict[int, int]]) -> dict[bytes, dict[int, int]]:
    return {topic_id: partitions for topic_id, partitions in assignment.items() if partitions}


class ConsumerSteps:
    """The steps that group.py applies to a draft of a group."""

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
        self.group_configs: GroupConfigs = no_group_configs
        self._wall_ms = wall_ms
        self._new_id = new_id

    def get(self, group_id: str) -> ConsumerGroup:
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"no consumer group {group_id}")
        return group

    # -- the three steps ----------------------------------------------------------------------------

    def resolve_patterns(
        self,
        caller: Caller,
        draft: ConsumerGroup,
        member: ConsumerMember,
        updated: ConsumerMember,
        out: Result,
        now: float,
    ) -> bool:
        """Resolve patterns again. Return whether any member's topics changed.

        Topics that the caller cannot describe are left out for all members with that pattern, as in Kafka.
        Patterns share the steps of the request; one that needs more gets no new topics.
        """
        old, new = member.regex or None, updated.regex or None
        changed = False
        if old is not None and old != new and draft.subscribers_of_regex(old) == 0:
            draft.regexes.pop(old, None)
            records.write_regex(out, draft.id, old, None)
            changed = True
        is_old = draft.topics_seen is not self.topics or draft.rules_seen is not caller.rules
        stale = set(draft.regexes) if is_old else set()
        if new is not None and new not in draft.regexes:
            stale.add(new)
        share = steps_for_each(len(stale))
        for regex in sorted(stale):
            try:
                topics = self._matching(regex, caller, share)
            except InvalidRegularExpression:
                if regex == new and regex not in draft.regexes:
                    raise
                # Most likely it is another member's pattern.
                topics = frozenset(filter(caller.may_describe, draft.regexes.get(regex, ())))
            if topics != draft.regexes.get(regex):
                draft.regexes[regex] = topics
                records.write_regex(out, draft.id, regex, topics, self._wall_ms(now))
                changed = True
        return changed or old != new

    def _matching(self, regex: str, caller: Caller, limit: int) -> frozenset[str]:
        pattern = compile_pattern(regex, Steps(limit))
        return frozenset(
            name for name in self.topics.names() if pattern.fullmatch(name) and caller.may_describe(name)
        )

    def bump_epoch(self, draft: ConsumerGroup, must: bool, out: Result) -> None:
        """Increment the epoch if subscriptions or their topics changed."""
        is_new = draft.epoch == 0
        if not must and not is_new and draft.topics_seen is self.topics:
            return
        metadata_hash = self.hash_of(draft)
        # A group starts at epoch 1, and a subscription increments it, as observed in Kafka 4.3.1.
        draft.epoch = max(draft.epoch, 1)
        if must or is_new or metadata_hash != draft.metadata_hash:
            draft.epoch += must or metadata_hash != draft.metadata_hash
            draft.metadata_hash = metadata_hash
            records.write_epoch(out, draft.id, draft.epoch, metadata_hash)

    def hash_of(self, group: ConsumerGroup) -> int:
        """Return a hash that changes with the topics that the group subscribes to."""
        names = {name for member in group.members.values() for name in group.subscribed_topics(member)}
        return hash_of_topics(self.topics, names)

    def assign(self, draft: ConsumerGroup, out: Result, now: float) -> None:
        """Compute a new target assignment if the group epoch is ahead of it.

        At most once per assignment interval (KIP-1263), which the wall clock measures: after a jump back a
        group waits until the clock is where it was, unless the interval is 0, as in Kafka 4.3.1.
        """
        at_ms = self._wall_ms(now)
        if draft.epoch <= draft.assignment_epoch:
            return
        interval = seconds_of(
            self.group_configs(draft.id),
            "consumer.assignment.interval.ms",
            self.settings.consumer_assignment_interval,
        )
        if interval and draft.assigned_at_ms and draft.assigned_at_ms + interval * 1000 > at_ms:
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

    def reconcile(
        self,
        draft: ConsumerGroup,
        member: ConsumerMember,
        owned: Owned,
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
            owned,
        )
        if moved != member:
            records.write_current(out, draft.id, moved)
        return moved
