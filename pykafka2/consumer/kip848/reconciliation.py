"""The caller's side of a KIP-848 group: brings what the application owns in line with what is assigned.

Caller's thread only, as one of the tasks of poll(): each look does what can be done without waiting.  First
what the assignment takes away is given up, then what it brings is taken on, then the coordinator is told, who
gives to others what this member has given up.  What is decided follows from what is found (the assignment,
the partitions held), so an exception of a listener or a Ctrl-C in the middle only delays the rest.
Neighbours: membership.py (the driver's side), handover.py (moves the partitions, tells the listeners).
"""

from __future__ import annotations

from contextlib import suppress

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group_identity import GroupStanding
from pykafka2.consumer.handover import Handover
from pykafka2.consumer.kip848.assignment import Owned, Target, Wish, by_id, resolve
from pykafka2.consumer.kip848.membership import ConsumerMembership
from pykafka2.consumer.kip848.states import MemberState
from pykafka2.consumer.listeners import Listeners
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.subscription import Mode, Subscription
from pykafka2.errors import IllegalState, KafkaError, RebalanceInProgress, UnknownTopicOrPartition
from pykafka2.types import TopicPartition

_JOINABLE = (MemberState.UNSUBSCRIBED, MemberState.FENCED, MemberState.STALE, MemberState.LEAVING)


