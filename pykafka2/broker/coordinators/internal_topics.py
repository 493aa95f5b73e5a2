"""Internal topics of the coordinators, and the partition of a group, a transactional id or a share partition.

Like Kafka's AutoTopicCreationManager: created by the controller, with the coordinator's configuration. An
unset replication factor depends on the cluster: three, or the number of live brokers (Kafka requires at least
three). Light to import.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Final

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.topics import NewTopic
from pykafka2.broker.node import Node
from pykafka2.errors import BrokerError, InvalidRequest

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_STATE_TOPIC: Final = "__share_group_state"


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, over UTF-16 units."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of the internal topic for a coordinator's key (Kafka's Utils.abs)."""
    value = java_hash(key)
    return 0 if value == -(1 << 31) else abs(value) % partitions


def share_partition_key(group_id: str, topic_id: bytes, partition: int) -> str:
    """Return the key by which the share coordinator of a share partition is found (KIP-932)."""
    return f"{group_id}:{urlsafe_b64encode(topic_id).decode().rstrip('=')}:{partition}"


UUID_BYTES: Final = 16


def check_share_partition_key(key: str) -> None:
    """Raise `InvalidRequest` unless the key names a group, a topic id and a partition."""
    try:
        group_id, topic_id, partition = key.rsplit(":", 2)
        is_valid = bool(group_id.strip()) and len(urlsafe_b64decode(topic_id + "==")) == UUID_BYTES
        int(partition)
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidRequest(f"{key!r} is not a share partition; use group:topic id:partition")


USUAL_REPLICATION_FACTOR: Final = 3

# Prefixes of their options in the broker's configuration.
_PREFIXES: Final = {
    OFFSETS_TOPIC: "offsets.topic",
    TRANSACTIONS_TOPIC: "transaction.state.log",
    SHARE_STATE_TOPIC: "share.coordinator.state.topic",
}


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
    if topic == SHARE_STATE_TOPIC:
        # Not compacted, because updates add to each other: the coordinator deletes what snapshots replace.
        configs |= {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": -1}
        configs["min.insync.replicas"] = config.int(f"{prefix}.min.isr")
    elif topic == TRANSACTIONS_TOPIC:
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
