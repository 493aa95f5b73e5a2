"""Revokes, loses and assigns this consumer's partitions, and calls the listeners.

Used on the caller's thread, inside poll(), unsubscribe() or close(). Only `revoke_all` blocks: a
revocation starts with a commit, and later polls check whether that has ended. Neighbors:
classic/rebalance.py and kip848/reconciliation.py (decide what to revoke and assign), state/subscription.py
(the table of partitions), commit/committer.py (the last commit), listeners.py.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from pykafka2.clock import FOREVER
from pykafka2.cluster.client import GRACE, ClusterClient
from pykafka2.consumer.group.listeners import NO_LISTENERS, Callback, Event, Listeners
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.consumer.state.poll_interval import PollClock
from pykafka2.consumer.state.subscription import Hold, Subscription
from pykafka2.driver.completion import Completion
from pykafka2.hooks import Hooks
from pykafka2.interrupts import finish
from pykafka2.logs import ClientLogger
from pykafka2.metrics import Series
from pykafka2.types import TopicPartition

# A commit without a response must not end the membership: other members wait up to max_poll_interval_ms,
# and heartbeats on the same connection wait behind the commit.  Half of each timeout remains for the rest.
SHARE_OF_COMMIT = 0.5


class LastCommits(Protocol):
    """The last commit before partitions are revoked; commit/committer.py implements it."""

    def commit_before_rebalance(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Completion[None] | None: ...


class OwnedPartitions:
    """Revokes and assigns one consumer's partitions, and calls its listeners."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        iteration_queue: IterationQueue,
        polls: PollClock,
        commits: LastCommits,
        hooks: Hooks,
    ) -> None:
        self.listeners: Listeners = NO_LISTENERS
        self.is_in_listener = False
        self._driver = cluster.driver
        self._subscription = subscription
        self._iteration_queue = iteration_queue
        self._polls = polls
        self._commit_queue = commits
        self._hooks = hooks
        self._log = ClientLogger(__name__, options.client_id)
        metrics = cluster.metrics
        self._latencies: dict[Event, Series] = {
            "assigned": metrics.series("partition-assigned-latency"),
            "revoked": metrics.series("partition-revoked-latency"),
            "lost": metrics.series("partition-lost-latency"),
        }
        self._commit_timeout = min(options.max_poll_interval, options.session_timeout) * SHARE_OF_COMMIT
        self.last_commit: Completion[None] | None = None
        """The commit that revoked partitions wait for; None if there is none.  Any thread can read it."""
        self._commit_until = FOREVER
        self._begun: frozenset[TopicPartition] = frozenset()
        """Partitions being revoked whose last commit was started; a Ctrl-C can come before that."""
        self._of_other_topics: frozenset[TopicPartition] = frozenset()
        """Those of them whose offsets must not be committed."""
        self._going: frozenset[TopicPartition] = frozenset()
        """Partitions that a listener is being called for.  If it unsubscribes or closes, they are skipped."""

    def due_in(self) -> float:
        """Return the seconds until the last commit times out, when `revoke` must be called again."""
        if self.last_commit is None:
            return FOREVER
        return max(self._commit_until - self._driver.clock.monotonic(), 0.001)

    # ------------------------------------------------------------------ revocation

    def begin_revocation(
        self, partitions: Iterable[TopicPartition], of_other_topics: Collection[TopicPartition] = ()
    ) -> bool:
        """Stop returning records of these partitions and commit their positions; `revoke` calls the listener
        afterwards.  False if none of them is assigned.

        Partitions in `of_other_topics` are not committed: their topic was deleted, and its name can belong to
        a new one.
        """
        self._begun, self._of_other_topics = frozenset(), frozenset(of_other_topics)
        going = self._subscription.mark_revoking(partitions)
        if not going:
            return False
        self._begin_last_commit(going)
        return True

    def revoke(self, partitions: list[TopicPartition]) -> bool:
        """Complete the revocation of these partitions; False while their commit is in progress."""
        if not self._begun.issuperset(partitions):
            self._begin_last_commit(partitions)
        commit = self.last_commit
        if commit is not None and not commit.is_done and self._driver.clock.monotonic() < self._commit_until:
            return False
        self.last_commit = None
        self._call_and_remove("revoked", partitions)
        return True

    def lose(self, because: str) -> None:
        """Remove all partitions after the membership has ended: other members can own them already."""
        self.last_commit = None
        lost = [partition for partition in self._subscription.assigned if partition not in self._going]
        if not lost:
            return
        self._log.warning("partitions were lost: %s", because)
        self._call_and_remove("lost", lost)

    def revoke_all(self, deadline: float, *, commit: bool) -> None:
        """Revoke all partitions before the member leaves.  Wait for the last commit until `deadline`."""
        self.last_commit = None
        owned = [partition for partition in self._subscription.assigned if partition not in self._going]
        if not owned:
            return
        self._subscription.mark_revoking(owned)
        timeout = max(deadline - self._driver.clock.monotonic(), 0.0)
        last = self._commit_queue.commit_before_rebalance(owned, timeout) if commit else None
        try:
            if last is not None and timeout:
                # The driver ends the commit at its deadline, with an error that names the reason; the error
                # by which close ends the others does not.
                self._driver.wait_until(last.done, timeout + GRACE, last.waiters)
        except BaseException:
            self._forget(owned)
            raise
        self._call_and_remove("revoked", owned)

    # ------------------------------------------------------------------ assignment

    def begin_assignment(self, new: list[TopicPartition]) -> None:
        """Add these partitions; their records are returned after `complete_assignment`."""
        self._subscription.add_pending(new)

    def complete_assignment(self, new: list[TopicPartition]) -> None:
        """Call the listener, also with an empty list, then start returning records of these partitions."""
        self._call("assigned", new, self._subscription.confirm)

    def continue_reconciliation(self) -> bool | None:
        """Continue a revocation or assignment in progress, including one that a Ctrl-C interrupted.

        False while a commit is in progress, None if there is nothing to continue.
        """
        subscription = self._subscription
        if not subscription.is_reconciling():
            return None
        revoking = subscription.held(Hold.REVOKING)
        if revoking:
            return self.revoke(revoking)
        self.complete_assignment(subscription.held(Hold.PENDING))
        return True

    # ------------------------------------------------------------------ inside

    def _begin_last_commit(self, going: list[TopicPartition]) -> None:
        timeout = self._commit_timeout
        of_this_topic = [partition for partition in going if partition not in self._of_other_topics]
        self.last_commit = self._commit_queue.commit_before_rebalance(of_this_topic, timeout)
        self._commit_until = self._driver.clock.monotonic() + timeout
        self._begun = frozenset(going)

    def _call(
        self,
        event: Event,
        partitions: list[TopicPartition],
        then: Callable[[list[TopicPartition]], None],
    ) -> None:
        """Call the listener of this event, then `then` and interceptors even if the listener raises.

        The time in the listener counts towards max_poll_interval_ms. A Ctrl-C before the call changes
        nothing: the next poll calls the listener.
        """
        listener: Callback = getattr(self.listeners, event)
        polls, in_order = self._polls, sorted(partitions)
        was_in_listener = self.is_in_listener  # for example, another listener calls unsubscribe()
        was_inside, is_called, began = polls.is_inside, False, self._driver.clock.monotonic()
        try:
            self.is_in_listener = True
            polls.leave()
            is_called = True
            listener(in_order)
        except Exception as error:
            name = getattr(listener, "__qualname__", repr(listener))
            error.add_note(f"raised by the rebalance listener {name} for {event} partitions")
            raise
        finally:
            self.is_in_listener = was_in_listener
            if is_called:
                finish(then, partitions)
            if was_inside:
                polls.enter()
            took = self._driver.clock.monotonic() - began
            if is_called:
                self._hooks.call(f"on_{event}", in_order)
            if listener is not NO_LISTENERS.assigned:
                self._latencies[event].add((took * 1000,))

    def _call_and_remove(self, event: Event, partitions: list[TopicPartition]) -> None:
        before, table = self._going, self._subscription.assigned
        held = {partition: table.get(partition) for partition in partitions}

        def forget(gone: list[TopicPartition]) -> None:
            # The listener may have called unsubscribe() and then assign() with the same partitions.
            self._forget([partition for partition in gone if table.get(partition) is held[partition]])

        try:
            self._going = before | frozenset(partitions)
            self._call(event, partitions, forget)
        finally:
            self._going = before

    def _forget(self, partitions: list[TopicPartition]) -> None:
        self._iteration_queue.forget(partitions)
        self._subscription.remove_partitions(partitions)
