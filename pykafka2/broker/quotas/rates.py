"""Rates over a sliding window, and token buckets, which measure clients for their quotas.

Pure state with times in milliseconds, as in Kafka's SampledStat, Rate and TokenBucket.
"""

from __future__ import annotations

import math

import attrs

MOST = 2**31 - 1
"""The maximum of throttle times and sizes in messages (31 bits)."""


def rounded(value: float) -> int:
    """Return the nearest integer as Java's Math.round does, at most MOST; 0 for NaN."""
    if math.isnan(value):
        return 0
    return MOST if value >= MOST else math.floor(value + 0.5)


@attrs.define
class Sample:
    """Values that were recorded in one window."""

    started_ms: int
    last_ms: int
    value: float = 0.0

    def reset(self, now_ms: int) -> None:
        self.started_ms = self.last_ms = now_ms
        self.value = 0.0


class WindowedRate:
    """A rate per second over `samples` windows, the last of which has not ended."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self._window_ms = window_ms
        self._count = samples
        self._samples: list[Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        samples = self._samples
        if not samples:
            samples.append(Sample(now_ms, now_ms))
        sample = samples[self._current]
        if now_ms - sample.started_ms >= self._window_ms:
            # One sample more than windows, because the oldest one overlaps the measured time.
            self._current = (self._current + 1) % (self._count + 1)
            if self._current >= len(samples):
                samples.append(Sample(now_ms, now_ms))
            else:
                samples[self._current].reset(now_ms)
            sample = samples[self._current]
        sample.value += value
        sample.last_ms = now_ms

    def measured_ms(self, now_ms: int) -> int:
        """Return the measured time: since the oldest sample, and at least all windows but one."""
        if not self._samples:
            self._samples.append(Sample(now_ms, now_ms))
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._count * self._window_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min(sample.started_ms for sample in self._samples)
        missing = self._count - 1 - elapsed_ms // self._window_ms
        return max(elapsed_ms + max(missing, 0) * self._window_ms, 1)

    def per_second(self, now_ms: int) -> float:
        window_ms = self.measured_ms(now_ms)
        return sum(sample.value for sample in self._samples) / (window_ms / 1000.0)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return the time until the rate falls to the limit, or 0 if it is not above."""
        rate = self.per_second(now_ms)
        return 0 if rate <= limit else rounded((rate - limit) / limit * self.measured_ms(now_ms))


class TokenBucket:
    """Tokens that refill at the rate of a quota, up to those of all windows; can be overdrawn."""

    def __init__(self, samples: int, window_ms: int) -> None:
        self._window = samples * window_ms / 1000.0
        self._tokens = 0.0
        self._refilled_ms: int | None = None  # full until first used

    def _refill(self, limit: float, now_ms: int) -> None:
        burst = self._window * limit
        if self._refilled_ms is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + limit * (now_ms - self._refilled_ms) / 1000.0)
        self._refilled_ms = now_ms

    def take(self, value: float, limit: float, now_ms: int) -> None:
        self._refill(limit, now_ms)
        self._tokens = min(self._window * limit, self._tokens - value)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """Return the time until the bucket is no longer overdrawn."""
        self._refill(limit, now_ms)
        return 0 if self._tokens >= 0 else rounded(-self._tokens / limit * 1000.0)
