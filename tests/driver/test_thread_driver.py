"""The thread runtime: loops, waiting, waking, offload; on real threads, hence with deadlines."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykafka2.clock import FOREVER
from pykafka2.driver.driver import Driver
from pykafka2.driver.runtime import Outcome
from pykafka2.driver.thread_driver import MAX_OFFLOAD_THREADS, OFFLOAD_IDLE, Parker, ThreadRuntime, _Pool
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import ClientClosed, ForkedClientError
from pykafka2.network.script import Lane
from pykafka2.network.transport import Ready, Selector
from tests.driver.interleave import at_every_line, at_line
from tests.gate import examples


class Loop:
    """A step that counts its rounds and does what the test sets."""

    def __init__(self, body: Callable[[], None] = lambda: None, wake_at: float = FOREVER) -> None:
        self.body = body
        self.wake_at = wake_at
        self.rounds = 0

    def run_once(self, now: float, events: Sequence[Ready]) -> float:
        self.rounds += 1
        self.body()
        return self.wake_at


def turned(loop: Loop, rounds: int) -> bool:
    return loop.rounds >= rounds


@pytest.fixture
def runtime() -> Iterator[ThreadRuntime]:
    runtime = ThreadRuntime()
    yield runtime
    runtime.close()


@pytest.fixture(params=["parked", "selecting"])
def selector(request: pytest.FixtureRequest, runtime: ThreadRuntime) -> Selector | None:
    return runtime.network.selector() if request.param == "selecting" else None


def test_a_loop_turns_at_once_and_upon_each_wake(runtime: ThreadRuntime, selector: Selector | None) -> None:
    loop = Loop(runtime.notify)
    task = runtime.spawn("loop", loop, selector)
    assert runtime.wait_until(lambda: loop.rounds >= 1, 30.0)
    for rounds in range(2, 20):
        task.wake()
        assert runtime.wait_until(partial(turned, loop, rounds), 30.0)
    assert task.stop(30.0)
    assert task.stop(30.0)
    task.wake()


def test_a_loop_turns_again_at_the_time_that_it_named(
    runtime: ThreadRuntime, selector: Selector | None
) -> None:
    loop = Loop(runtime.notify)

    def in_a_moment() -> None:
        loop.wake_at = runtime.clock.monotonic() + 0.005
        runtime.notify()

    loop.body = in_a_moment
    task = runtime.spawn("loop", loop, selector)
    assert runtime.wait_until(lambda: loop.rounds >= 5, 30.0)
    assert task.stop(30.0)


def test_a_step_that_raises_ends_its_task_with_the_error(
    runtime: ThreadRuntime, selector: Selector | None, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("a bug")

    task = runtime.spawn("broken", Loop(fail), selector)
    assert runtime.wait_until(lambda: task.error is not None, 30.0)
    assert repr(task.error) == "ValueError('a bug')"
    assert task.stop(30.0)
    assert "broken" in caplog.text


def test_a_loop_may_stop_itself(runtime: ThreadRuntime, selector: Selector | None) -> None:
    loop = Loop()
    stopped: list[bool] = []
    task = runtime.spawn("loop", loop, selector)

    def stop() -> None:
        stopped.append(task.stop(30.0))
        runtime.notify()

    loop.body = stop
    task.wake()
    assert runtime.wait_until(lambda: bool(stopped), 30.0)
    assert stopped == [True]
    assert task.stop(30.0)


def test_stop_returns_false_if_the_loop_did_not_end(runtime: ThreadRuntime) -> None:
    go_on = threading.Event()

    def hang() -> None:
        go_on.wait(10.0)

    loop = Loop(hang)
    task = runtime.spawn("stuck", loop)
    assert not task.stop(0.02)
    go_on.set()
    assert task.stop(30.0)


def test_a_task_knows_its_own_thread(runtime: ThreadRuntime) -> None:
    answers: list[bool] = []
    loop = Loop()
    task = runtime.spawn("loop", loop)

    def look() -> None:
        answers.append(runtime.is_current(task))
        runtime.notify()

    loop.body = look
    task.wake()
    assert runtime.wait_until(lambda: bool(answers), 30.0)
    assert answers[0] is True
    assert not runtime.is_current(task)
    assert task.stop(30.0)


def test_wait_until_answers_with_the_predicate(runtime: ThreadRuntime) -> None:
    assert runtime.wait_until(lambda: True, 0.0)
    started = time.monotonic()
    assert not runtime.wait_until(lambda: False, 0.02)
    assert 0.02 <= time.monotonic() - started < 20
    assert not runtime.wait_until(lambda: False, -1.0)


def test_a_predicate_that_raises_leaves_no_waiter_behind(runtime: ThreadRuntime) -> None:
    calls: Iterator[bool] = iter(())
    with pytest.raises(StopIteration):
        runtime.wait_until(lambda: next(calls), 30.0)
    assert not runtime._waiters


def test_ctrl_c_interrupts_a_wait_at_once(runtime: ThreadRuntime) -> None:
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    started = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        runtime.wait_until(lambda: False, 30.0)
    assert time.monotonic() - started < 20
    timer.join()
    assert not runtime._waiters


def test_ctrl_c_interrupts_a_wait_though_another_thread_got_the_signal(runtime: ThreadRuntime) -> None:
    timer = threading.Timer(0.05, signal.raise_signal, (signal.SIGINT,))
    started = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        runtime.wait_until(lambda: False, 30.0)
    assert time.monotonic() - started < 20
    timer.join()


def test_a_signal_handler_may_wake_and_notify_while_the_main_thread_waits(runtime: ThreadRuntime) -> None:
    loop = Loop(runtime.notify)
    task = runtime.spawn("loop", loop)
    assert runtime.wait_until(lambda: loop.rounds >= 1, 30.0)

    def handler(number: int, frame: object) -> None:
        task.wake()
        runtime.notify()

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        assert runtime.wait_until(lambda: loop.rounds >= 30, 10.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        assert task.stop(30.0)


@pytest.mark.gate
def test_a_notify_between_any_two_lines_of_a_wait_ends_it(runtime: ThreadRuntime) -> None:
    has_come = False

    def come() -> None:
        nonlocal has_come
        if not has_come:  # once only: a second notify would make good for a first that was lost
            has_come = True
            runtime.notify()

    def attempt(line: int) -> bool:
        nonlocal has_come
        has_come = False
        started = time.monotonic()
        # Should the line come late or never, it comes as it does in life: from another thread.
        late = threading.Timer(0.3, come)
        late.start()
        has_line = at_line(
            ThreadRuntime.wait_until.__code__,
            line,
            come,
            lambda: runtime.wait_until(lambda: has_come, 30.0),
        )
        late.cancel()
        late.join()
        assert time.monotonic() - started < 20, f"line {line}"
        return has_line

    assert len(list(at_every_line(attempt))) > 8


@pytest.mark.slow
def test_no_notify_is_lost_under_stress(runtime: ThreadRuntime, selector: Selector | None) -> None:
    """Ping-pong between callers and a loop that sleeps for ever: one lost wake-up would cost a timeout."""
    rounds, callers = 1500, 3
    calls = [0] * callers
    answered = [0] * callers

    def answer() -> None:
        answered[:] = calls
        runtime.notify()

    task = runtime.spawn("loop", Loop(answer), selector)
    lost: list[int] = []

    def ask(index: int) -> None:
        for number in range(1, rounds + 1):
            calls[index] = number
            task.wake()
            if not runtime.wait_until(lambda: answered[index] >= calls[index], 30.0):
                lost.append(number)
                return

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=ask, args=(index,)) for index in range(callers)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
        assert task.stop(30.0)
    assert lost == []
    assert answered == [rounds] * callers


def test_an_unpark_before_the_park_is_kept_once() -> None:
    parker = Parker()
    parker.unpark()
    parker.unpark()
    parker.park(FOREVER)
    started = time.monotonic()
    parker.park(0.02)
    assert time.monotonic() - started >= 0.02


def test_offloaded_work_runs_on_another_thread_and_delivers_its_outcome(runtime: ThreadRuntime) -> None:
    outcomes: list[Outcome[str]] = []

    def deliver(outcome: Outcome[str]) -> None:
        outcomes.append(outcome)
        runtime.notify()

    runtime.offload(lambda: threading.current_thread().name, deliver)
    assert runtime.wait_until(lambda: len(outcomes) == 1, 30.0)
    assert outcomes[0].get() == "pykafka2-offload"

    runtime.offload(lambda: str(1 // 0), deliver)
    assert runtime.wait_until(lambda: len(outcomes) == 2, 30.0)
    with pytest.raises(ZeroDivisionError):
        outcomes[1].get()


def test_helpers_that_cannot_be_started_are_missed_for_no_longer_than_that(
    runtime: ThreadRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a machine or container that lets a process have no more threads for a while."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done: list[int | None] = []
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(MAX_OFFLOAD_THREADS):
            with pytest.raises(RuntimeError, match="can't start"):
                runtime.offload(lambda: 1, lambda outcome: done.append(outcome.value))
    runtime.offload(lambda: 2, lambda outcome: done.append(outcome.value))
    assert runtime.wait_until(lambda: bool(done), 30.0)
    assert done == [2], "what was refused is not done all the same"


@pytest.mark.slow
def test_a_close_waits_for_all_stuck_helpers_together_no_longer_than_for_one() -> None:
    runtime, may_go_on = ThreadRuntime(), threading.Event()
    for _ in range(4):  # names that no server answers for, say
        runtime.offload(lambda: may_go_on.wait(30), lambda outcome: None)
    started = time.monotonic()
    runtime.close()
    assert time.monotonic() - started < 3.5  # one after the other takes four
    may_go_on.set()
    for thread in threading.enumerate():
        if thread.name == "pykafka2-offload":
            thread.join(30)


def test_hanging_work_blocks_no_other_lane(runtime: ThreadRuntime) -> None:
    """All threads are busy with token providers or names: hashing and the other lanes continue."""
    may_go_on = threading.Event()
    for _ in range(MAX_OFFLOAD_THREADS):
        runtime.offload(lambda: may_go_on.wait(30), lambda outcome: None, Lane.TOKENS)
    done: list[str] = []

    def deliver(outcome: Outcome[str]) -> None:
        done.append(outcome.get())
        runtime.notify()

    for lane in (Lane.COMPUTING, Lane.NAMES, Lane.ASSIGNING):
        runtime.offload(lambda: threading.current_thread().name, deliver, lane)
    all_done = runtime.wait_until(lambda: len(done) == 3, 30.0)
    may_go_on.set()
    assert all_done
    assert sorted(done) == ["pykafka2-assigning", "pykafka2-names", "pykafka2-offload"]


def test_a_burst_of_work_is_done_by_few_threads_and_all_end_at_close() -> None:
    runtime = ThreadRuntime()
    done: list[int] = []

    def deliver(outcome: Outcome[int]) -> None:
        done.append(outcome.get())
        runtime.notify()

    for number in range(100):
        runtime.offload(partial(int, number), deliver)
    assert sum(thread.name == "pykafka2-offload" for thread in threading.enumerate()) <= 4
    assert runtime.wait_until(lambda: len(done) == 100, 30.0)
    assert sorted(done) == list(range(100))
    runtime.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "pykafka2-offload"]
    with pytest.raises(ClientClosed):
        runtime.offload(lambda: 0, deliver)


def test_helper_threads_end_when_idle_and_start_again(
    runtime: ThreadRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert OFFLOAD_IDLE > 1
    monkeypatch.setattr("pykafka2.driver.thread_driver.OFFLOAD_IDLE", 0.005)
    done: list[int] = []

    def deliver(outcome: Outcome[int]) -> None:
        done.append(outcome.get())
        runtime.notify()

    for number in range(1, 6):
        runtime.offload(partial(int, number), deliver)
        assert runtime.wait_until(lambda: len(done) == number, 30.0)  # noqa: B023
        runtime.wait_until(lambda: not runtime._pools[Lane.COMPUTING]._threads, 0.02)
    assert done == [1, 2, 3, 4, 5]


def test_job_after_a_burst_and_a_long_pause_is_run(
    runtime: ThreadRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that took queued jobs were counted as idle twice, so the next jobs waited for them for ever."""
    monkeypatch.setattr("pykafka2.driver.thread_driver.OFFLOAD_IDLE", 0.05)
    done: list[int] = []

    def deliver(outcome: Outcome[int]) -> None:
        done.append(outcome.get())
        runtime.notify()

    burst = 3 * MAX_OFFLOAD_THREADS
    for round in range(2):
        before = len(done)
        for number in range(burst):
            runtime.offload(partial(int, number), deliver, Lane.NAMES)
        assert runtime.wait_until(lambda: len(done) == before + burst, 20.0)  # noqa: B023
        assert runtime.wait_until(lambda: not runtime._pools[Lane.NAMES]._threads, 20.0)
        for number in range(2):
            runtime.offload(partial(int, number), deliver, Lane.NAMES)
        assert runtime.wait_until(lambda: len(done) == before + burst + 2, 20.0), f"round {round}"  # noqa: B023


