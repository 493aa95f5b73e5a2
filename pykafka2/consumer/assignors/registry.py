"""Parses `partition_assignment_strategy`: one or several names, classes or objects of assignors.

Runs on the caller's thread when a consumer is created. A new assignor of Kafka needs one row in BUILT_IN.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from pykafka2.consumer.assignors.assignor import Assignor, rebalance_protocol
from pykafka2.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from pykafka2.consumer.assignors.range import RangeAssignor
from pykafka2.consumer.assignors.round_robin import RoundRobinAssignor
from pykafka2.consumer.assignors.sticky import StickyAssignor
from pykafka2.errors import ConfigurationError

OPTION: Final = "partition_assignment_strategy"

BUILT_IN: Final[dict[str, type[Assignor]]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
"""Kafka's assignors by their names in the group protocol."""

_JAVA_PACKAGE = "org.apache.kafka.clients.consumer."
_OTHER_NAMES: Final[dict[str, str]] = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
    "RangePartitionAssignor": "range",
    "RoundRobinPartitionAssignor": "roundrobin",
    "StickyPartitionAssignor": "sticky",
    "round_robin": "roundrobin",
    "cooperative_sticky": "cooperative-sticky",
}
"""Class names of the Java client and kafka-python."""

_PARTS = ("assign", "user_data", "on_assignment")
"""Methods that an assignor needs, in addition to `name` and `protocols`."""


def read_assignors(value: Any) -> tuple[Assignor, ...]:
    """Return the assignors to offer, the preferred one first.

    `value` is a name such as "range", a class name of the Java client, a class or an object, or several of
    them as a list or, for names, as a string with commas. Raise `ConfigurationError` for any other value;
    for a misspelt name the message has the nearest name.
    """
    if isinstance(value, str):
        entries: list[Any] = [name.strip() for name in value.split(",")]
    elif isinstance(value, Iterable) and not isinstance(value, type):
        entries = list(value)
    else:
        entries = [value]
    assignors = tuple(_read(entry) for entry in entries)
    if not assignors:
        raise ConfigurationError(f"{OPTION}={value!r}: a group needs an assignor; use 'range', for example")
    names = [assignor.name for assignor in assignors]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"{OPTION}: two assignors are named {name!r}; list it only once")
    rebalance_protocol(assignors)
    return assignors


def _read(entry: Any) -> Assignor:
    if isinstance(entry, str):
        return _by_name(entry)
    if isinstance(entry, type):
        _refuse_kafka_python(entry)
        try:
            entry = entry()
        except Exception as error:
            raise ConfigurationError(
                f"{OPTION}: {entry.__name__}() raised {error!r}; use an object instead of the class"
            ) from error
    return _checked(entry)


def _by_name(name: str) -> Assignor:
    short = name.removeprefix(_JAVA_PACKAGE)
    found = BUILT_IN.get(_OTHER_NAMES.get(short, short))
    if found is not None:
        return found()
    from difflib import get_close_matches

    known = [*BUILT_IN, *_OTHER_NAMES]
    nearest = get_close_matches(short, known, n=1, cutoff=0.0)
    nearest_name = _OTHER_NAMES.get(nearest[0], nearest[0]) if nearest else "range"
    raise ConfigurationError(
        f"{OPTION}: there is no assignor {name!r}; the nearest is {nearest_name!r}, all are "
        f"{', '.join(map(repr, BUILT_IN))}; pass a custom assignor as a class or an object"
    )


def _refuse_kafka_python(cls: type) -> None:
    package = cls.__module__.partition(".")[0]
    same = _OTHER_NAMES.get(cls.__name__)
    if package in ("kafka", "aiokafka") and same is not None:
        raise ConfigurationError(
            f"{OPTION}: {cls.__module__}.{cls.__name__} works in {package} only; use {same!r} instead"
        )


def _checked(value: Any) -> Assignor:
    """Return the object if it has all parts of an assignor; raise `ConfigurationError` otherwise."""
    missing = [part for part in _PARTS if not callable(getattr(value, part, None))]
    missing += [part for part in ("name", "protocols") if not hasattr(value, part)]
    if missing:
        raise ConfigurationError(
            f"{OPTION}: {value!r} is not an assignor, because it lacks {', '.join(missing)}; inherit from "
            "pykafka2.Assignor, which has defaults for all but name and assign"
        )
    if not isinstance(value.name, str) or not value.name:
        raise ConfigurationError(
            f"{OPTION}: the name of {value!r} is {value.name!r}; it must be a str that is not empty"
        )
    return value  # type: ignore[no-any-return]
