"""Exponential back-off with jitter (KIP-580): pure arithmetic, no clock."""

from __future__ import annotations

import random

from pykafka2.slotted import slotted


@slotted
class Backoff:
    """The wait before attempt n: `initial * 2**n`, at most `maximum`, +-20 %.

    Durations are seconds. Use one object per retried operation: call `next()` after each failure, `reset()`
    after a success.
    """

    initial: float
    maximum: float
    random: random.Random
    jitter: float = 0.2
    attempts: int = 0

    def delay(self, attempts: int) -> float:
        """Return the wait after `attempts` earlier failures, jitter included."""
        # Larger exponents would only overflow.
        base = min(self.initial * (1 << min(attempts, 30)), self.maximum)
        return base * (1.0 + self.jitter * (2.0 * self.random.random() - 1.0))

    def next(self) -> float:
        """Count a failure; return the wait."""
        delay = self.delay(self.attempts)
        self.attempts += 1
        return delay

    def reset(self) -> None:
        self.attempts = 0
