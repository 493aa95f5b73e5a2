"""Validates metadata and coordinator responses before they are used.

A broken broker, or another program on its port, must not cost memory or time, nor raise Python errors: an
impossible response is rejected as a whole, with the reason. Pure; used on the driver's thread by
metadata.py, coordinators.py and snapshot.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.errors import CorruptResponse
from pykafka2.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from pykafka2.types import Node

MOST_BROKERS = 10_000
"""About ten times the largest known clusters."""

MOST_PARTITIONS = 100_000
"""Most partitions of a topic: ten times what Kafka creates in one request."""

HIGHEST_EPOCH = 1_000_000_000
"""A leader epoch counts elections; one per second takes thirty years to get here. Lower epochs are ignored
after a higher one, so an impossible epoch would block the partition forever.
"""

LONGEST_HOST = 255
"""Longest DNS name in characters."""


def checked_node(node_id: int, host: str, port: int, rack: str | None = None) -> Node:
    """Return the broker. Raise CorruptResponse if its id, host or port is impossible."""
    if node_id < 0:
        raise CorruptResponse(f"a broker has the id {node_id}; ids start at 0")
    if not 0 < port < 65536:
        raise CorruptResponse(f"broker {node_id} has the port {port}; ports are from 1 to 65535")
    if not 0 < len(host) <= LONGEST_HOST:
        raise CorruptResponse(f"broker {node_id} has a host of {len(host)} characters")
    return Node(node_id, host, port, rack)


def checked_metadata(response: MetadataResponse) -> list[Node]:
    """Return the brokers of the response; check its topics as well.

    Raise CorruptResponse for more than 10,000 brokers, an impossible id, port or host, a topic with more
    than 100,000 partitions or with missing or duplicate partition numbers, and an impossible leader or epoch.
    """
    if len(response.brokers) > MOST_BROKERS:
        raise CorruptResponse(
            f"a Metadata response lists {len(response.brokers)} brokers; at most {MOST_BROKERS} are accepted"
        )
    for topic in response.topics:
        _check_topic(topic)
    return [
        checked_node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers
    ]


def believable_nodes(nodes: Sequence[Node]) -> bool:
    """Return True if the brokers that a response other than metadata lists have possible addresses."""
    try:
        for node in nodes[:MOST_BROKERS]:
            checked_node(node.id, node.host, node.port)
    except CorruptResponse:
        return False
    return len(nodes) <= MOST_BROKERS


def _check_topic(topic: MetadataResponseTopic) -> None:
    count = len(topic.partitions)
    if count > MOST_PARTITIONS:
        raise CorruptResponse(
            f"a Metadata response lists {count} partitions of topic {topic.name!r}; "
            f"at most {MOST_PARTITIONS} are accepted"
        )
    indexes = {partition.partition_index for partition in topic.partitions}
    if len(indexes) != count or (count and (min(indexes) != 0 or max(indexes) != count - 1)):
        odd = next((index for index in sorted(indexes) if not 0 <= index < count), None)
        what = "a duplicate" if odd is None else f"the number {odd}"
        raise CorruptResponse(
            f"a Metadata response lists {count} partitions of topic {topic.name!r}, among them {what}"
        )
    for partition in topic.partitions:
        if partition.leader_id < -1:
            raise CorruptResponse(
                f"a Metadata response names {partition.leader_id} as leader of "
                f"{topic.name}-{partition.partition_index}"
            )
        if partition.leader_epoch > HIGHEST_EPOCH:
            raise CorruptResponse(
                f"a Metadata response has the impossible leader epoch {partition.leader_epoch} for "
                f"{topic.name}-{partition.partition_index}"
            )
