"""The caller's side of commits: blocking, asynchronous and automatic commits, and their callbacks.

Used on the caller's thread only. The committed offset follows the last record that was *returned to the
application*; prefetched records and those that iteration has not returned yet do not count. Neighbors:
commit_queue.py (the queue on the driver's thread), state/subscription.py and state/iteration_queue.py
(positions), state/group_identity.py (the member's identity).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import GRACE, ClusterClient
from pykafka2.consumer.commit.commit_queue import Commit, CommitQueue, Offsets
from pykafka2.consumer.commit.errors import recreated_topic_error
from pykafka2.consumer.commit.topic_ids import TopicIds
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.group_identity import GroupStatus
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.driver.completion import Completion
from pykafka2.errors import KafkaError, KafkaTimeoutError, RebalanceInProgress
from pykafka2.interrupts import CancelOnError, Cleanup
from pykafka2.logs import ClientLogger
from pykafka2.slotted import slotted
from pykafka2.text import named
from pykafka2.types import TopicPartition

Callback = Callable[[Offsets, BaseException | None], Any]
IsOfOldTopic = Callable[[TopicPartition, int], bool]
"""Whether a partition's position, set in this generation, is in a topic that was recreated since."""


@slotted(eq=False)
class _PendingCallback:
    """A commit whose callback has not been called."""

    commit: Commit
    callback: Callback

    @property
    def offsets(self) -> Offsets:
        """The offsets that were committed: those in deleted topics can have been left out since the start."""
        return self.commit.offsets

    @property
    def completion(self) -> Completion[None]:
        return self.commit.completion


def unacknowledged(timeout: float) -> KafkaTimeoutError:
    """Return the error of a commit without a response."""
    return KafkaTimeoutError(
        f"the commit was not acknowledged within {timeout:g} s; it is unknown whether it was written"
    )


def in_words(offsets: Offsets) -> str:
    """Return the offsets as text: `orders-0 at 5, orders-1 at 7`."""
    places = [f"{partition} at {committed.offset}" for partition, committed in offsets.items()]
    return named(places) or "no offsets"


