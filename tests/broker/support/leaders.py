"""Appends on a partition's leader without a client, as the Produce handler does."""

from __future__ import annotations

from typing import Any

from pykafka2.broker.replication.purgatory import ProduceResult
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch

Key = tuple[str, int]


def settled(simulation: Simulation, **options: Any) -> KafkaCluster:
    """Return a new cluster after a second, when its followers fetch."""
    cluster = simulation.cluster(**options)
    simulation.run_for(1)
    return cluster


def append(
    cluster: KafkaCluster,
    key: Key,
    *values: bytes,
    acks: int = 1,
    broker: int | None = None,
    timestamp: int | None = None,
) -> ProduceResult:
    """Append one batch; fail the test if the leader rejects it."""
    result = try_append(cluster, key, *values, acks=acks, broker=broker, timestamp=timestamp)
    assert result.error is None, result.error
    return result


def try_append(
    cluster: KafkaCluster,
    key: Key,
    *values: bytes,
    acks: int = 1,
    broker: int | None = None,
    timestamp: int | None = None,
) -> ProduceResult:
    """Append one batch and return the result."""
    one = cluster.broker(cluster.partition(*key).leader if broker is None else broker)
    now = cluster.runtime.clock.monotonic()
    now_ms = cluster.runtime.clock.wall_ms()
    with cluster.lock:
        result = one.replicas.append(
            key,
            batch(values, timestamp=now_ms if timestamp is None else timestamp),
            acks=acks,
            version=12,
            client_id=None,
            now=now,
            now_ms=now_ms,
        )
        one.replicas.complete_delayed(now)
    return result


def marks(cluster: KafkaCluster, key: Key) -> list[int]:
    """Return every replica's high watermark by broker."""
    views = cluster.partition(*key).replicas
    return [views[broker].high_watermark for broker in sorted(views)]


def ends(cluster: KafkaCluster, key: Key) -> list[int]:
    """Return every replica's log end offset by broker."""
    views = cluster.partition(*key).replicas
    return [views[broker].log_end_offset for broker in sorted(views)]
