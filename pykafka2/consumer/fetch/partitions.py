"""The fetch state of each assigned partition: next offset, leader, and the fetch in flight.

Used on the driver's thread: fetcher.py sends the requests, responses.py and resets.py apply the responses.
Other threads may read single entries of the dictionaries that are documented for it.
"""

from __future__ import annotations

import attrs

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.snapshot import ClusterSnapshot
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.fetched_data import Problem
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.fetch import FetchPartition
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import TopicPartition

# An answer that brings nothing usable is not asked for again sooner than so long after it was asked for.
FRUITLESS_GAP = 0.1
# Nor is what the application could not read; it costs two fetches, its own and the one ahead of it.
UNREADABLE_GAP = 0.2


class FetchTable:
    """Each partition has its own place in the log here, ahead of the application's position."""

    def __init__(self, options: ConsumerOptions, cluster: ClusterClient, buffer: FetchBuffer) -> None:
        self._options = options
        self._cluster = cluster
        self._buffer = buffer
        self.states: dict[TopicPartition, FetchState] = {}
        self.changes = 0
        """Grows with all that decides what is fetched, and from where: until then what a walk through the
        partitions has found still holds, and there may be ten thousand."""
        self.moved: dict[FetchState, None] = {}
        """Whose place has moved on since that was last said to their node; without a change meanwhile these
        alone are named."""
        self.generations: dict[TopicPartition, int] = {}
        """Of each partition that is read, also while its place is being found."""
        self.misses: dict[TopicPartition, Backoff] = {}
        """Counts fetches in a row that were out of range, over the resets between them."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The end of each partition as of its last fetch.  Any thread."""
        self.readable_ends: dict[TopicPartition, int] = {}
        """How far records may be read: that far, or to the last stable offset (read_committed)."""
        self.troubles: dict[TopicPartition, str] = {}
        """Why the last fetch of a partition brought nothing usable, until one does.  Any thread."""
        self.made_anew: set[TopicPartition] = set()
        """Partitions whose topic was deleted and made anew while they were read."""

    def begin(
        self,
        partition: TopicPartition,
        generation: int,
        offset: int,
        epoch: int = -1,
        origin: int | None = None,
    ) -> None:
        """Fetch from this offset on; what was fetched for an earlier generation no longer counts.

        `epoch` is the leader epoch of the record before it, -1 if that is not known.  `origin` is the
        generation in which the place was chosen, where that is an earlier one.
        """
        old = self.states.get(partition)
        origin = generation if origin is None else origin
        state = FetchState(partition, generation, offset, self.new_backoff(), origin, epoch)
        if old is not None and old.generation == generation:
            # The application has met a problem and tries again.  What has come since it said so lies behind
            # the place where it begins anew.
            self._buffer.put_back(partition)
            not_before = max(old.not_before, self._cluster.driver.clock.monotonic() + UNREADABLE_GAP)
            state.topic_id, state.backoff, state.not_before = old.topic_id, old.backoff, not_before
        elif old is not None and old.origin == origin:
            state.topic_id = old.topic_id  # a place in that topic, though it may have been made anew
        else:
            state.topic_id = self._cluster.metadata.topic_id(partition.topic)
        self.changes += 1
        self.generations[partition] = generation
        self.states[partition] = state

    def is_of_old_topic(self, partition: TopicPartition, origin: int) -> bool:
        """Whether the place chosen in this generation is void, as the topic was made anew.  Any thread."""
        state = self.states.get(partition)
        if state is None or state.origin != origin:
            return False
        known, now = state.topic_id, self._cluster.metadata.topic_id(partition.topic)
        return known != now and ZERO_UUID not in (known, now)

    def lose_place(self, partition: TopicPartition, generation: int) -> None:
        """Fetch nothing before the place is found."""
        self.changes += 1
        self.states.pop(partition, None)
        self.generations[partition] = generation

    def forget(self, partition: TopicPartition) -> None:
        """It is not read any more."""
        self.changes += 1
        self.made_anew.discard(partition)
        self.states.pop(partition, None)
        self.generations.pop(partition, None)
        self.misses.pop(partition, None)
        self.high_watermarks.pop(partition, None)
        self.readable_ends.pop(partition, None)
        self.troubles.pop(partition, None)

    def delay(self, state: FetchState, now: float) -> None:
        """Ask for nothing of this partition for a while."""
        self.changes += 1
        state.not_before = now + max(state.backoff.next(), FRUITLESS_GAP)

    def stop(self, state: FetchState, error: KafkaError, *, is_new_topic: bool = False) -> None:
        """Tell the application, which decides how to go on; until then nothing is fetched."""
        self.changes += 1
        state.is_stopped = True
        self._buffer.put(Problem(state.partition, state.generation, state.offset, error, is_new_topic))

    def new_backoff(self) -> Backoff:
        options = self._options
        return Backoff(options.retry_backoff, options.retry_backoff_max, self._cluster.driver.entropy.random)


