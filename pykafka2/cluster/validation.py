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
"""Some ten times the largest clusters known."""

MOST_PARTITIONS = 100_000
"""Of a topic: ten times what Kafka makes by one request."""

HIGHEST_EPOCH = 1_000_000_000
"""A leader epoch counts elections: one a second comes to this in thirty years.  No older epoch is believed
after a higher one, so one that never comes would be waited for without end.
"""

LONGEST_HOST = 255
"""Characters of a name in the DNS."""


def checked_node(node_id: int, host: str, port: int, rack: str | None = None) -> Node:
    """The broker.  Raises `CorruptResponse` if it could not be connected to by any means."""
    if node_id < 0:
        raise CorruptResponse(f"a broker has the id {node_id}; ids count from 0")
    if not 0 < port < 65536:
        raise CorruptResponse(f"broker {node_id} has the port {port}; ports are 1 to 65535")
    if not 0 < len(host) <= LONGEST_HOST:
        raise CorruptResponse(f"broker {node_id} has a host of {len(host)} characters")
    return Node(node_id, host, port, rack)


def checked_metadata(answer: MetadataResponse) -> list[Node]:
    """The brokers of the answer, whose topics have been looked at as well.

    Raises `CorruptResponse`: more than 10,000 brokers; an id, port or host that cannot be; a topic of more
    than 100,000 partitions, or whose partitions are not those from 0 to their number, each once; a leader or
    an epoch that cannot be.
    """
    if len(answer.brokers) > MOST_BROKERS:
        raise CorruptResponse(
            f"a Metadata answer lists {len(answer.brokers)} brokers; at most {MOST_BROKERS} are believed"
        )
    for topic in answer.topics:
        _check_topic(topic)
    return [checked_node(one.node_id, one.host, one.port, one.rack) for one in answer.brokers]


def believable_nodes(nodes: Sequence[Node]) -> bool:
    """Whether these brokers, named in passing by an answer about something else, could be connected to."""
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
            f"a Metadata answer gives topic {topic.name!r} {count} partitions; at most {MOST_PARTITIONS} are "
            "believed"
        )
    indexes = {partition.partition_index for partition in topic.partitions}
    if len(indexes) != count or (count and (min(indexes) != 0 or max(indexes) != count - 1)):
        odd = next((index for index in sorted(indexes) if not 0 <= index < count), None)
        what = "twice the same" if odd is None else f"the number {odd}"
        raise CorruptResponse(
            f"a Metadata answer gives topic {topic.name!r} {count} partitions, among them {what}"
        )
    for partition in topic.partitions:
        if partition.leader_id < -1:
            raise CorruptResponse(
                f"a Metadata answer names {partition.leader_id} as leader of "
                f"{topic.name}-{partition.partition_index}"
            )
        if partition.leader_epoch > HIGHEST_EPOCH:
            raise CorruptResponse(
                f"a Metadata answer gives {topic.name}-{partition.partition_index} a leader of epoch "
                f"{partition.leader_epoch}"
            )
