"""The open end of a partition's queue: the batch that callers' threads append to, until it is sealed.

`ProducerBatch.seal` hands its records over to the batch that the IO thread sends (batch.py). From then on
`room_bytes` is `SHUT`, and the open batch is empty.

`append_unlocked`, and the same line in `send` of the sync and the asyncio producer, append without the
queue's lock. It is safe for these reasons:

* A record is appended by one line without a call, a loop or an allocation that the garbage collector
  counts. CPython runs no other thread, signal handler, finalizer or tracer within it, so the room, fields
  and number of a record change together or not at all. (A tool with branch events of `sys.monitoring` is
  the exception.)
* Any other change closes the batch first (`room_bytes` is `SHUT`), under the lock: from then on the line
  does nothing, and what it appended before is counted.
* A Ctrl-C after the line loses at most the caller's delivery.

None of this holds without CPython's global lock or in another Python: there no batch has room for such an
append (`HAS_GIL`). The compiled `append_unlocked` and `swap_room` (pykafka2/native.py) hold a lock of their
own there, so with them batches have room in any Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka2.errors import IllegalState
from pykafka2.native import BATCH, DELIVERY, compiled
from pykafka2.producer.accumulator.batch_sizes import (
    LONGER_OVERHEAD_BYTES,
    SMALLEST_RECORD_BYTES,
    next_step,
    overhead_of,
)
from pykafka2.producer.delivery.callbacks import HAS_GIL
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.records.batch import HEADER_BYTES
from pykafka2.records.encoder import SHORT, Row
from pykafka2.types import NO_TIMESTAMP

if TYPE_CHECKING:
    from pykafka2.producer.accumulator.buffer_pool import Permit
    from pykafka2.producer.delivery.batch_outcome import BatchOutcome
    from pykafka2.records.rows import Fields

Charge = Callable[["Permit", int], bool]
"""`BufferPool.charge`."""

SHUT = -SMALLEST_RECORD_BYTES
"""The value of `room_bytes` without room for any record."""

NS_PER_MS = 1_000_000


class OpenBatch:
    """The records that callers have appended to a batch so far.

    Attributes:
        outcome: the outcome that their deliveries share; None once the batch is sealed.
        fields: the records as rows (records/rows.py).
        count: number of records.
        base_timestamp: timestamp of the first record.
        room_bytes: bytes that `append_unlocked` can still use, for records whose numbers are short; SHUT
            while `append` runs and after `shut`.
        since_ns, until_ns, timestamp: records sent in this range of the wall clock have this timestamp.
        is_full: True if there is no room for another record, or a record did not fit: the batch is sent
            without lingering. Smaller records can still join until then.
    """

    __slots__ = (
        "_charge",
        "_expansion",
        "_granted_bytes",
        "_limit_bytes",
        "_permit",
        "base_timestamp",
        "count",
        "fields",
        "is_full",
        "outcome",
        "room_bytes",
        "since_ns",
        "timestamp",
        "until_ns",
    )

    def __init__(
        self, outcome: BatchOutcome, permit: Permit, charge: Charge, limit_bytes: int, expansion: float
    ) -> None:
        self._expansion = expansion
        self._permit = permit
        self._charge = charge
        self.outcome: BatchOutcome | None = outcome
        self.fields: Fields = []
        self.count = 0
        self.base_timestamp = self.timestamp = NO_TIMESTAMP
        self.room_bytes = SHUT
        self.since_ns = self.until_ns = 0
        self.is_full = False
        self._limit_bytes = limit_bytes
        self._granted_bytes = 0
        """Bytes that records can take up to the end of the current step."""

    def append(self, row: Row, size_bytes: int) -> Delivery | None:
        """Append a record that `append_unlocked` refused; None if there is no room or no memory for it.

        `size_bytes` is the size of the record if all its numbers are short. The queue's lock is held.
        """
        used_bytes, count = self.shut(), self.count
        delta = row[2] - self.base_timestamp
        if count:
            if not 0 <= delta < SHORT or count >= SHORT or size_bytes >= SHORT:
                size_bytes += LONGER_OVERHEAD_BYTES
            if used_bytes + size_bytes > self._limit_bytes or not self.charge_memory(used_bytes):
                self.is_full = True
                return None
        else:
            size_bytes += LONGER_OVERHEAD_BYTES if size_bytes >= SHORT else 0
            self.base_timestamp = row[2]
        # A Ctrl-C before the record has joined leaves sizes that are too high, which is harmless.
        room_bytes = self._begin_step(used_bytes + size_bytes, count + 1)
        self.fields += row; self.count = count + 1  # fmt: skip # noqa: E702 (both or none, as below)
        # From here on other threads can append as well.
        self._granted_bytes += room_bytes - SHUT; self.room_bytes = room_bytes  # fmt: skip # noqa: E702
        if self.outcome is None:
            raise IllegalState("a record was appended to a sealed batch")
        delivery = Delivery()
        delivery.batch_outcome, delivery.batch_index = self.outcome, count
        return delivery

    def shut(self) -> int:
        """Stop `append_unlocked`. Return `bound_bytes`. The queue's lock is held."""
        if swap_room is None:
            room_bytes, self.room_bytes = self.room_bytes, SHUT
        else:
            room_bytes = swap_room(self, SHUT)
        if self._granted_bytes:
            self._granted_bytes -= room_bytes - SHUT
        return self._granted_bytes

    def charge_memory(self, bound_bytes: int) -> bool:
        """Charge the current memory of the records; False if the pool has no memory for more of it."""
        permit, outcome = self._permit, self.outcome
        overhead_bytes, beyond_bytes = overhead_of(self.fields), bound_bytes - permit.size_bytes
        if beyond_bytes > 0:
            overhead_bytes += beyond_bytes
        if outcome is not None:
            overhead_bytes += outcome.listener_bytes
        return self._charge(permit, overhead_bytes)

    @property
    def bound_bytes(self) -> int:
        """Return the upper bound of the size of the records before compression."""
        return self._granted_bytes - self.room_bytes - SMALLEST_RECORD_BYTES if self._granted_bytes else 0

    @property
    def size_estimate(self) -> int:
        """Bytes of the batch in a request, an upper bound."""
        return HEADER_BYTES + int(self.bound_bytes * self._expansion)

    def _begin_step(self, used_bytes: int, count: int) -> int:
        """Return the bytes of further records that `append_unlocked` can append."""
        left_bytes = self._limit_bytes - used_bytes
        step_bytes, reserved_bytes = next_step(left_bytes, used_bytes, count)
        self._granted_bytes = used_bytes + reserved_bytes
        if left_bytes < SMALLEST_RECORD_BYTES:
            self.is_full = True
        # `append` takes the last record of a step, as it can make the batch full.
        return step_bytes - reserved_bytes - SMALLEST_RECORD_BYTES


