"""Options that shorten Kafka's waits in tests: `KafkaCluster(config=QUICK)`.

Used by the pytest fixtures and `pykafka2 broker --quick`.  They change how long something takes, never its
result.  `KafkaCluster` itself has Kafka's defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

QUICK: Final[Mapping[str, object]] = MappingProxyType(
    {
        # The first member of a group does not wait three seconds for others.
        "group.initial.rebalance.delay.ms": 0,
        # A member that dies in a test is removed soon, if its session.timeout.ms is short.
        "group.min.session.timeout.ms": 100,
        # KIP-848 members receive a new assignment with their next heartbeat.
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.min.session.timeout.ms": 300,
        "group.consumer.assignment.interval.ms": 0,
        # Members of share groups, too.
        "group.share.min.heartbeat.interval.ms": 100,
        "group.share.heartbeat.interval.ms": 100,
        "group.share.assignment.interval.ms": 0,
        # By default, expired transactions are aborted only every ten seconds.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    }
)
"""Options by Kafka's names; `{**QUICK, "num.partitions": 3}` adds to them."""
