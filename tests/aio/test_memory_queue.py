"""The queue of tasks that wait for memory."""

from __future__ import annotations

import asyncio
from typing import Any

from pykafka2.aio.memory_queue import MemoryQueue
from tests.aio.running import run


def test_leaving_the_queue_compares_no_other_task() -> None:
    """10,000 tasks that are cancelled in any order would block the loop for seconds."""
    compared = 0

    class Counted(asyncio.Future[None]):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return self is other

        __hash__ = asyncio.Future.__hash__

    async def program() -> None:
        loop: Any = asyncio.get_running_loop()
        queue = MemoryQueue()
        create_future, loop.create_future = loop.create_future, lambda: Counted(loop=loop)
        tasks = [queue.join() for _ in range(100)]
        loop.create_future = create_future
        assert tasks[0].is_first
        for task in reversed(tasks[1:]):
            task.leave()
        assert tasks[0].is_first
        tasks[0].leave()
        assert not queue.waiting

    run(program())
    assert compared == 0


def test_first_task_that_leaves_wakes_the_next_one() -> None:
    async def program() -> list[bool]:
        queue = MemoryQueue()
        first, second, third = queue.join(), queue.join(), queue.join()
        second.leave()
        first.leave()
        return [await third.wait(5.0), third.is_first]

    assert run(program()) == [True, True]
