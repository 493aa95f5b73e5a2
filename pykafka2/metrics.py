"""Counts and measures what a client does, per batch and per request, never per record.

A `Meter` has the numbers of one set of tags, such as those of one broker; the `Metrics` of a client has all
meters. Each meter is written by one thread (except `Metrics.count`), without a lock, and read by any thread.
Each number is consistent, but they are not from the same instant. metric_table.py declares the metrics that
are made from the numbers.

Totals cover the time since the start. Rates, averages and extremes cover the last 30 to 60 seconds, as in
Kafka with its defaults (metrics.num.samples 2, metrics.sample.window.ms 30000).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from pykafka2.slotted import slotted
from pykafka2.types import Metric, MetricKind

NOTHING_YET = float("nan")
"""The average or maximum without any value, as in Kafka."""

Row = tuple[float | None, ...]

WINDOW = 30.0
"""Seconds of a window; rates cover the last complete window and the current one."""

SUM_EVERY = 2.0
"""Seconds after which measured values are summed, all at once and by C code."""

Sum = tuple[float, float]
"""Count and sum of the measured values."""
Extremes = tuple[float, float]
"""Minimum and maximum of the measured values."""

NO_SUM: Sum = (0, 0)
NO_EXTREMES: Extremes = (float("inf"), float("-inf"))

COUNT, SUM = ".count", ".sum"
"""The ends of the names of a measured value's two totals."""


@attrs.frozen
class Definition:
    """One metric.

    tags: the names of its tags besides `client-id`; there is a value for each set of their values.
    of: the number that it is made from; of two with `+` between them, the sum.
    per: for an average, the total that `of` is divided by; by default, `of` is a measured value.
    factor: what the number is multiplied by, to be in its unit.
    is_kafka: False for metrics that Apache Kafka does not have.
    """

    name: str
    group: str
    kind: MetricKind
    unit: str
    description: str
    of: str
    tags: tuple[str, ...] = ()
    per: str = ""
    factor: float = 1
    is_kafka: bool = True

    def row(self, value: float, tags: Mapping[str, str]) -> Metric:
        """Return the metric with a value."""
        return Metric(self.name, self.group, value, self.kind, self.unit, tags, self.description)


class Windows:
    """The two windows of a client's metrics.

    A window begins with the first turn or count after the end of the last one, so no timer is needed.
    """

    __slots__ = ("_ends_at", "_lock", "_monotonic", "_on_turn", "began", "began_before", "due_at", "number")

    def __init__(self, monotonic: Callable[[], float], on_turn: Callable[[int], None]) -> None:
        self._monotonic = monotonic
        self._on_turn = on_turn
        self._lock = threading.Lock()
        self.number = 0
        """Grows with each window."""
        self.began = self.began_before = monotonic()
        self._ends_at = self.began + WINDOW
        self.due_at = self.began + SUM_EVERY
        """When `turn` has something to do."""

    def turn(self) -> None:
        """Sum what was measured every `SUM_EVERY`, and start a window if the current one has ended."""
        if self._monotonic() < self.due_at or not self._lock.acquire(blocking=False):
            return  # not yet, or another thread does it, or this one, interrupted by a signal handler
        try:
            now = self._monotonic()
            if now >= self.due_at:
                is_over = now >= self._ends_at
                self._on_turn(self.number + is_over)
                if is_over:
                    self.began_before, self.began = self.began, now
                    self.number += 1
                    self._ends_at = now + WINDOW
                self.due_at = min(now + SUM_EVERY, self._ends_at)
        finally:
            self._lock.release()

    def covered(self) -> tuple[int, float]:
        """Return how many windows the values cover, and the seconds to divide a rate by."""
        now = self._monotonic()
        for windows, began in ((2, self.began_before), (1, self.began)):
            elapsed = now - began
            if elapsed < 2 * WINDOW:
                # As in Kafka, one full window is assumed, so that the first seconds do not inflate the rate.
                return windows, elapsed if elapsed >= WINDOW else elapsed + WINDOW
        return 0, WINDOW


