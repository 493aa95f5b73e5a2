"""What a fetch asks for, and what was read for it: values between the Fetch handler and the replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pykafka2.broker.log.leader_epochs import EpochEnd
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.broker.replication.replica import Key
from pykafka2.errors import BrokerError
from pykafka2.records.batch import Buffer

if TYPE_CHECKING:
    from pykafka2.broker.replication.fetch_sessions import FetchSession

CONSUMER = -1
FUTURE_REPLICA = -3
"""A log that moves to another directory of its own broker: it is served to the end, by any replica."""

NO_TOPIC_ID = bytes(16)


@attrs.define
class FetchItem:
    """One partition of a fetch.  `topic` is the id in hexadecimal digits where nobody knows that.

    Nobody changes it; it is not frozen, because that would double what making one costs.
    """

    topic: str
    topic_id: bytes
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    error: BrokerError | None = None

    @property
    def key(self) -> Key:
        return self.topic, self.partition


@attrs.define
class FetchPlan:
    """A whole fetch.  `replica_id` is negative for consumers; `may_follow`: a follower may serve it
    (KIP-392).

    `replica_epoch` is the follower's broker epoch: what it sent before a restart counts no more.  `rack_id`
    is the consumer's, None where it cannot be sent elsewhere.  With a `session` the partitions are those
    of the session that may have something to tell, and `items` is empty.
    """

    replica_id: int
    items: list[FetchItem]
    min_bytes: int
    max_bytes: int
    read_committed: bool = False
    may_follow: bool = False
    replica_epoch: int = -1
    rack_id: str | None = None
    session: FetchSession | None = None
    first_segments: dict[Key, int] = attrs.field(factory=dict)
    """Where the active segments began when the fetch began to wait."""
    has_waited: bool = False
    """Whether it went through the purgatory."""
    _by_key: dict[Key, list[FetchItem]] | None = None

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0

    def current_items(self) -> list[FetchItem]:
        """What is to be looked at now."""
        return self.items if self.session is None else self.session.current_items()

    def items_of(self, key: Key) -> list[FetchItem]:
        by_key = self._by_key
        if by_key is None:
            by_key = self._by_key = {}
            for item in self.items:
                by_key.setdefault(item.key, []).append(item)
        return by_key.get(key, [])


@attrs.define
class FetchResult:
    """What one partition gave.  `has_more`: limits kept back what there was."""

    item: FetchItem
    error: BrokerError | None = None
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Buffer = b""
    diverging: EpochEnd | None = None
    preferred_read_replica: int = -1
    has_more: bool = False
    aborted: list[AbortedTransaction] | None = None
    """For read_committed readers: aborted transactions with data in what was read (rule 48)."""
