"""The sources of time and randomness.

Nothing else in pykafka2 reads a clock or draws a random number: both are handed in by the driver, from the
operating system in production and from the seed in the simulation.
"""

from __future__ import annotations

import os
import random
import time
from typing import Protocol

FOREVER = float("inf")


class Clock(Protocol):
    """Two clocks: one that only runs forward, one that people set."""

    def monotonic(self) -> float:
        """Seconds for timers; never runs back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, for record timestamps and the expiry of certificates and tokens."""
        ...

    def wall_ns(self) -> int:
        """The same in nanoseconds, for who reads it once a record: there it is no call of Python's."""
        ...


class Entropy(Protocol):
    """Randomness: `random` for back-off jitter and choices, `token_bytes` for identifiers and nonces."""

    random: random.Random

    def token_bytes(self, count: int) -> bytes: ...


class SystemClock:
    """The machine's clocks.  Thread-safe."""

    monotonic = staticmethod(time.monotonic)
    wall_ns = staticmethod(time.time_ns)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class SystemEntropy:
    """The operating system's randomness.  Thread-safe."""

    def __init__(self) -> None:
        self.random: random.Random = random.SystemRandom()

    def token_bytes(self, count: int) -> bytes:
        return os.urandom(count)


class SeededEntropy:
    """Everything from one seed; for the simulation."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)

    def token_bytes(self, count: int) -> bytes:
        return self.random.randbytes(count)
