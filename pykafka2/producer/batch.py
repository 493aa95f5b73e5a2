"""One batch of records on its way: what it holds, where it stands, and whom to tell.

Appended to on callers' threads under its queue's lock while open; everything after that belongs to the IO
thread.  Its outcome is one assignment that all its deliveries see (delivery.py).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from pykafka2.errors import IllegalState, IllegalTransition, KafkaError
from pykafka2.producer.buffer_pool import Permit
from pykafka2.producer.delivery import Delivery, OnDelivery
from pykafka2.records.encoder import BatchBuilder
from pykafka2.types import NO_TIMESTAMP, RecordMetadata

logger = logging.getLogger(__name__)

NO_OFFSET = -1
NO_SEQUENCE = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

# What CPython takes beside the bytes.  A record: the head of its bytes object, rounding, its place in a list;
# one with a listener: the Delivery, its numbers, its place in a queue; a batch: its objects, empty.
RECORD_OVERHEAD_BYTES = 56
LISTENER_OVERHEAD_BYTES = 168
BATCH_OVERHEAD_BYTES = 1600

CHARGED_RECORDS = 64
"""How many records may join before their overhead is charged, ..."""
CHARGED_BYTES = 8192
"""... or how many bytes of records beyond what the batch has permission for."""

WaitUntil = Callable[[Callable[[], bool], float], bool]
Interrupt = Callable[[BaseException], None]
Charge = Callable[[Permit, int], bool]
"""`BufferPool.charge`."""
Listener = Delivery | Callable[[], Any]
"""Who is told when a batch is done: a record's own on_delivery, or anybody else's call."""


class BatchState(Enum):
    OPEN = "open"
    QUEUED = "queued"
    IN_FLIGHT = "in flight"
    DONE = "done"


# A batch in flight goes back to its queue when it is to be sent again.  Done is done: one outcome, once.
LEGAL_MOVES: dict[BatchState, frozenset[BatchState]] = {
    BatchState.OPEN: frozenset({BatchState.QUEUED, BatchState.DONE}),
    BatchState.QUEUED: frozenset({BatchState.IN_FLIGHT, BatchState.DONE}),
    BatchState.IN_FLIGHT: frozenset({BatchState.QUEUED, BatchState.DONE}),
    BatchState.DONE: frozenset(),
}


def raise_here(error: BaseException) -> None:
    """What becomes of a `sys.exit()` in a callback where no driver passes it on."""
    raise error


class ProducerBatch:
    """Records for one partition that are sent, and fail, together.

    Attributes:
        order: place among all batches of its partition; a batch sent again goes back to it.
        permit: the bytes of buffer_memory that it occupies until it is off the wire.
        created_at: monotonic seconds; linger and delivery timeout count from here.
        attempts: how often it was sent.
        retry_at: not to be sent before this moment.
        last_error: why it has to be sent again.
        is_done: the outcome is known; is_told: and all listeners were called.
        is_transactional: it goes out as a part of a transaction.
    """

    __slots__ = (
        "_charge",
        "_interrupt",
        "_listeners",
        "_reported",
        "_uncharged",
        "_wait_until",
        "attempts",
        "base_offset",
        "base_sequence",
        "builder",
        "count",
        "created_at",
        "encoded",
        "error",
        "is_done",
        "is_told",
        "is_transactional",
        "last_error",
        "log_append_time",
        "order",
        "partition",
        "permit",
        "producer_epoch",
        "producer_id",
        "record_errors",
        "retry_at",
        "sent_at",
        "state",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        builder: BatchBuilder,
        *,
        order: int,
        permit: Permit,
        created_at: float,
        wait_until: WaitUntil,
        interrupt: Interrupt = raise_here,
        charge: Charge = lambda permit, overhead_bytes: True,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.builder: BatchBuilder | None = builder
        self.order = order
        self.permit = permit
        self.created_at = created_at
        self._wait_until = wait_until
        self._interrupt = interrupt
        self._listeners: deque[Listener] = deque()
        self._reported: set[int] | None = None
        self._charge = charge
        self._uncharged = 1
        """How many more records may join before their overhead is charged."""
        self.state = BatchState.OPEN
        self.count = 0
        self.encoded: bytes | None = None
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.attempts = 0
        self.sent_at = created_at
        self.retry_at = 0.0
        self.last_error: KafkaError | None = None
        self.is_done = False
        self.is_told = False
        self.is_transactional = False
        self.error: KafkaError | None = None
        self.record_errors: Mapping[int, KafkaError] | None = None
        self.base_offset = NO_OFFSET
        self.log_append_time = NO_TIMESTAMP

    # ------------------------------------------------------------------ callers' threads

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
        on_delivery: OnDelivery | None,
    ) -> Delivery | None:
        """Add a record, or None if there is no room.  Hot; its queue's lock is held."""
        builder = self.builder
        if self._uncharged <= 0 and not self._has_memory():
            return None
        # The record joins inside builder.append; a Ctrl-C after it loses at most the caller's notice.
        index = builder.append(timestamp, key, value, headers)  # type: ignore[union-attr]
        if index is None:
            return None
        self._uncharged -= 1
        key_bytes = -1 if key is None else len(key)
        value_bytes = -1 if value is None else len(value)
        delivery = Delivery(self, index, timestamp, key_bytes, value_bytes, on_delivery)
        if on_delivery is not None:
            self._listeners.append(delivery)
        return delivery

    def _has_memory(self) -> bool:
        """Charge for what the batch takes by now; False if there is no memory for more of it."""
        builder = self.builder
        if builder is None or not builder.count:
            return True
        self._uncharged = CHARGED_RECORDS
        record_bytes = builder.raw_bytes // builder.count
        if builder.raw_bytes + CHARGED_RECORDS * record_bytes > self.permit.size_bytes:
            self._uncharged = max(1, min(CHARGED_RECORDS, CHARGED_BYTES // record_bytes))
        return self._charge_all()

    def _charge_all(self) -> bool:
        count, beyond = self.count, 0
        if self.builder is not None:
            count = self.builder.count
            beyond = max(0, self.builder.raw_bytes - self.permit.size_bytes)
        if self.encoded is not None:
            beyond += len(self.encoded)
        return self._charge(
            self.permit,
            BATCH_OVERHEAD_BYTES
            + count * RECORD_OVERHEAD_BYTES
            + len(self._listeners) * LISTENER_OVERHEAD_BYTES
            + beyond,
        )

    def wait_until(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Block the caller (see `Driver.wait_until`)."""
        return self._wait_until(predicate, timeout)

    def add_listener(self, listener: Callable[[], Any]) -> None:
        """Have it called when the batch is done: on the IO thread, or here and now if it is done already."""
        self._listeners.append(listener)
        if self.is_done:
            self._tell()

    def mark_reported(self, index: int) -> None:
        """Somebody was told that this record failed, so `flush` need not raise it."""
        if self._reported is None:
            self._reported = set()
        self._reported.add(index)

    @property
    def unreported(self) -> int:
        """Records whose failure nobody was told."""
        return 0 if self.error is None else self.count - len(self._reported or ())

    def error_of(self, index: int) -> KafkaError | None:
        """The record's own error where the broker named one (KIP-467), else the batch's."""
        if self.record_errors and index in self.record_errors:
            return self.record_errors[index]
        return self.error

    def metadata_of(self, index: int, timestamp: int, key_bytes: int, value_bytes: int) -> RecordMetadata:
        offset = self.base_offset + index if self.base_offset >= 0 else NO_OFFSET
        if self.log_append_time != NO_TIMESTAMP:
            timestamp = self.log_append_time
        return RecordMetadata(self.topic, self.partition, offset, timestamp, key_bytes, value_bytes)

    # ------------------------------------------------------------------ the IO thread

    def move_to(self, state: BatchState) -> None:
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(f"batch {self}: {self.state.value}", state.value)
        self.state = state

    def close(self) -> None:
        """No more records: fixes the count.  Its queue's lock is held.  Safe to repeat."""
        self.count = self.builder.count if self.builder is not None else self.count
        if self.state is BatchState.OPEN:
            self.move_to(BatchState.QUEUED)
            self._charge_all()

    @property
    def size(self) -> int:
        """Records in it; from any thread, for an open batch as of now."""
        builder = self.builder
        return self.count or (builder.count if builder is not None else 0)

    @property
    def is_full(self) -> bool:
        """Waiting for more records is of no use: none would find room."""
        builder = self.builder
        return builder is not None and builder.is_full

    @property
    def raw_bytes(self) -> int:
        """What its records take before compression."""
        return self.builder.raw_bytes if self.builder is not None else 0

    @property
    def size_estimate(self) -> int:
        """Bytes that it takes in a request."""
        if self.encoded is not None:
            return len(self.encoded)
        return self.builder.size_estimate if self.builder is not None else 0

    def sequence(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Give it its place in the producer's sequence; bytes made under an earlier one are dropped."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.encoded = None

    def bytes(self) -> bytes:
        """The batch as it goes over the wire: the same bytes at every attempt under one sequence."""
        if self.encoded is None:
            if self.builder is None:
                raise IllegalState(f"{self} is done and has no bytes any more")
            self.encoded = self.builder.build(
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                is_transactional=self.is_transactional,
            )
            self._charge_all()
        return self.encoded

    def complete(self, base_offset: int, log_append_time: int) -> None:
        """Written: tell everybody."""
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self._finish()

    def fail(self, error: KafkaError, record_errors: Mapping[int, KafkaError] | None = None) -> None:
        """Failed for good: tell everybody."""
        self.error = error
        self.record_errors = record_errors
        self._finish()

    def _finish(self) -> None:
        if self.state is BatchState.OPEN:
            self.count = self.builder.count if self.builder is not None else 0
        self.move_to(BatchState.DONE)
        self.builder = None
        self.encoded = None
        # From here on waiters may read the outcome; everything it consists of is in place.
        self.is_done = True
        self._tell()
        self.is_told = True

    def _tell(self) -> None:
        """Call each listener once, in order.  Popping decides who calls it, should two threads be here.

        Hot: once per record that has an on_delivery.
        """
        listeners, error = self._listeners, self.error
        topic, partition, base_offset = self.topic, self.partition, self.base_offset
        log_append_time = self.log_append_time
        while listeners:
            try:
                one = listeners.popleft()
            except IndexError:
                return
            try:
                if type(one) is not Delivery:
                    one()  # type: ignore[operator]
                elif error is not None:
                    self.mark_reported(one._index)
                    one._on_delivery(None, self.error_of(one._index))  # type: ignore[misc]
                else:
                    offset = base_offset + one._index if base_offset >= 0 else NO_OFFSET
                    timestamp = one._timestamp if log_append_time < 0 else log_append_time
                    one._on_delivery(  # type: ignore[misc]
                        RecordMetadata(topic, partition, offset, timestamp, one._key_bytes, one._value_bytes),
                        None,
                    )
            except Exception:
                logger.exception("a delivery callback for %s-%d failed", topic, partition)
            except BaseException as exit_request:
                logger.exception("a delivery callback for %s-%d asked for the end", topic, partition)
                self._interrupt(exit_request)

    def abandon(self) -> None:
        """It never joined its queue: nobody needs to wait for it."""
        self.builder = None
        self.is_done = self.is_told = True

    def __repr__(self) -> str:
        return f"<batch {self.order} of {self.topic}-{self.partition}, {self.state.value}>"
