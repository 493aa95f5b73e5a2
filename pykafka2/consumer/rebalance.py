"""The caller's side of a classic group: when to join, what an assignment takes away and brings.

Caller's thread only, as one of the tasks of poll(): each look does what can be done without waiting, so poll
never blocks beyond its timeout.  What it decides follows from what it finds (the member's state, the holds
of the partitions), so an exception of a listener or a Ctrl-C in the middle only delays the rest.
Neighbours: membership.py (the driver's side), handover.py (moves the partitions, tells the listeners).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.assignors.assignor import RebalanceProtocol
from pykafka2.consumer.group_identity import GroupStanding
from pykafka2.consumer.group_steps import Assigned
from pykafka2.consumer.handover import Handover
from pykafka2.consumer.listeners import Listeners
from pykafka2.consumer.member_states import MemberState
from pykafka2.consumer.membership import Membership
from pykafka2.consumer.offered_assignors import OfferedAssignors
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.subscription import Mode, Subscription
from pykafka2.errors import IllegalState, KafkaError, RebalanceInProgress
from pykafka2.logs import ClientLogger
from pykafka2.types import TopicPartition


class Rebalance:
    """Takes one consumer through the rebalances of its group (a `PollTask`)."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        standing: GroupStanding,
        membership: Membership,
        handover: Handover,
        assignors: OfferedAssignors,
    ) -> None:
        self._options = options
        self._metadata = cluster.metadata
        self._driver = cluster.driver
        self._subscription = subscription
        self._standing = standing
        self._membership = membership
        self._handover = handover
        self._assignors = assignors
        self._log = ClientLogger(__name__, options.client_id)
        self._seen_news = -1
        self._seen_losses = 0
        self._joins_asked = 0
        self._joined_topics: frozenset[str] | None = None
        """What the member last joined for; None while it is none."""
        self._coming: Assigned | None = None
        """The assignment that is being taken on."""
        self._gives_way = False
        """It takes partitions away that other members wait for."""

    # ------------------------------------------------------------------ a task of poll()

    def attend(self, remaining: float) -> None:
        """Do what is due; never waits.  Raises what a listener raises, and why the group cannot be joined."""
        if self._handover.is_in_listener:
            raise IllegalState("poll() inside a rebalance listener would wait for itself; return first")
        if self._subscription.mode is not Mode.TOPICS:
            return
        self._complain_of(self._membership.polls.enter())
        while self._step():
            pass

    def has_news(self) -> bool:
        if self._subscription.mode is not Mode.TOPICS:
            return False
        if self._membership.news != self._seen_news:
            return True
        return self._handover.has_news()

    def due_in(self) -> float:
        return self._handover.due_in()

    def on_return(self) -> None:
        """poll() goes back to the application."""
        if self._subscription.mode is Mode.TOPICS:
            self._membership.polls.leave()

    def on_records_asked_for(self) -> None:
        """The application takes the next records of a poll: to those who watch it that is a poll."""
        if self._subscription.mode is Mode.TOPICS:
            self._membership.polls.leave()

    # ------------------------------------------------------------------ one look

    def _step(self) -> bool:
        """Do one thing; False if there is nothing to do now."""
        if self._subscription.mode is not Mode.TOPICS:
            return False  # a listener has unsubscribed
        member = self._membership
        self._seen_news = member.news
        if member.losses != self._seen_losses:
            self._lose()
            return True
        self._raise_failure()
        has_gone_on = self._handover.go_on()
        if has_gone_on is not None:
            return has_gone_on
        self._coming = member.take_assignment() or self._coming
        if self._coming is not None:
            return self._take_on(self._coming)
        return self._join_if_needed()

    def _raise_failure(self) -> None:
        """What the membership met, once; that another has its place, again and again."""
        member = self._membership
        failure = member.failure
        if failure is not None:
            if member.state is not MemberState.FENCED:
                member.failure = None
            raise type(failure)(str(failure)) from failure.__cause__

    def _lose(self) -> None:
        """The membership has ended: others may read these partitions already."""
        losses = self._membership.losses
        self._gives_way = False
        self._assignors.forget()
        self._coming = self._joined_topics = None
        self._handover.lose(self._standing.lost_because)
        self._seen_losses = losses  # else they are told again, of what is left

    # ------------------------------------------------------------------ taking on

    def _take_on(self, coming: Assigned) -> bool:
        """First what it takes away is let go, look by look; then what it brings is taken on."""
        subscription, member = self._subscription, self._membership
        wanted = coming.assignment.partitions
        problem = self._problem_with(wanted)
        if problem:
            self._coming = None
            self._log.warning("the leader of group %r %s", self._options.group_id, problem)
            member.reject(f"the leader {problem}")
            return False
        stays = frozenset(wanted)
        gone = [one for one in subscription.assigned if one not in stays]
        if gone:
            self._gives_way = True
            return self._handover.begin_to_let_go(gone)
        new = [one for one in wanted if one not in subscription.assigned]
        try:
            self._assignors.take(coming)
        finally:  # an assignor of the application's may raise; what is new is its all the same
            self._handover.begin_to_take_on(new)
            self._coming = None
            if self._gives_way:
                # Others are given them in the next rebalance, as this member no longer says that it has them.
                member.rebalance("partitions were given up for other members")
                self._gives_way = False
        self._handover.take_on(new)
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

    def _join_if_needed(self) -> bool:
        member = self._membership
        if member.joins_handled < self._joins_asked:
            return False  # the driver's thread has not looked at the last wish yet
        reason = self._why_join()
        if not reason:
            return False
        going = self._to_let_go_before_joining()
        if going:
            return self._handover.begin_to_let_go(going)
        subscription = self._subscription
        wish = self._assignors.wish(subscription.topics, subscription.assigned, reason)
        self._joined_topics = wish.topics
        number = max(self._joins_asked, member.joins_handled) + 1
        member.join(number, self._seen_losses, wish)
        self._joins_asked = number  # last: who waits for a join that was not asked for waits for ever
        return False

    def _why_join(self) -> str:
        """In words; empty where there is no need."""
        member, topics = self._membership, self._subscription.topics
        if member.state is MemberState.OUT:
            if self._subscription.pattern is not None and not self._metadata.version:
                return ""  # what topics there are is not known yet
            return member.because or "the consumer has subscribed"
        if member.state is MemberState.MUST_JOIN:
            return member.because or "the group rebalances"
        if member.state is MemberState.STABLE and topics != self._joined_topics:
            return f"the subscription is {', '.join(sorted(topics)) or 'nothing'} now"
        return ""

    def _to_let_go_before_joining(self) -> list[TopicPartition]:
        assigned, topics = self._subscription.assigned, self._subscription.topics
        if self._assignors.protocol is RebalanceProtocol.EAGER:
            return list(assigned)
        return [partition for partition in assigned if partition.topic not in topics]

    # ------------------------------------------------------------------ calls of the application

    def subscribed(self, listeners: Listeners) -> None:
        """The subscription has changed: the next look joins."""
        self._handover.listeners = listeners
        if self._membership.state is MemberState.OUT and self._standing.obstacle is None:
            self._standing.obstacle = RebalanceInProgress(
                f"this consumer has not joined group {self._options.group_id!r} yet; poll(), then commit"
            )

    def enforce(self, reason: str) -> None:
        """The application wants a rebalance."""
        if self._subscription.mode is not Mode.TOPICS:
            raise IllegalState("enforce_rebalance() is for members of a group: subscribe() first")
        self._membership.rebalance(reason)

    def end(self, reason: str, timeout: float, *, commit: bool, leave: bool | None = None) -> None:
        """Give everything back and leave the group: `unsubscribe`, `close`.

        With `commit` what was handed over is committed before, where that is automatic.
        `leave=None` is Kafka's way: a static member stays, and may come back before its session ends.
        """
        if self._subscription.mode is not Mode.TOPICS:
            return
        deadline = self._driver.clock.monotonic() + timeout
        member = self._membership
        told: list[KafkaError | None] = []
        try:
            self._give_everything_back(deadline, commit=commit)
        finally:
            self._gives_way = False
            self._assignors.forget()
            self._coming = self._joined_topics = None
            say_so = self._options.group_instance_id is None if leave is None else leave
            member.polls.leave()
            if self._driver.failure is None:
                member.leave(reason, told.append, say_so=say_so)
        if self._driver.failure is None:
            remaining = max(deadline - self._driver.clock.monotonic(), 0.0)
            self._driver.wait_until(lambda: bool(told), remaining)

    def leave_unasked(self, reason: str, timeout: float) -> None:
        """As the process ends, on whatever thread: say good-bye, commit nothing, tell no listener, and never
        raise.  What was handed over may not be done."""
        told: list[KafkaError | None] = []
        if self._subscription.mode is not Mode.TOPICS or self._options.group_instance_id is not None:
            return
        with suppress(KafkaError):
            self._membership.leave(reason, told.append, say_so=True)
            self._driver.wait_until(lambda: bool(told), timeout)

    def _give_everything_back(self, deadline: float, *, commit: bool) -> None:
        if self._membership.losses != self._seen_losses or self._driver.failure is not None:
            self._lose()  # without its thread it cannot say that it gives them back
        self._handover.give_everything_back(deadline, commit=commit)

    # ------------------------------------------------------------------ inside

    def _complain_of(self, gap: float) -> None:
        polls = self._membership.polls
        if gap > polls.limit and self._membership.losses != self._seen_losses:
            self._standing.lost_because = polls.complaint(gap)
