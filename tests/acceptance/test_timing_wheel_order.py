"""The timing wheel fires what a sorted list would, in its order, and cancels in constant time.

The machine that plays it against a sorted list is in tests/broker/base/test_timing_wheel.py; here
it plays on.
"""

from __future__ import annotations

import random
import timeit

import pytest
from hypothesis import settings

from pykafka2.broker.base.timing_wheel import Timer, TimingWheel
from tests.broker.base.test_timing_wheel import WheelAgainstList
from tests.gate import examples


class LongerWalk(WheelAgainstList):
    """The same rules, more steps."""


TestLongerWalk = pytest.mark.gate(LongerWalk.TestCase)
TestLongerWalk.settings = settings(max_examples=examples(20), stateful_step_count=60, deadline=None)


def test_firing_times_and_order_are_those_of_a_sorted_list() -> None:
    chance = random.Random(29)
    wheel = TimingWheel(0.0)
    fired: list[tuple[int, float]] = []
    deadlines = [chance.choice((0.02, 1.0, 60.0, 7200.0)) * chance.random() for _ in range(3000)]
    for number, deadline in enumerate(deadlines):
        wheel.add(deadline, lambda now, number=number: fired.append((number, now)))  # type: ignore[misc]
    now = 0.0
    while len(wheel):
        now = max(now, wheel.next_deadline())
        wheel.advance(now)
    assert [number for number, _ in fired] == [
        number for number, _ in sorted(enumerate(deadlines), key=lambda one: -(-one[1] // 0.001))
    ]
    late = [at - deadlines[number] for number, at in fired]
    assert min(late) >= 0
    assert max(late) <= 0.001 + 1e-9


@pytest.mark.gate
@pytest.mark.slow
def test_cancel_takes_the_same_time_for_any_number_of_timers() -> None:
    def cancel_time(waiting: int) -> float:
        """Seconds a cancel, the best of several rounds."""
        wheel = TimingWheel(0.0)
        chance = random.Random(waiting)
        for _ in range(waiting):
            wheel.add(chance.random() * 100, lambda now: None)
        doomed: list[Timer] = []

        def cancel() -> None:
            wheel.cancel(doomed.pop())

        best = 1.0
        for _ in range(7):
            doomed += [wheel.add(chance.random() * 100, lambda now: None) for _ in range(500)]
            best = min(best, timeit.timeit(cancel, number=500) / 500)
        return best

    # A list would be a hundred times slower; caches and a busy machine get their share.
    assert cancel_time(50_000) < 5 * cancel_time(500)
