"""Rare interleavings of threads, channels and failures, each brought about by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from pykafka2.clock import FOREVER
from pykafka2.driver.channel import ChannelState
from pykafka2.driver.completion import Completion
from pykafka2.driver.driver import Driver
from pykafka2.driver.thread_driver import ThreadRuntime, Watched, _loops
from pykafka2.errors import ClientFailed
from pykafka2.network.script import Lane
from pykafka2.network.transport import READABLE, SocketOptions
from tests.driver.fakes import HandRuntime
from tests.driver.test_channel import Notes
from tests.driver.test_driver import ENDPOINT, fail_in_command, open_channel
from tests.driver.test_thread_driver import Loop


@pytest.fixture
def runtime() -> HandRuntime:
    return HandRuntime()


@pytest.fixture
def driver(runtime: HandRuntime) -> Driver:
    return Driver(runtime, "client")


# ---------------------------------------------------------------------------------------- waiters


def test_check_during_a_predicate_causes_one_more_evaluation() -> None:
    """The condition may have become true since the last check."""
    unparked: list[bool] = []
    watched = Watched(lambda: False, lambda: unparked.append(True))
    with watched._looking:
        watched.check()
    assert unparked == [True]
    watched.check()
    assert unparked == [True], "no thread checks, and it does not hold"


def test_condition_that_a_check_has_found_true_counts_although_it_is_over() -> None:
    values, unparked = iter([False, True, False, False]), list[bool]()
    watched = Watched(lambda: next(values), lambda: unparked.append(True))
    for expected in (0, 1):
        watched.check()
        assert len(unparked) == expected
    assert watched.look()
    assert watched.look()


def test_predicate_that_raises_wakes_its_waiter() -> None:
    def broken() -> bool:
        raise ValueError("a bug")

    unparked: list[bool] = []
    Watched(broken, lambda: unparked.append(True)).check()
    assert unparked == [True]


def test_wait_without_time_left_evaluates_once_more() -> None:
    runtime = ThreadRuntime()
    answers = iter([False, True])
    assert runtime.wait_until(lambda: next(answers), 0.0)
    runtime.close()


# ---------------------------------------------------------------------------------------- threads


def test_a_thread_is_in_a_loop_for_as_long_as_that_turns() -> None:
    """The system gives its number to another thread afterwards."""
    runtime = ThreadRuntime()
    results: list[bool] = []
    numbers: list[int] = []

    def note() -> None:
        results.append(runtime.is_in_a_loop())
        numbers.append(threading.get_ident())
        runtime.notify()

    task = runtime.spawn("loop", Loop(note), None)
    assert runtime.wait_until(lambda: bool(numbers), 5.0)
    assert task.stop(5.0)
    assert results[0]
    assert not runtime.is_in_a_loop()
    assert numbers[0] not in _loops
    runtime.close()


def test_job_queued_while_its_thread_times_out_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """`submit` counted on the idle thread and has started no other."""
    runtime = ThreadRuntime()
    pool = runtime._pools[Lane.COMPUTING]
    ran: list[bool] = []

    def time_out_late(predicate: Callable[[], bool], timeout: float) -> bool:
        pool._lock.release()
        pool.submit(lambda: ran.append(True))
        pool._lock.acquire()
        return False

    monkeypatch.setattr(pool._changed, "wait_for", time_out_late)
    job = pool._next()
    assert job is not None
    job()
    assert ran == [True]
    assert not pool._threads, "no other thread was started"
    monkeypatch.undo()
    runtime.close()


def test_work_is_left_to_the_helpers_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that has no thread left for one more."""
    runtime = ThreadRuntime()
    may_go_on, done = threading.Event(), threading.Event()
    runtime.offload(lambda: may_go_on.wait(30), lambda outcome: None)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        runtime.offload(lambda: None, lambda outcome: done.set())
    assert len(runtime._pools[Lane.COMPUTING]._threads) == 1
    may_go_on.set()
    assert done.wait(30)
    runtime.close()


# ---------------------------------------------------------------------------------------- channels


def test_bytes_written_before_a_channel_opens_leave_with_the_opening_turn(
    driver: Driver, runtime: HandRuntime
) -> None:
    channel = driver.open(ENDPOINT, Notes(), options=SocketOptions())
    channel.write([b"hello"])
    runtime.turn()
    assert runtime.memory.transports[0].outgoing == b""
    runtime.turn((channel, READABLE))  # the last that TLS has waited for, say
    assert runtime.memory.transports[0].outgoing == b"hello"


def test_closed_channel_leaves_no_state(driver: Driver, runtime: HandRuntime) -> None:
    channel = open_channel(driver, runtime, Notes())
    runtime.memory.transports[0].room = 2
    channel.write([b"hello"])
    runtime.turn()
    channel.close()
    assert channel.state is ChannelState.CLOSED
    assert not channel._unsent
    runtime.turn()
    assert not driver._channels
    assert not driver._unsettled


def test_channel_of_a_stuck_loop_is_not_closed_by_another_thread(
    driver: Driver, runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_channel(driver, runtime, Notes())
    monkeypatch.setattr(runtime.tasks[0], "stop", lambda timeout=5.0: False)
    assert not driver.close()
    assert not runtime.memory.transports[0].is_closed


# ---------------------------------------------------------------------------------------- failures


def test_failure_is_reported_once_and_ends_queued_commands(driver: Driver, runtime: HandRuntime) -> None:
    results: list[ClientFailed] = []
    driver.on_failed(lambda error, now: results.append(error))
    fail_in_command(driver)
    driver.call_soon(lambda now: pytest.fail("the loop has ended"))
    with pytest.raises(ValueError, match="a bug"):
        driver.run_once(0.0, ())
    first = driver.failure
    driver._fail(OSError("called while the first one was notified"))
    assert driver.failure is first
    assert len(results) == 1
    assert driver.run_once(1.0, ()) == FOREVER


def test_interrupt_of_a_callback_is_raised_once(driver: Driver, runtime: HandRuntime) -> None:
    driver.call_soon(lambda now: driver.interrupt(SystemExit(3)))
    runtime.turn()
    with pytest.raises(SystemExit):
        driver.raise_news()
    driver.raise_news()


def test_completion_is_done_when_callbacks_run_though_others_raise(driver: Driver) -> None:
    completion: Completion[int] = Completion(driver, "a commit")
    seen: list[int] = []

    def broken(done: Completion[int]) -> None:
        raise ValueError("a bug of the application's")

    completion.add_done_callback(broken)
    completion.add_done_callback(lambda done: seen.append(done.result(0)))
    completion.succeed(42)
    assert seen == [42]
