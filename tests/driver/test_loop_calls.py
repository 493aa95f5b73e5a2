"""Calls of other threads on an event loop: none is lost, and a closed loop is freed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import closing

import pytest

from pykafka2.driver.loop_wait import calls_of


def test_closed_event_loop_is_freed() -> None:
    loops = []

    async def program() -> None:
        loop = asyncio.get_running_loop()
        calls_of(loop).post(lambda: None)
        loops.append(weakref.ref(loop))

    asyncio.run(program())
    gc.collect()
    assert loops[0]() is None


def test_call_after_the_loop_was_freed_does_nothing() -> None:
    with closing(asyncio.new_event_loop()) as loop:
        calls = calls_of(loop)
    del loop
    gc.collect()
    calls.post(lambda: None)
    assert not calls._calls


def test_system_exit_in_a_call_keeps_the_calls_behind_it_for_the_next_run_of_the_loop() -> None:
    ran: list[str] = []

    def leave() -> None:
        raise SystemExit(3)

    with closing(asyncio.new_event_loop()) as loop:
        calls = calls_of(loop)
        calls.post(leave)
        calls.post(lambda: ran.append("behind"))
        with pytest.raises(SystemExit):
            loop.run_until_complete(asyncio.sleep(0))
        loop.run_until_complete(asyncio.sleep(0))
    assert ran == ["behind"]
