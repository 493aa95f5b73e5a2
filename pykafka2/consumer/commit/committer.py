"""Which offsets are committed, and when: the caller's side of commits.

Caller's thread only: blocking and asynchronous commits, automatic ones started from poll(), callbacks in the
order of the commits.  What is committed is the place up to which records were *handed to the application*,
never what was fetched ahead or waits inside an iteration.  Neighbours: commit_queue.py (the queue on the
driver's thread), state/subscription.py and state/iteration_queue.py (places), state/group_identity.py (who
commits).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

import attrs

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import GRACE, ClusterClient
from pykafka2.consumer.commit.commit_queue import Commit, CommitQueue, Offsets
from pykafka2.consumer.commit.errors import words_for_gone
from pykafka2.consumer.commit.topic_ids import TopicIds
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.group_identity import GroupStanding
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.driver.completion import Completion
from pykafka2.errors import KafkaError, KafkaTimeoutError
from pykafka2.interrupts import CancelOnError, Cleanup
from pykafka2.text import named
from pykafka2.types import OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)

Callback = Callable[[Offsets, BaseException | None], Any]
IsOfOldTopic = Callable[[TopicPartition, int], bool]
"""Whether a partition's place, chosen in this generation, is one in a topic that was made anew since."""


@attrs.define(eq=False)
class _Untold:
    """A commit whose callback has not been called."""

    offsets: Offsets
    completion: Completion[None]
    callback: Callback


def log_failure(offsets: Offsets, error: BaseException | None) -> None:
    """The callback of commits that were given none."""
    if error is not None:
        logger.error("the commit of %s failed: %s", in_words(offsets), error)


def in_words(offsets: Offsets) -> str:
    """`orders-0 at 5, orders-1 at 7`."""
    return named([f"{partition} at {one.offset}" for partition, one in offsets.items()]) or "no offsets"


