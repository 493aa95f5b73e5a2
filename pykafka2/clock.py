"""The sources of time and randomness.

No other module reads a clock or draws a random number: the driver passes both in, from the operating system
in production and from the seed in the simulation.
"""

from __future__ import annotations

import os
import random
import time
from typing import Protocol

FOREVER = float("inf")


class Clock(Protocol):
    """A monotonic clock and a wall clock."""

    def monotonic(self) -> float:
        """Returns seconds for timers; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Returns milliseconds since the epoch, for record timestamps and expiry times."""
        ...

    def wall_ns(self) -> int:
        """Returns nanoseconds since the epoch; for per-record use, as it makes no Python call."""
        ...


class Entropy(Protocol):
    """A source of randomness: `random` for jitter and choices, `token_bytes` for ids and nonces."""

    random: random.Random

    def token_bytes(self, count: int) -> bytes: ...


class SystemClock:
    """The operating system's clocks. Thread-safe."""

    monotonic = staticmethod(time.monotonic)
    wall_ns = staticmethod(time.time_ns)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


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
