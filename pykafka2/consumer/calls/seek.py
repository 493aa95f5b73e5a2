"""The calls of `KafkaConsumer` about places: where it is, where it shall be, and what is paused.

Callers' threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka2.cluster.arguments import checked_partition, checked_partitions
from pykafka2.consumer.calls.arguments import checked_place, checked_timeout
from pykafka2.consumer.calls.single_thread import Owned, owned
from pykafka2.consumer.reset_policy import EARLIEST, LATEST
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.consumer.fetch.fetcher import Fetcher
    from pykafka2.consumer.group.group import Group
    from pykafka2.consumer.options import ConsumerOptions
    from pykafka2.consumer.poll.poller import Poller
    from pykafka2.consumer.poll.position_control import PositionControl
    from pykafka2.consumer.state.iteration_queue import IterationQueue
    from pykafka2.consumer.state.subscription import Subscription


class PositionCalls(Owned):
    """Mixed into the consumer."""

    _options: ConsumerOptions
    _subscription: Subscription
    _iteration_queue: IterationQueue
    _to_rewind: frozenset[TopicPartition]
    _fetcher: Fetcher
    _poller: Poller
    _position_control: PositionControl
    _group: Group | None

    @owned
    def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record of this partition to be handed over.

        Waits, `timeout_ms` at most (default_api_timeout_ms by default), where it has to be asked for first.

        Raises:
            IllegalState: the partition is not assigned.
            KafkaTimeoutError, NoBrokersAvailable, UnknownTopicOrPartition: it was not to be had in time.
            KafkaError: what `poll` raises.
        """
        default = self._options.default_api_timeout
        timeout = default if timeout_ms is None else checked_timeout(timeout_ms)
        partition = checked_partition(partition)
        offset = self._iteration_queue.first_offset(partition)
        if offset is not None:
            return offset
        return self._poller.position(partition, timeout)

    @owned
    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets of this partition are still to be handed over, as of its last fetch; asks nobody.

        Up to the high watermark, or with read_committed up to the last stable offset.  None while the
        position is not known, or nothing has been fetched.

        Raises:
            IllegalState: the partition is not assigned.
        """
        partition = checked_partition(partition)
        self._subscription.find(partition)
        position = self._iteration_queue.first_offset(partition)
        if position is None:
            position = self._subscription.positions.get(partition)
        end = self._fetcher.table.readable_ends.get(partition)
        return None if position is None or end is None else max(end - position, 0)

    @owned
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading at this offset.

        It is not checked here: one outside the log is met with auto_offset_reset by `poll`.

        Raises:
            IllegalState: the partition is not assigned.
        """
        offset = checked_place(offset)
        partition = checked_partition(partition)
        self._subscription.find(partition)
        self._rewind([partition])  # or a Ctrl-C would lose what was not handed out
        self._position_control.seek(partition, offset)

    @owned
    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record of these partitions; of all that are assigned, where none is named.

        A listener whose `assigned` is empty names none by `*assigned`: there look first whether there is any.

        Raises:
            IllegalState: one is not assigned, or none is named and none assigned (but for a listener, which
                nothing may be assigned to).
        """
        self._seek_to(EARLIEST, partitions, "seek_to_beginning()")

    @owned
    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record of these partitions; otherwise as `seek_to_beginning`."""
        self._seek_to(LATEST, partitions, "seek_to_end()")

    # ------------------------------------------------------------------ flow

    @owned
    def pause(self, *partitions: TopicPartition) -> None:
        """Hand over nothing of these partitions until `resume`.

        What is fetched stays fetched, unless other partitions need its room.  Go on polling, to stay a member
        of the group.  A partition that a rebalance brings is not paused, even if it was here before.
        """
        chosen = checked_partitions(partitions)
        for partition in chosen:
            self._subscription.find(partition)
        self._rewind(chosen)
        self._position_control.pause(chosen, True)

    @owned
    def resume(self, *partitions: TopicPartition) -> None:
        """Hand over records of these partitions again."""
        self._position_control.pause(checked_partitions(partitions), False)

    @owned
    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return self._subscription.paused()

    # ------------------------------------------------------------------ inside

    def _seek_to(self, policy: str, partitions: tuple[TopicPartition, ...], call: str) -> None:
        is_in_listener = self._group is not None and self._group.rebalance.is_in_listener
        chosen = checked_partitions(partitions)
        if not chosen and (self._subscription.assigned or not is_in_listener):
            chosen = self._subscription.some_assigned(call)
        for partition in chosen:
            self._subscription.find(partition)
        self._rewind(chosen)
        self._position_control.reset(chosen, policy)

    def _rewind(self, partitions: Iterable[TopicPartition]) -> None:
        """Let what iteration has not handed out of these partitions be read again."""
        if self._iteration_queue:
            self._to_rewind = self._to_rewind.union(partitions)
            self._finish_rewinding()

    def _finish_rewinding(self) -> None:
        """A Ctrl-C may have kept `_rewind` from it; it is safe to repeat until records are handed out.

        Where the application has gone elsewhere since, nothing is left that could be read again.
        """
        for partition, offset in self._iteration_queue.first_offsets(self._to_rewind).items():
            if partition in self._subscription.assigned:
                self._position_control.rewind(partition, offset)
        self._iteration_queue.forget(self._to_rewind)
        self._to_rewind = frozenset()
