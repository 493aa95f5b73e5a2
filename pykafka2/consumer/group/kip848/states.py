"""The states of a member of a KIP-848 group, and the events that lead from one to another.

Pure data: membership.py follows the table and raises for any other transition. The names are those of the
Java client (AbstractMembershipManager).
"""

from __future__ import annotations

from enum import Enum


class MemberState(Enum):
    """The state of a consumer's membership."""

    UNSUBSCRIBED = "unsubscribed"
    """Not a member."""
    JOINING = "joining"
    """The coordinator has not responded to the first heartbeat yet."""
    RECONCILING = "reconciling"
    """In the group; the application's polls revoke and add partitions to reach the target assignment."""
    ACKNOWLEDGING = "acknowledging"
    """The application owns its target assignment, but the coordinator has not confirmed it yet."""
    STABLE = "stable"
    """In the group, with a confirmed assignment."""
    FENCED = "fenced"
    """Removed from the group; rejoins after the listener was called with the lost partitions."""
    STALE = "stale"
    """Has left because the application did not poll; rejoins when it polls."""
    LEAVING = "leaving"
    """The application has left, but the coordinator has not confirmed it yet."""
    FATAL = "fatal"
    """The coordinator rejects this member: another subscribe() is needed, or another consumer."""

    __hash__ = object.__hash__  # members are singletons; Enum's own __hash__ is a slow Python function


class MemberEvent(Enum):
    JOIN = "the application polls and is ready to join"
    ASSIGNED = "the coordinator has sent a new target assignment"
    RECONCILED = "the listeners were called, and the owned partitions have changed"
    ACKNOWLEDGED = "the coordinator has confirmed the owned partitions, which are the whole target"
    INCOMPLETE = "the coordinator has confirmed the owned partitions, which are a part of the target"
    EXPELLED = "the coordinator does not know the member, or its epoch is over"
    OVERRUN = "the application has not polled within max_poll_interval_ms"
    REFUSED = "the coordinator rejects the member with a fatal error"
    LEAVE = "the application leaves"
    LEFT = "the coordinator has confirmed the leave, or the request has failed"

    __hash__ = object.__hash__  # members are singletons; Enum's own __hash__ is a slow Python function


_S, _E = MemberState, MemberEvent
MEMBERS = frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
"""The states in which heartbeats are sent."""
JOINED = MEMBERS - {_S.JOINING}
"""The states in which the coordinator has given an epoch."""
_OUT = (_S.UNSUBSCRIBED, _S.FENCED, _S.STALE, _S.FATAL)
MOVES: dict[tuple[MemberState, MemberEvent], MemberState] = {
    **{(state, _E.JOIN): _S.JOINING for state in (*_OUT, _S.LEAVING)},
    **{(state, _E.ASSIGNED): _S.RECONCILING for state in MEMBERS},
    **{(state, _E.RECONCILED): _S.ACKNOWLEDGING for state in JOINED},
    (_S.ACKNOWLEDGING, _E.ACKNOWLEDGED): _S.STABLE,
    (_S.ACKNOWLEDGING, _E.INCOMPLETE): _S.RECONCILING,
    **{(state, _E.EXPELLED): _S.FENCED for state in MEMBERS},
    **{(state, _E.OVERRUN): _S.STALE for state in MEMBERS},
    **{(state, _E.REFUSED): _S.FATAL for state in MEMBERS},
    **{(state, _E.LEAVE): _S.LEAVING for state in (*MEMBERS, _S.LEAVING)},
    **{(state, _E.LEAVE): _S.UNSUBSCRIBED for state in _OUT},
    (_S.LEAVING, _E.LEFT): _S.UNSUBSCRIBED,
}
