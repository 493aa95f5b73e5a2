"""How partitions change hands on this consumer's side: they are let go, lost, and taken on.

Caller's thread only, inside poll(), unsubscribe() or close().  Nothing waits but `give_everything_back`:
letting go begins with a commit, and is looked at again until that is over.  Neighbours: classic/rebalance.py
(decides what comes and goes), state/subscription.py (the table of partitions), commit/committer.py (the last
commit), listeners.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group.listeners import NO_LISTENERS, Listeners, Told
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.consumer.state.poll_interval import PollClock
from pykafka2.consumer.state.subscription import Hold, Subscription
from pykafka2.driver.completion import Completion
from pykafka2.interrupts import finish
from pykafka2.logs import ClientLogger
from pykafka2.types import TopicPartition

# A commit that hangs must not cost the membership.  The others wait for a member as long as
# max_poll_interval_ms; and what the coordinator does not answer keeps heartbeats of that connection waiting.
# So half of either is left for what follows.
SHARE_OF_COMMIT = 0.5


class LastCommits(Protocol):
    """The last commit before partitions are revoked; commit/committer.py implements it."""

    def commit_before_rebalance(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Completion[None] | None: ...


class OwnedPartitions:
    """Moves one consumer's partitions, and tells its listeners."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        iteration_queue: IterationQueue,
        polls: PollClock,
        commits: LastCommits,
    ) -> None:
        self.listeners: Listeners = NO_LISTENERS
        self.is_in_listener = False
        self._metadata = cluster.metadata
        self._driver = cluster.driver
        self._subscription = subscription
        self._iteration_queue = iteration_queue
        self._polls = polls
        self._commit_queue = commits
        self._log = ClientLogger(__name__, options.client_id)
        self._commit_timeout = min(options.max_poll_interval, options.session_timeout) * SHARE_OF_COMMIT
        self.last_commit: Completion[None] | None = None
        """The commit that revoked partitions wait for; None if there is none.  Any thread can read it."""
        self._commit_until = FOREVER
        self._begun: frozenset[TopicPartition] = frozenset()
        """What is being let go and had its last commit begun, if there is one: a Ctrl-C may come before."""
        self._of_other_topics: frozenset[TopicPartition] = frozenset()
        """Those of them of which nothing is to be committed."""
        self._going: frozenset[TopicPartition] = frozenset()
        """What the listener is just being told of: it may unsubscribe or close, and is not told twice."""

    def due_in(self) -> float:
        """Seconds until `let_go` goes on at the latest."""
        if self.last_commit is None:
            return FOREVER
        return max(self._commit_until - self._driver.clock.monotonic(), 0.001)

    # ------------------------------------------------------------------ letting go

    def begin_to_let_go(
        self, partitions: Iterable[TopicPartition], of_other_topics: Collection[TopicPartition] = ()
    ) -> bool:
        """Hand over nothing more of these, and commit what was handed over; listeners are told after that, by
        `let_go`.  False if none of them is held.

        Nothing is committed of those `of_other_topics`, which are gone: their names may be others' already.
        """
        self._begun, self._of_other_topics = frozenset(), frozenset(of_other_topics)
        going = self._subscription.hold_back(partitions)
        if not going:
            return False
        self._begin_last_commit(going)
        return True

    def let_go(self, partitions: list[TopicPartition]) -> bool:
        """Go on with those whose letting go was begun; False while their commit is not over."""
        if not self._begun.issuperset(partitions):
            self._begin_last_commit(partitions)
        commit = self.last_commit
        if commit is not None and not commit.is_done and self._driver.clock.monotonic() < self._commit_until:
            if any(self._exists(one) for one in partitions):
                return False
            commit.cancel()  # it would be repeated until its deadline
        self.last_commit = None
        self._take_away(self.listeners.revoked, partitions)
        return True

    def lose(self, because: str) -> None:
        """The membership has ended: others may read these partitions already."""
        self.last_commit = None
        lost = [one for one in self._subscription.assigned if one not in self._going]
        if not lost:
            return
        self._log.warning("partitions are lost: %s", because)
        self._take_away(self.listeners.lost, lost)

    def give_everything_back(self, deadline: float, *, commit: bool) -> None:
        """Before the member leaves: waits for the last commit, until `deadline` at most."""
        self.last_commit = None
        owned = [one for one in self._subscription.assigned if one not in self._going]
        if not owned:
            return
        self._subscription.hold_back(owned)
        timeout = max(deadline - self._driver.clock.monotonic(), 0.0)
        last = self._commit_queue.commit_before_rebalance(owned, timeout) if commit else None
        try:
            if last is not None:
                self._driver.wait_until(last.done, timeout, last.waiters)
        except BaseException:
            self._forget(owned)
            raise
        self._take_away(self.listeners.revoked, owned)

    # ------------------------------------------------------------------ taking on

    def begin_to_take_on(self, new: list[TopicPartition]) -> None:
        """These are to be read when the listener has been told, by `take_on`."""
        self._subscription.take_on(new)

    def take_on(self, new: list[TopicPartition]) -> None:
        """These are read from now on; the listener is told first, also that there are none."""
        self._tell(self.listeners.assigned, new, self._subscription.confirm)

    def go_on(self) -> bool | None:
        """Go on with what comes or goes already, be it that a Ctrl-C has left it so; False while it waits,
        None if there is nothing."""
        subscription = self._subscription
        if not subscription.comes_or_goes():
            return None
        revoking = subscription.held(Hold.REVOKING)
        if revoking:
            return self.let_go(revoking)
        self.take_on(subscription.held(Hold.PENDING))
        return True

    # ------------------------------------------------------------------ inside

    def _begin_last_commit(self, going: list[TopicPartition]) -> None:
        timeout = self._commit_timeout
        # A topic that was deleted takes no commit, and nobody is to wait for that.
        existing = [one for one in going if one not in self._of_other_topics and self._exists(one)]
        self.last_commit = self._commit_queue.commit_before_rebalance(existing, timeout)
        self._commit_until = self._driver.clock.monotonic() + timeout
        self._begun = frozenset(going)

    def _exists(self, partition: TopicPartition) -> bool:
        """Return whether the metadata has the partition; one broker alone cannot remove it from there."""
        return self._metadata.partition(*partition) is not None

    def _tell(
        self,
        listener: Told,
        partitions: list[TopicPartition],
        then: Callable[[list[TopicPartition]], None],
    ) -> None:
        """Call a listener, whose time is the application's, and `then`, whatever the listener raises.

        A Ctrl-C before the listener is called leaves all as it is: the next look tells it.
        """
        polls, told = self._polls, sorted(partitions)
        was_in_listener = self.is_in_listener  # of another, which unsubscribes, say
        was_inside, is_told = polls.is_inside, False
        try:
            self.is_in_listener = True
            polls.leave()
            is_told = True
            listener(told)
        finally:
            self.is_in_listener = was_in_listener
            if is_told:
                finish(then, partitions)
            if was_inside:
                polls.enter()

    def _take_away(self, listener: Told, partitions: list[TopicPartition]) -> None:
        before, table = self._going, self._subscription.assigned
        held = {one: table.get(one) for one in partitions}

        def forget(told: list[TopicPartition]) -> None:
            # The listener may have unsubscribed, and assigned the same partitions by hand.
            self._forget([one for one in told if table.get(one) is held[one]])

        try:
            self._going = before | frozenset(partitions)
            self._tell(listener, partitions, forget)
        finally:
            self._going = before

    def _forget(self, partitions: list[TopicPartition]) -> None:
        self._iteration_queue.forget(partitions)
        self._subscription.give_back(partitions)
