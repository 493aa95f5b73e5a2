"""Options under which tests need not wait for what Kafka does at leisure: `KafkaCluster(config=QUICK)`.

The pytest fixtures start from these; `pykafka2 broker --quick` takes them.  They change how long something
takes, never what happens.  `KafkaCluster` itself has Kafka's own values.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

QUICK: Final[Mapping[str, object]] = MappingProxyType(
    {
        # The first member of a group need not wait three seconds for others.
        "group.initial.rebalance.delay.ms": 0,
        # A member that died in a test is missed soon, if its session.timeout.ms says so.
        "group.min.session.timeout.ms": 100,
        # Members of KIP-848 groups hear of a new assignment with their next heartbeat.
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 100,
        "group.consumer.min.session.timeout.ms": 300,
        "group.consumer.assignment.interval.ms": 0,
        # Transactions whose time is up are looked for every ten seconds otherwise.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    }
)
"""Options by Kafka's names; `{**QUICK, "num.partitions": 3}` adds to them."""
