"""Counters and gauges under Kafka's metric names, as plain numbers.

Counted per batch and per request, never per record, and without making a string.  A `Metrics` is written by
one thread (the client's IO thread), but for `count`, and read by any; readings are whole but not taken at one
instant.  Totals, averages and maxima are those since the start; rates are those of the last half minute to
minute, as in Kafka with its defaults (metrics.num.samples 2, metrics.sample.window.ms 30000).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

NOTHING_YET = float("nan")
"""An average or maximum of nothing, as in Kafka."""


Row = tuple[float | None, ...]

WINDOW = 30.0
"""Seconds; rates are taken over one that is over and the one that runs."""

Reading = tuple[float, "dict[str, float]"]
"""A moment, and all totals as they were then."""

Sum = tuple[float, float, float]
"""Count, sum and maximum of what was measured."""

NO_SUM: Sum = (0, 0, NOTHING_YET)

SUM_AFTER = 64
"""So many rows are kept as they are before they are added up, all at once and so without Python."""


class Series:
    """Values that are measured together, such as size and age of a batch: a row of numbers at a time.

    One thread adds, any reads.  A None in a row counts for nothing.
    """

    __slots__ = ("_state", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._state: tuple[list[Sum], list[Row]] = ([NO_SUM] * len(names), [])

    def add(self, row: Row) -> None:
        """A number for each name."""
        fresh = self._state[1]
        fresh.append(row)
        if len(fresh) >= SUM_AFTER:
            self._state = (self.sums(), [])

    def sums(self) -> list[Sum]:
        """By name, all of it."""
        sums, fresh = self._state
        fresh = fresh.copy()  # rows may be added meanwhile
        if not fresh:
            return sums
        columns = zip(*fresh, strict=True)
        return [_with_more(one, column) for one, column in zip(sums, columns, strict=True)]


def _with_more(one: Sum, column: Sequence[float | None]) -> Sum:
    numbers = [number for number in column if number is not None] if None in column else column
    return _together(one, (len(numbers), sum(numbers), max(numbers))) if numbers else one  # type: ignore


def _together(one: Sum, other: Sum) -> Sum:
    count, total, highest = one
    more, amount, most = other
    return count + more, total + amount, highest if most <= highest or not more else most


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
        # The windows begin with the first thing counted in them, so nobody has to wake up for it.
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
        """Add to a counter from any thread.  A name is used with this or with `add`, not with both."""
        if self._monotonic() >= self._window_ends:
            self._begin_window()
        with self._lock:  # without a call, at which a signal handler that counts as well would find it held
            self._shared[name] += amount

    def count_ns(self, name: str, seconds: float) -> None:
        """Add a duration to a counter of nanoseconds, from any thread."""
        self.count(name, round(seconds * 1e9))

    def series(self, *names: str) -> Series:
        """To measure these together; of each `name-avg` and `name-max` are kept.  Some may be in others."""
        made = Series(names)
        self._series.append(made)
        return made

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """A number that is looked up when somebody asks; `read` must be cheap and safe from any thread."""
        self._gauges[name] = read

    def snapshot(self) -> dict[str, float]:
        """All numbers by name."""
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
            for name, one in zip(series.names, series.sums(), strict=True):
                sums[name] = _together(sums.get(name, NO_SUM), one)
        return sums

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
        """Return the increase per second since the older window, or the younger one if that is too old."""
        now = self._monotonic()
        for began, totals in (self._before, self._running):
            elapsed = now - began
            if elapsed < 2 * WINDOW:
                # As in Kafka: one window counts as past, so that the first seconds do not say too much.
                return (total - totals.get(name, 0)) / (elapsed if elapsed >= WINDOW else elapsed + WINDOW)
        return 0.0
