"""The steps of a consumer's calls, for a caller that waits by itself: the asyncio consumer.

On the event loop, except `assign_subscribed`, which can block. Each step is guarded like a call of the sync
consumer, and returns at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from pykafka2.cluster.arguments import checked_partitions
from pykafka2.cluster.offset_arguments import OffsetsToCommit, checked_offsets
from pykafka2.consumer.calls.arguments import checked_timeout
from pykafka2.consumer.core import ConsumerCore, Owned, handing_over, owned
from pykafka2.consumer.state.subscription import Mode
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.consumer.commit.commit_queue import Commit
    from pykafka2.errors import KafkaError
    from pykafka2.records.columns import Columns


class CallSteps(Owned):
    """The steps of reads and commits."""

    def __init__(self, core: ConsumerCore) -> None:
        self._core = core

    @handing_over
    def take_queued(
        self, limit: int, keep_position: bool, only: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Any]:
        """Return records that iteration has polled, if the group needs no poll first."""
        if not self._core.iteration_queue or self._core.group_has_news():
            return {}
        return self._core.iteration_queue.take(limit, keep=keep_position, only=only)

    @handing_over
    def rewind_iteration(self) -> None:
        """Read the queued records again instead of returning them by iteration."""
        self._core.handover.rewind(self._core.subscription.assigned)

    @handing_over
    def put_back_iteration(self) -> None:
        """Read the queued records again from the fetch buffer, where they can be taken at once."""
        self._core.handover.put_back(self._core.subscription.assigned)

    @handing_over
    def take_records(
        self, limit: int, keep_position: bool, only: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Any]:
        """Return the records that are available now, of all partitions or of some."""
        return self._core.poller.pass_records(limit, keep_position=keep_position, only=only)

    @owned
    def assign_subscribed(self) -> None:
        """Assign the partitions of the subscribed topics, if there is no group."""
        subscription = self._core.subscription
        if subscription.reads_all_partitions:
            for topic in sorted(subscription.topics):
                self._core.queries.partition_numbers(topic, self._core.options.default_api_timeout)
            self._core.poller.assign_known()

    @owned
    def checked_choice(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Return the partitions that a read is limited to.

        Raise IllegalState if one cannot be assigned during the read, because `assign` chose others.
        """
        chosen = frozenset(checked_partitions(partitions))
        if self._core.subscription.mode is not Mode.TOPICS:
            for partition in chosen:
                self._core.subscription.find(partition)
        return chosen

    @handing_over
    def take_columns(self, limit: int) -> dict[TopicPartition, Columns]:
        """Return the columns that are available now."""
        self._core.handover.put_back(self._core.subscription.assigned)
        return self._core.poller.pass_columns(limit)

    @handing_over
    def continue_iteration(self) -> bool:
        """Start the next slice of the queued records; False without one, or if the group needs a poll."""
        if not self._core.iteration_queue or self._core.group_has_news():
            self._core.slice_length.pause()
            return False
        if self._core.iteration_queue.is_between_slices:
            self._core.iteration_queue.cut(self._core.slice_length.next())
        return True

    @handing_over
    def refill_iteration(self) -> bool:
        """Queue the records that are available now and start a slice; False without records."""
        self._core.iteration_queue.put(self._core.poller.pass_records(self._core.options.max_poll_records))
        if not self._core.iteration_queue:
            return False
        self._core.iteration_queue.cut(self._core.slice_length.next())
        return True

    @owned
    def begin_commit(self, offsets: OffsetsToCommit | None, timeout_ms: float | None) -> tuple[Commit, float]:
        """Start the `commit` of a caller that waits by itself; return it and its timeout."""
        committer = self._core.group_for("commit").committer
        timeout = (
            self._core.options.default_api_timeout if timeout_ms is None else checked_timeout(timeout_ms)
        )
        checked = None if offsets is None else checked_offsets(offsets)
        return committer.begin_commit(checked, timeout), timeout

    @owned
    def fail_commit(self, commit: Commit, error: KafkaError) -> None:
        """Call interceptors after a `commit` without a response."""
        self._core.group_for("commit").committer.on_unacknowledged(commit, error)

    @owned
    def end_commit(self, commit: Commit) -> None:
        """End a `commit`: call callbacks and interceptors, or raise its error."""
        committer = self._core.group_for("commit").committer
        try:
            committer.end_commit(commit)
        finally:
            committer.call_back_once()
