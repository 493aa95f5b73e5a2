"""Counters and gauges under Kafka's metric names, as plain numbers.

Counted per batch and per request, never per record, and without making a string.  A `Metrics` is written by
one thread (the client's IO thread), but for `count`, and read by any; readings are whole but not taken at one
instant.  Totals, averages and maxima are those since the start; rates are those of the last half minute to
minute, as in Kafka with its defaults (metrics.num.samples 2, metrics.sample.window.ms 30000).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

NOTHING_YET = float("nan")
"""An average or maximum of nothing, as in Kafka."""


Measurement = tuple[str, float]
"""What is measured, and what came out."""

WINDOW = 30.0
"""Seconds; rates are taken over one that is over and the one that runs."""

Reading = tuple[float, "dict[str, float]"]
"""A moment, and all totals as they were then."""

Sample = tuple[float, float, float, "list[float]"]
"""Count, sum and maximum of what was measured, and what came after these were made."""

SUM_AFTER = 64
"""So many observations are kept as they are before they are added up, all at once and so without Python."""


def no_sample() -> Sample:
    return 0, 0, NOTHING_YET, []


def summed(sample: Sample) -> tuple[float, float, float]:
    """Count, sum and maximum of all of it.  Any thread: a sample's list only grows."""
    count, total, highest, fresh = sample
    fresh = fresh.copy()
    if not fresh:
        return count, total, highest
    most = max(fresh)
    return count + len(fresh), total + sum(fresh), highest if most <= highest else most


class Metrics:
    """Named numbers of one client.

    totals: names of counters that are there from the start, at 0.
    measured: names of what is observed, each with the endings under which it is read, "avg" and "max".
    rates: names of rates, each with the total that it is of, and by how much that is divided.
    monotonic: the clock of the rates, in seconds.
    """

    __slots__ = (
        "_before",
        "_gauges",
        "_lock",
        "_measured",
        "_monotonic",
        "_rates",
        "_running",
        "_samples",
        "_shared",
        "_totals",
        "_turning",
        "_unsummed",
        "_window_ends",
    )

    def __init__(
        self,
        totals: Iterable[str] = (),
        measured: dict[str, tuple[str, ...]] | None = None,
        rates: Mapping[str, tuple[str, float]] | None = None,
        monotonic: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._totals: dict[str, float] = dict.fromkeys(totals, 0)
        self._rates = rates or {}
        self._monotonic = monotonic
        # The windows begin with the first thing counted in them, so nobody has to wake up for it.
        self._running: Reading = (monotonic(), {})
        self._before: Reading = self._running
        self._window_ends = self._running[0] + WINDOW
        self._measured = measured or {}
        self._samples: defaultdict[str, Sample] = defaultdict(
            no_sample, {name: no_sample() for name in self._measured}
        )
        self._unsummed = 0
        self._gauges: dict[str, Callable[[], float]] = {}
        self._shared: defaultdict[str, float] = defaultdict(int)
        self._lock = threading.Lock()
        self._turning = threading.Lock()

    def add(self, name: str, amount: float = 1) -> None:
        if self._monotonic() >= self._window_ends:
            self._begin_window()
        self._totals[name] = self._totals.get(name, 0) + amount

    def count(self, name: str, amount: float = 1) -> None:
        """As `add`, from any thread.  A name is counted by this or by `add`, not by both."""
        if self._monotonic() >= self._window_ends:
            self._begin_window()
        with self._lock:  # without a call, at which a signal handler that counts as well would find it held
            self._shared[name] += amount

    def count_ns(self, name: str, seconds: float) -> None:
        """As `count`, of a duration, in nanoseconds."""
        self.count(name, round(seconds * 1e9))

    def observe(self, name: str, value: float) -> None:
        """One measurement, of which `name-avg` and `name-max` are kept."""
        self.observe_all(((name, value),))

    def observe_all(self, measured: Iterable[Measurement]) -> None:
        """`observe` of several, in one call."""
        samples = self._samples
        for name, value in measured:
            samples[name][3].append(value)
        self._unsummed += 1
        if self._unsummed >= SUM_AFTER:
            self._unsummed = 0
            for name, sample in samples.items():
                if sample[3]:
                    samples[name] = (*summed(sample), [])

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """A number that is looked up when somebody asks; `read` must be cheap and safe from any thread."""
        self._gauges[name] = read

    def snapshot(self) -> dict[str, float]:
        """All numbers by name."""
        numbers = {**self._totals, **self._shared}
        for name, sample in self._samples.copy().items():
            count, total, highest = summed(sample)
            endings = self._measured.get(name, ("avg", "max"))
            if "avg" in endings:
                numbers[f"{name}-avg"] = total / count if count else NOTHING_YET
            if "max" in endings:
                numbers[f"{name}-max"] = highest
        for name, (total_name, divisor) in self._rates.items():
            numbers[name] = self._rate(total_name, numbers.get(total_name, 0)) / divisor
        for name, read in self._gauges.copy().items():
            numbers[name] = read()
        return dict(sorted(numbers.items()))

    def _begin_window(self) -> None:
        """Something is about to be counted after the end of the window that ran."""
        if not self._turning.acquire(blocking=False):
            return  # another thread is at it, or this one is, under a signal handler
        try:
            now = self._monotonic()
            if now >= self._window_ends:
                self._before, self._running = self._running, (now, {**self._totals, **self._shared})
                self._window_ends = now + WINDOW
        finally:
            self._turning.release()

    def _rate(self, name: str, total: float) -> float:
        """What was added a second, since the older window began, or the younger if that is too long ago."""
        now = self._monotonic()
        for began, totals in (self._before, self._running):
            elapsed = now - began
            if elapsed < 2 * WINDOW:
                # As in Kafka: one window counts as past, so that the first seconds do not say too much.
                return (total - totals.get(name, 0)) / (elapsed if elapsed >= WINDOW else elapsed + WINDOW)
        return 0.0
