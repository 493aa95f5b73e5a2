"""Permission for bytes: keeps what waits and what is in flight within buffer_memory.

Used on any thread; its lock is never held while waiting. It grants permits, not buffers: a request's bytes
are one immutable object until its response or the connection's end. Waiters are served in order, and a
newcomer never overtakes one.

The memory of Python's objects besides the bytes they hold is charged here, too (`charge`). It has an
allowance of its own; the rest reduces buffer_memory.
"""

from __future__ import annotations

import threading
from collections import deque

from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import IllegalState
from pykafka2.producer.accumulator.locked_steps import LockedSteps, locked_step

MIN_ALLOWANCE_BYTES = 1 << 20
MAX_ALLOWANCE_BYTES = 32 << 20
"""Overhead that costs no buffer_memory: as much as buffer_memory, within these limits."""


class Permit:
    """A permit for `size_bytes`: new, waiting in the queue, or granted (`is_granted`).

    `overhead_bytes` is the overhead charged so far; the initial value is charged at the grant.
    """

    __slots__ = ("is_granted", "overhead_bytes", "size_bytes", "waiters")

    def __init__(self, size_bytes: int, overhead_bytes: int = 0) -> None:
        self.size_bytes = size_bytes
        self.overhead_bytes = overhead_bytes
        self.is_granted = False
        self.waiters: WaitQueue | None = None
        """The thread that waits for the grant, if any."""


class BufferPool:
    """Accounts for `total_bytes`. Every permit that was requested must be returned by `deallocate`.

    `available_bytes` are left now; `overhead_bytes` are charged now.
    """

    __slots__ = (
        "_allowance_bytes",
        "_lock",
        "_waiters",
        "available_bytes",
        "locked_steps",
        "overhead_bytes",
        "total_bytes",
    )

    def __init__(
        self,
        total_bytes: int,
        allowance_bytes: int | None = None,
        locked_steps: LockedSteps | None = None,
    ) -> None:
        self.locked_steps = LockedSteps() if locked_steps is None else locked_steps
        self._lock = threading.Lock()
        self._waiters: deque[Permit] = deque()
        self.total_bytes = total_bytes
        self.available_bytes = total_bytes
        self.overhead_bytes = 0
        if allowance_bytes is None:
            allowance_bytes = min(max(total_bytes, MIN_ALLOWANCE_BYTES), MAX_ALLOWANCE_BYTES)
        self._allowance_bytes = allowance_bytes

    @property
    def waiting(self) -> int:
        """The number of callers that wait; while any does, every batch is ready to be sent."""
        return len(self._waiters)

    @locked_step
    def request(self, permit: Permit) -> None:
        """Grant a new permit, or append it to the queue.

        The caller creates the permit, so it can be returned wherever a Ctrl-C interrupts the request.
        """
        if permit.size_bytes > self.total_bytes:
            raise IllegalState(f"{permit.size_bytes} bytes were requested from a pool of {self.total_bytes}")
        with self._lock:
            if not self._waiters and permit.size_bytes <= self._grantable_bytes():
                # Python handles signals at calls and jumps, so not between these lines.
                self.available_bytes -= permit.size_bytes
                self.overhead_bytes += permit.overhead_bytes
                permit.is_granted = True
            else:
                permit.waiters = WaitQueue()
                self._waiters.append(permit)

    def charge(self, permit: Permit, overhead_bytes: int) -> bool:
        """Set the overhead of a granted permit; False if all overhead exceeds the memory that is left."""
        with self._lock:  # no call within, or a finalizer that sends could find it held
            if permit.is_granted:
                self.overhead_bytes += overhead_bytes - permit.overhead_bytes
                permit.overhead_bytes = overhead_bytes
            beyond_bytes = self.overhead_bytes - self._allowance_bytes
            return self.available_bytes >= (beyond_bytes if beyond_bytes > 0 else 0)

    def divide(self, permit: Permit) -> tuple[Permit, Permit]:
        """Replace a permit by two for its bytes; its overhead moves to the first."""
        half = permit.size_bytes // 2
        one, other = Permit(permit.size_bytes - half), Permit(half)
        with self._lock:
            if permit.is_granted:
                one.overhead_bytes, permit.overhead_bytes = permit.overhead_bytes, 0
                permit.is_granted, one.is_granted, other.is_granted = False, True, True
        return one, other

    @locked_step
    def deallocate(self, permit: Permit) -> None:
        """Free the permit's bytes, or remove it from the queue, then grant waiting permits.

        Safe to repeat.
        """
        with self._lock:
            if permit.is_granted:
                permit.is_granted = False
                self.available_bytes += permit.size_bytes
                self.overhead_bytes -= permit.overhead_bytes
            if self._waiters:
                if permit in self._waiters:
                    self._waiters.remove(permit)
                self._grant()

    def _grantable_bytes(self) -> int:
        return self.available_bytes - max(0, self.overhead_bytes - self._allowance_bytes)

    def _grant(self) -> None:
        waiters = self._waiters
        # A granted permit is still in the queue if a Ctrl-C came before `popleft`.
        while waiters and (waiters[0].is_granted or waiters[0].size_bytes <= self._grantable_bytes()):
            permit = waiters[0]
            if not permit.is_granted:
                self.available_bytes -= permit.size_bytes
                self.overhead_bytes += permit.overhead_bytes
                permit.is_granted = True
            if permit.waiters is not None:
                permit.waiters.wake()
            waiters.popleft()
