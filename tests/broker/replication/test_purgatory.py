"""The purgatory: operations are tried twice, watched by key, and completed exactly once."""

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


def test_operation_that_completes_while_it_is_watched_returns_true() -> None:
    class SecondTry(Wanted):
        def try_complete(self, key: Hashable | None, now: float) -> bool:
            if self.tries:
                return super().try_complete(key, now)
            self.tries = 1
            return False

    purgatory: Purgatory[str] = Purgatory("test", TimingWheel(0.0))
    operation = SecondTry(1.0, {"a"}, {"a"})
    assert purgatory.try_complete_else_watch(operation, ["a"], 0.0)
    assert (operation.tries, operation.completions, purgatory.waiting()) == (2, 1, 0)


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


def test_operation_started_by_another_on_the_same_key_is_not_lost() -> None:
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
    """No other key completes it, and the operations before it are still checked."""
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


def test_completed_operations_are_purged_from_keys_without_checks() -> None:
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
    """Its keys or its deadline complete it."""
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


def test_operation_completed_elsewhere_does_not_expire() -> None:
    wheel = TimingWheel(0.0)
    purgatory: Purgatory[str] = Purgatory("test", wheel)
    operations = [Wanted(0.5, {"a"}, set()) for _ in range(2)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a"], 0.0)
    assert operations[0].force_complete(0.1)
    wheel.advance(1.0)
    assert [(one.completions, one.expirations) for one in operations] == [(1, 0), (1, 1)]


def test_completed_and_discarded_operations_leave_neither_timers_nor_keys() -> None:
    wheel = TimingWheel(0.0)
    purgatory: Purgatory[str] = Purgatory("test", wheel)
    kept = Wanted(9.0, {"never"}, set())
    purgatory.try_complete_else_watch(kept, ["kept"], 0.0)
    for number in range(PURGE_INTERVAL):
        operation = Wanted(9.0, {"never"}, set())
        purgatory.try_complete_else_watch(operation, [f"key {number}"], 0.0)
        purgatory.discard(operation)
        purgatory.discard(operation)
    assert (purgatory.waiting(), len(wheel)) == (1, 1)
    assert [purgatory.is_watched(key) for key in ("kept", "key 0")] == [True, False]


def test_operations_dropped_by_a_crash_never_complete() -> None:
    wheel = TimingWheel(0.0)
    purgatory: Purgatory[str] = Purgatory("test", wheel)
    granted: set[str] = set()
    operations = [Wanted(0.5, {key}, granted) for key in ("a", "b")]
    for operation in operations:
        purgatory.try_complete_else_watch(operation, ["a", "b"], 0.0)
    purgatory.discard_all()
    granted |= {"a", "b"}
    assert [purgatory.check(key, 0.1) for key in ("a", "b")] == [0, 0]
    assert not any(operation.try_complete(None, 0.1) for operation in operations)
    wheel.advance(1.0)
    assert [one.completions for one in operations] == [0, 0]
    assert (purgatory.waiting(), len(wheel)) == (0, 0)


class Failing(Wanted):
    """An operation whose completion raises, as with a response that cannot be encoded."""

    def on_complete(self, now: float) -> None:
        super().on_complete(now)
        raise ValueError("no such response")


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
