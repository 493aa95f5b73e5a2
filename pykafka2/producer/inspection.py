"""The producer's `metrics()`, `health()` and `explain()`, and the table of Kafka's metric names.

Used on any thread. It reads without locks what the IO thread writes, so the values are not a snapshot of
one instant. A test compares docs/reference/producer-metrics.md with the table.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2 import lifecycle
from pykafka2.cluster.client import ClusterClient
from pykafka2.metrics import Metrics
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.partitioning.route_table import Routes
from pykafka2.producer.sending.memory_shares import Taken
from pykafka2.producer.sending.sender import Sender
from pykafka2.producer.transactions.state import NEXT_STEP, TransactionState, TransactionStatus
from pykafka2.types import ProducerHealth


class Inspection:
    """Reads the parts of one producer."""

    def __init__(
        self,
        client: ClusterClient,
        accumulator: Accumulator,
        sender: Sender,
        routes: Routes,
        metrics: Metrics,
        transactions: TransactionStatus | None = None,
    ) -> None:
        self._transactions = transactions
        self._client = client
        self._accumulator = accumulator
        self._sender = sender
        self._routes = routes
        pool, metadata = accumulator.pool, client.metadata
        metrics.gauge("buffer-total-bytes", lambda: pool.total_bytes)
        metrics.gauge("buffer-available-bytes", lambda: pool.available_bytes)
        metrics.gauge("waiting-threads", lambda: pool.waiting)
        metrics.gauge("requests-in-flight", lambda: sender.requests_in_flight)
        metrics.gauge("connection-count", lambda: client.nodes.connection_count)
        monotonic = client.driver.clock.monotonic
        metrics.gauge("metadata-age", lambda: monotonic() - metadata.last_successful_refresh)

    def health(self) -> ProducerHealth:
        with lifecycle.loading:
            from pykafka2.compression.libraries import packages_in_use

        identity = self._sender.identity
        return {
            **self._client.health(is_closed=self._accumulator.is_closed),
            "records_waiting": self._accumulator.unsent_records(),
            "requests_in_flight": self._sender.requests_in_flight,
            "buffer_available_bytes": self._accumulator.pool.available_bytes,
            "buffer_overhead_bytes": self._accumulator.pool.overhead_bytes,
            "senders_waiting_for_memory": self._accumulator.pool.waiting,
            "senders_waiting_for_metadata": self._waiting_for_metadata(),
            "codec_libraries": packages_in_use(),
            "producer_id": None if identity is None else identity.sequences.identity[0],
            "producer_epoch": None if identity is None else identity.sequences.identity[1],
            "transaction_state": None if self._transactions is None else self._transactions.state.value,
            "transaction_error": None if self._transactions is None else _text(self._transactions.cause),
            "waiting_for": dict(self._sender.waiting_for),
            "partitions": self._partitions(),
        }

    def explain(self) -> str:
        health = self.health()
        if health["state"] != "open":
            because = f": {health['failure']}; close it and create a new one" if health["failure"] else ""
            return f"The producer is {health['state']}{because}."
        return self._explain_waits(health)

    def explain_waits(self) -> str:
        """Explain like `explain`, also while the producer closes."""
        return self._explain_waits(self.health())

    def _explain_waits(self, health: ProducerHealth) -> str:
        lines = self._explain_transaction()
        lines += self._sender.shares.crowded(self._partitions_of)
        for what, ages in health["senders_waiting_for_metadata"].items():
            lines.insert(
                0, f"Calls of send() waiting for {what}: {len(ages)}, the longest for {max(ages):.1f} s."
            )
        if health["records_waiting"]:
            lines.insert(0, f"Records queued or in flight: {health['records_waiting']}.")
        # Memory can be that of expired batches, which is free when their requests are off the wire.
        elif not (health["senders_waiting_for_metadata"] or health["senders_waiting_for_memory"]):
            return "\n".join(["Nothing waits: every record sent was written or has failed.", *lines])
        if not self._client.nodes.connection_count:
            lines.append(f"No broker is connected: {self._client.nodes.unconnected()}")
        lines += [f"{queue} waits for {what}." for queue, what in health["waiting_for"].items()]
        lines += self._client.nodes.why_throttled(self._client.driver.clock.monotonic())
        if health["senders_waiting_for_memory"]:
            lines.append(
                f"Calls of send() waiting for buffer_memory: {health['senders_waiting_for_memory']}."
            )
        if health["metadata_error"]:
            lines.append(f"The last request for metadata failed: {health['metadata_error']}")
        return "\n".join(lines)

    def _waiting_for_metadata(self) -> dict[str, list[float]]:
        """Return the seconds that each blocked call has waited, by what it waits for."""
        now = self._client.driver.clock.monotonic()
        found: dict[str, list[float]] = {}
        for what, since in [*self._routes.waiting.values()]:
            found.setdefault(what, []).append(now - since)
        return found

    def _partitions(self) -> dict[str, dict[str, int]]:
        """Return by partition what was written, and the number of queued batches."""
        numbers = {
            str(place): {**attrs.asdict(taken), "batches_waiting": 0}
            for place, taken in self._sender.shares.taken().items()
        }
        for queue in self._accumulator.waiting_queues():
            own = numbers.setdefault(str(queue), {**attrs.asdict(Taken()), "batches_waiting": 0})
            own["batches_waiting"] = len(queue.batches)
        return numbers

    def _partitions_of(self, topic: str) -> int:
        known = self._client.metadata.topic(topic)
        return len(known.partitions) if known is not None else 0

    def _explain_transaction(self) -> list[str]:
        status = self._transactions
        if status is None or status.state is TransactionState.READY:
            return []
        because = f" ({status.cause})" if status.cause is not None else ""
        return [f"Transactions: {status.state.value}{because}; {NEXT_STEP[status.state]}."]


def _text(error: BaseException | None) -> str | None:
    return None if error is None else repr(error)


TOTALS = {
    "batch-split-total": "batches that were split because a broker found them too large",
    "record-error-total": "records that failed",
    "record-retry-total": "records in retried batches",
    "record-send-total": "records that were written",
}
"""Counted by the IO thread."""

SHARED_TOTALS = {
    "buffer-exhausted-total": "sends that raised `BufferExhausted` after max_block_ms",
    "bufferpool-wait-time-ns-total": "nanoseconds that sends waited for buffer_memory",
    "flush-time-ns-total": "nanoseconds spent in `flush`",
    "metadata-wait-time-ns-total": "nanoseconds that sends waited for metadata",
    "txn-abort-time-ns-total": "nanoseconds spent in `abort_transaction`",
    "txn-begin-time-ns-total": "nanoseconds spent in `begin_transaction`",
    "txn-commit-time-ns-total": "nanoseconds spent in `commit_transaction`",
    "txn-init-time-ns-total": "nanoseconds spent in `init_transactions`",
    "txn-send-offsets-time-ns-total": "nanoseconds spent in `send_offsets_to_transaction`",
}
"""Counted by callers' threads."""

