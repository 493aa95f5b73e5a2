"""Reads `partition_assignment_strategy`: names, classes or objects of assignors, one or several.

Runs on the caller's thread when a consumer is made.  Adding an assignor of Kafka means one row in BUILT_IN.
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
"""By their names in the group's protocol."""

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
"""What the Java client and kafka-python call their classes."""

_PARTS = ("assign", "user_data", "on_assignment")
"""Methods that an object needs to be an assignor, beside `name` and `protocols`."""


def read_assignors(value: Any) -> tuple[Assignor, ...]:
    """The assignors to offer, the preferred one first.

    `value` is one of these, a list of them, or a string with commas: "range", a class name of the Java
    client, a class, an object.  Raises `ConfigurationError` for what is none of these, naming the nearest for
    a misspelt name.
    """
    if isinstance(value, str):
        given: list[Any] = [name.strip() for name in value.split(",")]
    elif isinstance(value, Iterable) and not isinstance(value, type):
        given = list(value)
    else:
        given = [value]
    assignors = tuple(_read(one) for one in given)
    if not assignors:
        raise ConfigurationError(f"{OPTION}={value!r}: a group needs an assignor; give 'range', for example")
    names = [assignor.name for assignor in assignors]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"{OPTION}: two assignors are called {name!r}; offer it once")
    rebalance_protocol(assignors)
    return assignors


def _read(one: Any) -> Assignor:
    if isinstance(one, str):
        return _by_name(one)
    if isinstance(one, type):
        _refuse_kafka_python(one)
        try:
            one = one()
        except Exception as error:
            raise ConfigurationError(
                f"{OPTION}: {one.__name__}() raised {error!r}; give an object of it instead"
            ) from error
    return _checked(one)


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
        f"{', '.join(map(repr, BUILT_IN))}; one of your own is given as a class or an object"
    )


def _refuse_kafka_python(one: type) -> None:
    package = one.__module__.partition(".")[0]
    same = _OTHER_NAMES.get(one.__name__)
    if package in ("kafka", "aiokafka") and same is not None:
        raise ConfigurationError(
            f"{OPTION}: {one.__module__}.{one.__name__} works in {package} only; give {same!r} instead"
        )


def _checked(one: Any) -> Assignor:
    """An object that has all parts of an assignor; which of them are right shows when they are used."""
    lacking = [part for part in _PARTS if not callable(getattr(one, part, None))]
    lacking += [part for part in ("name", "protocols") if not hasattr(one, part)]
    if lacking:
        raise ConfigurationError(
            f"{OPTION}: {one!r} is no assignor, it lacks {', '.join(lacking)}; inherit from "
            "pykafka2.Assignor, which has defaults for all but name and assign"
        )
    if not isinstance(one.name, str) or not one.name:
        raise ConfigurationError(f"{OPTION}: the name of {one!r} is {one.name!r}; it must be text, not empty")
    return one  # type: ignore[no-any-return]
