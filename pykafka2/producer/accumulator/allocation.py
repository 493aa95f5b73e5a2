"""The allocation of memory for one record, kept by a caller that does not block while it waits.

Used on the thread of an event loop (pykafka2/aio): the permit keeps its place between two attempts to append.
"""

from __future__ import annotations

from typing import NoReturn

from pykafka2.errors import BufferExhausted
from pykafka2.producer.accumulator.buffer_pool import BufferPool, Permit


class MemoryFull(BufferExhausted):
    """The memory is full now; internal, because the caller waits and repeats."""


class Allocation:
    """The state that an attempt to append a record keeps for the next one.

    Attributes:
        permit: the permit that waits; None before the first attempt, and after a batch has taken it.
        partition: the choice of a partitioner, which is called once for each record.
    """

    __slots__ = ("partition", "permit")

    def __init__(self) -> None:
        self.permit: Permit | None = None
        self.partition: int | None = None

    def take(self) -> Permit | None:
        """Return the permit and forget it."""
        permit, self.permit = self.permit, None
        return permit

    def keep(self, permit: Permit) -> NoReturn:
        """Keep a permit that is not granted yet. Raise MemoryFull."""
        self.permit = permit
        raise MemoryFull("buffer_memory is full")

    def leave(self, pool: BufferPool) -> None:
        """Return a permit that no batch has taken."""
        permit = self.take()
        if permit is not None:
            pool.deallocate(permit)
