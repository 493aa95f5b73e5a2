"""buffer_memory: never exceeded, never lost, handed out first come first served."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from pykafka2.errors import IllegalState
from pykafka2.producer.accumulator.buffer_pool import BufferPool, Permit
from tests.gate import examples


def request(pool: BufferPool, size_bytes: int) -> Permit:
    permit = Permit(size_bytes)
    pool.request(permit)
    return permit


def test_a_newcomer_never_overtakes_a_waiter() -> None:
    pool = BufferPool(100)
    first = request(pool, 80)
    large = request(pool, 50)
    small = request(pool, 10)
    assert (large.is_granted, small.is_granted, pool.waiting) == (False, False, 2)
    pool.give_back(first)
    assert (large.is_granted, small.is_granted, pool.available_bytes) == (True, True, 40)


def test_waiter_that_gives_back_grants_those_behind_it() -> None:
    pool = BufferPool(100)
    request(pool, 60)
    large, small = request(pool, 90), request(pool, 40)
    pool.give_back(large)
    assert (small.is_granted, pool.waiting, pool.available_bytes) == (True, 0, 0)


def test_giving_back_twice_gives_back_once() -> None:
    pool = BufferPool(100)
    permit = request(pool, 60)
    pool.give_back(permit)
    pool.give_back(permit)
    assert pool.available_bytes == 100


def test_more_than_everything_is_refused() -> None:
    with pytest.raises(IllegalState, match="101 bytes were requested from a pool of 100"):
        request(BufferPool(100), 101)


def test_overhead_within_the_allowance_leaves_the_bytes_alone_and_beyond_it_takes_of_them() -> None:
    pool = BufferPool(100, allowance_bytes=100)
    first = request(pool, 10)
    assert pool.charge(first, 100)
    second = request(pool, 90)
    assert second.is_granted
    assert not pool.charge(second, 30)
    pool.give_back(first)
    assert pool.charge(second, 104)
    assert request(pool, 6).is_granted
    assert not request(pool, 1).is_granted


def test_overhead_is_charged_once_and_never_after_give_back() -> None:
    pool = BufferPool(100)
    permit = Permit(10, overhead_bytes=5)
    pool.request(permit)
    for overhead_bytes in (20, 40, 40):
        pool.charge(permit, overhead_bytes)
    assert pool.overhead_bytes == 40
    pool.give_back(permit)
    pool.charge(permit, 50)
    assert (pool.overhead_bytes, pool.available_bytes) == (0, 100)


@pytest.mark.parametrize("size_bytes", [10, 11])
def test_halves_of_a_permit_are_all_of_it(size_bytes: int) -> None:
    pool = BufferPool(100)
    permit = Permit(size_bytes, overhead_bytes=7)
    pool.request(permit)
    one, other = pool.divide(permit)
    assert pool.available_bytes == 100 - size_bytes
    for half in (permit, one, other):
        pool.give_back(half)
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
    def ask(self, size_bytes: int) -> Permit:
        permit = request(self.pool, size_bytes)
        self.queue.append(permit)
        self.serve()
        return permit

    @rule(permit=consumes(permits))
    def give_back(self, permit: Permit) -> None:
        self.pool.give_back(permit)
        (self.held if permit in self.held else self.queue).remove(permit)
        self.serve()

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.pool.available_bytes == 100 - sum(permit.size_bytes for permit in self.held)
        assert self.pool.waiting == len(self.queue)
        assert all(permit.is_granted for permit in self.held)
        assert not any(permit.is_granted for permit in self.queue)


TestPoolAgainstAList = pytest.mark.slow(PoolAgainstAList.TestCase)
TestPoolAgainstAList.settings = settings(max_examples=examples(50), deadline=None)
