"""Waits of tasks and calls on helper threads: how they end, and that they leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import attrs
import pytest

from pykafka2.aio.bridge import Bridge, Call
from pykafka2.aio.call_queue import CallQueue
from pykafka2.aio.runtime import CallCancelled, CallCondition, HelperCall, LoopRuntime
from pykafka2.clock import FOREVER
from pykafka2.driver.runtime import Outcome
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.driver.wait_queue import Waiter, WaitQueue
from pykafka2.errors import ClientClosed, ClientFailed, KafkaTimeoutError
from tests.aio.running import run


@attrs.define
class FakeDriver:
    """The state of an IO loop that waits check."""

    name: str = "the producer"
    failure: BaseException | None = None
    is_closed: bool = False

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise ClientFailed("the IO thread has failed") from self.failure


@pytest.fixture
def threads() -> Iterator[ThreadRuntime]:
    runtime = ThreadRuntime()
    yield runtime
    runtime.close()


@pytest.fixture
def bridge(threads: ThreadRuntime) -> Bridge:
    return Bridge("KafkaProducer", threads)


async def started(coroutine: Any) -> asyncio.Task[Any]:
    """Return a task that has begun to wait."""
    task = asyncio.create_task(coroutine)
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def waits_on(bridge: Bridge, driver: FakeDriver, *queues: WaitQueue, timeout: float = FOREVER) -> bool:
    return await bridge.wait(cast(Any, driver), lambda: False, timeout, *queues)


def end_by_close(driver: FakeDriver) -> None:
    driver.is_closed = True


def end_by_failure(driver: FakeDriver) -> None:
    driver.failure = MemoryError()


@pytest.mark.parametrize(
    ("end", "error"), [(end_by_close, ClientClosed), (end_by_failure, ClientFailed)], ids=["close", "failure"]
)
def test_wait_raises_if_the_io_thread_has_ended(
    bridge: Bridge, threads: ThreadRuntime, end: Callable[[FakeDriver], None], error: type[Exception]
) -> None:
    async def program() -> None:
        driver, queue = FakeDriver(), WaitQueue()
        without_queue, with_queue = (
            await started(waits_on(bridge, driver)),
            await started(waits_on(bridge, driver, queue)),
        )
        end(driver)
        threads.check_waiters()  # wakes the task without a queue
        threads.notify()
        for task in (without_queue, with_queue):
            with pytest.raises(error):
                await task
        with pytest.raises(error):
            await waits_on(bridge, driver)

    run(program())


@pytest.mark.parametrize("end", ["timeout", "cancel"])
def test_ended_wait_leaves_queues_runtime_and_timers(
    bridge: Bridge, threads: ThreadRuntime, end: str
) -> None:
    async def program() -> None:
        driver, queue = FakeDriver(), WaitQueue()
        loop = cast(Any, asyncio.get_running_loop())
        tasks = [
            await started(waits_on(bridge, driver, *queues, timeout=3600 if end == "cancel" else 0.01))
            for queues in ((), (queue,))
        ]
        assert len(queue._waiters) == 1
        assert len(threads._waiters) == 2
        assert len(threads._watched) == 1
        if end == "cancel":
            for task in tasks:
                task.cancel()
        await asyncio.wait(tasks)
        assert not queue._waiters
        assert not threads._waiters
        assert not threads._watched
        left = [one for one in loop._scheduled if not one.cancelled() and one.when() > loop.time() + 1800]
        assert not left

    run(program())


def test_event_between_the_check_and_joining_the_queue_ends_the_wait(bridge: Bridge) -> None:
    is_over = False

    class ChangesFirst(WaitQueue):
        __slots__ = ()

        def join(self, waiter: Waiter) -> None:
            nonlocal is_over
            is_over = True  # another thread; it finds no waiter to wake
            super().join(waiter)

    async def program() -> None:
        driver = cast(Any, FakeDriver())
        async with asyncio.timeout(30):
            assert await bridge.wait(driver, lambda: is_over, FOREVER, ChangesFirst())

    run(program())


# ---------------------------------------------------------------------- calls on helper threads


def test_cancelled_task_leaves_a_shared_call_to_the_other_tasks(bridge: Bridge) -> None:
    may_end = threading.Event()

    async def program() -> None:
        call = bridge.start(may_end.wait, 30)
        first, second = await started(call.result()), await started(call.result())
        first.cancel()
        await asyncio.wait([first])
        may_end.set()
        assert await second is True

    run(program())


def test_cancelled_call_ends_at_its_next_wait_and_can_wait_while_it_cleans_up(bridge: Bridge) -> None:
    is_waiting, has_ended = threading.Event(), threading.Event()
    story: list[Any] = []

    def work() -> None:
        runtime = bridge.runtime
        try:
            is_waiting.set()
            runtime.wait_until(lambda: False, 30)
        except CallCancelled:
            story.append(runtime.wait_until(lambda: False, 0.001))
            raise
        finally:
            has_ended.set()

    async def program() -> None:
        task = await started(bridge.run(work))
        await asyncio.to_thread(is_waiting.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(has_ended.wait, 10)

    run(program())
    assert story == [False]


def test_error_of_a_call_without_waiting_tasks_is_not_reported(bridge: Bridge) -> None:
    reported: list[Any] = []

    async def program() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        may_fail = threading.Event()

        def fail() -> None:
            may_fail.wait(30)
            raise ZeroDivisionError

        task = await started(bridge.run(fail))
        task.cancel()
        await asyncio.wait([task])
        (call,) = bridge._running
        may_fail.set()
        await asyncio.wait([call.future])
        await asyncio.sleep(0)

    run(program())
    gc.collect()  # frees the future
    assert not reported


def test_abandoned_call_keeps_its_error(bridge: Bridge) -> None:
    """Its helper thread ends it a second time, when one is free."""

    async def program() -> None:
        call: Call[int] = Call(bridge.runtime, asyncio.get_running_loop().create_future())
        call.end(Outcome(error=KafkaTimeoutError("did not begin")))
        call.end(Outcome(error=CallCancelled()))
        call.future.set_result(0)
        with pytest.raises(KafkaTimeoutError):
            await call.result()

    run(program())


@pytest.mark.parametrize("error", [None, ClientClosed("no")])
def test_ended_call_leaves_no_timer(bridge: Bridge, error: ClientClosed | None) -> None:
    """The limit for its start would otherwise keep each call, and what it refers to, for a minute."""

    def work() -> None:
        if error is not None:
            raise error

    async def program() -> None:
        loop = cast(Any, asyncio.get_running_loop())
        before = list(loop._scheduled)
        await asyncio.gather(*(bridge.run(work) for _ in range(2)), return_exceptions=True)
        assert [one for one in loop._scheduled if not one.cancelled()] == before

    run(program())


# ---------------------------------------------------------------------- the order of a consumer's calls


class Calls:
    """Calls that begin when the queue starts them, and end when the test says so."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self.begun: list[str] = []
        self.ends: dict[str, asyncio.Future[None]] = {}

    def begin(self, name: str) -> Callable[[], Call[None]]:
        def begin() -> Call[None]:
            self.begun.append(name)
            self.ends[name] = asyncio.get_running_loop().create_future()
            return Call(self._bridge.runtime, self.ends[name])

        return begin

    async def end(self, name: str) -> None:
        self.ends[name].set_result(None)
        for _ in range(5):
            await asyncio.sleep(0)


