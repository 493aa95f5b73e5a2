"""The states of a member of a classic group, and which event leads from one to the other.

Pure data: membership.py moves by it and refuses everything else; tests walk it.
"""

from __future__ import annotations

from enum import Enum


class MemberState(Enum):
    """How a consumer stands with its group."""

    OUT = "out"
    """No member, or no member any more."""
    JOINING = "joining"
    """The coordinator waits for the other members to join."""
    SYNCING = "syncing"
    """In the new generation; the leader is assigning."""
    STABLE = "stable"
    """In the group, with an assignment."""
    MUST_JOIN = "must join"
    """Still a member, but the group is rebalancing: the application's next poll has this member join."""
    FENCED = "fenced"
    """Another consumer has taken over its group_instance_id: for good."""

    __hash__ = object.__hash__  # each is there once; Enum's own is a call of Python's


class MemberEvent(Enum):
    JOIN = "the application polls and is ready to join"
    JOINED = "the coordinator has begun the generation"
    SYNCED = "the assignment is there"
    FORGOTTEN = "another coordinator has taken over, who has not heard of the generation"
    REBALANCE = "the group rebalances"
    EXPELLED = "the coordinator does not know the member, or its generation is over"
    REFUSED = "the coordinator refuses for another reason"
    LEAVE = "the member leaves"
    FENCE = "another has its group_instance_id"

    __hash__ = object.__hash__  # each is there once; Enum's own is a call of Python's


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
BEATING = frozenset({_S.SYNCING, _S.STABLE, _S.MUST_JOIN})
"""The states in which the coordinator expects heartbeats."""
