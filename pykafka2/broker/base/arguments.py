"""What controls are given, checked before anything is done: partitions that there are, numbers, names.

For controls.py and its parts.  A misspelt topic raises and names the nearest one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.config.keys import nearest
from pykafka2.errors import ConfigurationError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from pykafka2.broker.base.image import ClusterImage
    from pykafka2.types import TopicPartition


def partition_key(image: ClusterImage, partition: TopicPartition | tuple[str, int]) -> tuple[str, int]:
    """The topic's name and the number of a partition that there is; raises for anything else."""
    if not (
        isinstance(partition, tuple)
        and len(partition) == 2
        and isinstance(partition[0], str)
        and isinstance(partition[1], int)
    ):
        raise ConfigurationError(f'{partition!r} is no partition: say ("topic", number)')
    topic, number = partition
    if image.partition(topic, number) is None:
        raise no_partition(image, topic, number)
    return topic, number


def no_partition(image: ClusterImage, topic: str, number: int) -> UnknownTopicOrPartition:
    """The error that names the nearest topic, or the partitions that there are."""
    known = image.topics.get(topic)
    if known is None:
        close = nearest(str(topic), image.topics)
        return UnknownTopicOrPartition(f"there is no partition {topic}-{number}: no topic {topic!r}{close}")
    last = len(known.partitions) - 1
    numbers = f"0 to {last}" if last else "only 0"
    return UnknownTopicOrPartition(f"there is no partition {topic}-{number}: {topic} has {numbers}")


def check_number(name: str, value: object, least: float) -> None:
    """Raise for what is no finite number from `least`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and least <= value < float("inf")):  # type: ignore[operator]
        raise ConfigurationError(f"{name}={value!r}: say a number from {least}")


def check_client(client_id: object) -> None:
    """Raise for what is no client's id."""
    if not isinstance(client_id, str):
        raise ConfigurationError(f"client_id={client_id!r}: say a client's id, as text")
