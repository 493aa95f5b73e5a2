"""Metrics: counted, measured, covered by windows, and returned as rows."""

from __future__ import annotations

import math
import threading
from functools import partial
from types import CodeType

import pytest

from pykafka2.metrics import (
    COUNT,
    NOTHING_YET,
    SUM,
    SUM_EVERY,
    WINDOW,
    Definition,
    Metrics,
    Series,
    without_tags,
)
from pykafka2.network.traffic import Traffic
from pykafka2.types import Metric, MetricKind
from tests.driver.interleave import at_every_line, at_line


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def defined(
    name: str, kind: MetricKind, of: str = "", tags: tuple[str, ...] = (), per: str = "", factor: float = 1
) -> Definition:
    return Definition(name, "group", kind, "things", "", of or name, tags, per, factor)


TABLE = [
    defined("sent-total", MetricKind.COUNTER),
    defined("sent-rate", MetricKind.RATE, "sent-total"),
    defined("size-avg", MetricKind.AVERAGE, "size"),
    defined("size-max", MetricKind.MAXIMUM, "size"),
    defined("size-min", MetricKind.MINIMUM, "size"),
    defined("free", MetricKind.GAUGE),
    defined("bytes-total", MetricKind.COUNTER, f"size{SUM}"),
    defined("sizes-per-sent", MetricKind.AVERAGE, f"size{COUNT}", per="sent-total"),
    defined("sent-total", MetricKind.COUNTER, tags=("topic",)),
    defined("size-max", MetricKind.MAXIMUM, "size", tags=("topic",)),
]


def values(metrics: Metrics) -> dict[str, float]:
    return without_tags(metrics.rows(TABLE, "app"))


def test_totals_and_measured_values_become_rows() -> None:
    metrics = Metrics()
    metrics.add("sent-total", 3)
    metrics.add("sent-total")
    sizes = metrics.series("size")
    sizes.add((10,))
    sizes.add((30,))
    metrics.gauge("free", lambda: 7)
    assert values(metrics) == {
        "bytes-total": 40,
        "free": 7,
        "sent-rate": 4 / 30,
        "sent-total": 4,
        "size-avg": 20,
        "size-max": 30,
        "size-min": 10,
        "sizes-per-sent": 0.5,
    }


def test_metrics_are_there_from_the_start_except_unknown_gauges() -> None:
    numbers = values(Metrics())
    assert numbers.pop("sent-total") == numbers.pop("sent-rate") == numbers.pop("bytes-total") == 0
    assert numbers.keys() == {"size-avg", "size-max", "size-min", "sizes-per-sent"}
    assert all(math.isnan(number) for number in numbers.values())


def test_row_has_everything_that_an_exporter_needs() -> None:
    metrics = Metrics()
    metrics.meter(topic="orders").totals["sent-total"] += 2
    table = [
        Definition("sent", "topics", MetricKind.COUNTER, "records", "Records.", "sent-total", ("topic",))
    ]
    assert metrics.rows(table, "app") == [
        Metric(
            "sent",
            "topics",
            2,
            MetricKind.COUNTER,
            "records",
            {"client-id": "app", "topic": "orders"},
            "Records.",
        )
    ]


def test_tagged_meters_also_count_for_the_metric_without_tags() -> None:
    metrics = Metrics()
    for topic, count in (("orders", 2), ("clicks", 5)):
        meter = metrics.meter(topic=topic)
        assert metrics.meter(topic=topic) is meter
        meter.totals["sent-total"] += count
        meter.series("size").add((count * 10,))
    rows = metrics.rows(TABLE, "app")
    assert {
        row.tags["topic"]: row.value for row in rows if row.name == "sent-total" and "topic" in row.tags
    } == {
        "orders": 2,
        "clicks": 5,
    }
    numbers = without_tags(rows)
    assert (numbers["sent-total"], numbers["size-max"], numbers["size-avg"]) == (7, 50, 35)


def test_meters_that_come_and_go_are_read_as_they_are_now() -> None:
    metrics = Metrics()
    current = [metrics.new_meter({"topic": "orders"}), metrics.new_meter({"topic": "clicks"})]
    metrics.add_meters(lambda: current)
    assert {row.tags.get("topic") for row in metrics.rows(TABLE, "app")} == {None, "orders", "clicks"}
    del current[0]
    assert {row.tags.get("topic") for row in metrics.rows(TABLE, "app")} == {None, "clicks"}


