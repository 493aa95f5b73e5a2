"""The line of tasks that wait for memory."""

from __future__ import annotations

import asyncio
from typing import Any

from pykafka2.aio.line import Line
from tests.aio.running import run


def test_leaving_the_line_compares_no_other_place() -> None:
    """10,000 tasks that are cancelled in any order would block the loop for seconds."""
    compared = 0

    class Turn(asyncio.Future[None]):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return self is other

        __hash__ = asyncio.Future.__hash__

    async def program() -> None:
        loop: Any = asyncio.get_running_loop()
        line = Line()
        create_future, loop.create_future = loop.create_future, lambda: Turn(loop=loop)
        places = [line.join() for _ in range(100)]
        loop.create_future = create_future
        assert places[0].is_first
        for place in reversed(places[1:]):
            place.leave()
        assert places[0].is_first
        places[0].leave()
        assert not line.waiting

    run(program())
    assert compared == 0


def test_place_that_leaves_first_gives_the_turn_to_the_next_one() -> None:
    async def program() -> list[bool]:
        line = Line()
        first, second, third = line.join(), line.join(), line.join()
        second.leave()
        first.leave()
        return [await third.wait(5.0), third.is_first]

    assert run(program()) == [True, True]
