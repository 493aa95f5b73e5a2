"""Cleanups and results that an exception interrupts: every step runs, and the right exception is raised."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable

import pytest

from pykafka2.interrupts import CancelOnError, Cleanup, finish, run_all


class Result:
    """A result that counts how often it is cancelled."""

    def __init__(self) -> None:
        self.cancellations = 0

    def cancel(self) -> None:
        self.cancellations += 1


def raiser(error: BaseException) -> Callable[[], None]:
    def step() -> None:
        raise error

    return step


FIRST, SECOND = ValueError("first"), LookupError("second")
CTRL_C, EXIT = KeyboardInterrupt(), SystemExit(1)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        ((FIRST, SECOND), FIRST),
        ((FIRST, CTRL_C), CTRL_C),
        ((CTRL_C, FIRST), CTRL_C),
        ((CTRL_C, EXIT), CTRL_C),
        ((FIRST, EXIT, CTRL_C), EXIT),
    ],
)
def test_cleanup_runs_all_steps_and_raises_the_first_interrupt_or_error(
    raised: tuple[BaseException, ...], expected: BaseException
) -> None:
    ended: list[str] = []
    with pytest.raises(type(expected)) as caught:
        run_all([*map(raiser, raised), lambda: ended.append("last step")])
    assert caught.value is expected
    assert ended == ["last step"]


def test_cleanup_without_an_error_returns() -> None:
    cleanup = Cleanup()
    cleanup.run(int, "7", base=8)
    assert not cleanup.is_interrupted
    cleanup.raise_first()


@pytest.mark.parametrize(("error", "is_interrupt"), [(FIRST, False), (CTRL_C, True), (EXIT, True)])
def test_cleanup_is_interrupted_after_ctrl_c_and_exit_only(error: BaseException, is_interrupt: bool) -> None:
    cleanup = Cleanup()
    cleanup.run(raiser(error))
    cleanup.run(int)
    assert cleanup.is_interrupted is is_interrupt


def test_cleanup_keeps_no_raised_error() -> None:
    cleanup = Cleanup()
    cleanup.run(raiser(ValueError("once")))
    with pytest.raises(ValueError, match="once"):
        cleanup.raise_first()
    cleanup.raise_first()


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="needs reference counts")
def test_error_of_a_cleanup_is_freed_with_its_last_holder() -> None:
    class Failure(Exception):
        pass

    def fail() -> None:
        raise Failure

    def clean_up() -> weakref.ref[BaseException]:
        try:
            run_all([fail])
        except Failure as error:
            return weakref.ref(error)
        raise AssertionError("nothing was raised")

    gc.collect()
    gc.disable()
    try:
        assert clean_up()() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("error", [FIRST, CTRL_C])
def test_finish_repeats_an_interrupted_function_and_raises(error: BaseException) -> None:
    calls: list[int] = []

    def step(number: int) -> None:
        calls.append(number)
        if len(calls) == 1:
            raise error

    with pytest.raises(type(error)):
        finish(step, 7)
    assert calls == [7, 7]


def test_finish_calls_a_function_that_returns_once() -> None:
    calls: list[int] = []
    finish(calls.append, 7)
    assert calls == [7]


@pytest.mark.parametrize("error", [FIRST, CTRL_C])
def test_result_is_cancelled_when_its_block_raises(error: BaseException) -> None:
    result = Result()
    with pytest.raises(type(error)), CancelOnError(result):
        raise error
    assert result.cancellations == 1


def test_result_is_not_cancelled_when_its_block_returns() -> None:
    result = Result()
    with CancelOnError(result):
        pass
    assert result.cancellations == 0
