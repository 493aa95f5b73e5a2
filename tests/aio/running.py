"""Runs a coroutine as a program does, and fails if it leaves a task behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STALL = 60.0
"""Seconds after which a test fails, whatever it waits for."""


def run(
    program: Coroutine[Any, Any, T],
    loop_factory: Callable[[], Any] | None = None,
    stall: float | None = STALL,
) -> T:
    """Run a coroutine in an event loop of its own."""

    async def main() -> T:
        async with asyncio.timeout(stall):
            result = await program
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks were left: {left}"
        return result

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main())


async def longest_lag(stop: asyncio.Event, step: float = 0.002) -> float:
    """Return by how much the loop was late at most, until `stop` is set."""
    loop, worst = asyncio.get_running_loop(), 0.0
    while not stop.is_set():
        due = loop.time() + step
        await asyncio.sleep(step)
        worst = max(worst, loop.time() - due)
    return worst
