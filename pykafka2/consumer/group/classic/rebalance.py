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
from pykafka2.consumer.group.classic.join import Assigned, JoinProtocols
from pykafka2.consumer.group.classic.membership import Membership
from pykafka2.consumer.group.classic.states import MemberState
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.group.task import Done
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
        self._last_join = 0
        """The number of the last join that was requested."""
        self._joined_topics: frozenset[str] | None = None
        """The topics of the last join; None while this consumer is not a member."""
        self._assignment: Assigned | None = None
        """The new assignment while it is being applied."""
        self._has_revoked = False
        """Whether applying it has revoked partitions, so that this member must rejoin afterwards (cooperative
        rebalancing)."""

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
        self._assignment = self._membership.take_assignment() or self._assignment
        if self._assignment is not None:
            return self._apply(self._assignment)
        return self._join_if_needed(losses)

    def forget(self) -> None:
        self._has_revoked = False
        self._assignors.forget()
        self._assignment = self._joined_topics = None

    def subscribed(self) -> bool:
        return self._membership.state is MemberState.OUT

    def enforce(self, reason: str) -> None:
        if self._subscription.mode is not Mode.TOPICS:
            raise IllegalState("enforce_rebalance() needs a member of a group; call subscribe() first")
        self._membership.rebalance(reason)

    def leave(self, reason: str, done: Done, leave: bool | None) -> None:
        sends_leave = self._options.group_instance_id is None if leave is None else leave
        self._membership.leave(reason, done, sends_leave=sends_leave)

    def leaves_at_exit(self) -> bool:
        """Return False for a static member, which can return before its session times out."""
        return self._options.group_instance_id is None

    # ------------------------------------------------------------------ applying an assignment

    def _apply(self, assigned: Assigned) -> bool:
        """Revoke the partitions that are no longer assigned, over several polls; then add the new ones."""
        subscription, member = self._subscription, self._membership
        problem = self._problem_with(assigned.assignment.partitions)
        if problem:
            self._assignment = None
            self._log.warning(
                "rejected an assignment of group %r: the leader %s", self._options.group_id, problem
            )
            member.reject(f"the leader {problem}")
            return False
        # Topics that were unsubscribed since this member joined are left out; the next join reports them.
        wanted = [
            partition
            for partition in assigned.assignment.partitions
            if partition.topic in subscription.topics
        ]
        stays = frozenset(wanted)
        gone = [partition for partition in subscription.assigned if partition not in stays]
        if gone:
            self._has_revoked = True
            return self._owned_partitions.begin_revocation(gone)
        new = [partition for partition in wanted if partition not in subscription.assigned]
        try:
            self._assignors.take(assigned)
        finally:  # if a custom assignor raises, the new partitions are still assigned
            self._owned_partitions.begin_assignment(new)
            self._assignment = None
            if self._has_revoked:
                # The next JoinGroup no longer lists them as owned, so the leader can assign them to others.
                member.rebalance(
                    "this member has revoked partitions, which the leader can now assign to others"
                )
                self._has_revoked = False
        self._owned_partitions.complete_assignment(new)
        return True

    def _problem_with(self, wanted: Iterable[TopicPartition]) -> str:
        """Return why the assignment is invalid; empty if it is valid."""
        topics = self._joined_topics or frozenset()
        for partition in wanted:
            if partition.partition < 0:
                return f"assigned {partition} to this member, which is not a valid partition"
            if partition.topic not in topics:
                return f"assigned {partition} to this member, which has not subscribed to the topic"
        return ""

    # ------------------------------------------------------------------ joining

    def _join_if_needed(self, losses: int) -> bool:
        member = self._membership
        if member.joins_handled < self._last_join:
            return False  # the driver's thread has not handled the last join yet
        reason = self._why_join()
        if not reason:
            return False
        going = self._to_revoke_before_joining()
        if going:
            return self._owned_partitions.begin_revocation(going)
        subscription = self._subscription
        protocols = self._assignors.join_protocols(subscription.topics, subscription.assigned, reason)
        self._joined_topics = protocols.topics
        number = max(self._last_join, member.joins_handled) + 1
        member.join(number, losses, protocols)
        self._last_join = number  # last: a Ctrl-C before `join` would leave it waiting forever
        return False

    def _why_join(self) -> str:
        """Return the reason to join; empty if there is none."""
        member, topics = self._membership, self._subscription.topics
        if member.state is not MemberState.MUST_JOIN and not self._knows_topics():
            return ""  # otherwise it would have to rejoin as soon as the topics are known
        if member.state is MemberState.OUT:
            return member.because or "the consumer has subscribed"
        if member.state is MemberState.MUST_JOIN:
            return member.because or "the group rebalances"
        if member.state is MemberState.STABLE and topics != self._joined_topics:
            return f"the subscription is {named(sorted(topics)) or 'nothing'} now"
        return ""

    def _knows_topics(self) -> bool:
        """Return whether a pattern, if there is one, was matched against all existing topics."""
        return self._subscription.pattern is None or self._metadata.has_all_topics

    def _to_revoke_before_joining(self) -> list[TopicPartition]:
        assigned, topics = self._subscription.assigned, self._subscription.topics
        if self._assignors.protocol is RebalanceProtocol.EAGER:
            return list(assigned)
        return [partition for partition in assigned if partition.topic not in topics]


class OfferedAssignors:
    """The assignors of one consumer, the preferred one first.

    Raises:
        ConfigurationError: the assignors have no rebalance protocol in common.
    """

    def __init__(self, assignors: Sequence[Assignor], rack: str) -> None:
        self.assignors = assignors
        self.protocol = rebalance_protocol(assignors)
        """Whether all partitions are revoked before a rebalance, or only those that move."""
        self.last: LastAssignment | None = None
        """The member's last assignment and the generation that made it.  A later rebalance that failed does
        not change the generation, because it assigned nothing."""
        self._rack = rack

    def join_protocols(
        self, topics: frozenset[str], owned: Iterable[TopicPartition], reason: str
    ) -> JoinProtocols:
        """Return the topics and assignors to join with."""
        last = self.last
        subscription = MemberSubscription(
            topics=tuple(sorted(topics)),
            owned=tuple(owned),
            generation=last.generation if last is not None else -1,
            rack=self._rack or None,
        )
        subscriptions = (
            (
                assignor.name,
                subscription_bytes(attrs.evolve(subscription, user_data=assignor.user_data(topics, last))),
            )
            for assignor in self.assignors
        )
        return JoinProtocols(topics, tuple(subscriptions), reason)

    def take(self, assigned: Assigned) -> None:
        """Store the leader's assignment and call the assignor that made it."""
        self.last = LastAssignment(assigned.assignment.partitions, assigned.generation)
        for assignor in self.assignors:
            if assignor.name == assigned.assignor:
                assignor.on_assignment(assigned.assignment, assigned.generation)

    def forget(self) -> None:
        """Forget the last assignment, because the member has left the group."""
        self.last = None
