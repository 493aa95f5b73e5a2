"""Options that aiokafka's clients have and the sync clients do not: renamed, ignored, or awaited.

Callbacks among the options run on the client's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from pykafka2.aio.bad_records import AwaitedBadRecords
from pykafka2.aio.bridge import Bridge
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import ConfigurationError, IllegalState
from pykafka2.option_fields import is_async
from pykafka2.options import IgnoredOption, warn_caller

RENAMED = {"max_batch_size": "batch_size"}

IGNORED = {
    "loop": "the client belongs to the event loop of its first awaited call",
    "rebalance_timeout_ms": "max_poll_interval_ms is the rebalance timeout",
}

COMMIT_CALLBACK = "default_offset_commit_callback"

BAD_RECORD_CALLBACK = "on_bad_record"

TOKEN_PROVIDER = "sasl_oauth_token_provider"  # noqa: S105 - the name of an option

TOKEN_TIMEOUT = 30.0
"""Seconds that a connection waits for the coroutine of a token provider."""


def adapt_options(options: Any, bridge: Bridge) -> Any:
    """Return options for the sync client: those of aiokafka replaced, callbacks called on the event loop.

    Names can be dotted. An option that has no effect here warns, unless it is None. Return topics, and None,
    unchanged.

    Raises:
        ConfigurationError: an option is given under both names.
    """
    if not isinstance(options, Mapping):
        return options
    adapted: dict[Any, Any] = {}
    names = {_name(written) for written in options}
    for written, value in options.items():
        name = _name(written)
        if name in IGNORED:
            if value is not None:
                warn_caller(f"{name} has no effect: {IGNORED[name]}", IgnoredOption)
        elif name in RENAMED:
            ours = RENAMED[name]
            if ours in names:
                raise ConfigurationError(f"{name} and {ours} are the same option; set one of them")
            adapted[ours] = value
        else:
            adapted[written] = _on_loop(name, value, bridge)
    return adapted


def _name(written: Any) -> Any:
    return written.replace(".", "_") if isinstance(written, str) else written


def _on_loop(name: str, value: Any, bridge: Bridge) -> Any:
    """Return an option's value; if it is a callback, one that runs on the event loop."""
    if name == TOKEN_PROVIDER:
        call = getattr(value, "token", value)
        return TokenOfLoop(bridge, call) if callable(call) and is_async(call) else value
    if name == BAD_RECORD_CALLBACK and callable(value) and not isinstance(value, type):
        return AwaitedBadRecords(value, bridge.runtime.notify)
    if name == COMMIT_CALLBACK and callable(value) and not is_async(value):
        return bridge.on_loop(value)
    return value


class TokenOfLoop:
    """A token provider whose coroutine function runs on the client's event loop."""

    def __init__(self, bridge: Bridge, call: Callable[[], Any]) -> None:
        self._bridge = bridge
        self._call = call

    def token(self) -> Any:
        """Wait for the coroutine. On a helper thread of the sync client."""
        bridge = self._bridge
        if bridge.loop is None or bridge.has_lost_its_loop:
            raise IllegalState(
                "the token provider is a coroutine function, and the event loop of this client has closed; "
                "create a client in each loop"
            )
        run = _TokenRun(self._call)
        bridge.post(run.start)
        try:
            if not bridge.runtime.wait_until(lambda: run.is_done, TOKEN_TIMEOUT, run.waiters):
                raise TimeoutError(f"the coroutine of the token provider took more than {TOKEN_TIMEOUT:g} s")
        finally:
            bridge.post(run.cancel)
        if run.error is not None:
            raise run.error
        return run.token


class _TokenRun:
    """One call of the coroutine function. On the loop, except for what the helper thread reads."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.is_done = False
        self.token: Any = None
        self.error: BaseException | None = None
        self.waiters = WaitQueue()
        self._call = call
        self._task: asyncio.Task[Any] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """Cancel the coroutine unless it has ended."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            self.token = await self._call()
        except BaseException as error:
            self.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            self.is_done = True
            self.waiters.wake()
