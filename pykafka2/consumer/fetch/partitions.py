"""The fetch state of each assigned partition: next offset, leader, and the fetch in flight.

Used on the driver's thread: fetcher.py sends the requests, responses.py and resets.py apply the responses.
Other threads may read single entries of the dictionaries that are documented for it.
"""

from __future__ import annotations

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
from pykafka2.slotted import slot, slotted
from pykafka2.types import TopicPartition

# Minimum seconds between two fetches if the first one returned nothing usable.
FRUITLESS_GAP = 0.1
# The same after data that the application could not read, which costs two fetches: its own and the next one.
UNREADABLE_GAP = 0.2


class FetchTable:
    """The fetch states of all partitions; their offsets are ahead of the application's positions."""

    def __init__(self, options: ConsumerOptions, cluster: ClusterClient, buffer: FetchBuffer) -> None:
        self._options = options
        self._cluster = cluster
        self._buffer = buffer
        self.states: dict[TopicPartition, FetchState] = {}
        self.changes = 0
        """Grows with every change to what is fetched, or from which node.  While it is unchanged, the fetcher
        reuses its grouping by node, because there can be ten thousand partitions."""
        self.moved: dict[FetchState, None] = {}
        """Partitions whose offset has moved since it was last sent to their node.  An incremental fetch names
        only these."""
        self.generations: dict[TopicPartition, int] = {}
        """The generation of each partition, also while its position is being reset."""
        self.misses: dict[TopicPartition, Backoff] = {}
        """Counts consecutive out-of-range fetches, across the resets between them."""
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The end of each partition as of its last fetch.  Any thread."""
        self.readable_ends: dict[TopicPartition, int] = {}
        """The offset up to which records can be read: high watermark, or last stable offset
        (read_committed)."""
        self.log_starts: dict[TopicPartition, int] = {}
        """The first offset of each log as of the last fetch.  Any thread."""
        self.ends_as_of: dict[TopicPartition, float] = {}
        """When a response had the ends of each partition.  Any thread."""
        self.without_end: dict[TopicPartition, None] = {}
        """Partitions without a readable end, since they were assigned."""
        self.troubles: dict[TopicPartition, str] = {}
        """Why the last fetch of a partition returned nothing usable.  Any thread."""
        self.recreated: set[TopicPartition] = set()
        """Partitions whose topic was deleted and created again while they were read."""

    def begin(
        self,
        partition: TopicPartition,
        generation: int,
        offset: int,
        epoch: int = -1,
        origin: int | None = None,
    ) -> None:
        """Fetch from this offset on; data fetched for an earlier generation is stale.

        `epoch` is the leader epoch of the record before the offset, -1 if unknown. `origin` is the generation
        in which the position was chosen, if that is an earlier one.
        """
        old = self.states.get(partition)
        origin = generation if origin is None else origin
        state = FetchState(partition, generation, offset, self.new_backoff(), origin, epoch)
        if old is not None and old.generation == generation:
            # The application retries after a problem.  Data that arrived since is beyond the offset to retry.
            self._buffer.remove_for_refetch(partition)
            not_before = max(old.not_before, self._cluster.driver.clock.monotonic() + UNREADABLE_GAP)
            state.topic_id, state.backoff, state.not_before = old.topic_id, old.backoff, not_before
        elif old is not None and old.origin == origin:
            state.topic_id = old.topic_id  # the position refers to the topic with this id
        else:
            state.topic_id = self._cluster.metadata.topic_id(partition.topic)
        self.changes += 1
        self.generations[partition] = generation
        self.states[partition] = state
        if partition not in self.readable_ends:
            self.without_end[partition] = None

    def is_of_old_topic(self, partition: TopicPartition, origin: int) -> bool:
        """Return whether a position chosen in this generation refers to a deleted topic.  Any thread."""
        known, now = self.topic_id(partition, origin), self._cluster.metadata.topic_id(partition.topic)
        return known != now and ZERO_UUID not in (known, now)

    def topic_id(self, partition: TopicPartition, origin: int) -> bytes:
        """Return the id of the topic that a position refers to, which was chosen in this generation.

        Sixteen zero bytes if it is unknown.  Any thread.
        """
        state = self.states.get(partition)
        return ZERO_UUID if state is None or state.origin != origin else state.topic_id

    def clear_position(self, partition: TopicPartition, generation: int) -> None:
        """Fetch nothing until the position is found."""
        self.changes += 1
        self.states.pop(partition, None)
        self.generations[partition] = generation

    def forget(self, partition: TopicPartition) -> None:
        """Stop fetching a partition and drop its state."""
        self.changes += 1
        self.recreated.discard(partition)
        self.states.pop(partition, None)
        self.generations.pop(partition, None)
        self.misses.pop(partition, None)
        self.high_watermarks.pop(partition, None)
        self.readable_ends.pop(partition, None)
        self.log_starts.pop(partition, None)
        self.ends_as_of.pop(partition, None)
        self.without_end.pop(partition, None)
        self.troubles.pop(partition, None)

    def delay(self, state: FetchState, now: float) -> None:
        """Do not fetch this partition before its backoff is over."""
        self.changes += 1
        state.not_before = now + max(state.backoff.next(), FRUITLESS_GAP)

    def stop(self, state: FetchState, error: KafkaError, *, is_new_topic: bool = False) -> None:
        """Put the problem into the buffer, and fetch nothing until the application has handled it."""
        self.changes += 1
        state.is_stopped = True
        self._buffer.put(Problem(state.partition, state.generation, state.offset, error, is_new_topic))

    def new_backoff(self) -> Backoff:
        options = self._options
        return Backoff(options.retry_backoff, options.retry_backoff_max, self._cluster.driver.entropy.random)


@slotted(eq=False)
class FetchState:
    """The fetch state of one partition."""

    partition: TopicPartition
    generation: int
    offset: int
    backoff: Backoff
    origin: int
    """The generation in which its position was chosen."""
    epoch: int = -1
    """The leader epoch of the record before `offset`, -1 if unknown.  The broker uses it to detect a
    truncated log (KIP-320)."""
    topic_id: bytes = ZERO_UUID
    """The id of the topic that the offset belongs to; sixteen zero bytes if unknown."""
    is_stopped: bool = False
    """Whether a problem is in the buffer: nothing is fetched until the application has handled it."""
    not_before: float = -FOREVER
    replica: int = -1
    """The follower that the leader prefers for this consumer (KIP-392); -1 for none."""
    replica_until: float = -FOREVER
    """When to fetch from the leader again."""
    moved_at: float = -FOREVER
    """When a hint at a new leader was last followed without a backoff."""
    doubted_since: float | None = None
    """When a leader that may have been replaced first rejected the offset as out of range."""
    _entry: FetchPartition | None = None

    def entry(self, leader_epoch: int, max_bytes: int) -> FetchPartition:
        """Return the entry of a fetch request; the same object as before if nothing changed."""
        entry = self._entry
        if (
            entry is None
            or entry.fetch_offset != self.offset
            or entry.current_leader_epoch != leader_epoch
            or entry.last_fetched_epoch != self.epoch
        ):
            entry = self._entry = FetchPartition(
                partition=self.partition.partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=self.offset,
                last_fetched_epoch=self.epoch,
                partition_max_bytes=max_bytes,
            )
        return entry

    def leave_replica(self) -> bool:
        """Fetch from the leader again; return True if a follower was used."""
        was_follower, self.replica = self.replica >= 0, -1
        return was_follower


DEPENDS_ON_TIME = -1


@slotted(eq=False)
class PartitionsByNode:
    """Fetchable partitions by the node to fetch them from."""

    as_of: int = DEPENDS_ON_TIME
    """The value of `FetchTable.changes`; `DEPENDS_ON_TIME` if the grouping also depends on time."""
    snapshot: ClusterSnapshot | None = None
    by_node: dict[int, list[FetchState]] = slot(factory=dict)


@slotted(eq=False)
class FetchInFlight:
    """A fetch in flight, with the states and offsets of its partitions when it was sent."""

    node_id: int
    max_wait: float
    """Seconds that the broker may wait for data."""
    not_again_before: float
    """When the next fetch from the node can be sent if this one returns nothing."""
    is_incremental: bool = False
    has_ids: bool = True
    """Whether the ids of all its topics are known."""
    names: dict[bytes, str] = slot(factory=dict)
    """Topic names by id; a response has one or the other."""
    fetched: dict[tuple[str, int], tuple[FetchState, int]] = slot(factory=dict)
