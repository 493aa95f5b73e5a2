"""The acquired records of a share consumer, from their delivery to the broker's confirmation.

Any thread: the application acknowledges, the driver's thread sends and confirms. Each step is short and runs
under one mutex. The states of locks are in lock_table.py.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pykafka2.clock import FOREVER, Clock
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import (
    ClientClosed,
    IllegalState,
    InvalidRecordState,
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka2.logs import ClientLogger
from pykafka2.share.lock import GAP, Lock, LockState, LockTotals, Outcome, Place, renewal_time
from pykafka2.share.lock_table import LockTable
from pykafka2.share.records import AcknowledgeType, RecordHooks
from pykafka2.text import counted
from pykafka2.types import TopicPartition

STALE_METADATA = (NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition)
"""The errors of a broker that does not lead the partition any more."""
LOST = (InvalidRecordState, *STALE_METADATA)
"""The errors of renewals after which the broker does not hold the locks any more."""


class Locks(LockTable):
    """All acquired records of one consumer: what the application decides, and what brokers respond."""

    def __init__(
        self, clock: Clock, client_id: str | None, max_renew: float, wake: Callable[[], None]
    ) -> None:
        super().__init__()
        self._clock = clock
        self._max_renew = max_renew
        self._wake = wake
        self._log = ClientLogger(__name__, client_id)
        self.refusal: KafkaError | None = None
        """The error of acknowledgements after a close or a fork."""
        self._handled: dict[Lock, None] = {}
        """The locks of the deliveries with records in `with` blocks."""
        self.outcomes: deque[Outcome] = deque()
        self.keeps_outcomes = False
        self.record_hooks: RecordHooks | None = None
        self.contexts: dict[tuple[Lock, int], list[Any]] = {}
        self.settled = WaitQueue()
        """Woken when acknowledgements have a result."""
        self.totals = LockTotals()
        self.renewal_error: KafkaError | None = None

    # ------------------------------------------------------------------ the application

    def new(
        self, place: Place, partition: TopicPartition, node_id: int, acquired_at: float, until: float
    ) -> Lock:
        """Return the lock of a delivery, to whose `offsets` the caller adds before `deliver`."""
        return Lock(place, partition, node_id, acquired_at, until, [], {}, {}, self, decided={}, ready={})

    def deliver(self, lock: Lock) -> None:
        """Note records that poll() or an iteration is about to return, or that it could not read."""
        with self.mutex:
            if lock.state is LockState.HELD and len(lock.moved) < len(lock.offsets):
                self._open[lock] = None

    def accept_later(self, locks: Iterable[Lock]) -> None:
        """Accept these records with the next poll() or commit(), unless the application decides."""
        with self.mutex:
            self._implicit.update((lock, None) for lock in locks if lock.state is LockState.HELD)

    def withdraw(self, locks: Iterable[Lock]) -> None:
        """Undo `accept_later`: an exception has replaced the result of poll()."""
        with self.mutex:
            for lock in locks:
                self._implicit.pop(lock, None)

    def _split_handled(self, lock: Lock) -> None:
        """Move the records in `with` blocks to a lock of their own, so that the others can be accepted."""
        if lock.handled:
            delivery = lock.origin or lock
            handled = [offset for offset in lock.handled if delivery.moved.get(offset, delivery) is lock]
            if handled:
                self.split(delivery, handled)

    def is_held(self, delivery: Lock, offset: int, now: float) -> bool:
        """Return whether the record is not decided and its lock has not expired."""
        lock = delivery.moved.get(offset, delivery)
        return lock.state is LockState.HELD and now < lock.until

    def find(self, topic: str, partition: int, offset: int) -> Lock:
        """Return the lock of the delivery of an acquired record. Raise IllegalState."""
        with self.mutex:
            for lock in self._open:
                if lock.partition == (topic, partition) and offset in lock.offsets:
                    delivery = lock.origin or lock
                    if delivery.moved.get(offset, delivery) is lock:
                        return delivery
        raise IllegalState(
            f"{topic}-{partition} at offset {offset} is not a record of this consumer that waits for an "
            "acknowledgement: it was never returned, its acknowledgement was sent, or its lock was lost"
        )

    def decide(self, delivery: Lock, offset: int, type: AcknowledgeType) -> None:
        """Choose the acknowledgement of a record; it can be changed until it is due.

        Raise IllegalState if it is too late, InvalidRecordState if the lock was lost.
        """
        with self.mutex:
            lock = delivery.moved.get(offset, delivery)
            self._check(lock, offset)
            if lock.state is not LockState.HELD and lock.state is not LockState.DECIDED:
                raise IllegalState(f"{_name(lock, offset)}: the acknowledgement was sent already")
            self._move_to(delivery.decided, delivery, offset, type)

    def decide_held(self, delivery: Lock, offsets: Iterable[int], type: AcknowledgeType) -> None:
        """Choose the acknowledgement of records that the application does not get; lost ones are left out."""
        with self.mutex:
            for offset in offsets:
                if delivery.moved.get(offset, delivery).state is LockState.HELD:
                    self._move_to(delivery.decided, delivery, offset, type)

    def begin_handling(self, delivery: Lock, offset: int) -> None:
        """Start a `with` block: from here on its lock is renewed."""
        now = self._clock.monotonic()
        with self.mutex:
            lock = delivery.moved.get(offset, delivery)
            self._check(lock, offset)
            if lock.state is not LockState.HELD or offset in delivery.handled:
                raise IllegalState(f"{_name(lock, offset)} was acknowledged, or is being handled, already")
            if now >= lock.until:
                raise InvalidRecordState(
                    f"{_name(lock, offset)}: its lock has expired, so the record is delivered again. Request "
                    "fewer records at once (max_poll_records)"
                )
            self._handled[delivery] = None
            delivery.handled[offset] = now
        if now >= renewal_time(lock, delivery.until - delivery.acquired_at):
            self._wake()  # otherwise the driver's thread has planned the renewal

    def end_handling(self, delivery: Lock, offset: int, type: AcknowledgeType) -> None:
        """End a `with` block; the acknowledgement is sent at once.

        Raise the error of a fork, so that a child process does not take its work for accepted. A lost lock is
        logged.
        """
        with self.mutex:
            lock = delivery.moved.get(offset, delivery)
            is_lost = lock.state is LockState.SETTLED or self.refusal is not None
            is_first = not is_lost and self._end_held(delivery, lock, offset, type)
            # Last: a Ctrl-C before must not let the next poll() accept a record whose block has failed.
            delivery.handled.pop(offset, None)
            if not delivery.handled:
                self._handled.pop(delivery, None)
            if is_lost:
                self._end_lost(lock, offset, type)
        if is_first:
            self._wake()

    def _end_held(self, delivery: Lock, lock: Lock, offset: int, type: AcknowledgeType) -> bool:
        """Make the acknowledgement of a block due. Return whether it is the first of its node."""
        if lock.type == AcknowledgeType.RENEW:  # which decides nothing
            if lock.state is LockState.SENDING:
                lock.after_renewal = {**(lock.after_renewal or {}), offset: type}
                return False
        elif lock.state is LockState.DECIDED:  # by acknowledge()
            type = AcknowledgeType(lock.type)
        elif lock.state is not LockState.HELD:
            return False
        return self._move_to(delivery.ready, delivery, offset, type)

    def _end_lost(self, lock: Lock, offset: int, type: AcknowledgeType) -> None:
        """Handle the end of a block whose lock was released by the broker or by the close."""
        if type is not AcknowledgeType.ACCEPT:
            return
        if self.refusal is not None and not isinstance(self.refusal, ClientClosed):
            raise self.refusal.anew()
        self._log.warning(
            "%s was processed, but its lock was lost, so it is delivered again: %s",
            _name(lock, offset),
            lock.error or self.refusal,
        )

    def flush(self, *, accepts: bool) -> bool:
        """Make the decided acknowledgements due; with `accepts` also those of records that count as accepted
        with the next poll().

        Return whether the driver's thread must be woken to send them.
        """
        if not self._decided and not (accepts and self._implicit):
            return False
        is_first = False
        with self.mutex:
            if self.refusal is not None:
                return False
            if accepts:
                for lock in [*self._implicit]:
                    self._split_handled(lock)
                    if lock.state is LockState.HELD and lock in self._open:
                        lock.type = AcknowledgeType.ACCEPT
                        is_first |= self._make_ready(lock)
                self._implicit.clear()
            for lock in self._decided:
                self._close(lock)
                is_first |= self._make_ready(lock)
            self._decided.clear()
        return is_first

    def accept_implicitly(self, delivery: Lock, offset: int) -> bool:
        """Accept a record of an iteration, whose next one is wanted, unless a `with` block decides.

        Return whether the driver's thread must be woken to send it.
        """
        if delivery.moved.get(offset, delivery).state is not LockState.HELD:
            return False  # the usual case: a block has decided
        with self.mutex:
            lock = delivery.moved.get(offset, delivery)
            if self.refusal is not None or lock.state is not LockState.HELD or offset in delivery.handled:
                return False
            return self._move_to(delivery.ready, delivery, offset, AcknowledgeType.ACCEPT)

    def _check(self, lock: Lock, offset: int) -> None:
        if self.refusal is not None:
            raise self.refusal.anew()
        if lock.state is LockState.SETTLED:
            if lock.error is None:
                raise IllegalState(f"{_name(lock, offset)} was acknowledged already")
            raise InvalidRecordState(f"{_name(lock, offset)}: its lock was lost: {lock.error}")

    # ------------------------------------------------------------------ the driver's thread

    def add_gaps(self, gaps: Lock) -> None:
        """Acknowledge acquired offsets that have no record. Any thread."""
        with self.mutex:
            self._open[gaps] = None
            is_first = self._make_ready(gaps)
        if is_first:
            self._wake()

    def postpone(self, renewals: Iterable[Lock]) -> None:
        """Return renewals that cannot be sent yet."""
        for lock in renewals:
            lock.is_renewing = False

    def take_renewals(self, node_id: int, lock_timeout: float, now: float) -> tuple[list[Lock], float | None]:
        """Return handled records whose locks are due for renewal, and when the next ones are.

        The time is that of held records, too, so that the start of a `with` block need not wake this thread.
        """
        due: list[Lock] = []
        next_at = FOREVER
        with self.mutex:
            if self.renewal_error is not None:
                return [], None
            for lock in self._open:
                if lock.node_id == node_id and lock.state is LockState.HELD and not lock.is_renewing:
                    at = renewal_time(lock, lock_timeout)
                    next_at = min(next_at, at) if at > now else next_at
            for delivery in self._handled:
                if delivery.node_id == node_id:
                    offsets = [*self._due_for_renewal(delivery, lock_timeout, now)]
                    if offsets:
                        due.append(self.split(delivery, offsets))
                        due[-1].is_renewing = True
        return due, None if next_at == FOREVER else next_at

    def _due_for_renewal(self, delivery: Lock, lock_timeout: float, now: float) -> Iterator[int]:
        for offset, since in delivery.handled.items():
            lock = delivery.moved.get(offset, delivery)
            is_due = renewal_time(lock, lock_timeout) <= now < since + self._max_renew
            if is_due and lock.state is LockState.HELD and not lock.is_renewing:
                yield offset

    def renewed(self, locks: Iterable[Lock], until: float, error: KafkaError | None) -> None:
        """Handle the result of automatic renewals."""
        failed: list[Lock] = []
        with self.mutex:
            for lock in locks:
                lock.is_renewing = False
                if lock not in self._open:
                    continue  # the block has ended meanwhile
                if error is None:
                    lock.until = until
                    self.totals.renewed += len(lock)
                else:
                    failed.append(lock)
        if error is None:
            return
        if not isinstance(error, LOST):
            self.renewal_error = None if error.retriable else error
            self._log.warning("locks could not be renewed: %s", error)
            return
        with self.mutex:
            self.totals.lost += sum(map(len, failed))
            self.settle(failed, error)

    def settle(
        self, locks: Iterable[Lock], error: KafkaError | None, until: float = 0.0, seconds: float = 0.0
    ) -> None:
        """Handle the result of acknowledgements; an accepted RENEW returns the record to the application.

        `until` is when renewed locks expire, `seconds` the duration of the request.
        """
        by_partition: dict[TopicPartition, set[int]] = {}
        with self.mutex:
            for lock in locks:
                if lock.state is LockState.SETTLED:
                    continue
                offsets = lock.own_offsets()
                if lock.type != GAP:
                    if self.keeps_outcomes:
                        by_partition.setdefault(lock.partition, set()).update(offsets)
                    if lock.state is LockState.SENDING:
                        self.totals.sent += len(offsets)
                        self.totals.failed += len(offsets) if error is not None else 0
                if error is None and lock.type == AcknowledgeType.RENEW:
                    lock.state, lock.type, lock.until = LockState.HELD, GAP, until
                    self.totals.renewed += len(offsets)
                    self._end_renewed(lock)
                    continue
                self._end(lock, error)
            if self.keeps_outcomes:
                self.outcomes.extend(Outcome(*item, error, seconds) for item in by_partition.items())
        self.settled.wake()

    def _end_renewed(self, lock: Lock) -> None:
        """Make the acknowledgements due of `with` blocks that ended while their RENEW was sent."""
        delivery = lock.origin or lock
        ended, lock.after_renewal = lock.after_renewal, None
        for offset, type in (ended or {}).items():
            self._move_to(delivery.ready, delivery, offset, type)

    def retry(self, locks: Iterable[Lock]) -> None:
        """Send acknowledgements again that failed with an error that passes."""
        with self.mutex:
            for lock in locks:
                if lock.state is LockState.SENDING:
                    self._make_ready(lock)

    def lose(self, node_id: int, error: KafkaError) -> None:
        """Settle all records of a broker whose session has ended: it delivers them again."""
        with self.mutex:
            lost = [lock for lock in self._open if lock.node_id == node_id]
            count = sum(map(len, lost))
            self.totals.lost += count
            self.settle([lock for lock in lost if lock.is_due], error)
            for lock in lost:
                if lock.state is not LockState.SETTLED:
                    self._end(lock, error)
        if count:
            self._log.warning(
                "the locks of %s of node %d were lost, so they are delivered again: %s",
                counted(count, "record"),
                node_id,
                error,
            )

    def expire(self, now: float) -> None:
        """Forget records that the application never acknowledged and whose locks have expired."""
        count = 0
        with self.mutex:
            for lock in [*self._open]:
                if lock.state is LockState.HELD and now >= lock.until and not lock.is_renewing:
                    count += len(lock)
                    self._end(lock, InvalidRecordState("the lock has expired"))
            self.totals.lost += count
        if count:
            self._log.warning(
                "the locks of %s have expired before an acknowledgement, so they are delivered again, up to "
                "share.delivery.count.limit of the group. Request fewer records at once (max_poll_records)",
                counted(count, "record"),
            )

    def close(self, error: KafkaError) -> None:
        """Refuse further acknowledgements. Any thread."""
        with self.mutex:
            self.refusal = error
            late = [lock for lock in self._open if lock.state is LockState.READY]
            count = sum(len(lock) for lock in late if lock.type == AcknowledgeType.ACCEPT)
            self.settle(late, error)
        if count:
            self._log.warning(
                "accepted too late for the close, so delivered again: %s; %s",
                counted(count, "record"),
                error,
            )
        self.settled.wake()

    def abandon(self, error: KafkaError) -> None:
        """Refuse everything in the child of a fork, where the lock's holder may not exist."""
        self.mutex = threading.RLock()
        self.refusal = error


def _name(lock: Lock, offset: int) -> str:
    return f"{lock.partition} at offset {offset}"
