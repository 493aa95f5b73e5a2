"""The states of a member of a classic group, and the events that lead from one to another.

Pure data: membership.py follows the table and raises for any other transition.
"""

from __future__ import annotations

from enum import Enum


class MemberState(Enum):
    """The state of a consumer's membership."""

    OUT = "out"
    """Not a member."""
    JOINING = "joining"
    """The coordinator waits for the other members to join."""
    SYNCING = "syncing"
    """In the new generation; the leader is assigning."""
    STABLE = "stable"
    """In the group, with an assignment."""
    MUST_JOIN = "must join"
    """Still a member, but the group is rebalancing: the application's next poll rejoins."""
    FENCED = "fenced"
    """Another consumer uses its group_instance_id.  This state is final."""

    __hash__ = object.__hash__  # members are singletons; Enum's own __hash__ is a slow Python function


class MemberEvent(Enum):
    JOIN = "the application polls and is ready to join"
    JOINED = "the coordinator has begun the generation"
    SYNCED = "the assignment is there"
    FORGOTTEN = "the new coordinator does not know the generation"
    REBALANCE = "the group rebalances"
    EXPELLED = "the coordinator does not know the member, or its generation is over"
    REFUSED = "the coordinator rejects the member for another reason"
    LEAVE = "the member leaves"
    FENCE = "another consumer uses its group_instance_id"

    __hash__ = object.__hash__  # members are singletons; Enum's own __hash__ is a slow Python function


_S, _E = MemberState, MemberEvent
MOVES: dict[tuple[MemberState, MemberEvent], MemberState] = {
    (_S.OUT, _E.JOIN): _S.JOINING,
    (_S.OUT, _E.LEAVE): _S.OUT,
    (_S.JOINING, _E.JOINED): _S.SYNCING,
    (_S.JOINING, _E.EXPELLED): _S.OUT,
    (_S.JOINING, _E.REFUSED): _S.OUT,
    (_S.JOINING, _E.LEAVE): _S.OUT,
    (_S.JOINING, _E.FENCE): _S.FENCED,
    (_S.SYNCING, _E.SYNCED): _S.STABLE,
    (_S.SYNCING, _E.FORGOTTEN): _S.JOINING,
    (_S.SYNCING, _E.REBALANCE): _S.MUST_JOIN,
    (_S.SYNCING, _E.EXPELLED): _S.OUT,
    (_S.SYNCING, _E.REFUSED): _S.MUST_JOIN,
    (_S.SYNCING, _E.LEAVE): _S.OUT,
    (_S.SYNCING, _E.FENCE): _S.FENCED,
    (_S.STABLE, _E.JOIN): _S.JOINING,
    (_S.STABLE, _E.REBALANCE): _S.MUST_JOIN,
    (_S.STABLE, _E.EXPELLED): _S.OUT,
    (_S.STABLE, _E.LEAVE): _S.OUT,
    (_S.STABLE, _E.FENCE): _S.FENCED,
    (_S.MUST_JOIN, _E.JOIN): _S.JOINING,
    (_S.MUST_JOIN, _E.REBALANCE): _S.MUST_JOIN,
    (_S.MUST_JOIN, _E.EXPELLED): _S.OUT,
    (_S.MUST_JOIN, _E.LEAVE): _S.OUT,
    (_S.MUST_JOIN, _E.FENCE): _S.FENCED,
    (_S.FENCED, _E.LEAVE): _S.FENCED,
}
HEARTBEATING = frozenset({_S.SYNCING, _S.STABLE, _S.MUST_JOIN})
"""The states in which the coordinator expects heartbeats."""
