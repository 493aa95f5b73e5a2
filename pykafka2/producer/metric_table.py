"""The producer's metrics: Kafka's names, and what each says here.

Pure data.  docs/reference/producer-metrics.md is held against it, and `producer.metrics()` has these names.
"""

from __future__ import annotations

TOTALS = {
    "batch-split-total": "batches that were split because a broker found them too large",
    "record-error-total": "records that failed",
    "record-retry-total": "records in batches that were sent again",
    "record-send-total": "records that were written",
}
"""Counted by the IO thread."""

SHARED_TOTALS = {
    "buffer-exhausted-total": "sends that found no room in buffer_memory within max_block_ms",
    "bufferpool-wait-time-ns-total": "nanoseconds for which sends waited for room in buffer_memory",
    "flush-time-ns-total": "nanoseconds spent in `flush`",
    "metadata-wait-time-ns-total": "nanoseconds for which sends waited for metadata",
    "txn-abort-time-ns-total": "nanoseconds spent in `abort_transaction`",
    "txn-begin-time-ns-total": "nanoseconds spent in `begin_transaction`",
    "txn-commit-time-ns-total": "nanoseconds spent in `commit_transaction`",
    "txn-init-time-ns-total": "nanoseconds spent in `init_transactions`",
    "txn-send-offsets-time-ns-total": "nanoseconds spent in `send_offsets_to_transaction`",
}
"""Counted by callers' threads."""

RATES = {
    "batch-split-rate": (("batch-split-total", 1), "batches a second that were split"),
    "buffer-exhausted-rate": (("buffer-exhausted-total", 1), "sends a second that found no room in time"),
    "bufferpool-wait-ratio": (
        ("bufferpool-wait-time-ns-total", 1e9),
        "seconds for which sends waited for room, of each second",
    ),
    "record-error-rate": (("record-error-total", 1), "records a second that failed"),
    "record-retry-rate": (("record-retry-total", 1), "records a second in batches that were sent again"),
    "record-send-rate": (("record-send-total", 1), "records a second that were written"),
}
"""Of the last half minute to minute: the total, what it is divided by, and what it says."""

AVG, MAX = "avg", "max"

MEASURED = {
    "batch-size": ((AVG, MAX), "bytes of a batch as it was sent"),
    "compression-rate": ((AVG,), "bytes of a batch over those of its records before compression"),
    "produce-throttle-time": ((AVG, MAX), "milliseconds for which a broker asked to be left alone"),
    "record-queue-time": ((AVG, MAX), "milliseconds from a batch's first record until it was sent"),
    "record-size": ((AVG,), "bytes of a record before compression, averaged over batches"),
    "records-per-request": ((AVG,), "records in a Produce request"),
    "request-latency": ((AVG, MAX), "milliseconds from a Produce request to its answer"),
}

GAUGES = {
    "buffer-available-bytes": "what is left of buffer_memory",
    "buffer-total-bytes": "buffer_memory",
    "connection-count": "open connections",
    "metadata-age": "seconds since the metadata was last refreshed",
    "requests-in-flight": "Produce requests whose answers are awaited",
    "waiting-threads": "sends that wait for room in buffer_memory",
}


def texts() -> dict[str, str]:
    """What each metric says, by its whole name."""
    measured = {f"{stem}-{ending}": text for stem, (endings, text) in MEASURED.items() for ending in endings}
    rates = {name: text for name, (_, text) in RATES.items()}
    return dict(sorted({**TOTALS, **SHARED_TOTALS, **rates, **measured, **GAUGES}.items()))