@slotted(frozen=True, eq=False)
class _Measured:
    """The values of a series up to one moment, and the lists of rows that came after it.

    `rows` counts from the index `start`; `new` is the list that rows are added to.
    """

    window: int
    sums: list[Sum]
    before: list[Extremes]
    current: list[Extremes]
    rows: list[Row]
    start: int
    new: list[Row]


class Series:
    """Values that are measured together, such as size and age of a batch, as rows of numbers.

    One thread calls `add` with a row, a number for each name; a None is ignored. Any thread reads and sums.
    """

    __slots__ = ("_measured", "_windows", "add", "names")

    def __init__(self, names: tuple[str, ...], windows: Windows) -> None:
        self.names = names
        self._windows = windows
        new: list[Row] = []
        sums, nothing = [NO_SUM] * len(names), [NO_EXTREMES] * len(names)
        self._measured = _Measured(windows.number, sums, nothing, nothing, [], 0, new)
        self.add: Callable[[Row], None] = new.append
        """Adds a row. It makes no Python call, as it runs for each request."""

    def sum_rows(self, window: int) -> None:
        """Sum the rows up to now; rows that are added later belong to this window. One thread at a time."""
        measured = self._measured
        known = len(measured.new)
        if known or len(measured.rows) > measured.start or measured.window != window:
            new: list[Row] = []
            # A thread that is about to add has possibly read the old `add`, so its list is still counted.
            self._measured = _Measured(window, *self._sums(measured, known, window), measured.new, known, new)
            self.add = new.append

    def sums(self) -> tuple[list[Sum], list[Extremes], list[Extremes]]:
        """Return the sums, and the extremes in the window before and in the current one, by name."""
        measured = self._measured
        return self._sums(measured, len(measured.new), self._windows.number)

    def _sums(
        self, measured: _Measured, known: int, window: int
    ) -> tuple[list[Sum], list[Extremes], list[Extremes]]:
        """Return what `sums` does with so many of the new rows, as it is in this window."""
        sums, before, current = measured.sums, measured.before, measured.current
        rows = measured.rows[measured.start :] + measured.new[:known]
        if rows:
            columns = [_numbers(column) for column in zip(*rows, strict=True)]
            sums = [_added(old, column) for old, column in zip(sums, columns, strict=True)]
            current = [_widened(old, column) for old, column in zip(current, columns, strict=True)]
        ended = window - measured.window
        if ended > 0:
            nothing = [NO_EXTREMES] * len(self.names)
            before, current = current if ended == 1 else nothing, nothing
        return sums, before, current


def _numbers(column: Sequence[float | None]) -> Sequence[float]:
    return [number for number in column if number is not None] if None in column else column  # type: ignore


def _added(old: Sum, column: Sequence[float]) -> Sum:
    return (old[0] + len(column), old[1] + sum(column)) if column else old


def _widened(old: Extremes, column: Sequence[float]) -> Extremes:
    return (min(old[0], min(column)), max(old[1], max(column))) if column else old


