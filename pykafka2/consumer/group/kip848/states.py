"""The states of a member of a KIP-848 group, and which event leads from one to the other.

Pure data: membership.py moves by it and refuses everything else; tests walk it.  The names are those of the
Java client (AbstractMembershipManager).
"""

from __future__ import annotations

from enum import Enum


class MemberState(Enum):
    """How a consumer stands with its group."""

    UNSUBSCRIBED = "unsubscribed"
    """No member, or no member any more."""
    JOINING = "joining"
    """The coordinator has not answered the first heartbeat yet."""
    RECONCILING = "reconciling"
    """In the group; the application's polls give back and take on what was assigned."""
    ACKNOWLEDGING = "acknowledging"
    """The application has what it was to have; the coordinator does not know that yet."""
    STABLE = "stable"
    """In the group, with what was assigned."""
    FENCED = "fenced"
    """Put out of the group; joins again when the application has been told what it lost."""
    STALE = "stale"
    """Has left, as the application did not poll; joins again when it polls."""
    LEAVING = "leaving"
    """The application wants to leave, and the coordinator has not been told yet."""
    FATAL = "fatal"
    """The coordinator refuses this member: another subscribe() is needed, or another consumer."""

    __hash__ = object.__hash__  # each is there once; Enum's own is a call of Python's


class MemberEvent(Enum):
    JOIN = "the application polls and is ready to join"
    ASSIGNED = "the coordinator has assigned something"
    RECONCILED = "the application has been told, and owns something else"
    ACKNOWLEDGED = "the coordinator knows what the application owns, which is what was assigned"
    INCOMPLETE = "the coordinator knows what the application owns, which is not all that was assigned"
    EXPELLED = "the coordinator does not know the member, or its epoch is over"
    OVERRUN = "the application has not polled for too long"
    REFUSED = "the coordinator refuses for a reason that does not pass"
    LEAVE = "the application leaves"
    LEFT = "the coordinator has been told that the member leaves, or cannot be told"

    __hash__ = object.__hash__  # each is there once; Enum's own is a call of Python's


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
