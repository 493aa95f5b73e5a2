"""Permission for bytes: keeps what waits and what is in flight within buffer_memory.

Used on any thread; its lock is never held while waiting. It grants permits, not buffers: a request's bytes
are one immutable object until its response or the connection's end. Waiters are served in order, and a
newcomer never overtakes one.

A method without a call inside `with self._lock` need not be a locked step (locked_steps.py). Python runs
signal handlers and finalizers at calls and at jumps back, so none of them can find the lock held.

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
        "available_bytes",
        "locked_steps",
        "overhead_bytes",
        "total_bytes",
        "waiters",
    )

    def __init__(
        self,
        total_bytes: int,
        allowance_bytes: int | None = None,
        locked_steps: LockedSteps | None = None,
    ) -> None:
        self.locked_steps = LockedSteps() if locked_steps is None else locked_steps
        self._lock = threading.Lock()
        self.waiters: deque[Permit] = deque()
        """The permits that wait; while there are any, every batch is ready to be sent."""
        self.total_bytes = total_bytes
        self.available_bytes = total_bytes
        self.overhead_bytes = 0
        if allowance_bytes is None:
            allowance_bytes = min(max(total_bytes, MIN_ALLOWANCE_BYTES), MAX_ALLOWANCE_BYTES)
        self._allowance_bytes = allowance_bytes

    def request(self, permit: Permit) -> None:
        """Grant a new permit, or append it to the queue.

        The caller creates the permit, so it can be returned wherever a Ctrl-C interrupts the request.
        """
        if permit.size_bytes > self.total_bytes:
            raise IllegalState(f"{permit.size_bytes} bytes were requested from a pool of {self.total_bytes}")
        with self._lock:  # no call within
            beyond_bytes = self.overhead_bytes - self._allowance_bytes
            left_bytes = self.available_bytes - (beyond_bytes if beyond_bytes > 0 else 0)
            if not self.waiters and permit.size_bytes <= left_bytes:
                self.available_bytes -= permit.size_bytes
                self.overhead_bytes += permit.overhead_bytes
                permit.is_granted = True
        if not permit.is_granted:
            self._join_queue(permit)

    def charge(self, permit: Permit, overhead_bytes: int) -> bool:
        """Set the overhead of a granted permit; False if all overhead exceeds the memory that is left."""
        with self._lock:  # no call within
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

    def deallocate(self, permit: Permit) -> None:
        """Free the permit's bytes, or remove it from the queue, then grant waiting permits.

        Safe to repeat.
        """
        if self.waiters:
            self._leave_queue(permit)  # first, so that no other thread grants it after the lines below
        with self._lock:  # no call within
            if permit.is_granted:
                permit.is_granted = False
                self.available_bytes += permit.size_bytes
                self.overhead_bytes -= permit.overhead_bytes
        if self.waiters:
            self._serve_queue()

    @locked_step
    def _join_queue(self, permit: Permit) -> None:
        with self._lock:
            permit.waiters = WaitQueue()
            self.waiters.append(permit)
            self._grant()  # memory can have been freed since `request` released the lock

    @locked_step
    def _leave_queue(self, permit: Permit) -> None:
        with self._lock:
            if permit in self.waiters:
                self.waiters.remove(permit)

    @locked_step
    def _serve_queue(self) -> None:
        with self._lock:
            self._grant()

    def _grant(self) -> None:
        """Grant the permits at the head of the queue for which there is memory. The lock is held."""
        waiters = self.waiters
        # A granted permit is still in the queue if a Ctrl-C came before `popleft`.
        while waiters and (
            waiters[0].is_granted
            or waiters[0].size_bytes
            <= self.available_bytes - max(0, self.overhead_bytes - self._allowance_bytes)
        ):
            permit = waiters[0]
            if not permit.is_granted:
                self.available_bytes -= permit.size_bytes
                self.overhead_bytes += permit.overhead_bytes
                permit.is_granted = True
            if permit.waiters is not None:
                permit.waiters.wake()
            waiters.popleft()