RATES = {
    "batch-split-rate": (("batch-split-total", 1), "batches split per second"),
    "buffer-exhausted-rate": (
        ("buffer-exhausted-total", 1),
        "sends per second that raised `BufferExhausted`",
    ),
    "bufferpool-wait-ratio": (
        ("bufferpool-wait-time-ns-total", 1e9),
        "seconds per second that sends waited for buffer_memory",
    ),
    "record-error-rate": (("record-error-total", 1), "records per second that failed"),
    "record-retry-rate": (("record-retry-total", 1), "records per second in retried batches"),
    "record-send-rate": (("record-send-total", 1), "records per second that were written"),
}
"""Rates over the last 30 to 60 seconds: the total, its divisor, and the description."""

AVG, MAX = "avg", "max"

MEASURED = {
    "batch-size": ((AVG, MAX), "bytes of a batch as sent"),
    "compression-rate": ((AVG,), "compressed bytes divided by uncompressed bytes of a batch"),
    "produce-throttle-time": ((AVG, MAX), "milliseconds of throttling by a broker (`throttle_time_ms`)"),
    "record-queue-time": ((AVG, MAX), "milliseconds from a batch's first record until it was sent"),
    "record-size": ((AVG,), "bytes of a record before compression, averaged over batches"),
    "records-per-request": ((AVG,), "records in a Produce request"),
    "request-latency": ((AVG, MAX), "milliseconds from a Produce request to its response"),
}

GAUGES = {
    "buffer-available-bytes": "free bytes of buffer_memory",
    "buffer-total-bytes": "buffer_memory",
    "connection-count": "open connections",
    "metadata-age": "seconds since the metadata was last refreshed",
    "requests-in-flight": "Produce requests in flight",
    "waiting-threads": "sends that wait for buffer_memory",
}


def texts() -> dict[str, str]:
    """Return the description of each metric by its full name."""
    measured = {f"{stem}-{ending}": text for stem, (endings, text) in MEASURED.items() for ending in endings}
    rates = {name: text for name, (_, text) in RATES.items()}
    return dict(sorted({**TOTALS, **SHARED_TOTALS, **rates, **measured, **GAUGES}.items()))


def producer_metrics(monotonic: Callable[[], float]) -> Metrics:
    """Return the metrics of one producer, all zero; `monotonic` returns seconds."""
    return Metrics(
        [*TOTALS, *SHARED_TOTALS],
        {name: endings for name, (endings, _) in MEASURED.items()},
        {name: total_and_divisor for name, (total_and_divisor, _) in RATES.items()},
        monotonic,
    )