class JobsOfPool:
    """Jobs that end when the test says so, in a pool of its own."""

    def __init__(self, max_threads: int) -> None:
        self.max_threads = max_threads
        self.pool = _Pool(time.monotonic, "pykafka2-property", max_threads)
        self.submitted = self.finished = 0
        self._started: queue.SimpleQueue[threading.Event] = queue.SimpleQueue()
        self._running: list[threading.Event] = []

    def change(self, action: str, count: int) -> None:
        for _ in range(count):
            if action == "submit":
                self.submitted += 1
                self.pool.submit(self._job)
            else:
                self.finish()

    def _job(self) -> None:
        may_end = threading.Event()
        self._started.put(may_end)
        may_end.wait(60.0)

    def finish(self) -> None:
        """End one of the running jobs, if there is one."""
        if self._running:
            self._running.pop(self.finished % len(self._running)).set()
            self.finished += 1

    def check(self) -> None:
        """Every job runs, except those for which all threads are busy."""
        expected = min(self.submitted - self.finished, self.max_threads)
        while len(self._running) < expected:
            self._running.append(self._started.get(timeout=20.0))  # raises Empty if a job was lost
        assert self._started.empty()
        assert len(self.pool._threads) <= self.max_threads

    def close(self) -> None:
        while self.finished < self.submitted:
            self.check()
            self.finish()
        self.pool.begin_to_close()
        self.pool.close(time.monotonic() + 20.0)
        assert not self.pool._threads


