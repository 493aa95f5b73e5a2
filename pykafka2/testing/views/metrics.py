"""The metrics of a cluster's requests, of each broker and of all brokers.

`cluster.metrics().api("Produce").total.p99`; as plain data and as a table for the timeline.  A copy of the
moment.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka2.broker.server.request_metrics import SPANS, ApiMetrics, RequestMetrics
from pykafka2.testing.running import Running

# Requests between brokers, which are not of interest next to those of clients.
BETWEEN_BROKERS = frozenset(
    {
        "AllocateProducerIds",
        "AlterPartition",
        "AssignReplicasToDirs",
        "BrokerHeartbeat",
        "BrokerRegistration",
        "Envelope",
    }
)


@attrs.define(frozen=True)
class ClusterMetrics:
    """The brokers' metrics by id (`RequestMetrics`), and their sums."""

    brokers: Mapping[int, RequestMetrics]

    @property
    def names(self) -> list[str]:
        """The APIs of which any broker has served a request."""
        return sorted({name for broker in self.brokers.values() for name in broker.names})

    @property
    def bytes_in(self) -> int:
        """Bytes of requests that all brokers have received from clients."""
        return sum(broker.bytes_in for broker in self.brokers.values())

    @property
    def bytes_out(self) -> int:
        """Bytes of responses that all brokers have sent to clients."""
        return sum(broker.bytes_out for broker in self.brokers.values())

    @property
    def replication_bytes(self) -> int:
        """Bytes that all followers have fetched."""
        return sum(broker.replication_bytes_in for broker in self.brokers.values())

    def api(self, name: str) -> ApiMetrics:
        """Return the metrics of an API, of all brokers.  Raise for a misspelt name."""
        together = ApiMetrics()
        for broker in self.brokers.values():
            together.add(broker.api(name))
        return together

    def as_dict(self) -> dict[str, object]:
        """Return everything for JSON: the sums and each broker's."""
        return {
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "replication_bytes": self.replication_bytes,
            "apis": {name: self.api(name).as_dict() for name in self.names},
            "brokers": {str(number): broker.as_dict() for number, broker in self.brokers.items()},
        }

    def lines(self) -> list[str]:
        """Return a table of request times in milliseconds, of all brokers; requests between brokers are left
        out except fetches of followers.
        """
        names = [name for name in self.names if name not in BETWEEN_BROKERS]
        if not names:
            return []
        heads = "".join(f"{span.replace('_', ' '):>18}" for span in SPANS)
        lines = [
            f"request times in ms (p50 / p99); bytes in {self.bytes_in}, out {self.bytes_out}, "
            f"replicated {self.replication_bytes}",
            f"{'':22}{'count':>6}{heads}",
        ]
        for name in names:
            api = self.api(name)
            lines.append(f"{name:22}{api.count:6}{''.join(f'{_times(api, span):>18}' for span in SPANS)}")
        return lines


def metrics_of(running: Running) -> ClusterMetrics:
    """Implement `ClusterApi.metrics`; also works after the end of the cluster."""
    with running.lock:
        return ClusterMetrics({broker.id: broker.metrics.copy() for broker in running.brokers})


def _times(api: ApiMetrics, span: str) -> str:
    histogram = getattr(api, span)
    return f"{histogram.p50 * 1000:.2f} / {histogram.p99 * 1000:.2f}" if histogram.max >= 0.00001 else "-"
