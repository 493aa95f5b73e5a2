"""Options that aiokafka's clients have and the sync clients do not: renamed, ignored, or awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pykafka2.aio.bridge import Bridge
from pykafka2.errors import ConfigurationError, IllegalState
from pykafka2.option_fields import is_async
from pykafka2.options import IgnoredOption, warn_caller

RENAMED = {"max_batch_size": "batch_size"}

IGNORED = {
    "loop": "the client belongs to the event loop of its first awaited call",
    "rebalance_timeout_ms": "max_poll_interval_ms is the rebalance timeout",
}


TOKEN_PROVIDER = "sasl_oauth_token_provider"  # noqa: S105 - the name of an option

TOKEN_TIMEOUT = 30.0
"""Seconds that a connection waits for the coroutine of a token provider."""


def adapt_options(options: dict[str, Any], bridge: Bridge) -> None:
    """Replace aiokafka's options; one that has no effect here warns, unless it is None.

    Raises:
        ConfigurationError: an option is given under both names.
    """
    for name, ours in RENAMED.items():
        if name in options:
            if ours in options:
                raise ConfigurationError(f"{name} and {ours} are the same option; set one of them")
            options[ours] = options.pop(name)
    for name, reason in IGNORED.items():
        if options.pop(name, None) is not None:
            warn_caller(f"{name} has no effect: {reason}", IgnoredOption)
    provider = options.get(TOKEN_PROVIDER)
    call = getattr(provider, "token", provider)
    if callable(call) and is_async(call):
        options[TOKEN_PROVIDER] = TokenOfLoop(bridge, call)


class TokenOfLoop:
    """A token provider whose coroutine function runs on the client's event loop."""

    def __init__(self, bridge: Bridge, call: Callable[[], Any]) -> None:
        self._bridge = bridge
        self._call = call

    def token(self) -> Any:
        """Wait for the coroutine. On a helper thread of the sync client."""
        loop = self._bridge.loop
        if loop is None or loop.is_closed():
            raise IllegalState("the token provider is a coroutine function, and the event loop has closed")
        waiting = asyncio.run_coroutine_threadsafe(self._call(), loop)
        try:
            return waiting.result(TOKEN_TIMEOUT)
        finally:
            waiting.cancel()
