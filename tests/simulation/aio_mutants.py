"""Planted bugs of the asyncio clients: each breaks a promise about cancelled calls or listeners.

As those of copy_mutants.py, they patch the clients' classes (undone by pytest's monkeypatch).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pykafka2.aio import KafkaConsumer, KafkaProducer
from pykafka2.aio.listeners import Listeners
from pykafka2.testing.simulation.world import World

Mutant = Callable[[World, pytest.MonkeyPatch], None]

_left: set[asyncio.Task[Any]] = set()


def a_cancelled_send_is_sent(world: World, patch: pytest.MonkeyPatch) -> None:
    """The call continues in a task of its own."""
    send = KafkaProducer.send

    async def send_shielded(self: Any, *args: Any, **kwargs: Any) -> Any:
        await asyncio.sleep(0)
        return await asyncio.shield(send(self, *args, **kwargs))

    patch.setattr(KafkaProducer, "send", send_shielded)


def a_cancelled_read_has_taken_records(world: World, patch: pytest.MonkeyPatch) -> None:
    """A read awaits once more when it has its records."""
    poll = KafkaConsumer.poll

    async def poll_and_wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        polled = await poll(self, *args, **kwargs)
        await asyncio.sleep(0.002)
        return polled

    patch.setattr(KafkaConsumer, "poll", poll_and_wait)


def a_cancelled_block_commits(world: World, patch: pytest.MonkeyPatch) -> None:
    """The block of a transaction takes a cancellation for its end."""
    end = KafkaProducer._end_block

    async def commit(self: Any, call: partial[Any]) -> None:
        if call.args and call.args[0] is asyncio.CancelledError:
            call = partial(call.func, None, None, None)
        await end(self, call)

    patch.setattr(KafkaProducer, "_end_block", commit)


def a_listener_is_not_awaited(world: World, patch: pytest.MonkeyPatch) -> None:
    """The group goes on when a coroutine listener has begun."""
    start = Listeners._start

    def start_and_go_on(self: Any, run: Any, callback: Any, partitions: Any) -> None:
        start(self, run, callback, partitions)
        run.end(None)

    patch.setattr(Listeners, "_start", start_and_go_on)


def a_cancelled_read_leaves_a_task(world: World, patch: pytest.MonkeyPatch) -> None:
    """A cancelled read continues to wait in a task that never ends."""
    poll = KafkaConsumer.poll

    async def poll_and_leave(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await poll(self, *args, **kwargs)
        except asyncio.CancelledError:
            _left.add(asyncio.create_task(asyncio.sleep(10_000)))
            raise

    patch.setattr(KafkaConsumer, "poll", poll_and_leave)
