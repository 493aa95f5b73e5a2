"""The admin client's `metrics()`, `metric_rows()`, `health()` and `explain()`.

Reads without locks, on any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pykafka2 import lifecycle
from pykafka2.metrics import without_tags
from pykafka2.text import why_not_open
from pykafka2.types import AdminHealth, Metric

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient


class InspectionCalls:
    """The calls of `KafkaAdminClient` that send nothing. Thread-safe."""

    _cluster: ClusterClient

    def metrics(self) -> dict[str, float]:
        """Return the client's metrics without tags by name; `metric_rows` returns all."""
        return without_tags(self.metric_rows())

    def metric_rows(self) -> list[Metric]:
        """Return every metric as a row: name, group, value, kind, unit, tags, description. Any thread.

        Names, groups and tags are Apache Kafka's; the tag client-id is always there. Nothing is sent.
        """
        return rows_of(self._cluster)

    def client_instance_id(self, *, timeout: float | None = None) -> str:
        """Return the id that a broker gave this client for the metrics that it pushes (KIP-714).

        Raises:
            IllegalState: enable_metrics_push is False.
            UnsupportedVersion: the brokers do not receive metrics of clients.
        """
        return self._cluster.client_instance_id(timeout)

    def register_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push these metrics of the application with those of the client (KIP-1076). Any thread.

        `rows` is called before each push, on the IO thread: it must not block. It returns `Metric` rows with
        names that the client does not have. If it raises, that is logged once, and its rows are left out.
        Nothing calls it while no broker asks for metrics.
        """
        self._cluster.register_metrics(rows)

    def unregister_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push the metrics of this function no more; does nothing if it is not registered. Any thread."""
        self._cluster.unregister_metrics(rows)

    def health(self) -> AdminHealth:
        """Return the client's state for readiness checks; send nothing and never block."""
        cluster = self._cluster
        return {**cluster.health(is_closed=cluster.is_closed), "calls": cluster.names_of_calls()}

    def explain(self) -> str:
        """Explain in words what the client is waiting for. The text can change."""
        health = self.health()
        if health["state"] != "open":
            return why_not_open("admin client", health["state"], health["failure"])
        calls = health["calls"]
        lines = [f"Calls in progress: {', '.join(calls)}." if calls else "No call is in progress."]
        lines += self._cluster.nodes.explain(self._cluster.driver.clock.monotonic())
        if health["metadata_error"]:
            lines.append(f"The last request for metadata failed: {health['metadata_error']}")
        return "\n".join(lines)


def rows_of(cluster: ClusterClient) -> list[Metric]:
    """Return the metrics of the admin client with this core. Any thread."""
    with lifecycle.loading:
        from pykafka2.metric_table import ADMIN

    return cluster.metrics.rows(ADMIN, cluster.options.client_id or "")


def measure(cluster: ClusterClient) -> None:
    """Add the metrics that only an admin client has."""
    metrics, metadata, monotonic = cluster.metrics, cluster.metadata, cluster.driver.clock.monotonic
    metrics.gauge("calls-in-progress", lambda: len(cluster.names_of_calls()))
    metrics.gauge(
        "metadata-age",
        lambda: monotonic() - metadata.last_successful_refresh if metadata.version else -1.0,
    )
