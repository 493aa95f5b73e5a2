"""The sources of time and randomness.

No other module reads a clock or draws a random number: the driver passes both in, from the operating system
in production and from the seed in the simulation.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType
from typing import Protocol, TypeVar

FOREVER = float("inf")
N = TypeVar("N", int, float)


class Clock(Protocol):
    """A monotonic clock and a wall clock."""

    def monotonic(self) -> float:
        """Return seconds for timers; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch, for record timestamps and expiry times."""
        ...

    def wall_ns(self) -> int:
        """Return nanoseconds since the epoch; for per-record use, as it makes no Python call."""
        ...


class Entropy(Protocol):
    """A source of randomness: `random` for jitter and choices, `token_bytes` for ids and nonces."""

    random: random.Random

    def token_bytes(self, count: int) -> bytes: ...


def _system_function(name: str, read_clock: Callable[[int], N], clock_id: int) -> Callable[[], N]:
    """Return a function of `time`, or an equal one that freezegun keeps if a test has replaced it."""
    function: Callable[[], N] = getattr(time, name)
    return function if isinstance(function, BuiltinFunctionType) else partial(read_clock, clock_id)


class SystemClock:
    """The operating system's clocks. Thread-safe.

    Brokers and clients keep them while freezegun freezes Python's: timers go on, and all timestamps agree,
    also with other processes and clients in C. freezegun replaces functions in `time` and in the globals of
    modules, but not in classes, so no method may call `time.time_ns`.
    """

    monotonic = staticmethod(_system_function("monotonic", time.clock_gettime, time.CLOCK_MONOTONIC))
    wall_ns = staticmethod(_system_function("time_ns", time.clock_gettime_ns, time.CLOCK_REALTIME))

    def wall_ms(self) -> int:
        return self.wall_ns() // 1_000_000


class SystemEntropy:
    """The operating system's randomness. Thread-safe."""

    def __init__(self) -> None:
        self.random: random.Random = random.SystemRandom()

    def token_bytes(self, count: int) -> bytes:
        return os.urandom(count)


class SeededEntropy:
    """Randomness from one seed, for the simulation."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)

    def token_bytes(self, count: int) -> bytes:
        return self.random.randbytes(count)
