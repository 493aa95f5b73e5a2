"""Sets the first positions of partitions to the group's committed offsets.

Caller's thread only, inside poll().  Neighbours: offset_fetch.py (asks the coordinator),
state/subscription.py.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pykafka2.clock import FOREVER
from pykafka2.consumer.commit.offset_fetch import CommittedOffsets
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.driver.completion import Completion
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.committed_offsets import OffsetFetchResponse
from pykafka2.types import OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)

# What the coordinator refuses for good is not asked for again sooner, however fast the application polls.
REFUSED_GAP = 0.1


class StartPositions:
    """Gives partitions without a position that which their group has committed."""

    def __init__(self, committed: CommittedOffsets, subscription: Subscription) -> None:
        self._committed = committed
        self._subscription = subscription
        self._clock = committed.clock
        self._not_before = -FOREVER
        self._asked: dict[TopicPartition, int] = {}
        """What is being asked, with the generations at that time."""
        self.response: Completion[OffsetFetchResponse] | None = None
        """The response to the OffsetFetch in progress; None if there is none."""
        self._without: dict[TopicPartition, int] = {}
        """Partitions of which nothing was committed, with the generations at that time."""
        self.last_error: KafkaError | None = None
        """Why the last question has no answer yet; None when there is one."""
        self._words = committed.words
        """In which it was asked."""

    def has_news(self) -> bool:
        return self.response is not None and self.response.is_done

    def due_in(self) -> float:
        """Seconds until it may ask again, after a refusal; FOREVER if there was none, or it has."""
        left = self._not_before - self._clock.monotonic()
        return left if left > 0 else FOREVER

    @property
    def waits_for(self) -> list[TopicPartition]:
        """Partitions whose committed offset is being asked for."""
        return list(self._asked)

    def why_unknown(self, partition: TopicPartition) -> str:
        """In words, why its committed offset is not known; empty where it is not waited for."""
        if partition not in self._asked:
            return ""
        reason = f"; the last attempt failed: {self.last_error}" if self.last_error is not None else ""
        return f"the committed offset is not known yet{reason}"

    def without_commit(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of them of which nothing was committed; the others are asked for, or given their positions.

        Raises what the coordinator refuses for good; the next call asks again.
        """
        self._take_answer()
        subscription = self._subscription
        left = [one for one in partitions if one not in subscription.positions]
        without = [one for one in left if self._is_without(one)] if self._without else []
        known, assigned = frozenset(without), subscription.assigned
        unknown = {
            one: assigned[one].generation if one in assigned else -1 for one in left if one not in known
        }
        if unknown and self.response is not None and unknown != self._asked:
            # An open transaction, say, keeps one partition's answer waiting: the others' is not to.
            self.response.cancel()
            self.response, self._asked = None, {}
        if unknown and self.response is None and self._clock.monotonic() >= self._not_before:
            self._asked, self._words = unknown, self._committed.words
            self.response = self._committed.start(list(unknown))
        return without

    def _take_answer(self) -> None:
        answer, asked = self.response, self._asked
        if answer is None or not answer.is_done:
            return
        self.response, self._asked = None, {}
        error = answer.exception(0)
        if error is None:
            self.last_error = None
            for partition, one in self._committed.read(answer.result(0), asked).items():
                self._apply(partition, asked[partition], one)
        elif isinstance(error, KafkaError) and (
            self._committed.falls_back(error, self._words) or error.retriable
        ):
            self.last_error = error  # asked again by the caller
            logger.warning("the committed offsets are not known yet, and are asked for again: %s", error)
        else:
            self._not_before = self._clock.monotonic() + REFUSED_GAP
            raise error

    def _apply(self, partition: TopicPartition, generation: int, one: OffsetAndMetadata | None) -> None:
        assigned = self._subscription.assigned.get(partition)
        if assigned is None or assigned.generation != generation or assigned.is_resetting:
            return  # given away, or sent elsewhere by the application meanwhile
        if one is None:
            self._without[partition] = generation
        elif partition not in self._subscription.positions:
            self._subscription.rewind(partition, one.offset, one.leader_epoch)

    def _generation(self, partition: TopicPartition) -> int:
        assigned = self._subscription.assigned.get(partition)
        return -1 if assigned is None else assigned.generation

    def _is_without(self, partition: TopicPartition) -> bool:
        generation = self._without.get(partition)
        if generation is not None and generation != self._generation(partition):
            del self._without[partition]
        return generation is not None and generation == self._generation(partition)
