"""buffer_memory: never exceeded, never lost, handed out first come first served."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from inspect import unwrap

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from pykafka2.errors import IllegalState
from pykafka2.producer.accumulator.buffer_pool import BufferPool, Permit
from tests.driver.interleave import at_every_line, at_line
from tests.gate import examples


def request(pool: BufferPool, size_bytes: int) -> Permit:
    permit = Permit(size_bytes)
    pool.request(permit)
    return permit


def test_new_permit_never_overtakes_a_waiting_one() -> None:
    pool = BufferPool(100)
    first = request(pool, 80)
    large = request(pool, 50)
    small = request(pool, 10)
    assert (large.is_granted, small.is_granted, len(pool.waiters)) == (False, False, 2)
    pool.deallocate(first)
    assert (large.is_granted, small.is_granted, pool.available_bytes) == (True, True, 40)


def test_cancelled_permit_grants_those_behind_it() -> None:
    pool = BufferPool(100)
    request(pool, 60)
    large, small = request(pool, 90), request(pool, 40)
    pool.deallocate(large)
    assert (small.is_granted, len(pool.waiters), pool.available_bytes) == (True, 0, 0)


@pytest.mark.parametrize("step", [BufferPool.request, BufferPool.deallocate], ids=lambda step: step.__name__)
def test_memory_that_is_freed_between_any_two_lines_is_neither_lost_nor_left_unused(
    step: Callable[[BufferPool, Permit], None],
) -> None:
    """Another thread frees it while this one requests a permit, or withdraws one that waits."""

    def attempt(line: int) -> bool:
        pool = BufferPool(100)
        held, permit = request(pool, 60), Permit(90)

        def free() -> None:
            if not pool._lock.locked():  # otherwise the other thread waits
                pool.deallocate(held)

        if step is BufferPool.deallocate:
            pool.request(permit)
        has_line = at_line(unwrap(step).__code__, line, free, lambda: step(pool, permit))
        is_over = step is BufferPool.deallocate
        assert permit.is_granted == (not is_over and not held.is_granted)
        pool.deallocate(held)
        pool.deallocate(permit)
        assert (pool.available_bytes, len(pool.waiters)) == (100, 0)
        return has_line

    assert len(list(at_every_line(attempt))) >= 4


def test_second_deallocate_of_a_permit_frees_nothing() -> None:
    pool = BufferPool(100)
    permit = request(pool, 60)
    pool.deallocate(permit)
    pool.deallocate(permit)
    assert pool.available_bytes == 100


def test_permit_larger_than_the_pool_raises() -> None:
    with pytest.raises(IllegalState, match="101 bytes were requested from a pool of 100"):
        request(BufferPool(100), 101)


def test_overhead_beyond_the_allowance_uses_the_pool() -> None:
    pool = BufferPool(100, allowance_bytes=100)
    first = request(pool, 10)
    assert pool.charge(first, 100)
    second = request(pool, 90)
    assert second.is_granted
    assert not pool.charge(second, 30)
    pool.deallocate(first)
    assert pool.charge(second, 104)
    assert request(pool, 6).is_granted
    assert not request(pool, 1).is_granted


def test_overhead_is_charged_once_and_never_after_deallocate() -> None:
    pool = BufferPool(100)
    permit = Permit(10, overhead_bytes=5)
    pool.request(permit)
    for overhead_bytes in (20, 40, 40):
        pool.charge(permit, overhead_bytes)
    assert pool.overhead_bytes == 40
    pool.deallocate(permit)
    pool.charge(permit, 50)
    assert (pool.overhead_bytes, pool.available_bytes) == (0, 100)


@pytest.mark.parametrize("size_bytes", [10, 11])
def test_divided_permit_frees_all_of_its_bytes(size_bytes: int) -> None:
    pool = BufferPool(100)
    permit = Permit(size_bytes, overhead_bytes=7)
    pool.request(permit)
    one, other = pool.divide(permit)
    assert pool.available_bytes == 100 - size_bytes
    for half in (permit, one, other):
        pool.deallocate(half)
    assert (pool.available_bytes, pool.overhead_bytes) == (100, 0)


class PoolAgainstAList(RuleBasedStateMachine):
    """Requests and returns in any order, against a queue and a sum."""

    permits = Bundle("permits")

    def __init__(self) -> None:
        super().__init__()
        self.pool = BufferPool(100)
        self.held: list[Permit] = []
        self.queue: deque[Permit] = deque()

    def serve(self) -> None:
        while self.queue and self.queue[0].size_bytes <= 100 - sum(one.size_bytes for one in self.held):
            self.held.append(self.queue.popleft())

    @rule(target=permits, size_bytes=st.integers(0, 100))
    def request(self, size_bytes: int) -> Permit:
        permit = request(self.pool, size_bytes)
        self.queue.append(permit)
        self.serve()
        return permit

    @rule(permit=consumes(permits))
    def deallocate(self, permit: Permit) -> None:
        self.pool.deallocate(permit)
        (self.held if permit in self.held else self.queue).remove(permit)
        self.serve()

    @invariant()
    def available_bytes_match_the_held_permits(self) -> None:
        assert self.pool.available_bytes == 100 - sum(permit.size_bytes for permit in self.held)
        assert len(self.pool.waiters) == len(self.queue)
        assert all(permit.is_granted for permit in self.held)
        assert not any(permit.is_granted for permit in self.queue)


TestPoolAgainstAList = pytest.mark.slow(PoolAgainstAList.TestCase)
TestPoolAgainstAList.settings = settings(max_examples=examples(50), deadline=None)
