"""Offsets as Spark keeps them in checkpoints, in the shape of its own Kafka connector: {"topic": {"0": 23}}.

Pure.  Spark compares offsets by their JSON text, so equal ones must come out in one order, always: topics by
name, partitions by number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pykafka2 import TopicPartition
from spark_connector.errors import WrongOffsets

Offsets = dict[TopicPartition, int]


def to_spark(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return found


def from_spark(told: Mapping[str, Any]) -> Offsets:
    """Offsets that Spark hands back, perhaps from a checkpoint that somebody edited.

    Raises:
        WrongOffsets: they are not in the shape of `to_spark`.
    """
    found: Offsets = {}
    for topic, entries in told.items():
        if not isinstance(entries, Mapping):
            raise WrongOffsets(f'offsets of topic {topic!r}: {entries!r} is no {{"partition": offset}}')
        for number, offset in entries.items():
            if not str(number).isdecimal() or not isinstance(offset, int) or offset < 0:
                raise WrongOffsets(f"offsets of topic {topic!r}: partition {number!r} at {offset!r}")
            found[TopicPartition(topic, int(number))] = offset
    return found


def shown(partitions: Mapping[TopicPartition, object] | set[TopicPartition]) -> str:
    """Partitions for messages."""
    return ", ".join(f"{one.topic}-{one.partition}" for one in sorted(partitions))
