"""One step of a KIP-848 member from its current assignment towards its target (CurrentAssignmentBuilder).

Pure functions. A member first revokes partitions, at its old epoch, and confirms that by no longer listing
them; only then it moves to the new epoch. It is assigned a partition only when that has no owner.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from pykafka2.broker.coordinators.consumer.state import (
    Assignment,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Target,
)

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
