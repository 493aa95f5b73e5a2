"""The assignors that a member offers, and what they are told: for its wish to join, and of what came of it.

Caller's thread only; used by rebalance.py.  What they do for the leader is group_leader.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from pykafka2.consumer.assignors.assignor import Assignor, LastAssignment, MemberSubscription
from pykafka2.consumer.assignors.leading import rebalance_protocol
from pykafka2.consumer.assignors.wire import subscription_bytes
from pykafka2.consumer.group_steps import Assigned, JoinWish
from pykafka2.types import TopicPartition


class OfferedAssignors:
    """Those of one consumer, the best first.  Raises `ConfigurationError` if they share no protocol."""

    def __init__(self, assignors: Sequence[Assignor], rack: str) -> None:
        self.assignors = assignors
        self.protocol = rebalance_protocol(assignors)
        """Whether everything is given up before a rebalance, or only what moves."""
        self.last: LastAssignment | None = None
        """What the member was assigned last, in the generation that gave it: one whose later rebalances came
        to nothing must not pretend that they gave it what it still has."""
        self._rack = rack

    def wish(self, topics: frozenset[str], owned: Iterable[TopicPartition], reason: str) -> JoinWish:
        """What to join with."""
        last = self.last
        subscription = MemberSubscription(
            topics=tuple(sorted(topics)),
            owned=tuple(owned),
            generation=last.generation if last is not None else -1,
            rack=self._rack or None,
        )
        told = (
            (
                assignor.name,
                subscription_bytes(attrs.evolve(subscription, user_data=assignor.user_data(topics, last))),
            )
            for assignor in self.assignors
        )
        return JoinWish(topics, tuple(told), reason)

    def take(self, assigned: Assigned) -> None:
        """The leader has given this; the assignor that made it is told."""
        self.last = LastAssignment(assigned.assignment.partitions, assigned.generation)
        for assignor in self.assignors:
            if assignor.name == assigned.assignor:
                assignor.on_assignment(assigned.assignment, assigned.generation)

    def forget(self) -> None:
        """The member is out of the group."""
        self.last = None