class Reconciliation:
    """Takes one consumer through the assignments of its group (a `PollTask`)."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        standing: GroupStanding,
        membership: ConsumerMembership,
        handover: Handover,
    ) -> None:
        self._options = options
        self._metadata = cluster.metadata
        self._driver = cluster.driver
        self._subscription = subscription
        self._standing = standing
        self._membership = membership
        self._handover = handover
        self._seen_news = -1
        self._seen_losses = 0
        self._joins_asked = 0
        self._wish: Wish | None = None
        """What the coordinator was last to be told; None while this is no member."""
        self._subscribed_anew = False
        """Since the coordinator refused this member for good."""
        self._ids: dict[TopicPartition, bytes] = {}
        """The topics' ids of the partitions that are held: a topic made anew is another one."""
        self._told_of = 0
        """The number of the assignment that the listener was told of last."""
        self._reported: Owned | None = None
        self._settled: tuple[object, ...] = ()
        """What the last look at the assignment went by, if it found nothing to do."""
        self._waits_for: frozenset[bytes] = frozenset()
        """Topics that are assigned and not known by name yet."""
        self._seen_version = -1
        """Of the metadata in which they were last looked for."""

    # ------------------------------------------------------------------ a task of poll()

    def attend(self, remaining: float) -> None:
        """Do what is due; never waits.  Raises what a listener raises, and why this cannot be a member."""
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
        if self._waits_for and self._metadata.version != self._seen_version:
            return True
        return self._membership.news != self._seen_news or self._handover.has_news()

    def due_in(self) -> float:
        return self._handover.due_in()

    def on_return(self) -> None:
        """poll() goes back to the application."""
        if self._subscription.mode is Mode.TOPICS:
            self._membership.polls.leave()

    def on_records_asked_for(self) -> None:
        """The application takes the next records of a poll: to those who watch it that is a poll."""
        self.on_return()

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
        target = member.target
        if target is not None and self._reconcile(target):
            return True
        self._tell_subscription()
        return False

    def _raise_failure(self) -> None:
        """What the membership met, once; a refusal for good again and again, until something else is
        subscribed to."""
        member = self._membership
        failure = member.failure
        if failure is None:
            return
        if member.state is not MemberState.FATAL:
            member.failure = None
        elif self._subscribed_anew:
            return
        raise type(failure)(str(failure)) from failure.__cause__

    def _lose(self) -> None:
        """The membership has ended: others may read these partitions already."""
        losses = self._membership.losses
        self._forget_membership()
        self._handover.lose(self._standing.lost_because)
        self._seen_losses = losses  # else they are told again, of what is left

    def _forget_membership(self) -> None:
        self._wish = self._reported = None
        self._settled, self._ids = (), {}
        self._await_names(frozenset())

    # ------------------------------------------------------------------ towards the assignment

    def _reconcile(self, target: Target) -> bool:
        """One step towards the assignment; False if it is reached, as far as its topics are known."""
        subscription, held = self._subscription, self._subscription.assigned
        self._seen_version = self._metadata.version
        found = (target.number, subscription.topics, self._waits_for and self._seen_version)
        if found == self._settled:
            return False
        names = {topic_id: one.topic for one, topic_id in self._ids.items()}
        resolved = resolve(
            target.partitions,
            lambda topic_id: names.get(topic_id) or self._metadata.topic_name(topic_id),
            lambda topic: subscription.remote_pattern is not None or topic in subscription.topics,
        )
        wanted = resolved.partitions
        gone = [one for one in held if wanted.get(one) != self._ids.get(one)]
        self._settled = ()
        if gone:
            return self._handover.begin_to_let_go(gone, of_other_topics=self._of_topics_gone(gone))
        self._ids = {one: topic_id for one, topic_id in self._ids.items() if one in held}
        self._await_names(resolved.unknown)
        new = [one for one in wanted if one not in held]
        if new or (target.number != self._told_of and not resolved.unknown):
            self._told_of = target.number
            self._ids.update((one, wanted[one]) for one in new)
            self._handover.begin_to_take_on(new)
            self._handover.take_on(new)
            return True
        self._report(Owned(target.number, by_id(self._ids), is_whole=not resolved.unknown))
        self._settled = (target.number, subscription.topics, self._waits_for and self._seen_version)
        return False

    def _of_topics_gone(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Those whose topic was deleted, and perhaps made anew under its name."""
        metadata = self._metadata
        return [
            one
            for one in partitions
            if metadata.topic_id(one.topic) != self._ids.get(one)
            or isinstance(metadata.topic_error(one.topic), UnknownTopicOrPartition)
        ]

    def _report(self, owned: Owned) -> None:
        """Have the coordinator told, where that is news to it."""
        before = self._reported
        if before is not None and before.partitions == owned.partitions and not owned.is_whole:
            return
        if before == owned:
            return
        self._reported = owned
        self._membership.reconciled(self._seen_losses, owned)

    def _await_names(self, unknown: frozenset[bytes]) -> None:
        if unknown != self._waits_for:
            self._waits_for = unknown
            self._metadata.want_topic_ids(unknown)

    @property
    def waits_for(self) -> int:
        """How many topics are assigned whose names are not known yet."""
        return len(self._waits_for)

    # ------------------------------------------------------------------ what the coordinator is told

    def _tell_subscription(self) -> None:
        member, subscription = self._membership, self._subscription
        if member.joins_handled < self._joins_asked:
            return  # the driver's thread has not looked at the last wish yet
        if subscription.pattern is not None and not self._metadata.version:
            return  # what topics there are is not known yet
        if subscription.remote_pattern is not None:
            wish = Wish(pattern=subscription.remote_pattern)
        else:
            wish = Wish(subscription.topics)
        if member.state in _JOINABLE or (member.state is MemberState.FATAL and self._subscribed_anew):
            self._subscribed_anew = False
            number = max(self._joins_asked, member.joins_handled) + 1
            member.join(number, self._seen_losses, wish)
            self._joins_asked = number  # last: who waits for a join that was not asked for waits for ever
        elif wish != self._wish:
            member.subscribe(wish)
        self._wish = wish

    # ------------------------------------------------------------------ calls of the application

    def subscribed(self, listeners: Listeners) -> None:
        """The subscription has changed: the next look tells the coordinator."""
        self._handover.listeners = listeners
        self._seen_news = -1  # who iterates looks before the records of the last poll are through
        state = self._membership.state
        self._subscribed_anew = state is MemberState.FATAL
        if state is MemberState.UNSUBSCRIBED and self._standing.obstacle is None:
            self._standing.obstacle = RebalanceInProgress(
                f"this consumer has not joined group {self._options.group_id!r} yet; poll(), then commit"
            )

    def enforce(self, reason: str) -> None:
        """The application wants a rebalance."""
        raise IllegalState(
            "enforce_rebalance() is for groups whose members assign; with group_protocol='consumer' the "
            "coordinator does, by itself, whenever members, subscriptions or topics change"
        )

    def end(self, reason: str, timeout: float, *, commit: bool, leave: bool | None = None) -> None:
        """Give everything back and leave the group: `unsubscribe`, `close`.

        With `commit` what was handed over is committed before, where that is automatic.
        `leave=None` is Kafka's way: a static member says that it will be back before its session ends.
        """
        if self._subscription.mode is not Mode.TOPICS:
            return
        deadline = self._driver.clock.monotonic() + timeout
        member = self._membership
        told: list[KafkaError | None] = []
        try:
            if member.losses != self._seen_losses or self._driver.failure is not None:
                self._lose()  # without its thread it cannot say that it gives them back
            self._handover.give_everything_back(deadline, commit=commit)
        finally:
            self._forget_membership()
            member.polls.leave()
            if self._driver.failure is None:
                member.leave(reason, told.append, leave)
        if self._driver.failure is None:
            remaining = max(deadline - self._driver.clock.monotonic(), 0.0)
            self._driver.wait_until(lambda: bool(told), remaining)

    def leave_unasked(self, reason: str, timeout: float) -> None:
        """As the process ends, on whatever thread: say good-bye, commit nothing, tell no listener, and never
        raise.  What was handed over may not be done."""
        told: list[KafkaError | None] = []
        if self._subscription.mode is not Mode.TOPICS:
            return
        with suppress(KafkaError):
            self._membership.leave(reason, told.append, None)
            self._driver.wait_until(lambda: bool(told), timeout)

    # ------------------------------------------------------------------ inside

    def _complain_of(self, gap: float) -> None:
        polls = self._membership.polls
        if gap > polls.limit and self._membership.losses != self._seen_losses:
            self._standing.lost_because = polls.complaint(gap)
