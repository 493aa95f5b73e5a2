"""Converts a query's filters to limits of a read: topic, partition, offset, and start by timestamp.

Pure except for Spark's filter classes.  A filter that the limits apply exactly is removed from the query, so
Spark does not evaluate it again.  Timestamps can be out of order, so they set only a start (no earlier record
can match), and Spark still evaluates the filter.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from pykafka2 import TopicPartition
from spark_connector.options.fields import INT64_MAX

Test = Callable[[Any], bool]

_NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@attrs.define
class Limits:
    """The offsets that remain to be read after all filters."""

    partitions: list[Callable[[TopicPartition], bool]] = attrs.Factory(list)
    first_offset: int = 0
    end_offset: int = INT64_MAX
    first_ms: int | None = None

    def take(self, conditions: Iterable[Filter]) -> list[Filter]:
        """Add the filters, which all apply; return those that Spark must still evaluate."""
        return [condition for condition in conditions if not self._apply(condition)]

    def selects(self, partition: TopicPartition) -> bool:
        return all(test(partition) for test in self.partitions)

    # ------------------------------------------------------------------ inside

    def _apply(self, condition: Filter) -> bool:
        """Return whether the limits apply the filter exactly."""
        path: tuple[str, ...] = getattr(condition, "attribute", ())
        if len(path) != 1:
            return False
        (name,) = path
        if isinstance(condition, IsNotNull):
            return name in _NEVER_NULL
        if name == "timestamp":
            self._limit_time(condition)
            return False
        test = _test_of(condition)
        if test is None:
            return False
        if name == "topic":
            self.partitions.append(lambda partition: test(partition.topic))
        elif name == "partition":
            self.partitions.append(lambda partition: test(partition.partition))
        elif name == "offset":
            return self._limit_offsets(condition)
        else:
            return False
        return True

    def _limit_offsets(self, condition: Filter) -> bool:
        match condition:
            case EqualTo(value=value) | EqualNullSafe(value=value):
                self._between(value, value + 1)
            case GreaterThan(value=value):
                self._between(value + 1, INT64_MAX)
            case GreaterThanOrEqual(value=value):
                self._between(value, INT64_MAX)
            case LessThan(value=value):
                self._between(0, value)
            case LessThanOrEqual(value=value):
                self._between(0, value + 1)
            case In(value=values):
                offsets = [value for value in values if value is not None]
                if offsets:
                    self._between(min(offsets), max(offsets) + 1)
                return False
            case _:
                return False
        return True

    def _between(self, first: int, end: int) -> None:
        self.first_offset = max(self.first_offset, first)
        self.end_offset = min(self.end_offset, end)

    def _limit_time(self, condition: Filter) -> None:
        if not isinstance(condition, EqualTo | EqualNullSafe | GreaterThan | GreaterThanOrEqual):
            return
        if isinstance(condition.value, datetime.datetime):
            at = condition.value if condition.value.tzinfo else condition.value.astimezone()
            first_ms = (at - _EPOCH) // datetime.timedelta(milliseconds=1)
            if first_ms > 0:  # otherwise it could match records without a timestamp (-1)
                self.first_ms = max(self.first_ms or 0, first_ms)


def _test_of(condition: Filter) -> Test | None:
    match condition:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            return lambda found: bool(found == value)
        case In(value=values):
            return frozenset(values).__contains__
        case GreaterThan(value=value):
            return lambda found: bool(found > value)
        case GreaterThanOrEqual(value=value):
            return lambda found: bool(found >= value)
        case LessThan(value=value):
            return lambda found: bool(found < value)
        case LessThanOrEqual(value=value):
            return lambda found: bool(found <= value)
    return None