@attrs.define(eq=False)
class FetchState:
    """The fetch state of one partition."""

    partition: TopicPartition
    generation: int
    offset: int
    backoff: Backoff
    origin: int
    """The generation in which its place was chosen."""
    epoch: int = -1
    """The leader epoch of the record before `offset`, -1 while it is not known: by it a broker sees whether
    its log was cut (KIP-320)."""
    topic_id: bytes = ZERO_UUID
    """Of the topic that the offset belongs to; sixteen zero bytes while it is not known."""
    is_stopped: bool = False
    """A problem is in the buffer: nothing is fetched until the application has dealt with it."""
    not_before: float = -FOREVER
    replica: int = -1
    """The follower to read from instead of the leader, as the leader said (KIP-392); -1 for none."""
    replica_until: float = -FOREVER
    """When the leader is asked again."""
    moved_at: float = -FOREVER
    """When a hint at a new leader was last followed at once."""
    doubted_since: float | None = None
    """Since when its place has been called out of range by a leader that may have been replaced."""
    _asked: FetchPartition | None = None

    def ask(self, leader_epoch: int, max_bytes: int) -> FetchPartition:
        """Return the entry of a fetch request; the same object as before if nothing changed."""
        asked = self._asked
        if (
            asked is None
            or asked.fetch_offset != self.offset
            or asked.current_leader_epoch != leader_epoch
            or asked.last_fetched_epoch != self.epoch
        ):
            asked = self._asked = FetchPartition(
                partition=self.partition.partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=self.offset,
                last_fetched_epoch=self.epoch,
                partition_max_bytes=max_bytes,
            )
        return asked

    def leave_replica(self) -> bool:
        """Read from the leader again; True if it was read from a follower."""
        was_follower, self.replica = self.replica >= 0, -1
        return was_follower


NOT_FOR_LONG = -1


@attrs.define(eq=False)
class Groups:
    """Fetchable partitions by the node to fetch them from."""

    as_of: int = NOT_FOR_LONG
    """What `FetchTable.changes` was; `NOT_FOR_LONG` where it may be otherwise by and by."""
    snapshot: ClusterSnapshot | None = None
    by_node: dict[int, list[FetchState]] = attrs.Factory(dict)


@attrs.define(eq=False)
class Flight:
    """A fetch under way: the partitions it names, with the places and generations at that moment."""

    node_id: int
    max_wait: float
    """Seconds that the broker may wait for data."""
    not_again_before: float
    """When the node may be asked again if this brings nothing."""
    is_incremental: bool = False
    has_ids: bool = True
    """All its topics are named by their ids, too."""
    names: dict[bytes, str] = attrs.Factory(dict)
    """Of the topics, by id: an answer has either."""
    asked: dict[tuple[str, int], tuple[FetchState, int]] = attrs.Factory(dict)
