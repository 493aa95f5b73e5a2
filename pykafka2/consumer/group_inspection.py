"""What a consumer with a group shows of it: as data for `health()`, in words for `explain()`.

Any thread; reads what the two threads write, without locks.
"""

from __future__ import annotations

from typing import Any

from pykafka2.cluster.metadata import Metadata
from pykafka2.consumer.group_options import CLASSIC, CONSUMER
from pykafka2.consumer.group_parts import GroupParts
from pykafka2.consumer.kip848.words import coordinator_in_words, state_in_words
from pykafka2.consumer.member_states import MemberState
from pykafka2.consumer.membership import Membership
from pykafka2.consumer.naming import named
from pykafka2.consumer.subscription import Hold, Mode, Subscription

MOST_NAMED = 5
"""Members that a sentence names; of more it says how many there are."""


def group_health(group: GroupParts, metadata: Metadata, now: float) -> dict[str, Any]:
    """How the consumer stands with its group; ages are seconds, None for what never happened."""
    member, standing, commits = group.membership, group.standing, group.commits
    coordinator = None if member.coordinator is None else metadata.node(member.coordinator)
    return {
        "id": standing.group_id,
        "protocol": CLASSIC if isinstance(member, Membership) else CONSUMER,
        "state": member.state.value,
        "state_age": now - member.state_since,
        "member_id": standing.identity.member_id,
        "generation": standing.identity.generation_id,
        "leading": member.is_leading,
        "leader_id": member.leader_id,
        "other_members": [*member.others],
        "coordinator": member.coordinator,
        "coordinator_address": None if coordinator is None else f"{coordinator.host}:{coordinator.port}",
        "coordinator_error": None if member.coordinator_error is None else str(member.coordinator_error),
        "because": member.because,
        "last_poll_age": member.polls.gap(now),
        "last_heartbeat_age": _age(member.heartbeat.answered_at, now),
        "last_commit_age": _age(commits.last_written_at, now),
        "last_commit_error": None if commits.last_error is None else str(commits.last_error),
        "committed_offsets_awaited": {
            str(one): group.resume.why_unknown(one) for one in group.resume.waits_for
        },
        "unfinished_rebalances": member.unfinished_rebalances,
        "failure": None if member.failure is None else str(member.failure),
    }


def group_words(health: dict[str, Any], subscription: Subscription) -> list[str]:
    """The same in sentences, as far as it is worth saying."""
    group, state = f"group {health['id']!r}", health["state"]
    lines = []
    if subscription.mode is Mode.TOPICS:
        in_words = state_in_words if health["protocol"] == CONSUMER else _state_in_words
        lines.append(in_words(group, state, health))
    elif subscription.mode is Mode.NONE:
        lines.append("No partition is assigned; subscribe() or assign(), then poll().")
    if health["failure"]:
        lines.append(f"{health['failure']}.")
    if health["coordinator"] is None and subscription.mode is not Mode.NONE:
        why = health["coordinator_error"]
        failed = f"the last look-up failed ({why}), and " if why else ""
        lines.append(
            f"The coordinator of {group} is not known; {failed}it is looked up when something is to be said."
        )
    if health["unfinished_rebalances"]:
        lines.append(f"{health['unfinished_rebalances']} rebalances in a row did not come to an end.")
    if health["last_commit_error"]:
        lines.append(f"The last commit failed: {health['last_commit_error']}")
    lines += [f"{one} waits: {why}." for one, why in health["committed_offsets_awaited"].items()]
    revoking = subscription.held(Hold.REVOKING)
    if revoking:
        lines.append(f"{named(revoking)}: given back when their last commit is over.")
    return lines


def _state_in_words(group: str, state: str, health: dict[str, Any]) -> str:
    because = f": {health['because']}" if health["because"] else ""
    if state == MemberState.STABLE.value:
        role = "leads" if health["leading"] else "is a member of"
        heard = health["last_heartbeat_age"]
        return (
            f"The consumer {role} {group} in generation {health['generation']}; its last heartbeat was "
            f"answered {heard:.1f} s ago, its last poll was {health['last_poll_age']:.1f} s ago."
        )
    if state == MemberState.JOINING.value:
        return f"The consumer joins {group}{because} and has waited {_for_the_join(health)}."
    if state == MemberState.SYNCING.value:
        if health["leader_id"] == health["member_id"]:
            age = f"{health['state_age']:.1f} s"
            return f"The consumer leads {group} and has been assigning partitions for {age}."
        return (
            f"The consumer has waited {health['state_age']:.1f} s for member {health['leader_id']!r}, the "
            f"leader of {group}, to assign partitions."
        )
    if state == MemberState.MUST_JOIN.value:
        return f"{group} rebalances{because}; the next poll() takes part.".replace("group", "Group", 1)
    if state == MemberState.FENCED.value:
        return f"Another consumer has taken this one's place in {group}; close it."
    return f"The consumer is no member of {group}{because}; poll() joins it."


def _for_the_join(health: dict[str, Any]) -> str:
    """What a joining member waits for; a member that led the group before knows the others."""
    waits = f"{health['state_age']:.1f} s for {coordinator_in_words(health)}"
    others = health["other_members"]
    if health["coordinator"] is None:
        return waits
    waits += ", which answers when the other members have joined"
    if not others:
        return f"{waits} (it alone knows them)"
    more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    names = ", ".join(map(repr, others[:MOST_NAMED]))
    return f"{waits}; in generation {health['generation']} these were {names}{more}"


def _age(at: float, now: float) -> float | None:
    return now - at if at > 0 else None