class Meter:
    """The numbers of one set of tags. One thread writes, any thread reads."""

    __slots__ = ("_before", "_current", "_series", "_windows", "counters", "gauges", "tags", "totals")

    def __init__(self, windows: Windows, tags: Mapping[str, str]) -> None:
        self.tags = tags
        self.totals: defaultdict[str, float] = defaultdict(int)
        """The counters; the owner adds to them in place."""
        self.counters: dict[str, Callable[[], float]] = {}
        """Functions that return totals which other objects count; cheap, and safe on any thread."""
        self.gauges: dict[str, Callable[[], float]] = {}
        """Functions that return current values; cheap, and safe on any thread."""
        self._windows = windows
        self._series: list[Series] = []
        self._before: dict[str, float] = {}
        self._current: dict[str, float] = {}

    def series(self, *names: str) -> Series:
        """Return the series that measures these values together; a name can be in several series.

        The connections to a node whose address changes share it, however often they are created.
        """
        for series in self._series:
            if series.names == names:
                return series
        series = Series(names, self._windows)
        self._series.append(series)
        return series

    def turn(self, window: int) -> None:
        """Sum the measured values; if this window is a new one, keep the totals at its start."""
        for series in self._series:
            series.sum_rows(window)
        if window != self._windows.number:
            self._before, self._current = self._current, self.sums()

    def sums(self) -> dict[str, float]:
        """Return all totals, with count and sum of the measured values."""
        sums = dict(self.totals)
        for name, read in self.counters.copy().items():
            sums[name] = read()
        for series in self._series:
            for name, (count, total) in zip(series.names, series.sums()[0], strict=True):
                sums[name + COUNT] = sums.get(name + COUNT, 0) + count
                sums[name + SUM] = sums.get(name + SUM, 0) + total
        return sums

    def read(self, windows: int) -> Reading:
        """Return the numbers; changes and extremes are those of so many windows."""
        before = self._before if windows == 2 else self._current
        sums = self.sums()
        changes = {name: total - before.get(name, 0) for name, total in sums.items()} if windows else {}
        extremes: dict[str, Extremes] = {}
        for series in self._series if windows else ():
            _, last, current = series.sums()
            for name, older, newer in zip(series.names, last, current, strict=True):
                both = newer if windows == 1 else _wider(older, newer)
                extremes[name] = _wider(extremes.get(name, NO_EXTREMES), both)
        return Reading(sums, changes, extremes)


def _wider(one: Extremes, other: Extremes) -> Extremes:
    return min(one[0], other[0]), max(one[1], other[1])


class Reading:
    """The numbers of one meter at one moment: totals and current values, changes, and extremes."""

    __slots__ = ("changes", "extremes", "numbers")

    def __init__(
        self, numbers: dict[str, float], changes: dict[str, float], extremes: dict[str, Extremes]
    ) -> None:
        self.numbers = numbers
        self.changes = changes
        self.extremes = extremes

    def include(self, other: Reading) -> None:
        """Add the numbers of a part."""
        for mine, theirs in ((self.numbers, other.numbers), (self.changes, other.changes)):
            for name, number in theirs.items():
                mine[name] = mine.get(name, 0) + number
        for name, extremes in other.extremes.items():
            self.extremes[name] = _wider(self.extremes.get(name, NO_EXTREMES), extremes)

    def value(self, metric: Definition, seconds: float) -> float | None:
        """Return the value of a metric; None if this client does not have it."""
        of, factor = metric.of, metric.factor
        if metric.kind is MetricKind.GAUGE:
            return self.numbers.get(of)
        if metric.kind is MetricKind.COUNTER:
            return sum(self.numbers.get(name, 0) for name in of.split("+")) * factor
        if metric.kind is MetricKind.RATE:
            return sum(self.changes.get(name, 0) for name in of.split("+")) * factor / seconds
        if metric.kind is MetricKind.AVERAGE:
            total, count = (of, metric.per) if metric.per else (of + SUM, of + COUNT)
            times = self.changes.get(count, 0)
            return self.changes.get(total, 0) * factor / times if times else NOTHING_YET
        least, most = self.extremes.get(of, NO_EXTREMES)
        if most < least:
            return NOTHING_YET
        return (least if metric.kind is MetricKind.MINIMUM else most) * factor


