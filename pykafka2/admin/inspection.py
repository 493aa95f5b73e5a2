"""The admin client's `metrics()`, `health()` and `explain()`. Reads without locks, on any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.types import AdminHealth

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient


class InspectionCalls:
    """The calls of `KafkaAdminClient` that send nothing. Thread-safe."""

    _cluster: ClusterClient

    def metrics(self) -> dict[str, float]:
        """Return the client's metrics by name; the names can change until 1.0."""
        cluster = self._cluster
        metadata, now = cluster.metadata, cluster.driver.clock.monotonic()
        age = now - metadata.last_successful_refresh if metadata.version else -1.0
        return {
            "connection-count": cluster.nodes.connection_count,
            "calls-in-progress": len(cluster.names_of_calls()),
            "metadata-version": metadata.version,
            "metadata-age": age,
        }

    def health(self) -> AdminHealth:
        """Return the client's state for readiness checks; send nothing and never block."""
        cluster = self._cluster
        return {**cluster.health(is_closed=cluster.is_closed), "calls": cluster.names_of_calls()}

    def explain(self) -> str:
        """Explain in words what the client is waiting for. The text can change."""
        health = self.health()
        if health["state"] != "open":
            because = f": {health['failure']}; close it and create a new one" if health["failure"] else ""
            return f"The admin client is {health['state']}{because}."
        nodes, calls = self._cluster.nodes, health["calls"]
        lines = [f"Calls in progress: {', '.join(calls)}." if calls else "No call is in progress."]
        if not health["connected"]:
            lines.append(f"No broker is connected: {nodes.unconnected()}")
        else:
            lines += [f"{address} cannot be reached: {why}" for address, why in health["unreachable"].items()]
        lines += nodes.why_throttled(self._cluster.driver.clock.monotonic())
        if health["metadata_error"]:
            lines.append(f"The last request for metadata failed: {health['metadata_error']}")
        return "\n".join(lines)
