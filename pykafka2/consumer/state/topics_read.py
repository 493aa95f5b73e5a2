"""The topics whose offsets the application can have, for a transaction across a recreated topic (KIP-1319).

A position moves on to a topic that was created again, but the application can still have offsets of the
deleted topic, and take the group's metadata only now. Offsets are plain numbers, so the metadata must have
the deleted topic's id: then the coordinator rejects them. Used on the caller's thread.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import OffsetAndMetadata, OffsetInTopic, TopicPartition

MAX_LEFT = 10_000
"""Entries for applications that never take metadata, whose topics come and go."""

Place = tuple[int, int]
"""The generation in which a position was chosen, and the position."""


class TopicsRead:
    """The ids of the topics whose records were returned.

    Args:
        subscription: the assignment and positions; calls `remember` before a position is lost.
        iteration_queue: records before the positions that were not returned yet.
        topic_id: returns the id of the topic that a position refers to, which was chosen in this generation.
    """

    def __init__(
        self,
        subscription: Subscription,
        iteration_queue: IterationQueue,
        topic_id: Callable[[TopicPartition, int], bytes],
    ) -> None:
        self._subscription = subscription
        self._iteration_queue = iteration_queue
        self._topic_id = topic_id
        self._left: dict[TopicPartition, bytes] = {}
        """The topics of lost positions that records were returned from since the metadata was last taken."""
        self._reported: dict[TopicPartition, bytes] = {}
        """Those of them that the last metadata had."""
        self._places: dict[TopicPartition, Place] = {}
        """The next offsets when the metadata was last taken, as far as they were known."""
        subscription.before_loss = self.remember

    def remember(self, partition: TopicPartition) -> None:
        """Keep the topic of a position that is about to be lost, if its records are in no metadata yet."""
        place, before = self._place(partition), self._places.get(partition)
        if place is None or place == before:
            return
        if before is None and partition in self._reported:
            return  # whether records were returned since is unknown, so the older topic stays
        topic_id = self._topic_id(partition, place[0])
        if topic_id != ZERO_UUID:
            self._left.setdefault(partition, topic_id)
            if len(self._left) > MAX_LEFT:
                del self._left[next(iter(self._left))]

    def ids(self) -> dict[TopicPartition, bytes]:
        """Return the ids for the group's metadata, as far as they are known.

        A partition has the id of the topic whose records were returned first since the last call. A call has
        the same result as the one before if no position has moved in between.
        """
        places, before = self._places_of_assigned(), self._places
        for partition in self._reported.keys() & places.keys() & before.keys():
            if places[partition] != before[partition]:
                del self._reported[partition]
        self._reported.update(self._left)
        self._left, self._places = {}, places
        current = {partition: self._topic_id(partition, place[0]) for partition, place in places.items()}
        known = {partition: topic_id for partition, topic_id in current.items() if topic_id != ZERO_UUID}
        return {**known, **self._reported}

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after the returned records, with the topics' ids where these are known."""
        offsets = self._subscription.next_offsets(self._iteration_queue.places())
        for partition, offset in offsets.items():
            topic_id = self._topic_id(partition, self._subscription.assigned[partition].origin)
            if topic_id != ZERO_UUID:
                offsets[partition] = OffsetInTopic.of(offset, topic_id)
        return offsets

    def _places_of_assigned(self) -> dict[TopicPartition, Place]:
        queued = self._iteration_queue.places()
        places = {partition: self._place(partition) for partition in self._subscription.assigned}
        return {
            partition: (place[0], queued[partition][0]) if partition in queued else place
            for partition, place in places.items()
            if place is not None
        }

    def _place(self, partition: TopicPartition) -> Place | None:
        assigned = self._subscription.assigned.get(partition)
        position = self._subscription.positions.get(partition)
        return None if assigned is None or position is None else (assigned.origin, position)
