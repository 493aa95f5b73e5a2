"""In 10,000 schedules of condition, timer and cancel each operation ends once and leaves no watcher.

Everything in a broker happens under its cluster's lock, so a race is an order: each schedule is one, drawn
from its seed, of watching, granting, time passing and discarding, also from within a completion.
"""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest

from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.replication.purgatory import DelayedOperation, Purgatory

SCHEDULES = 10_000
KEYS = "abc"


class World:
    """One purgatory and what the schedule does to it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.wheel = TimingWheel(0.0)
        self.purgatory: Purgatory[str] = Purgatory("test", self.wheel)
        self.granted: set[str] = set()
        self.operations: list[Racer] = []
        self.now = 0.0
        self.mistakes = 0
        """Completions at another time than that of the grant, and expirations before their time."""

    def able(self) -> list[Racer]:
        """Those that wait although all that they need is granted."""
        return [one for one in self.operations if not one.is_completed and self.granted.issuperset(one.needs)]

    def watch(self) -> None:
        needs = self.chance.sample(KEYS, self.chance.randint(1, 2))
        operation = Racer(self, self.now + self.chance.randint(1, 6) * 0.001, needs)
        self.operations.append(operation)
        self.purgatory.try_complete_else_watch(operation, needs, self.now)

    def grant(self) -> None:
        key = self.chance.choice(KEYS)
        self.granted.add(key)
        self.purgatory.check(key, self.now)

    def withdraw(self) -> None:
        self.granted.discard(self.chance.choice(KEYS))

    def pass_time(self) -> None:
        self.now += self.chance.randint(0, 4) * 0.001
        self.wheel.advance(self.now)

    def discard(self) -> None:
        if self.operations:
            operation = self.chance.choice(self.operations)
            operation.discarded += not operation.is_completed
            self.purgatory.discard(operation)


class Racer(DelayedOperation):
    """Needs all its keys granted; its completion may itself watch, grant or discard."""

    __slots__ = ("completions", "discarded", "expirations", "needs", "world")

    def __init__(self, world: World, deadline: float, needs: list[str]) -> None:
        super().__init__(deadline)
        self.world = world
        self.needs = needs
        self.completions = self.expirations = self.discarded = 0

    def try_complete(self, key: Hashable | None, now: float) -> bool:
        return self.world.granted.issuperset(self.needs) and self.force_complete(now)

    def on_expiration(self, now: float) -> None:
        self.expirations += 1
        self.world.mistakes += now < self.deadline - 1e-9

    def on_complete(self, now: float) -> None:
        self.completions += 1
        self.world.mistakes += not self.expirations and now != self.world.now
        if len(self.world.operations) < 8 and self.world.chance.random() < 0.3:
            self.world.chance.choice((self.world.watch, self.world.grant, self.world.discard))()


def race(seed: int) -> World:
    world = World(seed)
    moves = (world.watch, world.watch, world.grant, world.withdraw, world.pass_time, world.discard)
    for _ in range(12):
        world.chance.choice(moves)()
        assert world.able() == [], f"seed {seed}: they end when they may"
        assert len(world.wheel) == world.purgatory.waiting(), f"seed {seed}: a timer for each that waits"
    # In the end time is up for all.
    while len(world.wheel):  # one that ends may have begun another
        world.now += 1.0
        world.wheel.advance(world.now)
    # The sweep below removes completed operations only from the lists of keys that were not checked.
    assert world.purgatory.waiting() == 0, f"seed {seed}"
    assert world.mistakes == 0, f"seed {seed}"
    for key in KEYS:
        world.purgatory.check(key, world.now)
    return world


@pytest.mark.gate
@pytest.mark.slow
def test_each_operation_ends_exactly_once_and_nothing_is_left_behind() -> None:
    ends = {"completed": 0, "expired": 0, "discarded": 0}
    for seed in range(SCHEDULES):
        world = race(seed)
        for operation in world.operations:
            assert operation.completions + operation.discarded == 1, f"seed {seed}"
            assert operation.expirations <= operation.completions, f"seed {seed}"
            ends["expired"] += operation.expirations
            ends["discarded"] += operation.discarded
            ends["completed"] += operation.completions - operation.expirations
        assert world.purgatory.waiting() == 0, f"seed {seed}"
        assert world.purgatory.watched() == 0, f"seed {seed}"
        assert len(world.wheel) == 0, f"seed {seed}"
    assert min(ends.values()) > SCHEDULES // 2, f"the schedules are lopsided: {ends}"
