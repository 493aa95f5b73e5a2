"""A Kafka broker in this process, for tests of Kafka clients and applications.

    from pykafka2.testing import KafkaCluster

    with KafkaCluster(brokers=3, topics={"orders": 6}) as cluster:
        ...  # any Kafka client, at cluster.bootstrap_servers

`KafkaCluster` starts real brokers on loopback.  `Topic` describes a topic with replication and configuration,
`Listener` a listener of the brokers, and `FaultRule` a fault of matching requests.  `Simulation` runs brokers
and clients in virtual time from one seed.  `QUICK` are options that shorten waits in tests.  The other names
are types of a cluster's attributes (`cluster.controls`, `.history`, `.partition(...)`), for annotations.  The
pytest fixture `kafka_cluster` needs no import.  Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka2.broker.base.problems import Problem, Problems
    from pykafka2.broker.config.table import STANDARD_AUTHORIZER
    from pykafka2.broker.faults.rule import FaultRule
    from pykafka2.broker.observed.event_log import ClusterEvent
    from pykafka2.broker.observed.history import Entry, History
    from pykafka2.testing.api import ClusterApi
    from pykafka2.testing.arguments import Topic
    from pykafka2.testing.cluster import KafkaCluster
    from pykafka2.testing.controls.access_rules import AccessRules
    from pykafka2.testing.controls.controls import Controls
    from pykafka2.testing.fixtures.clusters import TlsKafkaCluster
    from pykafka2.testing.listeners import Listener
    from pykafka2.testing.quick import QUICK
    from pykafka2.testing.simulation import Simulation
    from pykafka2.testing.views.groups import GroupView
    from pykafka2.testing.views.metrics import ClusterMetrics
    from pykafka2.testing.views.partitions import ConnectionView, LogView, PartitionView
    from pykafka2.testing.views.share_groups import ShareGroupView, SharePartitionView
    from pykafka2.testing.views.timeline import Timeline
    from pykafka2.testing.views.transactions import TransactionView

__all__ = [
    "QUICK",
    "STANDARD_AUTHORIZER",
    "AccessRules",
    "ClusterApi",
    "ClusterEvent",
    "ClusterMetrics",
    "ConnectionView",
    "Controls",
    "Entry",
    "FaultRule",
    "GroupView",
    "History",
    "KafkaCluster",
    "Listener",
    "LogView",
    "PartitionView",
    "Problem",
    "Problems",
    "ShareGroupView",
    "SharePartitionView",
    "Simulation",
    "Timeline",
    "TlsKafkaCluster",
    "Topic",
    "TransactionView",
]

_HOMES = {
    "QUICK": "pykafka2.testing.quick",
    "STANDARD_AUTHORIZER": "pykafka2.broker.config.table",
    "AccessRules": "pykafka2.testing.controls.access_rules",
    "ClusterApi": "pykafka2.testing.api",
    "ClusterEvent": "pykafka2.broker.observed.event_log",
    "ClusterMetrics": "pykafka2.testing.views.metrics",
    "ConnectionView": "pykafka2.testing.views.partitions",
    "Controls": "pykafka2.testing.controls.controls",
    "Entry": "pykafka2.broker.observed.history",
    "FaultRule": "pykafka2.broker.faults.rule",
    "GroupView": "pykafka2.testing.views.groups",
    "History": "pykafka2.broker.observed.history",
    "KafkaCluster": "pykafka2.testing.cluster",
    "Listener": "pykafka2.testing.listeners",
    "LogView": "pykafka2.testing.views.partitions",
    "PartitionView": "pykafka2.testing.views.partitions",
    "Problem": "pykafka2.broker.base.problems",
    "Problems": "pykafka2.broker.base.problems",
    "ShareGroupView": "pykafka2.testing.views.share_groups",
    "SharePartitionView": "pykafka2.testing.views.share_groups",
    "Simulation": "pykafka2.testing.simulation",
    "Timeline": "pykafka2.testing.views.timeline",
    "TlsKafkaCluster": "pykafka2.testing.fixtures.clusters",
    "Topic": "pykafka2.testing.arguments",
    "TransactionView": "pykafka2.testing.views.transactions",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