class Committer:
    """Commits the offsets of one consumer with a group (a `PollTask`)."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        iteration_queue: IterationQueue,
        group_status: GroupStatus,
        commits: CommitQueue,
        interceptors: Interceptors,
        is_of_old_topic: IsOfOldTopic,
    ) -> None:
        self._options = options
        self._log = ClientLogger(__name__, options.client_id)
        self._cluster = cluster
        self._driver = cluster.driver
        self._subscription = subscription
        self._iteration_queue = iteration_queue
        self._group_status = group_status
        self._commit_queue = commits
        self._interceptors = interceptors
        self._is_of_old_topic = is_of_old_topic
        self._default_callback: Callback = options.default_offset_commit_callback or self._log_failure
        self._pending_callbacks: deque[_PendingCallback] = deque()
        self._is_calling_back = False
        self._auto: Completion[None] | None = None
        self._next_auto_at = FOREVER if not options.enable_auto_commit else -FOREVER
        if options.enable_auto_commit:
            self._next_auto_at = self._driver.clock.monotonic() + options.auto_commit_interval

    # ------------------------------------------------------------------ offsets to commit

    def consumed_offsets(self, partitions: Collection[TopicPartition] | None = None) -> Offsets:
        """Return the application's position in these partitions (or in all), with leader epochs.

        With enable_auto_offset_store=False, these are the offsets of `store_offsets`. Partitions of deleted
        topics are left out. If one was created again, the old offsets would skip records of the new topic.
        """
        subscription = self._subscription
        chosen = None if partitions is None else frozenset(partitions)
        if not self._options.enable_auto_offset_store:
            stored = subscription.stored
            return {
                partition: offset
                for partition, offset in stored.items()
                if (chosen is None or partition in chosen) and not self._is_of_deleted_topic(partition)
            }
        positions = subscription.next_offsets(self._iteration_queue.places(), chosen)
        return {
            partition: offset
            for partition, offset in positions.items()
            if not self._is_of_deleted_topic(partition)
        }

    def _is_of_deleted_topic(self, partition: TopicPartition) -> bool:
        known = self._cluster.metadata.topic(partition.topic)
        return (known is not None and known.is_gone) or self._is_of_recreated_topic(partition)

    def _is_of_recreated_topic(self, partition: TopicPartition) -> bool:
        assigned = self._subscription.assigned.get(partition)
        return assigned is not None and self._is_of_old_topic(partition, assigned.origin)

    # ------------------------------------------------------------------ the application's commits

    def commit(self, offsets: Offsets | None, timeout: float) -> None:
        """Commit offsets and wait: see `KafkaConsumer.commit`."""
        commit = self.begin_commit(offsets, timeout)
        try:
            try:
                self._wait(commit.completion, timeout)
            except KafkaError as error:
                self._report(commit, error)
                raise
            self._report(commit, None)
        finally:
            self.call_back_once()

    def begin_commit(self, offsets: Offsets | None, timeout: float) -> Commit:
        """Start a commit that is retried for `timeout` seconds; the caller waits, then calls `end_commit`."""
        chosen = self.consumed_offsets() if offsets is None else offsets
        began, monotonic = self._driver.clock.monotonic(), self._driver.clock.monotonic
        commit = self._begin(chosen, timeout, is_retried=True, are_positions=offsets is None)
        commit.completion.add_done_callback(
            lambda done: self._driver.metrics.count_ns("commit-sync-time-ns-total", monotonic() - began)
        )
        return commit

    def end_commit(self, commit: Commit) -> None:
        """Call the interceptors after a commit that has ended; raise its error."""
        self._report(commit, commit.completion.exception(0))
        commit.completion.result(0)

    def on_unacknowledged(self, commit: Commit, error: KafkaError) -> None:
        """Call the interceptors after a commit without a response."""
        self._report(commit, error)

    def commit_async(self, offsets: Offsets | None, callback: Callback | None) -> Completion[None]:
        """Start to commit offsets: see `KafkaConsumer.commit_async`."""
        self.call_back_once()
        chosen = self.consumed_offsets() if offsets is None else offsets
        return self._begin_with_callback(
            chosen, self._options.request_timeout, callback or self._default_callback
        )

    def call_back(self) -> None:
        """Call the callbacks of finished commits, in the order of the commits.

        If a callback raises, the exception is raised here, and the remaining callbacks are called next time.
        """
        pending = self._pending_callbacks
        while pending and pending[0].completion.is_done:
            commit = pending.popleft()
            error = commit.completion.exception(0)
            self._report(commit.commit, error)
            commit.callback(commit.offsets, error)

    def call_back_once(self) -> None:
        """Run `call_back` unless a callback is running: callbacks that commit would nest.

        The remaining callbacks follow when that one returns.
        """
        if self._is_calling_back:
            return
        try:
            self._is_calling_back = True
            self.call_back()
        finally:
            self._is_calling_back = False

    # ------------------------------------------------------------------ automatic commits

    def run(self, remaining: float) -> None:
        """Inside poll(): call callbacks, and start the automatic commit of the records of earlier polls."""
        self.call_back_once()
        now = self._driver.clock.monotonic()
        if now < self._next_auto_at or (self._auto is not None and not self._auto.is_done):
            return
        if self._group_status.commit_error is not None:
            return
        self._next_auto_at = now + self._options.auto_commit_interval
        offsets = self.consumed_offsets()
        if not offsets:
            return
        self._auto = self._begin_with_callback(offsets, self._options.request_timeout, self._on_auto_commit)

    def run_without_listeners(self) -> bool:
        """Do all of `run`, which calls no listener."""
        self.run(0.0)
        return False

    def due_in(self) -> float:
        if self._next_auto_at == FOREVER or (self._auto is not None and not self._auto.is_done):
            return FOREVER
        if self._group_status.commit_error is not None:
            return FOREVER  # the membership reports news when commits are possible again
        return max(self._next_auto_at - self._driver.clock.monotonic(), 0.001)

    def has_news(self) -> bool:
        pending = self._pending_callbacks
        return bool(pending) and pending[0].completion.is_done

    def on_wait(self) -> None:
        """Do nothing; see `PollTask`."""

    def on_return(self) -> None:
        """Do nothing; see `PollTask`."""

    def leave(self, partitions: Collection[TopicPartition]) -> None:
        """Start the last automatic commit of partitions that the application unassigns."""
        offsets = self.consumed_offsets(partitions) if self._options.enable_auto_commit else {}
        if offsets:
            self._begin_with_callback(offsets, self._options.request_timeout, self._on_last_commit)

    def commit_before_rebalance(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Completion[None] | None:
        """Start the last automatic commit of partitions that are about to be revoked.

        Return None if there is nothing to commit automatically. Otherwise the completion ends after at most
        `timeout` seconds, and a failure is logged here. Call it once in a rebalance, and return no more
        records of these partitions afterwards.
        """
        if not self._options.enable_auto_commit:
            return None
        offsets = self.consumed_offsets(partitions)
        if not offsets:
            return None
        return self._begin_with_callback(offsets, timeout, self._on_last_commit, is_retried=True)

    def close(self, timeout: float, *, autocommit: bool) -> None:
        """Start the last automatic commit, and wait for all commits in progress.

        The callbacks get the errors of commits, or log them; close does not raise them. If a callback raises,
        the exception is raised at the end.
        """
        if self._driver.failure is not None:
            self._abandon_commits()  # nothing can be sent any more
            return
        if autocommit and self._options.enable_auto_commit:
            offsets = self.consumed_offsets()
            if offsets:
                self._begin_with_callback(offsets, timeout, self._on_last_commit, is_retried=True)
        deadline = self._driver.clock.monotonic() + timeout
        cleanup = Cleanup()
        cleanup.run(self._call_back_until, deadline, cleanup)
        if timeout and not cleanup.is_interrupted:
            cleanup.run(self._wait_for_timeouts, deadline)
        cleanup.run(self._abandon_commits)
        cleanup.raise_first()

    # ------------------------------------------------------------------ inside

    def _call_back_until(self, deadline: float, cleanup: Cleanup) -> None:
        """Wait for the commits in progress; an error of one callback does not end the wait for the others."""
        while self._pending_callbacks and not cleanup.is_interrupted:
            remaining = max(deadline - self._driver.clock.monotonic(), 0.0)
            if not self._driver.wait_until(self.has_news, remaining):
                return
            cleanup.run(self.call_back)

    def _wait_for_timeouts(self, deadline: float) -> None:
        """Wait until the driver has ended the commits whose deadline has come: its errors name the reason."""
        ending = [
            pending.completion for pending in self._pending_callbacks if pending.commit.deadline <= deadline
        ]
        self._driver.wait_until(lambda: all(completion.is_done for completion in ending), GRACE)

    def _begin_with_callback(
        self, offsets: Offsets, timeout: float, callback: Callback, *, is_retried: bool = False
    ) -> Completion[None]:
        """Start a commit whose callback is called in its turn."""
        commit = self._begin(
            offsets, timeout, is_retried=is_retried, is_last=is_retried, are_positions=is_retried
        )
        self._pending_callbacks.append(_PendingCallback(commit, callback))
        return commit.completion

    def _begin(
        self,
        offsets: Offsets,
        timeout: float,
        *,
        is_retried: bool = False,
        is_last: bool = False,
        are_positions: bool = False,
    ) -> Commit:
        completion: Completion[None] = Completion(self._driver, "a commit")
        # The identity first: a member that the driver's thread removes in between must not commit without a
        # member id, because an empty group would accept that.
        identity, commit_error, options = (
            self._group_status.identity,
            self._group_status.commit_error,
            self._options,
        )
        # The ids first: a topic that is recreated in between must not get the offsets of the old one.
        ids = TopicIds.of({partition.topic for partition in offsets}, self._cluster.metadata)
        recreated = {partition.topic for partition in offsets if self._is_of_recreated_topic(partition)}
        refusal: KafkaError | None = recreated_topic_error(sorted(recreated)) if recreated else None
        is_rejoining = isinstance(commit_error, RebalanceInProgress) and identity.generation_id >= 0
        if offsets and commit_error is not None and not (is_last and is_rejoining):
            refusal = commit_error.anew()  # a commit without offsets needs no membership
        commit = Commit(
            dict(offsets),
            identity,
            completion,
            self._driver.clock.monotonic() + timeout,
            timeout,
            Backoff(options.retry_backoff, options.retry_backoff_max, self._driver.entropy.random),
            is_retried,
            refusal,
            is_last=is_last,
            are_positions=are_positions,
            spans_rebalance=is_last and is_rejoining,
            ids=ids,
        )
        if self._interceptors.times_commits:
            completion.add_done_callback(partial(self._note_end, commit))
        self._commit_queue.add(commit)
        return commit

    def _note_end(self, commit: Commit, done: object) -> None:
        commit.ended_at = self._driver.clock.monotonic()

    def _report(self, commit: Commit, error: BaseException | None) -> None:
        """Call the interceptors after a commit that was written, or with its error."""
        ended_at = self._driver.clock.monotonic() if commit.ended_at is None else commit.ended_at
        self._interceptors.on_commit(commit.offsets, error, ended_at - commit.began_at)

    def _wait(self, completion: Completion[None], timeout: float) -> None:
        with CancelOnError(completion):
            if not self._driver.wait_until(completion.done, timeout + GRACE, completion.waiters):
                raise unacknowledged(timeout)
        completion.result(0)

    def _on_auto_commit(self, offsets: Offsets, error: BaseException | None) -> None:
        if error is not None:
            self._log.warning(
                "the automatic commit of %s to group %r failed; the next one follows in %g s: %s",
                in_words(offsets),
                self._options.group_id,
                self._options.auto_commit_interval,
                error,
            )

    def _on_last_commit(self, offsets: Offsets, error: BaseException | None) -> None:
        if error is not None:
            self._log.warning(
                "the last commit of %s to group %r failed; some records can be redelivered: %s",
                in_words(offsets),
                self._options.group_id,
                error,
            )

    def _log_failure(self, offsets: Offsets, error: BaseException | None) -> None:
        """Log a failed commit: the default callback."""
        if error is not None:
            self._log.error(
                "the commit of %s to group %r failed: %s", in_words(offsets), self._options.group_id, error
            )

    def _abandon_commits(self) -> None:
        """Cancel the commits in progress and call all callbacks; raise the exception of a callback last."""
        cleanup = Cleanup()
        while self._pending_callbacks:
            commit = self._pending_callbacks.popleft()
            commit.completion.cancel()
            error: BaseException | None = KafkaTimeoutError(
                "the consumer was closed before the commit was acknowledged; it is unknown whether it was "
                "written"
            )
            if commit.completion.is_done:
                error = commit.completion.exception(0)
            cleanup.run(self._report, commit.commit, error)
            cleanup.run(commit.callback, commit.offsets, error)
        cleanup.raise_first()
