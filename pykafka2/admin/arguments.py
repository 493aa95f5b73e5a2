"""Checks the arguments of admin calls before a request is sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pykafka2.cluster.arguments import checked_partition, describe_argument
from pykafka2.errors import IllegalArgument, InvalidTopicException
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from uuid import UUID

    from pykafka2.cluster.client import ClusterClient

UUID_BYTES = 16


def texts(argument: str, values: Iterable[str]) -> list[str]:
    """Return a list of the strings, each once; reject a single string, which iterates by letters."""
    if isinstance(values, str):
        raise IllegalArgument(f"{argument}={values!r} must be a list; pass [{values!r}] for a single value")
    unique = list(dict.fromkeys(values))
    for value in unique:
        if not isinstance(value, str):
            raise IllegalArgument(f"{argument} must contain strings, not {value!r}")
    return unique


def text(argument: str, value: object) -> str:
    """Return the string; raise IllegalArgument if it is none or empty."""
    if not isinstance(value, str) or not value:
        raise IllegalArgument(f"{argument} must be a str that is not empty, not {describe_argument(value)}")
    return value


def one_of(argument: str, value: object, known: Iterable[str]) -> str:
    """Return the known name that equals the value, whatever its case. Raise IllegalArgument."""
    names = list(known)
    for name in names:
        if isinstance(value, str) and value.lower() == name.lower():
            return name
    raise IllegalArgument(f"{argument}={value!r} is not valid; use one of {', '.join(names)}")


def partitions_of(argument: str, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return each partition once. Raise IllegalArgument."""
    if isinstance(partitions, TopicPartition) or not hasattr(partitions, "__iter__"):
        raise IllegalArgument(
            f"{argument} must be a list of TopicPartition, not {describe_argument(partitions)}"
        )
    return list(dict.fromkeys(_partition(argument, partition) for partition in partitions))


def partition_keys(argument: str, mapping: Mapping[TopicPartition, object]) -> list[TopicPartition]:
    """Return the keys of a mapping by partition. Raise IllegalArgument."""
    if not isinstance(mapping, Mapping):
        raise IllegalArgument(
            f"{argument} must be a dict with a TopicPartition for each key, not {describe_argument(mapping)}"
        )
    return [_partition(argument, partition) for partition in mapping]


def whole_number(argument: str, value: object, least: int, most: int = 2**31 - 1) -> int:
    """Return the int; raise IllegalArgument if it is none or out of range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise IllegalArgument(f"{argument}={value!r} must be an int from {least} to {most}")
    return int(value)


def uuid_bytes(argument: str, value: bytes | UUID) -> bytes:
    """Return the 16 bytes of an id. Raise IllegalArgument."""
    found: object = getattr(value, "bytes", value)
    if not isinstance(found, bytes) or len(found) != UUID_BYTES:
        raise IllegalArgument(f"{argument} must be a UUID or {UUID_BYTES} bytes, not {value!r}")
    return found


def real_number(argument: str, value: object, *, minimum: float) -> float:
    """Return the number; raise IllegalArgument if it is none, not finite or below the minimum."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not minimum <= value < float("inf"):  # type: ignore[operator]
        raise IllegalArgument(f"{argument}={value!r} must be a number, at least {minimum:g}")
    return float(value)  # type: ignore[arg-type]


def config_value(setting: str, value: object) -> str:
    """Return the value of a setting as brokers read it. Raise IllegalArgument."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise IllegalArgument(f"{setting}={value!r} must be a str, a number or a bool")


def seconds_of(timeout: float | None, timeout_ms: float | None) -> float | None:
    """Return the timeout in seconds from either argument; None if both are None. Raise IllegalArgument."""
    if timeout_ms is None:
        return timeout
    if timeout is not None:
        raise IllegalArgument("timeout and timeout_ms mean the same; give one of them")
    return timeout_ms / 1000


def request_timeout_ms(cluster: ClusterClient, timeout: float | None) -> int:
    """Return how long a broker may work on a request: the call's timeout, at most request_timeout_ms."""
    seconds = cluster.seconds_of(timeout)
    return max(1, int(min(seconds, cluster.options.request_timeout) * 1000))


def _partition(argument: str, partition: object) -> TopicPartition:
    try:
        return checked_partition(partition)
    except (TypeError, ValueError, InvalidTopicException) as error:
        raise IllegalArgument(f"{argument} contains {describe_argument(partition)}: {error}") from None
