"""The metrics that clients pushed to a cluster (KIP-714).

Bounded: the oldest pushes are dropped first. Written and read under the cluster's lock.
"""

from __future__ import annotations

from collections import deque

import attrs

from pykafka2.otlp import MetricPoint

MAX_PUSHES = 1_000


@attrs.define(frozen=True)
class TelemetryPush:
    """One push of a client.

    Attributes:
        broker: the id of the broker that received it.
        client_id: the client's `client_id`.
        client_instance_id: the id that a broker gave the client, in Kafka's text form.
        software: name and version of the client's library, such as "apache-kafka-java 4.4.0".
        time_ms: the time of the push, in milliseconds since the epoch.
        is_terminating: whether it is the last push of a client that closes.
        compression: none, gzip, snappy, lz4 or zstd.
        size_bytes: the size as sent.
        metrics: the values.
    """

    broker: int
    client_id: str | None
    client_instance_id: str
    software: str
    time_ms: int
    is_terminating: bool
    compression: str
    size_bytes: int
    metrics: tuple[MetricPoint, ...]

    def value(self, name: str, **attributes: str) -> float | None:
        """Return the value of the first metric with this name and these attributes, among others.

        Raise `KeyError` if the client did not push it.
        """
        for point in self.metrics:
            if point.name == name and attributes.items() <= point.attributes.items():
                return point.value
        raise KeyError(f"{name} {attributes or ''}".strip())


Pushes = deque[TelemetryPush]


def new_pushes() -> Pushes:
    """Return the list of a cluster's pushes, which drops the oldest ones."""
    return deque(maxlen=MAX_PUSHES)
