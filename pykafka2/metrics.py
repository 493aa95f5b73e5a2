"""Counters and gauges under Kafka's metric names, as plain numbers.

Counted per batch and per request, never per record, and without making a string.  A `Metrics` is written by
one thread (the client's IO thread), but for `count`, and read by any; readings are whole but not taken at one
instant.  Totals, averages and maxima are those since the start: a rate is the difference of two readings of a
total over the time between them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable

NOTHING_YET = float("nan")
"""An average or maximum of nothing, as in Kafka."""


class Metrics:
    """Named numbers of one client.

    totals: names of counters that are there from the start, at 0.
    measured: names of what is observed, each with the endings under which it is read, "avg" and "max".
    """

    __slots__ = ("_gauges", "_lock", "_measured", "_samples", "_shared", "_totals")

    def __init__(
        self, totals: Iterable[str] = (), measured: dict[str, tuple[str, ...]] | None = None
    ) -> None:
        self._totals: dict[str, float] = dict.fromkeys(totals, 0)
        self._measured = measured or {}
        # Count, sum and maximum of each.
        self._samples: dict[str, list[float]] = {name: [0, 0, NOTHING_YET] for name in self._measured}
        self._gauges: dict[str, Callable[[], float]] = {}
        self._shared: defaultdict[str, float] = defaultdict(int)
        self._lock = threading.Lock()

    def add(self, name: str, amount: float = 1) -> None:
        self._totals[name] = self._totals.get(name, 0) + amount

    def count(self, name: str, amount: float = 1) -> None:
        """As `add`, from any thread.  A name is counted by this or by `add`, not by both."""
        with self._lock:  # without a call, at which a signal handler that counts as well would find it held
            self._shared[name] += amount

    def count_ns(self, name: str, seconds: float) -> None:
        """As `count`, of a duration, in nanoseconds."""
        self.count(name, round(seconds * 1e9))

    def observe(self, name: str, value: float) -> None:
        """One measurement, of which `name-avg` and `name-max` are kept."""
        sample = self._samples.get(name)
        if sample is None:
            sample = self._samples[name] = [0, 0, value]
        sample[0] += 1
        sample[1] += value
        if not value <= sample[2]:  # true for the first one, too
            sample[2] = value

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """A number that is looked up when somebody asks; `read` must be cheap and safe from any thread."""
        self._gauges[name] = read

    def snapshot(self) -> dict[str, float]:
        """All numbers by name."""
        numbers = {**self._totals, **self._shared}
        for name, (count, total, highest) in self._samples.copy().items():
            endings = self._measured.get(name, ("avg", "max"))
            if "avg" in endings:
                numbers[f"{name}-avg"] = total / count if count else NOTHING_YET
            if "max" in endings:
                numbers[f"{name}-max"] = highest
        for name, read in self._gauges.copy().items():
            numbers[name] = read()
        return dict(sorted(numbers.items()))
