"""Counters and gauges under Kafka's metric names, as plain numbers.

Counted per batch and per request, never per record, and without creating strings. One thread (the client's IO
thread) writes a `Metrics`, except `count`; any thread reads it. Each number is consistent, but they are not
from the same instant. Totals, averages and maxima cover the time since the start; rates cover the last 30 to
60 seconds, as in Kafka with its defaults (metrics.num.samples 2, metrics.sample.window.ms 30000).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

NOTHING_YET = float("nan")
"""The average or maximum without any value, as in Kafka."""


Row = tuple[float | None, ...]

WINDOW = 30.0
"""Seconds of a window; rates cover the last complete window and the current one."""

Reading = tuple[float, "dict[str, float]"]
"""A time, and all totals at that time."""

Sum = tuple[float, float, float]
"""Count, sum and maximum of the measured values."""

NO_SUM: Sum = (0, 0, NOTHING_YET)

SUM_AFTER = 64
"""Rows kept before they are summed, all at once and by C code."""


class Series:
    """Values that are measured together, such as size and age of a batch, as rows of numbers.

    One thread adds, any thread reads. A None in a row is ignored.
    """

    __slots__ = ("_state", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._state: tuple[list[Sum], list[Row]] = ([NO_SUM] * len(names), [])

    def add(self, row: Row) -> None:
        """Add a number for each name."""
        fresh = self._state[1]
        fresh.append(row)
        if len(fresh) >= SUM_AFTER:
            self._state = (self.sums(), [])

    def sums(self) -> list[Sum]:
        """Return the sums of all rows, in the order of the names."""
        sums, fresh = self._state
        fresh = fresh.copy()  # the writer can add rows meanwhile
        if not fresh:
            return sums
        columns = zip(*fresh, strict=True)
        return [_with_column(old, column) for old, column in zip(sums, columns, strict=True)]


def _with_column(old: Sum, column: Sequence[float | None]) -> Sum:
    numbers = [number for number in column if number is not None] if None in column else column
    return _combined(old, (len(numbers), sum(numbers), max(numbers))) if numbers else old  # type: ignore


def _combined(first: Sum, second: Sum) -> Sum:
    count, total, highest = first
    more, amount, most = second
    return count + more, total + amount, highest if most <= highest or not more else most


class Metrics:
    """Named numbers of one client.

    totals: names of counters that exist from the start, at 0.
    measured: names of measured values, each with the endings "avg" and "max" under which it is reported.
    rates: names of rates, each with its total and a divisor.
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
        "_series",
        "_shared",
        "_totals",
        "_turning",
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
        # A window begins with the first count in it, so no timer is needed.
        self._running: Reading = (monotonic(), {})
        self._before: Reading = self._running
        self._window_ends = self._running[0] + WINDOW
        self._measured = measured or {}
        self._series: list[Series] = []
        self._gauges: dict[str, Callable[[], float]] = {}
        self._shared: defaultdict[str, float] = defaultdict(int)
        self._lock = threading.Lock()
        self._turning = threading.Lock()

    def add(self, name: str, amount: float = 1) -> None:
        if self._monotonic() >= self._window_ends:
            self._begin_window()
        self._totals[name] = self._totals.get(name, 0) + amount

    def count(self, name: str, amount: float = 1) -> None:
        """Add to a counter from any thread. Use a name with this or with `add`, not with both."""
        if self._monotonic() >= self._window_ends:
            self._begin_window()
        with self._lock:  # no calls inside: a signal handler that also counts would deadlock there
            self._shared[name] += amount

    def count_ns(self, name: str, seconds: float) -> None:
        """Add a duration to a counter of nanoseconds, from any thread."""
        self.count(name, round(seconds * 1e9))

    def series(self, *names: str) -> Series:
        """Return a series that measures these values together; a name can be in several series."""
        series = Series(names)
        self._series.append(series)
        return series

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Add a number that `snapshot` reads; `read` must be cheap and thread-safe."""
        self._gauges[name] = read

    def snapshot(self) -> dict[str, float]:
        """Return all numbers by name."""
        numbers = {**self._totals, **self._shared}
        for name, (count, total, highest) in self._sums().items():
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

    def _sums(self) -> dict[str, Sum]:
        sums = dict.fromkeys(self._measured, NO_SUM)
        for series in self._series:
            for name, total in zip(series.names, series.sums(), strict=True):
                sums[name] = _combined(sums.get(name, NO_SUM), total)
        return sums

    def _begin_window(self) -> None:
        """Start the next window before the first count after the end of the last."""
        if not self._turning.acquire(blocking=False):
            return  # another thread does it, or this one, interrupted by a signal handler
        try:
            now = self._monotonic()
            if now >= self._window_ends:
                self._before, self._running = self._running, (now, {**self._totals, **self._shared})
                self._window_ends = now + WINDOW
        finally:
            self._turning.release()

    def _rate(self, name: str, total: float) -> float:
        """Return the increase per second since the older window, or the newer one if that is too old."""
        now = self._monotonic()
        for began, totals in (self._before, self._running):
            elapsed = now - began
            if elapsed < 2 * WINDOW:
                # As in Kafka, one full window is assumed, so that the first seconds do not inflate the rate.
                return (total - totals.get(name, 0)) / (elapsed if elapsed >= WINDOW else elapsed + WINDOW)
        return 0.0
