"""The calls of `KafkaConsumer` about positions: position, lag, seek and pause.

Used on the caller's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.cluster.arguments import checked_partition, checked_partitions
from pykafka2.consumer.calls.arguments import checked_offset, checked_timeout
from pykafka2.consumer.core import Owned, owned
from pykafka2.consumer.reset_policy import EARLIEST, LATEST

if TYPE_CHECKING:
    from pykafka2.types import OffsetAndMetadata, TopicPartition


class PositionCalls(Owned):
    """Mixed into the consumer."""

    @owned
    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record that `poll` will return for this partition.

        If the position is unknown, it waits up to `timeout_ms` (default_api_timeout_ms by default) for the
        committed offset or for auto_offset_reset.

        Raises:
            IllegalState: the partition is not assigned.
            KafkaTimeoutError, NoBrokersAvailable, UnknownTopicOrPartition: no position within `timeout_ms`.
            KafkaError: the errors of `poll`.
        """
        default = self._core.options.default_api_timeout
        timeout = default if timeout_ms is None else checked_timeout(timeout_ms)
        partition = checked_partition(partition)
        offset = self._core.iteration_queue.first_offset(partition)
        if offset is not None:
            return offset
        return self._core.poller.position(partition, timeout)

    @owned
    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after the returned records, for `send_offsets_to_transaction` (KIP-1094).

        They are the positions of the assigned partitions, with leader epochs: what `commit` without offsets
        commits. Each has the id of its topic, so that one that was deleted and created again does not get
        it (KIP-1319). A partition whose position is unknown is missing; no request is sent.
        """
        return self._core.topics_read.next_offsets()

    @owned
    def lag(self, partition: TopicPartition) -> int | None:
        """Return how many offsets of this partition remain, as of its last fetch; sends no request.

        They are counted up to the high watermark, or to the last stable offset with read_committed. None if
        the position is unknown or nothing was fetched yet.

        Raises:
            IllegalState: the partition is not assigned.
        """
        partition = checked_partition(partition)
        self._core.subscription.find(partition)
        position = self._core.iteration_queue.first_offset(partition)
        if position is None:
            position = self._core.subscription.positions.get(partition)
        end = self._core.fetcher.table.readable_ends.get(partition)
        return None if position is None or end is None else max(end - position, 0)

    @owned
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at this offset with the next `poll`.

        The offset is not checked here: if it is outside the log, `poll` applies auto_offset_reset.

        Raises:
            IllegalState: the partition is not assigned.
        """
        offset = checked_offset(offset)
        partition = checked_partition(partition)
        self._core.subscription.find(partition)
        self._core.handover.rewind([partition])
        self._core.position_control.seek(partition, offset)

    @owned
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Continue at the first record of these partitions, or of all assigned ones without arguments.

        In a listener, check that `assigned` is not empty before `seek_to_beginning(*assigned)`.

        Raises:
            IllegalState: a partition is not assigned; or, outside a listener, no partition is assigned.
        """
        self._seek_to(EARLIEST, partitions, "seek_to_beginning()")

    @owned
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Continue after the last record of these partitions, or of all assigned ones without arguments.

        Otherwise like `seek_to_beginning`.
        """
        self._seek_to(LATEST, partitions, "seek_to_end()")

    # ------------------------------------------------------------------ flow

    @owned
    def pause(self, *partitions: TopicPartition) -> None:
        """Return no records of these partitions until `resume`.

        Keep calling `poll` to stay a member of the group.  Fetched records stay buffered unless other
        partitions need the memory.  A newly assigned partition is not paused, even if it was paused before.
        """
        chosen = checked_partitions(partitions)
        for partition in chosen:
            self._core.subscription.find(partition)
        self._core.handover.rewind(chosen)
        self._core.position_control.pause(chosen, True)

    @owned
    def resume(self, *partitions: TopicPartition) -> None:
        """Return records of these partitions again."""
        self._core.position_control.pause(checked_partitions(partitions), False)

    @owned
    def paused(self) -> set[TopicPartition]:
        """Return the paused partitions."""
        return self._core.subscription.paused()

    # ------------------------------------------------------------------ inside

    def _seek_to(self, policy: str, partitions: tuple[TopicPartition, ...], call: str) -> None:
        is_in_listener = self._core.group is not None and self._core.group.rebalance.is_in_listener
        chosen = checked_partitions(partitions)
        if not chosen and (self._core.subscription.assigned or not is_in_listener):
            chosen = self._core.subscription.some_assigned(call)
        for partition in chosen:
            self._core.subscription.find(partition)
        self._core.handover.rewind(chosen)
        self._core.position_control.reset(chosen, policy)
