"""The caller's side of a classic group: when to join, and how to apply an assignment.

Also holds the assignors that a member offers. Used on the caller's thread by group/task.py. Neighbors:
membership.py (the driver's side), group/owned_partitions.py (revokes and assigns partitions, calls the
listeners).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.assignors.assignor import (
    Assignor,
    LastAssignment,
    MemberSubscription,
    RebalanceProtocol,
    rebalance_protocol,
)
from pykafka2.consumer.assignors.wire_format import subscription_bytes
from pykafka2.consumer.group.classic.join import Assigned, JoinWish
from pykafka2.consumer.group.classic.membership import Membership
from pykafka2.consumer.group.classic.states import MemberState
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.group.task import Told
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.subscription import Mode, Subscription
from pykafka2.errors import IllegalState
from pykafka2.logs import ClientLogger
from pykafka2.text import named
from pykafka2.types import TopicPartition


class Rebalance:
    """Takes one consumer through the rebalances of its group (a `GroupProtocol`)."""

    unnamed_topics: frozenset[bytes] = frozenset()
    """Always empty: classic groups assign topics by name."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        membership: Membership,
        owned_partitions: OwnedPartitions,
        assignors: OfferedAssignors,
    ) -> None:
        self._options = options
        self._metadata = cluster.metadata
        self._subscription = subscription
        self._membership = membership
        self._owned_partitions = owned_partitions
        self._assignors = assignors
        self._log = ClientLogger(__name__, options.client_id)
        self._joins_asked = 0
        self._joined_topics: frozenset[str] | None = None
        """What the member last joined for; None while it is none."""
        self._coming: Assigned | None = None
        """The assignment that is being taken on."""
        self._gives_way = False
        """It takes partitions away that other members wait for."""

    # ------------------------------------------------------------------ for group/task.py

    def raise_failure(self) -> None:
        """Raise the error of the membership once; a fenced member raises it every time."""
        member = self._membership
        failure = member.failure
        if failure is not None:
            if member.state is not MemberState.FENCED:
                member.failure = None
            raise failure.anew()

    def step(self, losses: int) -> bool:
        self._coming = self._membership.take_assignment() or self._coming
        if self._coming is not None:
            return self._take_on(self._coming)
        return self._join_if_needed(losses)

    def forget(self) -> None:
        self._gives_way = False
        self._assignors.forget()
        self._coming = self._joined_topics = None

    def subscribed(self) -> bool:
        return self._membership.state is MemberState.OUT

    def enforce(self, reason: str) -> None:
        if self._subscription.mode is not Mode.TOPICS:
            raise IllegalState("enforce_rebalance() needs a member of a group; call subscribe() first")
        self._membership.rebalance(reason)

    def leave(self, reason: str, told: Told, leave: bool | None) -> None:
        say_so = self._options.group_instance_id is None if leave is None else leave
        self._membership.leave(reason, told, say_so=say_so)

    def may_leave_unasked(self) -> bool:
        """A static member may come back."""
        return self._options.group_instance_id is None

    # ------------------------------------------------------------------ taking on

    def _take_on(self, coming: Assigned) -> bool:
        """First what it takes away is let go, look by look; then what it brings is taken on."""
        subscription, member = self._subscription, self._membership
        problem = self._problem_with(coming.assignment.partitions)
        if problem:
            self._coming = None
            self._log.warning("the leader of group %r %s", self._options.group_id, problem)
            member.reject(f"the leader {problem}")
            return False
        # What has been subscribed to since this member joined is joined for next.
        wanted = [one for one in coming.assignment.partitions if one.topic in subscription.topics]
        stays = frozenset(wanted)
        gone = [one for one in subscription.assigned if one not in stays]
        if gone:
            self._gives_way = True
            return self._owned_partitions.begin_to_let_go(gone)
        new = [one for one in wanted if one not in subscription.assigned]
        try:
            self._assignors.take(coming)
        finally:  # an assignor of the application's may raise; what is new is its all the same
            self._owned_partitions.begin_to_take_on(new)
            self._coming = None
            if self._gives_way:
                # Others are given them in the next rebalance, as this member no longer says that it has them.
                member.rebalance("partitions were given up for other members")
                self._gives_way = False
        self._owned_partitions.take_on(new)
        return True

    def _problem_with(self, wanted: Iterable[TopicPartition]) -> str:
        """Why such an assignment cannot be meant, in words."""
        topics = self._joined_topics or frozenset()
        for partition in wanted:
            if partition.partition < 0:
                return f"gave this member the partition {partition}, which cannot be"
            if partition.topic not in topics:
                return f"gave this member {partition}, a topic that it has not subscribed to"
        return ""

    # ------------------------------------------------------------------ joining

    def _join_if_needed(self, losses: int) -> bool:
        member = self._membership
        if member.joins_handled < self._joins_asked:
            return False  # the driver's thread has not looked at the last wish yet
        reason = self._why_join()
        if not reason:
            return False
        going = self._to_let_go_before_joining()
        if going:
            return self._owned_partitions.begin_to_let_go(going)
        subscription = self._subscription
        wish = self._assignors.wish(subscription.topics, subscription.assigned, reason)
        self._joined_topics = wish.topics
        number = max(self._joins_asked, member.joins_handled) + 1
        member.join(number, losses, wish)
        self._joins_asked = number  # last: who waits for a join that was not asked for waits for ever
        return False

    def _why_join(self) -> str:
        """In words; empty where there is no need."""
        member, topics = self._membership, self._subscription.topics
        if member.state is not MemberState.MUST_JOIN and not self._knows_topics():
            return ""  # else it would have to join again as soon as they are known
        if member.state is MemberState.OUT:
            return member.because or "the consumer has subscribed"
        if member.state is MemberState.MUST_JOIN:
            return member.because or "the group rebalances"
        if member.state is MemberState.STABLE and topics != self._joined_topics:
            return f"the subscription is {named(sorted(topics)) or 'nothing'} now"
        return ""

    def _knows_topics(self) -> bool:
        """Whether a pattern, if there is one, was matched with all the topics that there are."""
        return self._subscription.pattern is None or self._metadata.has_all_topics

    def _to_let_go_before_joining(self) -> list[TopicPartition]:
        assigned, topics = self._subscription.assigned, self._subscription.topics
        if self._assignors.protocol is RebalanceProtocol.EAGER:
            return list(assigned)
        return [partition for partition in assigned if partition.topic not in topics]


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
        """Return the topics and assignors to join with."""
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
