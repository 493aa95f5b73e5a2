"""Internal topics of the coordinators, and the partition of a group or a transactional id.

Like Kafka's AutoTopicCreationManager: created by the controller, with the coordinator's configuration. An
unset replication factor depends on the cluster: three, or the number of live brokers (Kafka requires at least
three). Light to import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.topics import NewTopic
from pykafka2.broker.node import Node
from pykafka2.errors import BrokerError

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, over UTF-16 units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of the internal topic for a group or transactional id (Kafka's Utils.abs)."""
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


USUAL_REPLICATION_FACTOR: Final = 3

# Prefixes of both in the broker's configuration.
_PREFIXES: Final = {OFFSETS_TOPIC: "offsets.topic", TRANSACTIONS_TOPIC: "transaction.state.log"}


def partitions_of(config: BrokerConfig, topic: str) -> int:
    """Return the number of partitions for an internal topic."""
    return config.int(f"{_PREFIXES[topic]}.num.partitions")


def internal_topic(config: BrokerConfig, topic: str, live_brokers: int) -> NewTopic:
    """Return the definition of an internal topic."""
    prefix = _PREFIXES[topic]
    factor = config.int(f"{prefix}.replication.factor")
    if factor == -1:
        factor = min(USUAL_REPLICATION_FACTOR, live_brokers)
    configs: dict[str, object] = {
        "cleanup.policy": "compact",
        "segment.bytes": config.int(f"{prefix}.segment.bytes"),
    }
    if topic == TRANSACTIONS_TOPIC:
        configs["compression.type"] = "uncompressed"
        configs["min.insync.replicas"] = config.int("transaction.state.log.min.isr")
        configs["unclean.leader.election.enable"] = False
    else:
        configs["compression.type"] = "producer"
    return NewTopic(topic, partitions_of(config, topic), factor, configs)


def create_internal_topic(node: Node, create: Callable[[NewTopic], object], topic: str) -> None:
    """Have the controller create an internal topic; if it fails, there is no coordinator."""
    new = internal_topic(node.config, topic, len(node.image.live_brokers()))
    try:
        create(new)
    except BrokerError:
        return
