"""One lock on acquired records, and the results that are counted. Plain data of lock_table.py and locks.py.

One `Lock` stands for all records of a delivery, so that a poll() whose records are accepted together costs
nothing for each of them. A record that is decided on its own moves to a lock of records with this decision.
"""

from __future__ import annotations

from enum import Enum

from pykafka2.errors import KafkaError
from pykafka2.share.records import Acknowledger
from pykafka2.slotted import slotted
from pykafka2.types import TopicPartition

GAP = 0
"""The acknowledgement of an offset without a record."""

Place = tuple[bytes, int]
"""Topic id and partition."""


class LockState(Enum):
    HELD = "held"
    DECIDED = "decided"
    READY = "ready"
    SENDING = "sending"
    SETTLED = "settled"


@slotted(eq=False)
class Lock:
    """Acquired offsets of one delivery and partition, with one state and acknowledgement.

    `until` is when the broker ends the lock. `moved` has the offsets that have a lock of their own, and
    `handled` those in a `with` block, with its start; both are shared with these locks, whose `origin` is the
    lock of the delivery. Times are those of the driver's monotonic clock.
    """

    place: Place
    partition: TopicPartition
    node_id: int
    acquired_at: float
    until: float
    offsets: list[int]
    moved: dict[int, Lock]
    handled: dict[int, float]
    acknowledger: Acknowledger
    state: LockState = LockState.HELD
    type: int = GAP
    error: KafkaError | None = None
    is_renewing: bool = False
    origin: Lock | None = None
    decided: dict[int, Lock] | None = None
    """The lock to which decided records are added, by type; only in the lock of a delivery."""
    ready: dict[int, Lock] | None = None
    """The same for acknowledgements that are due."""
    size: int = 0
    """The number of its own offsets, unless it is the lock of a delivery."""
    after_renewal: dict[int, int] | None = None
    """The acknowledgements of `with` blocks that ended while a RENEW by the application was sent."""

    @property
    def is_due(self) -> bool:
        """Whether its acknowledgement is sent, or about to be, and has no result yet."""
        return self.state in (LockState.READY, LockState.SENDING)

    def own_offsets(self) -> list[int]:
        """Return the offsets that have not moved to another lock, in order."""
        moved = self.moved
        if not moved:
            return self.offsets
        if self.origin is None:
            return [offset for offset in self.offsets if offset not in moved]
        return sorted({offset for offset in self.offsets if moved.get(offset) is self})

    def __len__(self) -> int:
        return self.size if self.origin is not None else len(self.own_offsets())

    def __bool__(self) -> bool:
        return True


@slotted
class Outcome:
    """Acknowledged offsets of one partition with one result."""

    partition: TopicPartition
    offsets: set[int]
    error: KafkaError | None
    seconds: float
    """From the request to its response; 0 without a request."""


@slotted
class LockTotals:
    """Counters for metrics and health()."""

    sent: int = 0
    failed: int = 0
    lost: int = 0
    renewed: int = 0


def renewal_time(lock: Lock, lock_timeout: float) -> float:
    """Return when the lock of a record that is handled is renewed: after half of its duration."""
    return lock.until - lock_timeout / 2
