"""The purgatory: tried twice, watched by key, completed exactly once."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.replication.purgatory import PURGE_INTERVAL, DelayedOperation, Purgatory


class Wanted(DelayedOperation):
    """Completes once all its keys have been granted."""

    def __init__(self, deadline: float, needs: set[str], granted: set[str]) -> None:
        super().__init__(deadline)
        self.needs = needs
        self.granted = granted
        self.tries = 0
        self.completions = 0
        self.expirations = 0

    def try_complete(self, key: Hashable | None, now: float) -> bool:
        self.tries += 1
        return self.needs <= self.granted and self.force_complete(now)

    def on_expiration(self, now: float) -> None:
        self.expirations += 1

    def on_complete(self, now: float) -> None:
        self.completions += 1


def test_operation_is_tried_before_and_after_it_is_watched() -> None:
    purgatory: Purgatory[str] = Purgatory("test", TimingWheel(0.0))
    operation = Wanted(1.0, {"a"}, set())
    assert not purgatory.try_complete_else_watch(operation, ["a"], 0.0)
    assert operation.tries == 2
    assert purgatory.waiting() == 1


def test_operation_that_completes_at_once_is_not_watched() -> None:
    purgatory: Purgatory[str] = Purgatory("test", TimingWheel(0.0))
    operation = Wanted(1.0, {"a"}, {"a"})
    assert purgatory.try_complete_else_watch(operation, ["a"], 0.0)
    assert (operation.tries, operation.completions, purgatory.watched()) == (1, 1, 0)


def test_expired_operation_completes_once() -> None:
    wheel = TimingWheel(0.0)
    purgatory: Purgatory[str] = Purgatory("test", wheel)
    operation = Wanted(0.5, {"a"}, set())
    purgatory.try_complete_else_watch(operation, ["a"], 0.0)
    wheel.advance(0.4)
    assert operation.completions == 0
    wheel.advance(0.6)
    assert (operation.completions, operation.expirations) == (1, 1)
    operation.granted.add("a")
    purgatory.check("a", 0.7)
    assert operation.completions == 1
    assert purgatory.waiting() == 0


def test_a_discarded_operation_never_completes_and_leaves_no_timer() -> None:
    wheel = TimingWheel(0.0)
    purgatory: Purgatory[str] = Purgatory("test", wheel)
    operation = Wanted(0.5, {"a"}, set())
    purgatory.try_complete_else_watch(operation, ["a"], 0.0)
    purgatory.discard(operation)
    operation.granted.add("a")
    purgatory.check("a", 0.1)
    wheel.advance(1.0)
    assert operation.completions == 0
    assert len(wheel) == 0


def test_an_operation_that_starts_another_on_the_same_key_does_not_lose_it() -> None:
    wheel = TimingWheel(0.0)
    purgatory: Purgatory[str] = Purgatory("test", wheel)
    granted: set[str] = set()
    second = Wanted(5.0, {"a", "b"}, granted)

    class Starts(Wanted):
        def on_complete(self, now: float) -> None:
            super().on_complete(now)
            purgatory.try_complete_else_watch(second, ["a", "b"], now)

    purgatory.try_complete_else_watch(Starts(5.0, {"a"}, granted), ["a"], 0.0)
    granted.add("a")
    assert purgatory.check("a", 0.1) == 1
    granted.add("b")
    assert purgatory.check("b", 0.2) == 1
    assert second.completions == 1


def test_operation_added_to_a_key_during_its_check_is_not_lost() -> None:
    """It has no other key to be found by, and it is in nobody's way that was there before it."""
    wheel = TimingWheel(0.0)
    purgatory: Purgatory[str] = Purgatory("test", wheel)
    granted: set[str] = set()
    older, newcomer = Wanted(5.0, {"a", "b"}, granted), Wanted(5.0, {"a", "b"}, granted)

    class Starts(Wanted):
        def on_complete(self, now: float) -> None:
            purgatory.try_complete_else_watch(newcomer, ["a"], now)

    purgatory.try_complete_else_watch(Starts(5.0, {"a"}, granted), ["a"], 0.0)
    purgatory.try_complete_else_watch(older, ["a"], 0.0)
    granted.add("a")
    assert purgatory.check("a", 0.1) == 1
    assert purgatory.waiting() == 2
    granted.add("b")
    assert purgatory.check("a", 0.2) == 2
    assert (older.completions, newcomer.completions, len(wheel)) == (1, 1, 0)