def test_call_begins_after_the_end_of_the_one_before(bridge: Bridge) -> None:
    async def program() -> None:
        queue, calls = CallQueue(), Calls(bridge)
        await queue.start(calls.begin("first"))
        waiting = [await started(queue.start(calls.begin(name))) for name in ("second", "third")]
        assert calls.begun == ["first"]
        await calls.end("first")
        assert calls.begun == ["first", "second"]
        await calls.end("second")
        assert calls.begun == ["first", "second", "third"]
        await asyncio.wait(waiting)

    run(program())


def test_cancelled_wait_for_the_turn_neither_skips_the_line_nor_blocks_it(bridge: Bridge) -> None:
    async def program() -> None:
        queue, calls = CallQueue(), Calls(bridge)
        await queue.start(calls.begin("first"))
        cancelled = await started(queue.start(calls.begin("cancelled")))
        waiting = await started(queue.start(calls.begin("third")))
        cancelled.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert calls.begun == ["first"]
        await calls.end("first")
        await waiting
        assert calls.begun == ["first", "third"]

    run(program())


def test_wait_for_the_turn_ends_at_its_timeout_and_keeps_the_order(bridge: Bridge) -> None:
    async def program() -> None:
        queue, calls = CallQueue(), Calls(bridge)
        await queue.start(calls.begin("first"))
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await queue.start(calls.begin("late"), 0.0)
        waiting = await started(queue.start(calls.begin("third"), 60.0))
        assert calls.begun == ["first"]
        await calls.end("first")
        await waiting
        assert calls.begun == ["first", "third"]

    run(program())


def test_call_cancelled_before_it_begins_does_not_run(threads: ThreadRuntime) -> None:
    runtime, ran = LoopRuntime(threads), []
    call, cancelled = HelperCall(), HelperCall()
    cancelled.is_cancelled = True
    for one in (cancelled, call):
        if one.is_cancelled:
            with pytest.raises(CallCancelled):
                runtime.run_call(one, lambda: ran.append("cancelled"))
        else:
            runtime.run_call(one, lambda: ran.append("run"))
    assert ran == ["run"]
    with pytest.raises(CallCancelled):
        runtime.run_call(call, lambda: ran.append("again"))
    assert ran == ["run"]


def test_wait_releases_a_lock_held_twice_and_acquires_it_twice_again() -> None:
    lock = CallCondition()
    acquired: list[str] = []

    def acquire_and_release() -> None:
        with lock:
            acquired.append("another thread")

    def wait() -> bool:
        other = threading.Thread(target=acquire_and_release, daemon=True)
        other.start()
        other.join(10)
        return bool(acquired)

    with lock, lock:
        assert lock.run_released(wait)
    with pytest.raises(RuntimeError):
        lock.release()  # it was released as often as acquired


def test_call_that_cannot_begin_lets_the_next_one_begin(bridge: Bridge) -> None:
    def fail() -> Call[None]:
        raise ClientClosed("the client is closed")

    async def program() -> None:
        queue, calls = CallQueue(), Calls(bridge)
        with pytest.raises(ClientClosed):
            await queue.start(fail)
        async with asyncio.timeout(30):
            await queue.start(calls.begin("next"))

    run(program())
