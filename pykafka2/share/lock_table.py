"""The open locks of a share consumer, and the moves of records between them.

A lock is created with a delivery. Records that are decided on their own move to another lock of the delivery,
so that all records of a lock have one state and one acknowledgement.

| state   | meaning                                          | next                                      |
|---------|--------------------------------------------------|-------------------------------------------|
| HELD    | the application has not decided                  | DECIDED, READY, SETTLED (lost or expired) |
| DECIDED | the decision can be changed until it is due (1)  | DECIDED (another type), READY, SETTLED    |
| READY   | due: the next request to its broker has it       | SENDING, SETTLED, READY (another type, 2) |
| SENDING | a request has it                                 | SETTLED, READY (again), HELD (renewed)    |
| SETTLED | it has a result, an error or None                |                                           |

(1) With the next poll() or commit(); the end of a `with` block makes it due at once.
(2) At the end of a `with` block whose record was renewed by acknowledge().

A Ctrl-C in the application's thread can interrupt any call, and leave a lock without records. It is not sent,
and no commit() waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from pykafka2.errors import KafkaError
from pykafka2.share.lock import GAP, Lock, LockState


class LockTable:
    """The locks that are not settled. Methods with a leading underscore run under `mutex`."""

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self._open: dict[Lock, None] = {}
        """Every lock that is not settled and has offsets of its own."""
        self._decided: dict[Lock, None] = {}
        self._ready: dict[int, dict[Lock, None]] = {}
        """By node id."""
        self._implicit: dict[Lock, None] = {}
        """Records that the next poll() or commit() accepts, unless the application decides."""

    # ------------------------------------------------------------------ what is open

    def unsettled(self) -> list[Lock]:
        """Return the acknowledgements that are due and have no result yet."""
        with self.mutex:
            return [lock for lock in self._open if lock.is_due and len(lock)]

    def open_locks(self) -> list[tuple[Lock, list[int]]]:
        """Return every lock that is not settled, with the offsets of its records."""
        with self.mutex:
            pairs = [(lock, lock.own_offsets()) for lock in self._open]
        return [pair for pair in pairs if pair[1]]

    def has_ready(self, node_id: int, which: Callable[[Lock], bool] = lambda lock: True) -> bool:
        """Return whether such acknowledgements wait for a broker."""
        with self.mutex:
            return any(which(lock) for lock in self._ready.get(node_id, ()))

    def count_ready(self, node_id: int) -> int:
        """Return how many acknowledgements wait for a broker."""
        with self.mutex:
            return sum(map(len, self._ready.get(node_id, ())))

    # ------------------------------------------------------------------ moves

    def split(self, delivery: Lock, offsets: Iterable[int]) -> Lock:
        """Return a lock of its own for those of these records of a delivery that are held."""
        with self.mutex:
            part = self._part(delivery, LockState.HELD, GAP)
            self._open[part] = None
            for offset in offsets:
                if delivery.moved.get(offset, delivery).state is LockState.HELD:
                    self._move(delivery, offset, part)
            if not part.size:
                self._end(part, delivery.error)
            return part

    def _part(self, delivery: Lock, state: LockState, type: int) -> Lock:
        """Return a new lock of a delivery, which has no records yet and is in no table."""
        return Lock(
            delivery.place,
            delivery.partition,
            delivery.node_id,
            delivery.acquired_at,
            delivery.until,
            [],
            delivery.moved,
            delivery.handled,
            delivery.acknowledger,
            state,
            type,
            origin=delivery,
        )

    def _move(self, delivery: Lock, offset: int, to: Lock) -> None:
        moved = delivery.moved
        of = delivery.moved.get(offset, delivery)
        if of is to:
            return
        if of.until > to.until:  # it was renewed
            to.until = of.until
        moved[offset] = to
        to.size += 1
        if of is not delivery:
            of.size -= 1
        to.offsets.append(offset)  # a Ctrl-C can interrupt this call, but not the changes before it
        if of is delivery:
            if len(moved) >= len(delivery.offsets):
                self._forget(delivery)
        elif not of.size:
            self._forget(of)

    def _move_to(self, parts: dict[int, Lock] | None, delivery: Lock, offset: int, type: int) -> bool:
        """Move a record to the lock with its acknowledgement in `parts`, its delivery's `ready` or `decided`.

        Return whether the broker had no due acknowledgement before.
        """
        assert parts is not None  # noqa: S101
        part, is_first = parts.get(type), False
        if part is None:
            if parts is delivery.ready:
                part = self._part(delivery, LockState.READY, type)
                is_first = self._make_ready(part)
            else:
                part = self._part(delivery, LockState.DECIDED, type)
                self._decided[part] = None
            # Without a call since: further records are added only to a lock that is going to be sent.
            parts[type] = part
            self._open[part] = None
        self._move(delivery, offset, part)
        return is_first

    def _make_ready(self, lock: Lock) -> bool:
        """Make an acknowledgement due. Return whether its broker had none before."""
        of_node = self._ready.setdefault(lock.node_id, {})
        is_first = not of_node
        lock.state = LockState.READY
        of_node[lock] = None
        return is_first

    def take_ready(self, node_id: int) -> list[Lock]:
        """Return the due acknowledgements for a broker, which are now being sent."""
        with self.mutex:
            taken: list[Lock] = []
            for lock in [*self._ready.pop(node_id, ())]:
                lock.offsets = lock.own_offsets()
                if lock.offsets:
                    lock.state = LockState.SENDING
                    self._close(lock)
                    taken.append(lock)
                else:
                    self._end(lock, None)
            return taken

    def _close(self, lock: Lock) -> None:
        """Add no more records to a lock."""
        delivery = lock.origin or lock
        for parts in (delivery.decided, delivery.ready):
            if parts and parts.get(lock.type) is lock:
                del parts[lock.type]

    def _end(self, lock: Lock, error: KafkaError | None) -> None:
        """Settle a lock."""
        lock.offsets = lock.own_offsets()
        lock.state, lock.error = LockState.SETTLED, error
        self._forget(lock)
        if lock.origin is not None:  # its delivery refers to it, and memory is freed at once without a cycle
            lock.origin, lock.moved = None, {}

    def _forget(self, lock: Lock) -> None:
        """Remove a lock that has a result, or whose records have moved to others."""
        self._close(lock)  # first, because what is in no table is not sent
        if lock.origin is not None:  # the lock of a delivery can still get records
            lock.state = LockState.SETTLED  # a commit() can wait for it
        self._open.pop(lock, None)
        self._implicit.pop(lock, None)
        self._decided.pop(lock, None)
        self._ready.get(lock.node_id, {}).pop(lock, None)
