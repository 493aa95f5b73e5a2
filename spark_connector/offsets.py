"""Offsets in the form that Spark keeps in checkpoints, as for its own Kafka connector: {"topic": {"0": 23}}.

Pure.  Spark compares offsets by their JSON text, so equal offsets must always have the same order: topics by
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


def from_spark(offsets: Mapping[str, Any]) -> Offsets:
    """Parse offsets from Spark, which may come from a checkpoint that was edited.

    Raises:
        WrongOffsets: they do not have the form that `to_spark` returns.
    """
    found: Offsets = {}
    for topic, entries in offsets.items():
        if not isinstance(entries, Mapping):
            raise WrongOffsets(f'Offsets of topic {topic!r} are {entries!r}, not {{"partition": offset}}')
        for number, offset in entries.items():
            if not str(number).isdecimal() or not isinstance(offset, int) or offset < 0:
                raise WrongOffsets(
                    f"Offsets of topic {topic!r} have partition {number!r} at offset {offset!r}"
                )
            found[TopicPartition(topic, int(number))] = offset
    return found


def shown(partitions: Mapping[TopicPartition, object] | set[TopicPartition]) -> str:
    """Format partitions for messages."""
    return ", ".join(f"{partition.topic}-{partition.partition}" for partition in sorted(partitions))