def test_rates_and_extremes_cover_the_last_two_windows() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    sizes = metrics.series("size")

    def record(size: float) -> None:
        metrics.windows.turn()
        metrics.add("sent-total", 30)
        sizes.add((size,))

    record(8)
    clock.now += WINDOW
    record(4)
    numbers = values(metrics)
    assert (numbers["size-max"], numbers["size-min"], numbers["size-avg"]) == (8, 4, 6)
    assert numbers["sent-rate"] == 2
    clock.now += WINDOW
    record(2)
    numbers = values(metrics)
    assert (numbers["size-max"], numbers["size-avg"]) == (4, 3), "the first window is over"
    assert numbers["sent-rate"] == 2
    clock.now += 2 * WINDOW
    numbers = values(metrics)
    assert math.isnan(numbers["size-max"])
    assert math.isnan(numbers["size-avg"])
    assert (numbers["sent-rate"], numbers["sent-total"]) == (0, 90)
    record(1)
    numbers = values(metrics)
    assert (numbers["size-max"], numbers["size-avg"]) == (1, 1), "what was before the pause is not covered"


@pytest.mark.parametrize(("elapsed", "seconds"), [(10, 40), (WINDOW, 30), (50, 50)])
def test_rate_is_divided_by_the_time_covered_and_by_one_window_at_least(elapsed: float, seconds: int) -> None:
    clock = Clock()
    metrics = Metrics(clock)
    metrics.add("sent-total", 600)
    clock.now += elapsed
    assert values(metrics)["sent-rate"] == pytest.approx(600 / seconds)


def test_rates_of_tagged_meters_cover_the_last_two_windows() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    table = [defined("sent-rate", MetricKind.RATE, "sent-total", tags=("topic",))]
    for topic, count in (("orders", 60), ("clicks", 30)):
        metrics.meter(topic=topic).totals["sent-total"] += count
    for _ in range(2):
        clock.now += WINDOW
        metrics.windows.turn()
    metrics.meter(topic="clicks").totals["sent-total"] += 15
    rates = {row.tags["topic"]: row.value for row in metrics.rows(table, "app")}
    assert rates == {"orders": 0, "clicks": 0.5}


def test_series_without_new_values_loses_its_old_ones() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    metrics.series("size").add((9,))
    for _ in range(2):
        clock.now += WINDOW
        metrics.windows.turn()
    assert math.isnan(values(metrics)["size-max"])


def test_totals_of_other_objects_have_rates() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    count = [5]
    metrics.counter("sent-total", lambda: count[0])
    clock.now += WINDOW
    metrics.windows.turn()
    count[0] += 60
    assert values(metrics)["sent-rate"] == 65 / WINDOW
    clock.now += WINDOW
    metrics.windows.turn()
    assert values(metrics)["sent-rate"] == 60 / WINDOW


