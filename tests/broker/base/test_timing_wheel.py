"""The timing wheel against a sorted list, and its promises one by one."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from pykafka2.broker.base.timing_wheel import Timer, TimingWheel
from pykafka2.clock import FOREVER
from tests.gate import examples

TICK = 0.001


class WheelAgainstList(RuleBasedStateMachine):
    """`advance` runs the timers that a sorted list would, after any additions and cancellations."""

    timers = Bundle("timers")

    def __init__(self) -> None:
        super().__init__()
        self.tick = 0
        self.wheel = TimingWheel(100.0)
        self.expected: dict[int, int] = {}  # number -> tick of its deadline
        self.ran: list[int] = []
        self.count = 0

    def now(self) -> float:
        return 100.0 + self.tick * TICK

    @rule(target=timers, ticks=st.one_of(st.integers(-5, 50), st.integers(0, 20**4)))
    def add(self, ticks: int) -> tuple[int, Timer]:
        number = self.count
        self.count += 1
        self.expected[number] = max(self.tick + ticks, 0)
        timer = self.wheel.add(self.now() + ticks * TICK, lambda now: self.ran.append(number))
        return number, timer

    @rule(known=consumes(timers))
    def cancel(self, known: tuple[int, Timer]) -> None:
        number, timer = known
        assert self.wheel.cancel(timer) == (number in self.expected)
        self.expected.pop(number, None)
        assert not self.wheel.cancel(timer)

    @rule(ticks=st.one_of(st.integers(0, 30), st.integers(0, 20**4)))
    def advance(self, ticks: int) -> None:
        self.tick += ticks
        self.ran.clear()
        self.wheel.advance(self.now())
        due = [number for number, tick in self.expected.items() if tick <= self.tick]
        assert sorted(self.ran) == sorted(due)
        ticks_run = [max(self.expected[number], 0) for number in self.ran]
        late = [tick for tick in ticks_run if tick > self.tick - ticks]
        assert late == sorted(late), "later deadlines ran before earlier ones"
        for number in due:
            del self.expected[number]

    @invariant()
    def next_deadline_is_not_late(self) -> None:
        assert len(self.wheel) == len(self.expected)
        first = min(self.expected.values(), default=None)
        if first is None:
            assert self.wheel.next_deadline() == FOREVER
        else:
            assert self.wheel.next_deadline() <= 100.0 + max(first, self.tick) * TICK + 1e-9


WheelAgainstList.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None
)
TestWheelAgainstList = WheelAgainstList.TestCase


def test_a_timer_never_runs_early() -> None:
    ran: list[float] = []
    wheel = TimingWheel(0.0)
    wheel.add(0.0105, ran.append)
    wheel.advance(0.0104)
    wheel.advance(0.01049)
    assert ran == []
    wheel.advance(0.0115)
    assert ran == [0.0115]


def test_overflow_wheels_are_made_on_demand() -> None:
    wheel = TimingWheel(0.0)
    wheel.add(0.019, lambda now: None)
    assert len(wheel._levels) == 1
    wheel.add(30.0, lambda now: None)
    assert len(wheel._levels) == 4


def test_action_can_add_and_cancel_timers() -> None:
    ran: list[str] = []
    wheel = TimingWheel(0.0)
    victim = wheel.add(0.01, lambda now: ran.append("victim"))

    def action(now: float) -> None:
        ran.append("first")
        wheel.cancel(victim)
        wheel.add(now, lambda at: ran.append("second"))

    wheel.add(0.005, action)
    wheel.advance(0.02)
    # The victim was due in the same advance but cancelled before its turn; the new one has the next turn.
    assert ran == ["first"]
    assert wheel.next_deadline() <= 0.02
    wheel.advance(0.02)
    assert ran == ["first", "second"]
    assert len(wheel) == 0


def test_advance_over_hours_runs_each_timer_once() -> None:
    ran: list[int] = []
    wheel = TimingWheel(0.0)
    for number in range(200):
        wheel.add(number * 7.3, lambda now, number=number: ran.append(number))  # type: ignore[misc]
    wheel.advance(7200.0)
    assert ran == list(range(200))


def test_ticks_of_a_millisecond_20_slots_overflow_wheels_on_demand() -> None:
    wheel = TimingWheel(0.0)
    ran: list[float] = []
    for deadline in (0.0191, 0.3, 7.9):
        wheel.add(deadline, ran.append)
    assert [level.width for level in wheel._levels] == [1, 20, 400]
    assert all(len(level.buckets) == 20 for level in wheel._levels)
    doomed = wheel.add(0.3, ran.append)
    assert wheel.cancel(doomed)
    assert not wheel.cancel(doomed)
    for now in (0.019, 0.0201, 0.2999, 0.301, 7.901):
        wheel.advance(now)
    assert ran == [0.0201, 0.301, 7.901]
