"""An asyncio task that waits for another thread's completion is woken once, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing, nullcontext
from functools import partial
from typing import Any

import pytest

from pykafka2.driver.completion import Completion
from pykafka2.driver.loop_wait import LoopCalls, LoopWaiter, WakingStep, calls_of, wake_loops
from pykafka2.driver.wait_queue import WaitQueue


class NeverWaits:
    """A driver whose callers never block: what they ask for is there, or is not."""

    def wait_until(self, predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        return predicate()


def completion() -> Completion[int]:
    return Completion(NeverWaits(), "a commit")


async def await_it(awaited: Completion[int]) -> int:
    return await awaited


def test_two_tasks_await_one_completion() -> None:
    async def main() -> list[int]:
        awaited = completion()
        tasks = [asyncio.ensure_future(await_it(awaited)) for _ in range(2)]
        asyncio.get_running_loop().call_later(0.001, awaited.succeed, 7)
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == [7, 7]


def test_cancelled_task_leaves_the_wait_queue() -> None:
    async def main() -> WaitQueue:
        awaited = completion()
        tasks = [asyncio.ensure_future(await_it(awaited)) for _ in range(2)]
        await asyncio.sleep(0)
        assert len(awaited.waiters._waiters) == 2
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return awaited.waiters

    assert not asyncio.run(main())._waiters


def test_completion_awaited_by_a_closed_loop_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    awaited = completion()
    with closing(asyncio.new_event_loop()) as loop:
        task = loop.create_task(await_it(awaited))
        loop.run_until_complete(asyncio.sleep(0))
    awaited.succeed(7)
    assert awaited.result(0) == 7
    assert caplog.text == ""
    task._log_destroy_pending = False  # type: ignore[attr-defined]


def test_completion_between_the_check_and_joining_the_queue_is_not_missed() -> None:
    """The thread that completes it wakes the queue just before the task has joined it."""

    class CompletesFirst(WaitQueue):
        __slots__ = ()

        def join(self, waiter: LoopWaiter) -> None:  # type: ignore[override]
            awaited.succeed(7)
            super().join(waiter)

    awaited = completion()
    awaited.waiters = CompletesFirst()
    assert asyncio.run(asyncio.wait_for(await_it(awaited), 5)) == 7


class CountingLoop(asyncio.SelectorEventLoop):
    """An event loop that counts the wake-ups by other threads."""

    wakeups = 0

    def _write_to_self(self) -> None:
        self.wakeups += 1
        super()._write_to_self()  # type: ignore[misc]


def test_calls_that_arrive_before_the_loop_runs_share_one_wakeup() -> None:
    loop = CountingLoop()
    called: list[int] = []

    async def main() -> None:
        calls, before = calls_of(loop), loop.wakeups
        for turn in range(2):
            for number in range(100):
                calls.post(partial(called.append, number))
            assert loop.wakeups == before + turn + 1
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    loop.run_until_complete(main())
    loop.close()
    assert called == [*range(100)] * 2


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_io_turn_wakes_each_loop_once_at_its_end(fails: bool) -> None:
    loops = [CountingLoop(), CountingLoop()]
    called: list[int] = []
    of_loops: list[LoopCalls] = []

    async def begin() -> None:
        of_loops.append(calls_of(asyncio.get_running_loop()))

    for loop in loops:
        loop.run_until_complete(begin())
    before = [loop.wakeups for loop in loops]

    def wakeups() -> list[int]:
        return [loop.wakeups - count for loop, count in zip(loops, before, strict=True)]

    class Turn:
        def run_once(self, now: float, events: Any) -> float:
            for number in range(5):
                for calls in of_loops:
                    calls.post(partial(called.append, number))
            assert wakeups() == [0, 0]
            if fails:
                raise ZeroDivisionError
            return now + 1

    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        assert WakingStep(Turn()).run_once(1.0, ()) == 2.0
    assert wakeups() == [1, 1]
    of_loops[0].post(partial(called.append, 5))  # shares the wake-up
    assert wakeups() == [1, 1]
    for loop in loops:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
    assert called == [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4]


def test_long_io_turn_wakes_the_loops_in_its_midst_and_again_at_its_end() -> None:
    loop = CountingLoop()

    async def main() -> None:
        calls, before = calls_of(loop), loop.wakeups

        class Turn:
            def run_once(self, now: float, events: Any) -> float:
                wake_loops()
                assert loop.wakeups == before
                calls.post(lambda: None)
                wake_loops()
                assert loop.wakeups == before + 1
                calls._run()
                calls.post(lambda: None)
                assert loop.wakeups == before + 1
                return now

        WakingStep(Turn()).run_once(1.0, ())
        assert loop.wakeups == before + 2
        calls._run()
        wake_loops()  # outside a turn
        calls.post(lambda: None)
        assert loop.wakeups == before + 3

    loop.run_until_complete(main())
    loop.close()


def test_call_that_is_posted_by_a_call_runs_in_the_next_turn() -> None:
    story: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        calls = calls_of(loop)

        def first() -> None:
            story.append("first")
            loop.call_soon(story.append, "turn")
            calls.post(lambda: story.append("third"))

        calls.post(first)
        calls.post(lambda: story.append("second"))
        while len(story) < 4:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(main(), 5))
    assert story == ["first", "second", "turn", "third"]


def test_call_that_fails_is_reported_and_the_others_run() -> None:
    reported: list[Any] = []
    called: list[int] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
        calls = calls_of(loop)
        calls.post(lambda: called.append(1 // 0))
        calls.post(lambda: called.append(1))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert called == [1]
    assert [type(error) for error in reported] == [ZeroDivisionError]


def test_second_wakeup_of_a_waiter_has_no_effect() -> None:
    reported: list[Any] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        waiter = LoopWaiter(calls_of(loop), loop.create_future())
        for _ in range(2):
            waiter.unpark()
        await waiter.done
        waiter.unpark()
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert not reported
