"""Plain metrics: counted, averaged and looked up."""

from __future__ import annotations

import math
import threading

from pykafka2.metrics import SUM_AFTER, Metrics


def test_numbers_are_added_and_observations_averaged() -> None:
    metrics = Metrics()
    metrics.add("record-send-total", 3)
    metrics.add("record-send-total")
    metrics.observe("batch-size", 10)
    metrics.observe("batch-size", 30)
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
    metrics.observe("size", -3)
    metrics.observe("size", -5)
    metrics.observe("ratio", 0.5)
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
    for size in range(10 * SUM_AFTER + 1):
        metrics.observe_all((("size", size), ("ratio", -size)))
        assert metrics.snapshot()["size-max"] == size
    numbers = metrics.snapshot()
    assert numbers == {"ratio-avg": -320, "ratio-max": 0, "size-avg": 320, "size-max": 640}
