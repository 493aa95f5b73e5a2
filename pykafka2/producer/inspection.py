"""The producer's `metrics()`, `metric_rows()`, `health()` and `explain()`.

Used on any thread. It reads without locks what the IO thread writes, so the values are not a snapshot of
one instant.
"""

from __future__ import annotations

import attrs

from pykafka2 import lifecycle
from pykafka2.cluster.client import ClusterClient
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.partitioning.route_table import Routes
from pykafka2.producer.sending.memory_shares import Taken
from pykafka2.producer.sending.sender import Sender
from pykafka2.producer.transactions.state import NEXT_STEP, TransactionState, TransactionStatus
from pykafka2.text import why_not_open
from pykafka2.types import Metric, ProducerHealth


class Inspection:
    """Reads the parts of one producer."""

    def __init__(
        self,
        client: ClusterClient,
        accumulator: Accumulator,
        sender: Sender,
        routes: Routes,
        transactions: TransactionStatus | None = None,
    ) -> None:
        self._transactions = transactions
        self._client = client
        self._accumulator = accumulator
        self._sender = sender
        self._routes = routes
        pool, metadata, metrics = accumulator.pool, client.metadata, client.metrics
        metrics.gauge("buffer-total-bytes", lambda: pool.total_bytes)
        metrics.gauge("buffer-available-bytes", lambda: pool.available_bytes)
        metrics.gauge("waiting-threads", lambda: len(pool.waiters))
        metrics.gauge("requests-in-flight", lambda: sender.requests_in_flight)
        monotonic = client.driver.clock.monotonic
        metrics.gauge("metadata-age", lambda: monotonic() - metadata.last_successful_refresh)

    def metric_rows(self) -> list[Metric]:
        with lifecycle.loading:
            from pykafka2.metric_table import PRODUCER

        client = self._client
        return client.metrics.rows(PRODUCER, client.options.client_id or "")

    def labels(self) -> dict[str, str]:
        """Return the producer's attributes in telemetry."""
        transactional_id = None if self._transactions is None else self._transactions.transactional_id
        return {} if transactional_id is None else {"transactional_id": transactional_id}

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
            "senders_waiting_for_memory": len(self._accumulator.pool.waiters),
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
            return why_not_open("producer", health["state"], health["failure"])
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