def append_unlocked(batch: OpenBatch, row: Row, size_bytes: int) -> Delivery | None:
    """Append a record without the queue's lock; None if the batch is shut or has no room.

    The row's timestamp fits the batch, and `size_bytes` is as for `OpenBatch.append`. The module's docstring
    explains why no lock is needed. Hot: called once per record.
    """
    outcome, fields = batch.outcome, batch.fields
    # One line, so that no other thread, signal handler or finalizer runs between its parts.
    if (room_bytes := batch.room_bytes - size_bytes) >= 0: batch.room_bytes = room_bytes; fields += row; index = batch.count; batch.count = index + 1  # fmt: skip # noqa: E501, E701, E702
    if room_bytes < 0:
        return None
    delivery = Delivery()
    delivery.batch_outcome = outcome  # type: ignore[assignment]
    delivery.batch_index = index
    return delivery


swap_room: Callable[[OpenBatch, int], int] | None = None
"""Sets `room_bytes` and returns its former value, where the compiled appends run without the global lock."""

if compiled is not None:
    compiled.bind(BATCH, OpenBatch)
    compiled.bind(DELIVERY, Delivery)
    append_unlocked = compiled.append_unlocked  # type: ignore[assignment]
    swap_room = None if HAS_GIL else compiled.swap_room


def note_open(open_batches: dict[str, OpenBatch], topic: str, tail: OpenBatch | None, timestamp: int) -> None:
    """Let `send` append further plain records of this millisecond to the batch, which it finds by topic.

    The batch can be sealed or done by then; `append_unlocked` checks its room.
    """
    if tail is not None and note_time(tail, timestamp):
        open_batches[topic] = tail


def note_time(tail: OpenBatch, timestamp: int) -> bool:
    """Let `send` append records of this millisecond to the batch; False if the timestamp does not fit it."""
    if not 0 <= timestamp - tail.base_timestamp < SHORT:
        return False
    # In this order, a thread that reads between two lines finds an empty range. Two threads that write here
    # at once can leave the timestamp of one in the range of the other. It is off by less than SHORT, as both
    # fit the batch.
    tail.until_ns = 0
    tail.timestamp = timestamp
    tail.since_ns = timestamp * NS_PER_MS
    tail.until_ns = tail.since_ns + NS_PER_MS
    return True