@pytest.mark.gate
@pytest.mark.slow
@settings(max_examples=examples(150), deadline=None)
@given(
    max_threads=st.integers(1, 3),
    idle=st.sampled_from([0.0, 0.001, 10.0]),
    actions=st.lists(
        st.one_of(
            st.tuples(st.just("submit"), st.integers(1, 6)),
            st.tuples(st.just("finish"), st.integers(1, 6)),
            st.tuples(st.just("pause"), st.sampled_from([0.0005, 0.002])),
        ),
        max_size=20,
    ),
)
@example(2, 10.0, [("submit", 1), ("finish", 1), ("pause", 0.02), ("submit", 2)])
@example(2, 0.001, [("submit", 6), ("finish", 6), ("pause", 0.02), ("submit", 1)])
def test_pool_runs_every_job_for_any_arrivals_and_durations(
    max_threads: int, idle: float, actions: list[tuple[str, float]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pykafka2.driver.thread_driver.OFFLOAD_IDLE", idle)
        jobs = JobsOfPool(max_threads)
        for action, amount in actions:
            if action == "pause":
                time.sleep(amount)
            else:
                jobs.change(action, int(amount))
            jobs.check()
        jobs.close()


def test_close_of_a_pool_runs_the_queued_jobs_in_order() -> None:
    """Jobs that were accepted are run: a caller waits for each, such as for the flush of a log."""
    pool, may_end = _Pool(time.monotonic, "pykafka2-close", 1), threading.Event()
    done: list[int] = []
    pool.submit(lambda: may_end.wait(20.0))
    for number in range(3):
        pool.submit(partial(done.append, number))
    pool.begin_to_close()
    may_end.set()
    pool.close(time.monotonic() + 20.0)
    assert done == [0, 1, 2]


def test_interrupted_start_of_a_further_helper_is_raised_and_its_job_is_not_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By Ctrl-C, say: the caller sees it, although the other helpers could do the work."""

    def interrupt(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    pool, may_end = _Pool(time.monotonic, "pykafka2-interrupted", 2), threading.Event()
    done: list[int] = []
    pool.submit(lambda: may_end.wait(20.0))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pool.submit(lambda: done.append(1))
    pool.submit(lambda: done.append(2))
    may_end.set()
    pool.begin_to_close()
    pool.close(time.monotonic() + 20.0)
    assert done == [2]
    assert not pool._threads


@pytest.mark.slow
def test_no_job_is_lost_when_many_threads_submit_while_helpers_become_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pykafka2.driver.thread_driver.OFFLOAD_IDLE", 0.0005)
    pool = _Pool(time.monotonic, "pykafka2-stress", 3)
    done: queue.SimpleQueue[int] = queue.SimpleQueue()
    rounds, submitters = 300, 3

    def submit(seed: int) -> None:
        random = Random(seed)
        for number in range(rounds):
            pool.submit(partial(done.put, number))
            if random.random() < 0.2:
                time.sleep(random.random() * 0.002)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=submit, args=(seed,)) for seed in range(submitters)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _ in range(rounds * submitters):
            done.get(timeout=20.0)
    finally:
        sys.setswitchinterval(before)
        pool.begin_to_close()
        pool.close(time.monotonic() + 20.0)
    assert not pool._threads


def test_a_continuation_that_raises_is_logged_and_the_pool_lives_on(
    runtime: ThreadRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[int] = []

    def fail(outcome: Outcome[int]) -> None:
        raise ValueError("a bug")

    def deliver(outcome: Outcome[int]) -> None:
        done.append(outcome.get())
        runtime.notify()

    runtime.offload(lambda: 1, fail)
    runtime.offload(lambda: 2, deliver)
    assert runtime.wait_until(lambda: done == [2], 30.0)
    runtime.close()
    assert "a bug" in caplog.text


def test_a_runtime_does_not_survive_a_fork(runtime: ThreadRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_pid", os.getpid() + 1)
    with pytest.raises(ForkedClientError):
        runtime.wait_until(lambda: False, 1.0)
    assert runtime.wait_until(lambda: True, 1.0), "what is over already needs no thread of the parent"
    with pytest.raises(ForkedClientError):
        runtime.spawn("loop", Loop())


def test_wait_in_a_forked_child_names_the_client_and_the_process(
    runtime: ThreadRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(runtime, "producer")
    try:
        monkeypatch.setattr(runtime, "_pid", os.getpid() + 1)
        driver.abandon(ForkedClientError("this KafkaProducer was created before a fork"))
        with pytest.raises(ForkedClientError, match="this KafkaProducer was created before a fork"):
            driver.wait_until(lambda: False, 1.0, WaitQueue())
    finally:
        driver._task.stop()


def test_waiter_of_a_queue_is_checked_only_by_that_queue(runtime: ThreadRuntime) -> None:
    queue, other = WaitQueue(), WaitQueue()
    called_on: list[threading.Thread] = []
    is_waiting = threading.Event()
    has_come: list[int] = []

    def look() -> bool:
        called_on.append(threading.current_thread())
        is_waiting.set()
        return bool(has_come)

    over: list[bool] = []
    waiter = threading.Thread(target=lambda: over.append(runtime.wait_until(look, 30.0, queue, other)))
    waiter.start()
    assert is_waiting.wait(30)
    for _ in range(100):
        runtime.check_waiters()
    assert set(called_on) == {waiter}
    assert len(called_on) <= 2
    has_come.append(1)
    queue.wake()
    waiter.join(30)
    assert over == [True]
    assert not queue._waiters
    assert not other._waiters


def test_wake_between_the_check_and_the_sleep_is_not_lost(runtime: ThreadRuntime) -> None:
    queue = WaitQueue()
    looks: list[int] = []

    def look() -> bool:
        looks.append(1)
        if len(looks) == 1:
            queue.wake()  # as from another thread, after this one saw that it has not come
        return len(looks) == 2

    assert runtime.wait_until(look, 30.0, queue)


def test_notify_wakes_those_in_queues_too(runtime: ThreadRuntime) -> None:
    is_over: list[bool] = []
    waiter = threading.Thread(target=lambda: runtime.wait_until(lambda: bool(is_over), 30.0, WaitQueue()))
    waiter.start()
    is_over.append(True)
    runtime.notify()
    waiter.join(30)
    assert not waiter.is_alive()
