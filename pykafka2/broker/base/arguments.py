"""Checks of the arguments of controls: partitions, numbers, and the names of APIs and errors.

Used by controls.py and its parts, before they act. A misspelt topic raises with the nearest name.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from pykafka2 import errors
from pykafka2.broker.config.keys import nearest
from pykafka2.errors import BrokerError, ConfigurationError, UnknownTopicOrPartition
from pykafka2.protocol.registry import API_KEYS
from pykafka2.protocol.struct import Request
from pykafka2.text import shown

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
    # An int can be larger than any float; calculations with floats would then raise OverflowError.
    if not (is_number and least <= value <= sys.float_info.max):  # type: ignore[operator]
        raise ConfigurationError(f"{name}={shown(repr(value))}: use a finite number of at least {least}")


def check_count(name: str, value: object) -> None:
    """Raise `ConfigurationError` unless the value is a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name}={value!r}: use a whole number of at least 1")


def check_flag(name: str, value: object) -> None:
    """Raise `ConfigurationError` unless the value is a bool: text such as "false" would mean true."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}={value!r}: use true or false")


def check_client(client_id: object) -> None:
    """Raise `ConfigurationError` unless the client id is a string."""
    if not isinstance(client_id, str):
        raise ConfigurationError(f"client_id={client_id!r}: use a client id as a string")


ApiName = str | int | type[Request[Any]]
"""An API: a name such as "Produce", an API key, or a request class."""


def api_name(api: ApiName) -> str:
    """Return Kafka's name of an API for a name, key or request class. Raise if it is unknown."""
    return API_KEYS[api_key(api)].name


def api_key(api: ApiName) -> int:
    if isinstance(api, type) and issubclass(api, Request):
        return api.API_KEY
    for info in API_KEYS.values():
        if (api == info.key and not isinstance(api, bool)) or (
            isinstance(api, str) and info.name == api.removesuffix("Request")
        ):
            return info.key
    close = nearest(str(api), [info.name for info in API_KEYS.values()])
    raise ConfigurationError(f"unknown request {api!r}{close}")


def error_name(error: type[BrokerError]) -> str:
    """Return Kafka's name of an error, such as NOT_LEADER_OR_FOLLOWER.

    Raise if brokers cannot return it.
    """
    if not (isinstance(error, type) and issubclass(error, BrokerError)) or error.code is None:
        what = error.__name__ if isinstance(error, type) else repr(error)
        raise ConfigurationError(
            f"a broker cannot return {what}; use a class of pykafka2.errors, such as NotLeaderOrFollower"
        )
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", _class_of_code(error).__name__).upper()


def error_class(name: str) -> type[BrokerError]:
    """Return the error class for Kafka's name, a class name or a code. Raise if it is unknown."""
    known: dict[str, type[BrokerError]] = {}
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, BrokerError) and error.code is not None:
            of_code = _class_of_code(error)
            for word in (error_name(of_code), of_code.__name__, str(of_code.code)):
                known[word] = of_code
    if name not in known:
        raise ConfigurationError(f"unknown error {name!r}{nearest(name, known)}")
    return known[name]


def _class_of_code(error: type[BrokerError]) -> type[BrokerError]:
    """Return the class for a code on the wire; clients raise subclasses, such as UnknownUntilTimeout."""
    known = errors.for_code(error.code) if error.code else error
    return known if known.code == error.code else error