class Metrics:
    """All meters of one client.

    Args:
        monotonic: the clock of the windows, in seconds.

    Attributes:
        main: the meter without tags.
        windows: the two windows; the client's loop turns them.
        timed_api: the API whose requests count for `request-latency`; None for all.
        latencies: by API, the milliseconds from each request to its response.
        latencies_of_successes: the same, for responses without an error.
    """

    __slots__ = (
        "_lock",
        "_meters",
        "_parts",
        "latencies",
        "latencies_of_successes",
        "main",
        "timed_api",
        "windows",
    )

    def __init__(self, monotonic: Callable[[], float] = lambda: 0.0) -> None:
        self.windows = Windows(monotonic, self._on_turn)
        self.main = Meter(self.windows, {})
        self.timed_api: int | None = None
        self.latencies: dict[int, Series] = {}
        self.latencies_of_successes: dict[int, Series] = {}
        self._meters: dict[tuple[tuple[str, str], ...], Meter] = {}
        self._parts: list[Callable[[], Iterable[Meter]]] = []
        self._lock = threading.Lock()

    def meter(self, **tags: str) -> Meter:
        """Return the meter with these tags; a new one starts with zeros. `_` in a name stands for `-`.

        The numbers of such meters also count for the metrics without tags.
        """
        key = tuple(tags.items())
        meter = self._meters.get(key)
        if meter is None:
            named = {name.replace("_", "-"): value for name, value in key}
            meter = self._meters.setdefault(key, Meter(self.windows, named))
        return meter

    def add_meters(self, current: Callable[[], Iterable[Meter]]) -> None:
        """Add meters that come and go; `current` returns those of now, on any thread."""
        self._parts.append(current)

    def new_meter(self, tags: Mapping[str, str]) -> Meter:
        """Return a meter that `add_meters` includes."""
        return Meter(self.windows, tags)

    def add(self, name: str, amount: float = 1) -> None:
        """Add to a counter, on the thread of the client's loop."""
        self.main.totals[name] += amount

    def count(self, name: str, amount: float = 1) -> None:
        """Add to a counter from any thread. Use a name with this or with `add`, not with both."""
        self.windows.turn()
        totals = self.main.totals
        with self._lock:  # no calls inside: a signal handler that also counts would deadlock there
            totals[name] += amount

    def count_ns(self, name: str, seconds: float) -> None:
        """Add a duration to a counter of nanoseconds, from any thread."""
        self.count(name, round(seconds * 1e9))

    def series(self, *names: str) -> Series:
        """Return a series of the meter without tags."""
        return self.main.series(*names)

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Add a current value that is read when it is needed; `read` must be cheap and thread-safe."""
        self.main.gauges[name] = read

    def counter(self, name: str, read: Callable[[], float]) -> None:
        """Add a total that another object counts; `read` must be cheap and thread-safe."""
        self.main.counters[name] = read

    def rows(self, table: Iterable[Definition], client_id: str) -> list[Metric]:
        """Return a row for each metric of the table and each set of its tags. Any thread."""
        windows, seconds = self.windows.covered()
        whole, tagged = self._read(windows)
        rows: list[Metric] = []
        for metric in table:
            readings = tagged.get(metric.tags, []) if metric.tags else [({}, whole)]
            for tags, reading in readings:
                value = reading.value(metric, seconds)
                if value is not None:
                    rows.append(metric.row(value, {"client-id": client_id, **tags}))
        return rows

    def _read(
        self, windows: int
    ) -> tuple[Reading, dict[tuple[str, ...], list[tuple[Mapping[str, str], Reading]]]]:
        whole = self.main.read(windows)
        tagged: dict[tuple[str, ...], list[tuple[Mapping[str, str], Reading]]] = {}
        for meter in self._tagged():
            reading = meter.read(windows)
            whole.include(reading)
            _add_gauges(meter, reading)
            tagged.setdefault(tuple(meter.tags), []).append((meter.tags, reading))
        _add_gauges(self.main, whole)
        return whole, tagged

    def _tagged(self) -> list[Meter]:
        meters = [*self._meters.copy().values()]
        for part in self._parts:
            meters += part()
        return meters

    def _on_turn(self, window: int) -> None:
        for meter in [self.main, *self._tagged()]:
            meter.turn(window)


def _add_gauges(meter: Meter, reading: Reading) -> None:
    for name, read in meter.gauges.copy().items():
        reading.numbers[name] = read()


def distinct_name(client_id: str, is_taken: Callable[[str], bool]) -> str:
    """Return the client_id, or with `#2`, `#3` and so on if clients of a process have the same one."""
    name, number = client_id, 1
    while is_taken(name):
        number += 1
        name = f"{client_id}#{number}"
    return name


def without_tags(rows: Iterable[Metric]) -> dict[str, float]:
    """Return the values of the metrics that have no tag but `client-id`, by name."""
    return {row.name: row.value for row in sorted(rows, key=_name) if len(row.tags) == 1}


def _name(row: Metric) -> str:
    return row.name