def test_completed_operations_are_swept_out_of_keys_that_stay_silent() -> None:
    purgatory: Purgatory[str] = Purgatory("test", TimingWheel(0.0))
    granted: set[str] = set()
    for _ in range(PURGE_INTERVAL):
        granted.clear()
        purgatory.try_complete_else_watch(Wanted(5.0, {"loud"}, granted), ["loud", "silent"], 0.0)
        granted.add("loud")
        purgatory.check("loud", 0.0)
    assert purgatory.watched() == 0


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("watch"), st.sets(st.sampled_from("abc"), min_size=1), st.integers(1, 50)),
            st.tuples(st.just("grant"), st.sampled_from("abc"), st.just(0)),
            st.tuples(st.just("pass"), st.just("a"), st.integers(0, 40)),
        ),
        max_size=40,
    )
)
def test_each_operation_completes_exactly_once(story: list[tuple[str, object, int]]) -> None:
    """Whatever is granted when, each operation ends once: by its keys or by its deadline."""
    wheel = TimingWheel(0.0)
    purgatory: Purgatory[str] = Purgatory("test", wheel)
    granted: set[str] = set()
    operations: list[Wanted] = []
    now = 0.0
    for what, about, ticks in story:
        if what == "watch":
            assert isinstance(about, set)
            operation = Wanted(now + ticks * 0.001, about, granted)
            operations.append(operation)
            purgatory.try_complete_else_watch(operation, about, now)
        elif what == "grant":
            assert isinstance(about, str)
            granted.add(about)
            purgatory.check(about, now)
        else:
            now += ticks * 0.001
            wheel.advance(now)
    for operation in operations:
        if operation.needs <= granted:
            assert operation.completions == 1
        assert operation.completions <= 1
    wheel.advance(now + 1.0)
    assert [operation.completions for operation in operations] == [1] * len(operations)
    assert purgatory.waiting() == 0
    assert len(wheel) == 0


class Failing(Wanted):
    """Its completion raises, as one does that makes an answer which cannot be encoded."""

    def on_complete(self, now: float) -> None:
        super().on_complete(now)
        raise ValueError("no such answer")


def test_failing_operation_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    wheel = TimingWheel(0.0)
    purgatory: Purgatory[str] = Purgatory("test", wheel)
    granted: set[str] = set()
    operations = [kind(0.5, {"a"}, granted) for kind in (Wanted, Failing, Wanted)]
    late = Failing(0.5, {"never"}, granted)
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"], 0.0)
    purgatory.try_complete_else_watch(late, ["never"], 0.0)
    granted.add("a")
    assert purgatory.check("a", 0.1) == 3
    wheel.advance(1.0)
    assert [one.completions for one in (*operations, late)] == [1, 1, 1, 1]
    assert purgatory.waiting() == 0
    assert len(caplog.records) == 2


class Counted(DelayedOperation):
    """Can complete from its n-th try on."""

    __slots__ = ("completions", "from_try", "tries")

    def __init__(self, from_try: int) -> None:
        super().__init__(60.0)
        self.from_try = from_try
        self.tries = 0
        self.completions = 0

    def try_complete(self, key: object, now: float) -> bool:
        self.tries += 1
        return self.tries >= self.from_try and self.force_complete(now)

    def on_complete(self, now: float) -> None:
        self.completions += 1


def test_tried_once_before_and_once_after_watching_and_completed_once() -> None:
    purgatory: Purgatory[str] = Purgatory("test", TimingWheel(0.0))
    at_once, after_watching, later = Counted(1), Counted(2), Counted(3)
    assert purgatory.try_complete_else_watch(at_once, ["k"], 0.0)
    assert purgatory.watched() == 0
    assert purgatory.try_complete_else_watch(after_watching, ["k"], 0.0)
    assert not purgatory.try_complete_else_watch(later, ["k"], 0.0)
    assert purgatory.check("k", 0.0) == 1
    assert purgatory.check("k", 0.0) == 0
    assert [one.completions for one in (at_once, after_watching, later)] == [1, 1, 1]
    assert [one.tries for one in (at_once, after_watching, later)] == [1, 2, 3]