class Committer:
    """CommitQueue for one consumer with a group (a `PollTask`)."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        iteration_queue: IterationQueue,
        standing: GroupStanding,
        commits: CommitQueue,
        interceptors: Interceptors,
        is_of_old_topic: IsOfOldTopic,
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._driver = cluster.driver
        self._subscription = subscription
        self._iteration_queue = iteration_queue
        self._standing = standing
        self._commit_queue = commits
        self._interceptors = interceptors
        self._is_of_old_topic = is_of_old_topic
        self._default_callback: Callback = options.default_offset_commit_callback or log_failure
        self._untold: deque[_Untold] = deque()
        self._is_calling_back = False
        self._auto: Completion[None] | None = None
        self._next_auto_at = FOREVER if not options.enable_auto_commit else -FOREVER
        if options.enable_auto_commit:
            self._next_auto_at = self._driver.clock.monotonic() + options.auto_commit_interval

    # ------------------------------------------------------------------ what there is to commit

    def handed_over(self, partitions: Collection[TopicPartition] | None = None) -> Offsets:
        """Return the application's position in these partitions (or in all), with leader epochs.

        With enable_auto_offset_store=False only what `store_offsets` marked.  Nothing of a topic that was
        made anew: who reads that next would pass over as many of its records.
        """
        subscription = self._subscription
        chosen = None if partitions is None else frozenset(partitions)
        if not self._options.enable_auto_offset_store:
            stored = subscription.stored
            return {
                one: told
                for one, told in stored.items()
                if (chosen is None or one in chosen) and not self._is_void(one)
            }
        waiting = self._iteration_queue.places()
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for partition, position in subscription.positions.items():
            if (chosen is not None and partition not in chosen) or self._is_void(partition):
                continue
            offset, epoch = waiting.get(partition) or (
                position,
                subscription.leader_epochs.get(partition, -1),
            )
            found[partition] = OffsetAndMetadata(offset, "", epoch)
        return found

    def _is_void(self, partition: TopicPartition) -> bool:
        assigned = self._subscription.assigned.get(partition)
        return assigned is not None and self._is_of_old_topic(partition, assigned.origin)

    def _still_of_use(self, offsets: Offsets) -> Offsets:
        """Those of topics that are not known to be gone: others would be refused until the time is over."""
        return {partition: told for partition, told in offsets.items() if not self._is_gone(partition.topic)}

    def _is_gone(self, topic: str) -> bool:
        known = self._cluster.metadata.topic(topic)
        return known is not None and known.is_gone

    # ------------------------------------------------------------------ the application's commits

    def commit(self, offsets: Offsets | None, timeout: float) -> None:
        """Write them, and wait for it: see `KafkaConsumer.commit`."""
        told = self.handed_over() if offsets is None else offsets
        try:
            self._wait(self._begin(told, timeout, is_retried=True), timeout)
            self._interceptors.on_commit(told)
        finally:
            self._call_back_once()

    def commit_async(self, offsets: Offsets | None, callback: Callback | None) -> Completion[None]:
        """Have them written: see `KafkaConsumer.commit_async`."""
        self._call_back_once()
        told = self.handed_over() if offsets is None else offsets
        return self._begin_to_tell(told, self._options.request_timeout, callback or self._default_callback)

    def call_back(self) -> None:
        """Call the callbacks of commits that are over, in the order of the commits.

        What one raises is raised here; those after it are called next time.
        """
        untold = self._untold
        while untold and untold[0].completion.is_done:
            one = untold.popleft()
            error = one.completion.exception(0)
            if error is None:
                self._interceptors.on_commit(one.offsets)
            one.callback(one.offsets, error)

    def _call_back_once(self) -> None:
        """`call_back`, but not inside a callback: one that commits would have the next called inside it, and
        that the one after; they follow when it returns."""
        if self._is_calling_back:
            return
        try:
            self._is_calling_back = True
            self.call_back()
        finally:
            self._is_calling_back = False

    # ------------------------------------------------------------------ automatic commits

    def attend(self, remaining: float) -> None:
        """Inside poll(): callbacks, and the automatic commit of what earlier polls have handed over."""
        self._call_back_once()
        now = self._driver.clock.monotonic()
        if now < self._next_auto_at or (self._auto is not None and not self._auto.is_done):
            return
        if self._standing.obstacle is not None:
            return
        self._next_auto_at = now + self._options.auto_commit_interval
        offsets = self.handed_over()
        if not offsets:
            return
        self._auto = self._begin_to_tell(offsets, self._options.request_timeout, self._on_auto_commit)

    def due_in(self) -> float:
        if self._next_auto_at == FOREVER or (self._auto is not None and not self._auto.is_done):
            return FOREVER
        if self._standing.obstacle is not None:
            return FOREVER  # its end is news of the membership
        return max(self._next_auto_at - self._driver.clock.monotonic(), 0.001)

    def has_news(self) -> bool:
        untold = self._untold
        return bool(untold) and untold[0].completion.is_done

    def on_wait(self) -> None:
        """See `PollTask`; nothing to be done."""

    def on_return(self) -> None:
        """See `PollTask`; nothing to be done."""

    def leave(self, partitions: Collection[TopicPartition]) -> None:
        """The application goes to other partitions: what was handed over of these is committed on the way,
        where that is done automatically."""
        offsets = self.handed_over(partitions) if self._options.enable_auto_commit else {}
        if offsets:
            self._begin_to_tell(offsets, self._options.request_timeout, _on_last_commit)

    def commit_before_rebalance(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Completion[None] | None:
        """Start to commit what was handed over of partitions that are about to be given away.

        None where nothing is committed automatically.  Otherwise it is over when its completion is: after
        `timeout` seconds at the latest, and whatever came of it, as a failure is logged here.  To be begun
        once for a rebalance; hand over nothing of these partitions from now on.
        """
        if not self._options.enable_auto_commit:
            return None
        offsets = self._still_of_use(self.handed_over(partitions))
        if not offsets:
            return None
        return self._begin_to_tell(offsets, timeout, _on_last_commit, is_retried=True)

    def close(self, timeout: float, *, autocommit: bool) -> None:
        """Commit what was handed over, if that is done automatically, and wait for all that is under way.

        Never raises what a commit met: the callbacks are told, and the rest is logged.  What a callback
        raises is raised when all is done.
        """
        if self._driver.failure is not None:
            self._give_up()  # nothing can be sent any more
            return
        deadline = self._driver.clock.monotonic() + timeout
        if autocommit and self._options.enable_auto_commit and self._standing.obstacle is None:
            offsets = self._still_of_use(self.handed_over())
            if offsets:
                self._begin_to_tell(offsets, timeout, _on_last_commit, is_retried=True)
        cleanup = Cleanup()
        cleanup.run(self._call_back_until, deadline, cleanup)
        cleanup.run(self._give_up)
        cleanup.raise_first()

    # ------------------------------------------------------------------ inside

    def _call_back_until(self, deadline: float, cleanup: Cleanup) -> None:
        """Wait for the commits in progress; an error of one callback does not end the wait for the others."""
        while self._untold and not cleanup.is_interrupted:
            remaining = max(deadline - self._driver.clock.monotonic(), 0.0)
            if not self._driver.wait_until(self.has_news, remaining):
                return
            cleanup.run(self.call_back)

    def _begin_to_tell(
        self, offsets: Offsets, timeout: float, callback: Callback, *, is_retried: bool = False
    ) -> Completion[None]:
        """Begin a commit whose outcome the callback is told, in its turn."""
        completion = self._begin(offsets, timeout, is_retried=is_retried, is_last=is_retried)
        self._untold.append(_Untold(offsets, completion, callback))
        return completion

    def _begin(
        self, offsets: Offsets, timeout: float, *, is_retried: bool = False, is_last: bool = False
    ) -> Completion[None]:
        completion: Completion[None] = Completion(self._driver, "a commit")
        # In this order: who is put out in between must not commit as nobody, as an empty group takes that.
        identity, obstacle, options = self._standing.identity, self._standing.obstacle, self._options
        # In this order, too: a topic that is made anew in between must not get offsets of the old one.
        ids = TopicIds.of({partition.topic for partition in offsets}, self._cluster.metadata)
        gone = {partition.topic for partition in offsets if self._is_void(partition)}
        refusal: KafkaError | None = words_for_gone(sorted(gone)) if gone else None
        if offsets and obstacle is not None:  # nothing needs no membership
            refusal = obstacle.anew()
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
            ids=ids,
        )
        self._commit_queue.add(commit)
        return completion

    def _wait(self, completion: Completion[None], timeout: float) -> None:
        with CancelOnError(completion):
            if not self._driver.wait_until(completion.done, timeout + GRACE, completion.waiters):
                raise KafkaTimeoutError(f"the commit was not answered within {timeout:g} s")
        completion.result(0)

    def _on_auto_commit(self, offsets: Offsets, error: BaseException | None) -> None:
        if error is not None:
            logger.warning(
                "the automatic commit of %s failed, and another follows in %g s: %s",
                in_words(offsets),
                self._options.auto_commit_interval,
                error,
            )

    def _give_up(self) -> None:
        """Cancel the commits in progress and call all callbacks; raises afterwards what a callback raised."""
        cleanup = Cleanup()
        while self._untold:
            one = self._untold.popleft()
            one.completion.cancel()
            error: BaseException | None = KafkaTimeoutError(
                "the consumer was closed before the commit was acknowledged; it may have been written"
            )
            if one.completion.is_done:
                error = one.completion.exception(0)
            cleanup.run(one.callback, one.offsets, error)
        cleanup.raise_first()


def _on_last_commit(offsets: Offsets, error: BaseException | None) -> None:
    if error is not None:
        logger.warning(
            "the last commit of %s failed; some records may be redelivered: %s",
            in_words(offsets),
            error,
        )
