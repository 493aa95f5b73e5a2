"""Converts the arguments of `send_many` to columns of bytes: interceptors, Arrow or lists, serializers.

Used on callers' threads before any record is appended, so a call with an invalid argument appends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any

import attrs

from pykafka2.clock import Clock
from pykafka2.errors import IllegalArgument
from pykafka2.producer.append import Serializers, serialize_entry
from pykafka2.producer.arguments import checked_partition
from pykafka2.producer.bulk.columns import (
    BulkArguments,
    BulkPart,
    as_list,
    is_arrow,
    read_headers,
    read_lists,
)
from pykafka2.producer.interceptors import Interceptors, ProducerRecord


class BulkReader:
    """Reads the arguments of one producer's calls."""

    def __init__(
        self,
        clock: Clock,
        interceptors: Interceptors | None,
        serializers: Serializers,
    ) -> None:
        self._clock = clock
        self._interceptors = interceptors
        self._serializers = serializers

    def read(self, arguments: BulkArguments) -> list[BulkPart]:
        """Return the records in parts; `arguments.partition` is checked in place.

        Raises:
            IllegalArgument: an argument has the wrong type or value.
            SerializationError: an entry is not bytes, or a serializer failed.
        """
        topic = arguments.topic
        if arguments.partition is not None:
            if arguments.partitions is not None:
                raise IllegalArgument(
                    f"partition and partitions are both set for the records for topic {topic!r}: give one "
                    "number for all records, or a column"
                )
            arguments.partition = checked_partition(topic, arguments.partition)
        columns = (
            arguments.values,
            arguments.keys,
            arguments.headers,
            arguments.partitions,
            arguments.timestamps_ms,
        )
        if any(map(is_arrow, columns)):
            arguments = _arrow(topic).loaded(arguments)
        if is_arrow(arguments.values):
            arrow = _arrow(topic)
            if arrow.is_table(arguments.values):
                arguments = arrow.with_columns_of(arguments)
            if not self._needs_objects:
                parts: list[BulkPart] = arrow.read_arrow(arguments, now_ms=self._clock.wall_ms())
                return parts
            self._refuse_arrow(topic)
        others = (arguments.keys, arguments.headers, arguments.partitions, arguments.timestamps_ms)
        if any(map(is_arrow, others)):
            arguments = attrs.evolve(arguments, values=as_list("values", topic, arguments.values))
            arguments = _arrow(topic).as_lists(
                arguments, serializes_keys=self._serializers.key is not None, now_ms=self._clock.wall_ms()
            )
        if self._interceptors is None:
            return [self._part(arguments)]
        arguments = self._intercepted(self._interceptors, arguments)
        try:
            return [self._part(arguments)]
        except Exception as error:
            self._interceptors.on_refused(error, arguments.headers)
            raise

    def _part(self, arguments: BulkArguments) -> BulkPart:
        topic, serializers = arguments.topic, self._serializers
        return read_lists(
            arguments,
            serialize_key=serializers.key and partial(serialize_entry, serializers.key, "key", topic),
            serialize_value=serializers.value and partial(serialize_entry, serializers.value, "value", topic),
            now_ms=self._clock.wall_ms(),
        )

    @property
    def _needs_objects(self) -> bool:
        return self._interceptors is not None or bool(self._serializers)

    def _refuse_arrow(self, topic: str) -> None:
        what = "interceptors" if self._interceptors is not None else "a serializer"
        raise IllegalArgument(
            f"values of the records for topic {topic!r} is an Arrow column, and this producer has {what}, to "
            "be called with an object for each record: give a list (column.to_pylist()), or use a producer "
            "without"
        )

    def _intercepted(self, interceptors: Interceptors, arguments: BulkArguments) -> BulkArguments:
        """Apply the interceptors to the records, one at a time."""
        topic = arguments.topic
        values = as_list("values", topic, arguments.values)
        count = len(values)
        keys = [None] * count if arguments.keys is None else as_list("keys", topic, arguments.keys, count)
        headers, _ = read_headers(topic, arguments.headers, count)
        numbers: list[Any] = [arguments.partition] * count
        if arguments.partitions is not None:
            numbers = as_list("partitions", topic, arguments.partitions, count)
        times: list[Any] = [None] * count
        if arguments.timestamps_ms is not None:
            times = as_list("timestamps_ms", topic, arguments.timestamps_ms, count)
        rows: list[tuple[Any, ...]] = []
        for row, value in enumerate(values):
            own = [*headers[row]] or None
            record = interceptors.on_send(
                ProducerRecord(topic, value, keys[row], own, numbers[row], times[row])
            )
            if record.topic != topic:
                moved = IllegalArgument(
                    f"topic={record.topic!r} of a record for topic {topic!r}: an interceptor changed it in "
                    f"record {row}. Use `send`"
                )
                interceptors.on_refused(moved, [*(fields[2] for fields in rows), record.headers])
                raise moved
            rows.append((record.value, record.key, record.headers, record.partition, record.timestamp_ms))
        columns: list[Sequence[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[]] * 5
        own_values, own_keys, own_headers, own_numbers, own_times = columns
        return BulkArguments(topic, own_values, own_keys, own_headers, None, own_numbers, own_times)


def _arrow(topic: str) -> ModuleType:
    """Return arrow.py, which loads pyarrow and numpy; the first call takes 0.3 s."""
    try:
        from pykafka2.producer.bulk import arrow as arrow_input
    except ImportError as error:
        raise IllegalArgument(
            f"values of the records for topic {topic!r} is an Arrow column, which requires pyarrow and "
            f"numpy: {error}"
        ) from error
    return arrow_input
