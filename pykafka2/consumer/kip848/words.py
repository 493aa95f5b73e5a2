"""How a member of a KIP-848 group stands, in words for `explain()`.  Pure."""

from __future__ import annotations

from typing import Any

from pykafka2.consumer.kip848.states import MemberState


def coordinator_in_words(health: dict[str, Any]) -> str:
    """Names the coordinator's broker, if it is known."""
    if health["coordinator"] is None:
        return "its coordinator to be found"
    at = f" at {health['coordinator_address']}" if health["coordinator_address"] else ""
    return f"the coordinator, broker {health['coordinator']}{at}"


def state_in_words(group: str, state: str, health: dict[str, Any]) -> str:
    """A sentence of what `health()` has of the group."""
    because = f": {health['because']}" if health["because"] else ""
    age, coordinator = f"{health['state_age']:.1f} s", coordinator_in_words(health)
    words = {
        MemberState.UNSUBSCRIBED: f"The consumer is no member of {group}{because}; poll() joins it.",
        MemberState.JOINING: (
            f"The consumer joins {group} and has waited {age} for {coordinator}: its first heartbeat is not "
            "answered yet."
        ),
        MemberState.RECONCILING: (
            f"The coordinator of {group} has assigned something else at epoch {health['generation']}; poll() "
            "gives back and takes on partitions, as soon as their topics are known."
        ),
        MemberState.ACKNOWLEDGING: (
            f"The consumer owns what was assigned to it in {group}, and has waited {age} for {coordinator}, "
            "to acknowledge it."
        ),
        MemberState.FENCED: f"The consumer is out of {group}{because}; poll() joins again.",
        MemberState.STALE: f"The consumer has left {group}{because}; poll() joins again.",
        MemberState.LEAVING: f"The consumer leaves {group}, and has waited {age} for {coordinator}.",
        MemberState.FATAL: f"The coordinator of {group} refuses this consumer; subscribe() tries again.",
    }
    found = words.get(MemberState(state))
    if found is not None:
        return found
    heard, polled = health["last_heartbeat_age"], health["last_poll_age"]
    return (
        f"The consumer is a member of {group} at epoch {health['generation']}; its last heartbeat was "
        f"answered {heard:.1f} s ago, its last poll was {polled:.1f} s ago."
    )