def test_threads_count_together() -> None:
    metrics = Metrics()
    threads = [
        threading.Thread(target=lambda: [metrics.count("sent-total") for _ in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(metrics)["sent-total"] == 2000


def test_rows_do_not_change_any_more() -> None:
    metrics = Metrics()
    metrics.add("sent-total")
    before = values(metrics)
    metrics.add("sent-total")
    assert before["sent-total"] == 1


def test_sums_are_equal_at_any_moment_between_two_turns() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    series = metrics.series("size", "ratio")
    for size in range(100):
        series.add((size, -size))
        assert values(metrics)["size-max"] == size
        clock.now += SUM_EVERY / 30
        metrics.windows.turn()
    numbers = values(metrics)
    assert (numbers["size-avg"], numbers["size-max"], numbers["size-min"]) == (49.5, 99, 0)


def test_turns_within_a_window_keep_few_rows_and_the_window() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    series, rows = metrics.series("size"), 0
    for _ in range(14):
        for _ in range(50):
            series.add((1,))
        clock.now += SUM_EVERY
        metrics.windows.turn()
        rows = max(rows, len(series._measured.rows) + len(series._measured.new))
    assert rows <= 50
    assert metrics.windows.number == 0
    assert series.sums()[0] == [(700, 700)]


def test_window_ends_in_time_after_a_turn_just_before() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    clock.now += WINDOW - SUM_EVERY / 2
    metrics.windows.turn()
    assert metrics.windows.number == 0
    clock.now += SUM_EVERY / 2
    metrics.windows.turn()
    assert metrics.windows.number == 1


def test_early_turn_sums_nothing() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    series = metrics.series("size")
    series.add((1,))
    clock.now += SUM_EVERY * 0.9
    metrics.windows.turn()
    assert series._measured.new == [(1,)]


def test_values_of_several_series_are_combined() -> None:
    metrics = Metrics()
    one, other = metrics.series("age", "size"), metrics.series("size")
    metrics.series("size")
    one.add((None, 2))
    one.add((0, None))
    one.add((None, 0))
    other.add((8,))
    numbers = values(metrics)
    assert (numbers["size-avg"], numbers["size-max"], numbers["size-min"]) == (10 / 3, 8, 0), "0 is a value"


def test_meter_keeps_one_series_for_a_node_that_is_found_again() -> None:
    metrics = Metrics()
    for size in (1, 2):
        Traffic(metrics, "node-1").requests.add((size,))
        Traffic(metrics, "node-2").requests.add((10 * size,))
    meters = [metrics.meter(node_id=f"node-{number}") for number in (1, 2)]
    assert [meter.sums()[f"request-size{SUM}"] for meter in meters] == [3, 30]
    assert [meter.series("request-size").sums()[0] for meter in meters] == [[(2, 3)], [(2, 30)]]


@pytest.mark.parametrize("rows_before", [0, 1, 5])
@pytest.mark.parametrize("code", [Series.sums.__code__, Series._sums.__code__])
def test_row_added_while_rows_are_read_is_counted_now_or_later(rows_before: int, code: CodeType) -> None:
    """A program reads on a thread of its own, between any two steps of the IO thread's."""

    def attempt(line: int) -> bool:
        metrics = Metrics()
        series = metrics.series("size", "age")
        for _ in range(rows_before):
            series.add((2, None))
        seen: list[dict[str, float]] = []
        was_struck = at_line(code, line, lambda: series.add((8, 1)), lambda: seen.append(values(metrics)))
        before = 2 if rows_before else NOTHING_YET
        assert str(seen[0]["size-max"]) in (str(before), "8")
        assert not was_struck or values(metrics)["size-max"] == 8
        return was_struck

    assert len([*at_every_line(attempt)]) >= 2


@pytest.mark.parametrize("window", [0, 1, 2])
@pytest.mark.parametrize("rows_before", [0, 2])
def test_row_added_while_rows_are_summed_is_counted_once(rows_before: int, window: int) -> None:
    """The caller's thread adds lags, and reads, between any two steps of the IO thread's turn."""

    def attempt(line: int, *, is_late: bool) -> bool:
        metrics = Metrics()
        series = metrics.series("size")
        for _ in range(rows_before):
            series.add((2,))
        seen: list[float] = []

        def add_and_read() -> None:
            add((8,))
            seen.append(series.sums()[0][0][0])

        add = series.add
        was_struck = at_line(Series.sum_rows.__code__, line, add_and_read, lambda: series.sum_rows(window))
        if is_late and not was_struck:
            add((8,))  # the old list, after the turn
        assert series.sums()[0][0][0] == rows_before + (was_struck or is_late)
        assert seen in ([], [rows_before + 1])
        series.sum_rows(window)
        series.add((1,))
        assert series.sums()[0][0] == (
            rows_before + (was_struck or is_late) + 1,
            2 * rows_before + 8 * (was_struck or is_late) + 1,
        )
        return was_struck

    assert len([*at_every_line(partial(attempt, is_late=False))]) >= 3
    assert len([*at_every_line(partial(attempt, is_late=True))]) >= 3


def test_extremes_of_rows_around_a_turn_belong_to_their_windows() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    series = metrics.series("size")
    series.add((9,))
    for size in (5, 3, 1):
        clock.now += WINDOW
        metrics.windows.turn()
        series.add((size,))
        _, (before,), (current,) = series.sums()
        assert current == (size, size)
        assert before[0] == {5: 9, 3: 5, 1: 3}[size]
