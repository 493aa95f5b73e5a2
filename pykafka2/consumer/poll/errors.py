"""Errors that stop a partition: unreadable data, and errors of the fetcher.

Used on the caller's thread, inside poll(). A noted error is raised by the next pass that returns no records,
unless a policy handles it: auto_offset_reset, or on_bad_record (bad_records.py).
"""

from __future__ import annotations

import logging
from copy import copy

from pykafka2.consumer.bad_records import BadRecords
from pykafka2.consumer.fetch.buffer import Item
from pykafka2.consumer.fetch.fetched_data import FetchedData, Problem, without_frames
from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.poll.position_control import PositionControl
from pykafka2.consumer.reset_policy import NONE
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.errors import (
    CorruptData,
    CorruptMessage,
    KafkaError,
    LogTruncated,
    NoOffsetForPartition,
    OffsetOutOfRange,
    SerializationError,
)
from pykafka2.slotted import slotted
from pykafka2.types import BadRecord, TopicPartition

logger = logging.getLogger(__name__)


@slotted(frozen=True)
class Failure:
    """An error that stops a partition."""

    partition: TopicPartition
    generation: int
    error: KafkaError
    is_unreadable: bool = False
    """The data itself cannot be read: it is fetched again before the error is raised again."""
    bad: BadRecord | None = None
    """The record that on_bad_record can then skip; None if the extent of the damage is unknown, or if neither
    the option nor an interceptor needs it."""


class PollErrors:
    """Notes errors, and handles or raises them."""

    def __init__(
        self,
        options: ConsumerOptions,
        subscription: Subscription,
        fetcher: Fetcher,
        position_control: PositionControl,
        interceptors: Interceptors,
    ) -> None:
        self._options = options
        self._subscription = subscription
        self._buffer = fetcher.buffer
        self._fetcher = fetcher
        self._position_control = position_control
        self.bad_records = BadRecords(options.on_bad_record, interceptors)
        self.noted: Failure | None = None
        """The failure that `raise_noted` raises."""
        self.to_read_again: dict[TopicPartition, int] = {}
        """Partitions whose data was unreadable, with the generation at that time."""

    def failure(self, item: Item, position: int | None, generation: int, error: KafkaError) -> Failure:
        """Return the failure to note for an error of an item in the buffer at this position."""
        is_unreadable = isinstance(item, FetchedData) and not isinstance(error, SerializationError)
        bad = self._bad(item, position, error) if is_unreadable else None
        return Failure(item.partition, generation, without_frames(error), is_unreadable, bad)

    def raise_noted(self) -> None:
        """Raise the noted error, unless the position was changed since.

        No frame in the traceback must refer to the error: such a cycle would keep the decoded data alive
        until the garbage collector runs.
        """
        failed, self.noted = self.noted, None
        if failed is None:
            return
        assigned = self._subscription.assigned.get(failed.partition)
        if assigned is None or assigned.generation != failed.generation:
            return
        if failed.bad is not None:
            if self.bad_records.raises:
                self.bad_records.refused(failed.bad)
            elif self._skip_or_raise(failed.bad, failed.generation):
                return
        if failed.is_unreadable:
            self.to_read_again[failed.partition] = failed.generation
        error = failed.error
        del failed
        try:
            raise error
        finally:
            del error

    def read_again(self) -> None:
        """Fetch unreadable data again: it can be damaged on the way."""
        for partition, generation in self.to_read_again.items():
            assigned = self._subscription.assigned.get(partition)
            if assigned is not None and assigned.generation == generation:
                self._subscription.unsent.add(partition)
        self.to_read_again.clear()

    def _bad(self, item: Item, position: int | None, error: KafkaError) -> BadRecord | None:
        """Return the bad record that `on_bad_record` can skip and interceptors can see, or None."""
        if not self.bad_records.is_of_interest or position is None or not isinstance(item, FetchedData):
            return None
        if not isinstance(error, CorruptData | CorruptMessage):
            return None  # such as a codec that is not installed
        damage = item.damage(position, self._fetcher.table.high_watermarks.get(item.partition))
        if damage is None:
            return None
        batch = bytes(damage.view) if self.bad_records.wants_batch else None
        return BadRecord(*item.partition, damage.offset, damage.next_offset, error, batch=batch)

    def _skip_or_raise(self, bad: BadRecord, generation: int) -> bool:
        """Fetch a damaged batch a second time, then skip it, unless the policy raises."""
        partition = bad.topic_partition
        if not self.bad_records.is_repeated(bad, generation):
            self._subscription.unsent.add(partition)
            self._position_control.send_changes()
            return True
        self.bad_records.skip(bad)
        self._subscription.skip_to(partition, bad.next_offset)
        self._position_control.send_changes()
        return True

    def raise_error_of(self, partition: TopicPartition) -> None:
        assigned = self._subscription.find(partition)
        for item in self._buffer.items(partition):
            if isinstance(item, Problem) and item.generation == assigned.generation:
                try:
                    self.handle(item)
                except KafkaError as error:
                    self.noted = Failure(partition, assigned.generation, without_frames(error))
        self.raise_noted()

    def handle(self, problem: Problem) -> None:
        """Reset the position if auto_offset_reset allows it; otherwise raise, and let the fetcher retry."""
        partition, policy = problem.partition, self._options.auto_offset_reset
        if problem.is_new_topic:
            if policy == NONE:
                raise NoOffsetForPartition(f"{problem.error}, and auto_offset_reset is 'none'; call seek()")
            logger.warning("%s; resetting to %s", problem.error, policy)
            self._position_control.reset([partition], policy)
            return
        if isinstance(problem.error, LogTruncated):
            if policy == NONE:
                raise copy(problem.error)
            logger.warning("%s; seeking to it", problem.error)
            self._subscription.seek(partition, problem.error.offset, problem.error.leader_epoch)
            self._position_control.send_changes()
            return
        if isinstance(problem.error, OffsetOutOfRange):
            if policy == NONE:
                raise OffsetOutOfRange(
                    f"{partition}: offset {problem.offset} is outside the log and "
                    "auto_offset_reset is 'none'; call seek() with an offset in the log"
                )
            logger.info("%s: offset %d is out of range, resetting to %s", partition, problem.offset, policy)
            self._position_control.reset([partition], policy)
            return
        # A reset in progress is repeated with its own target, not with auto_offset_reset.
        self._subscription.unsent.add(partition)
        self._buffer.drop([problem])
        self._position_control.send_changes()
        raise problem.error
