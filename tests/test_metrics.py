"""Plain metrics: counted, averaged and looked up."""

from __future__ import annotations

from pykafka2.metrics import Metrics


def test_numbers_are_added_and_observations_averaged() -> None:
    metrics = Metrics()
    metrics.add("record-send-total", 3)
    metrics.add("record-send-total")
    metrics.observe("batch-size", 10)
    metrics.observe("batch-size", 30)
    metrics.gauge("buffer-available-bytes", lambda: 7)
    assert metrics.snapshot() == {
        "batch-size-avg": 20,
        "batch-size-count": 2,
        "batch-size-max": 30,
        "batch-size-total": 40,
        "buffer-available-bytes": 7,
        "record-send-total": 4,
    }


def test_a_snapshot_does_not_change_any_more() -> None:
    metrics = Metrics()
    metrics.add("x")
    snapshot = metrics.snapshot()
    metrics.add("x")
    assert snapshot == {"x": 1}
