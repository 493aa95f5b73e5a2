"""A Kafka broker in this process, for tests of whatever talks to Kafka.

    from pykafka2.testing import KafkaCluster

    with KafkaCluster(brokers=3, topics={"orders": 6}) as cluster:
        ...  # any Kafka client, at cluster.bootstrap_servers

`KafkaCluster` starts real brokers on loopback; `Topic` describes a topic with replication and
configuration; `FaultRule` says what happens to which requests; `Simulation` runs brokers and clients in
virtual time from one seed.  With pytest the fixture `kafka_cluster` is there without an import.  Names load
when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka2.testing.cluster import KafkaCluster, Topic
    from pykafka2.testing.fault_rules import FaultRule
    from pykafka2.testing.simulation import Simulation

__all__ = ["FaultRule", "KafkaCluster", "Simulation", "Topic"]

_HOMES = {
    "FaultRule": "pykafka2.testing.fault_rules",
    "KafkaCluster": "pykafka2.testing.cluster",
    "Simulation": "pykafka2.testing.simulation",
    "Topic": "pykafka2.testing.cluster",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
