"""Plain metrics: counted, averaged and looked up."""

from __future__ import annotations

import math
import threading

import pytest

from pykafka2.metrics import NOTHING_YET, SUM_AFTER, Metrics, Series
from tests.driver.interleave import at_every_line, at_line


def test_numbers_are_added_and_observations_averaged() -> None:
    metrics = Metrics()
    metrics.add("record-send-total", 3)
    metrics.add("record-send-total")
    sizes = metrics.series("batch-size")
    sizes.add((10,))
    sizes.add((30,))
    metrics.gauge("buffer-available-bytes", lambda: 7)
    assert metrics.snapshot() == {
        "batch-size-avg": 20,
        "batch-size-max": 30,
        "buffer-available-bytes": 7,
        "record-send-total": 4,
    }


def test_declared_names_are_there_from_the_start() -> None:
    metrics = Metrics(["sent-total"], {"size": ("avg", "max"), "ratio": ("avg",)})
    before = metrics.snapshot()
    assert before.pop("sent-total") == 0
    assert before.keys() == {"size-avg", "size-max", "ratio-avg"}
    assert all(math.isnan(number) for number in before.values())
    series = metrics.series("size", "ratio")
    series.add((-3, None))
    series.add((-5, 0.5))
    assert metrics.snapshot() == {"sent-total": 0, "size-avg": -4, "size-max": -3, "ratio-avg": 0.5}


def test_threads_count_together() -> None:
    metrics = Metrics()
    threads = [
        threading.Thread(target=lambda: [metrics.count("waits-total") for _ in range(500)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert metrics.snapshot() == {"waits-total": 2000}


def test_a_snapshot_does_not_change_any_more() -> None:
    metrics = Metrics()
    metrics.add("x")
    snapshot = metrics.snapshot()
    metrics.add("x")
    assert snapshot == {"x": 1}


def test_more_is_measured_than_is_kept_as_it_came() -> None:
    metrics = Metrics(measured={"size": ("avg", "max")})
    series = metrics.series("size", "ratio")
    for size in range(10 * SUM_AFTER + 1):
        series.add((size, -size))
        assert metrics.snapshot()["size-max"] == size
    numbers = metrics.snapshot()
    assert numbers == {"ratio-avg": -320, "ratio-max": 0, "size-avg": 320, "size-max": 640}


def test_values_of_several_series_are_combined() -> None:
    metrics = Metrics()
    one, other = metrics.series("size", "age"), metrics.series("size")
    metrics.series("size")
    one.add((2, None))
    other.add((8,))
    numbers = metrics.snapshot()
    assert (numbers["size-avg"], numbers["size-max"]) == (5, 8)
    assert math.isnan(numbers["age-avg"])


@pytest.mark.parametrize("rows_before", [0, 1, SUM_AFTER - 1])
def test_row_added_during_a_snapshot_is_counted_now_or_later(rows_before: int) -> None:
    """A program asks on a thread of its own, between any two steps of the IO thread's."""

    def attempt(line: int) -> bool:
        metrics = Metrics()
        series = metrics.series("size", "age")
        for _ in range(rows_before):
            series.add((2, None))
        seen: list[dict[str, float]] = []
        was_struck = at_line(
            Series.sums.__code__, line, lambda: series.add((8, 1)), lambda: seen.append(metrics.snapshot())
        )
        before = 2 if rows_before else NOTHING_YET
        assert str(seen[0]["size-max"]) in (str(before), "8")
        assert not was_struck or metrics.snapshot()["size-max"] == 8
        return was_struck

    assert len([*at_every_line(attempt)]) >= 3
