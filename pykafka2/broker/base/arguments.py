"""Checks of the arguments of controls: partitions, numbers, names.

Used by controls.py and its parts, before they act. A misspelt topic raises with the nearest name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.config.keys import nearest
from pykafka2.errors import ConfigurationError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from pykafka2.broker.base.image import ClusterImage
    from pykafka2.types import TopicPartition


def partition_key(image: ClusterImage, partition: TopicPartition | tuple[str, int]) -> tuple[str, int]:
    """Return topic and number of an existing partition. Raise for anything else."""
    if not (
        isinstance(partition, tuple)
        and len(partition) == 2
        and isinstance(partition[0], str)
        and isinstance(partition[1], int)
    ):
        raise ConfigurationError(f'{partition!r} is not a partition: use ("topic", number)')
    topic, number = partition
    if image.partition(topic, number) is None:
        raise no_partition(image, topic, number)
    return topic, number


def check_topic(image: ClusterImage, topic: object) -> None:
    """Raise unless this is the name of an existing topic."""
    if not isinstance(topic, str):
        raise ConfigurationError(f'{topic!r} is not a topic or partition: use "topic" or ("topic", number)')
    if topic not in image.topics:
        raise UnknownTopicOrPartition(f"unknown topic {topic!r}{nearest(topic, image.topics)}")


def no_partition(image: ClusterImage, topic: str, number: int) -> UnknownTopicOrPartition:
    """Return the error for a missing partition; it names the nearest topic, or the existing partitions."""
    known = image.topics.get(topic)
    if known is None:
        close = nearest(str(topic), image.topics)
        return UnknownTopicOrPartition(f"unknown partition {topic}-{number}: no topic {topic!r}{close}")
    last = len(known.partitions) - 1
    numbers = f"0 to {last}" if last else "only 0"
    return UnknownTopicOrPartition(f"unknown partition {topic}-{number}: {topic} has {numbers}")


def check_number(name: str, value: object, least: float) -> None:
    """Raise `ConfigurationError` unless the value is a finite number of at least `least`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and least <= value < float("inf")):  # type: ignore[operator]
        raise ConfigurationError(f"{name}={value!r}: use a number of at least {least}")


def check_client(client_id: object) -> None:
    """Raise `ConfigurationError` unless the client id is a string."""
    if not isinstance(client_id, str):
        raise ConfigurationError(f"client_id={client_id!r}: use a client id as a string")
