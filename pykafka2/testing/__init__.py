"""A Kafka broker in this process, for tests of whatever talks to Kafka.

    from pykafka2.testing import KafkaCluster

    with KafkaCluster(brokers=3, topics={"orders": 6}) as cluster:
        ...  # any Kafka client, at cluster.bootstrap_servers

`KafkaCluster` starts real brokers on loopback; `Topic` describes a topic with replication and
configuration; `FaultRule` says what happens to which requests; `Simulation` runs brokers and clients in
virtual time from one seed; `QUICK` are options under which tests need not wait.  The other names are the
types of what a cluster gives (`cluster.controls`, `.history`, `.partition(...)`), for annotations.  With
pytest the fixture `kafka_cluster` is there without an import.  Names load when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka2.testing.cluster import KafkaCluster, Topic
    from pykafka2.testing.cluster_metrics import ClusterMetrics
    from pykafka2.testing.controls import Controls
    from pykafka2.testing.event_log import ClusterEvent
    from pykafka2.testing.fault_rules import FaultRule
    from pykafka2.testing.group_views import GroupView
    from pykafka2.testing.history import Entry, History
    from pykafka2.testing.problems import Problem, Problems
    from pykafka2.testing.pytest_clusters import TlsKafkaCluster
    from pykafka2.testing.quick import QUICK
    from pykafka2.testing.simulation import Simulation
    from pykafka2.testing.timeline import Timeline
    from pykafka2.testing.transaction_views import TransactionView
    from pykafka2.testing.views import ConnectionView, LogView, PartitionView

__all__ = [
    "QUICK",
    "ClusterEvent",
    "ClusterMetrics",
    "ConnectionView",
    "Controls",
    "Entry",
    "FaultRule",
    "GroupView",
    "History",
    "KafkaCluster",
    "LogView",
    "PartitionView",
    "Problem",
    "Problems",
    "Simulation",
    "Timeline",
    "TlsKafkaCluster",
    "Topic",
    "TransactionView",
]

_HOMES = {
    "QUICK": "quick",
    "ClusterEvent": "event_log",
    "ClusterMetrics": "cluster_metrics",
    "ConnectionView": "views",
    "Controls": "controls",
    "Entry": "history",
    "FaultRule": "fault_rules",
    "GroupView": "group_views",
    "History": "history",
    "KafkaCluster": "cluster",
    "LogView": "views",
    "PartitionView": "views",
    "Problem": "problems",
    "Problems": "problems",
    "Simulation": "simulation",
    "Timeline": "timeline",
    "TlsKafkaCluster": "pytest_clusters",
    "Topic": "cluster",
    "TransactionView": "transaction_views",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
