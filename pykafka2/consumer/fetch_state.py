"""Where fetching of one partition stands, and what a fetch under way was asked for.

Pure state of the driver's thread; fetcher.py moves it.
"""

from __future__ import annotations

import attrs

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.snapshot import ClusterSnapshot
from pykafka2.protocol.messages.fetch import FetchPartition
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import TopicPartition


@attrs.define(eq=False)
class FetchState:
    """Where fetching of one partition stands."""

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
        """What a fetch says of it; the same object as before where it says the same."""
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
    """What could be fetched, by the nodes to fetch it from."""

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
