"""From the arguments of `send_many` to columns of bytes: interceptors, Arrow or lists, serializers.

Callers' threads.  Before anything is appended, so that whatever is wrong with an argument costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import attrs

from pykafka2.clock import Clock
from pykafka2.errors import IllegalArgument, KafkaError, SerializationError
from pykafka2.producer.arguments import checked_partition
from pykafka2.producer.bulk.columns import (
    BulkArguments,
    BulkPart,
    Serialize,
    as_list,
    is_arrow,
    read_headers,
    read_lists,
)
from pykafka2.producer.interceptors import Interceptors, ProducerRecord
from pykafka2.serializers import SerializeFunction
from pykafka2.text import brief
from pykafka2.types import Headers


class BulkReader:
    """Reads for one producer."""

    def __init__(
        self,
        clock: Clock,
        interceptors: Interceptors | None,
        serialize_key: SerializeFunction | None,
        serialize_value: SerializeFunction | None,
    ) -> None:
        self._clock = clock
        self._interceptors = interceptors
        self._serialize_key = serialize_key
        self._serialize_value = serialize_value

    def read(self, given: BulkArguments) -> list[BulkPart]:
        """The records in parts; `given.partition` is checked in place.

        Raises:
            IllegalArgument: an argument is not what `send_many` takes.
            SerializationError: an entry is not bytes, or a serializer failed.
        """
        topic = given.topic
        if given.partition is not None:
            if given.partitions is not None:
                raise IllegalArgument(
                    f"partition and partitions are both given for the records for topic {topic!r}: give one "
                    "number for all records, or a column"
                )
            given.partition = checked_partition(topic, given.partition)
        columns = (given.values, given.keys, given.headers, given.partitions, given.timestamps_ms)
        if any(map(is_arrow, columns)):
            given = _arrow(topic).loaded(given)
        if is_arrow(given.values):
            arrow = _arrow(topic)
            if arrow.is_table(given.values):
                given = arrow.with_columns_of(given)
            if not self._needs_objects:
                parts: list[BulkPart] = arrow.read_arrow(
                    topic,
                    given.values,
                    given.keys,
                    given.headers,
                    given.partitions,
                    given.timestamps_ms,
                    now_ms=self._clock.wall_ms(),
                )
                return parts
            self._refuse_arrow(topic)
        others = (given.keys, given.headers, given.partitions, given.timestamps_ms)
        if any(map(is_arrow, others)):
            given = attrs.evolve(given, values=as_list("values", topic, given.values))
            given = _arrow(topic).as_lists(
                given, serializes_keys=self._serialize_key is not None, now_ms=self._clock.wall_ms()
            )
        if self._interceptors is None:
            return [self._part(given)]
        given = self._intercepted(self._interceptors, given)
        try:
            return [self._part(given)]
        except Exception as error:
            self._interceptors.on_refused(error, len(given.values))
            raise

    def _part(self, given: BulkArguments) -> BulkPart:
        topic = given.topic
        return read_lists(
            topic,
            given.values,
            given.keys,
            given.headers,
            given.partitions,
            given.timestamps_ms,
            serialize_key=self._serializer(self._serialize_key, "key", topic),
            serialize_value=self._serializer(self._serialize_value, "value", topic),
            now_ms=self._clock.wall_ms(),
        )

    @property
    def _needs_objects(self) -> bool:
        return bool(self._interceptors or self._serialize_key or self._serialize_value)

    def _refuse_arrow(self, topic: str) -> None:
        what = "interceptors" if self._interceptors is not None else "a serializer"
        raise IllegalArgument(
            f"values of the records for topic {topic!r} is an Arrow column, and this producer has {what}, to "
            "be called with an object for each record: give a list (column.to_pylist()), or use a producer "
            "without"
        )

    def _intercepted(self, interceptors: Interceptors, given: BulkArguments) -> BulkArguments:
        """Apply the interceptors to the records, one at a time."""
        topic = given.topic
        values = as_list("values", topic, given.values)
        count = len(values)
        keys = [None] * count if given.keys is None else as_list("keys", topic, given.keys, count)
        headers, _ = read_headers(topic, given.headers, count)
        numbers: list[Any] = [given.partition] * count
        if given.partitions is not None:
            numbers = as_list("partitions", topic, given.partitions, count)
        times: list[Any] = [None] * count
        if given.timestamps_ms is not None:
            times = as_list("timestamps_ms", topic, given.timestamps_ms, count)
        rows = []
        for row, value in enumerate(values):
            own = [*headers[row]] or None
            record = interceptors.on_send(
                ProducerRecord(topic, value, keys[row], own, numbers[row], times[row])
            )
            if record.topic != topic:
                moved = IllegalArgument(
                    f"topic={record.topic!r} of a record for topic {topic!r}: an interceptor gave it to "
                    f"record {row}; use `send`"
                )
                interceptors.on_refused(moved, row + 1)
                raise moved
            rows.append((record.value, record.key, record.headers, record.partition, record.timestamp_ms))
        columns: list[Sequence[Any]] = [list(column) for column in zip(*rows, strict=True)] or [[]] * 5
        own_values, own_keys, own_headers, own_numbers, own_times = columns
        return BulkArguments(topic, own_values, own_keys, own_headers, None, own_numbers, own_times)

    @staticmethod
    def _serializer(serialize: SerializeFunction | None, what: str, topic: str) -> Serialize | None:
        if serialize is None:
            return None

        def serialized(headers: Headers, data: Any) -> bytes | None:
            try:
                return serialize(topic, headers, data)
            except KafkaError:
                raise
            except Exception as error:
                raise SerializationError(
                    f"{what}_serializer failed for topic {topic!r}: {brief(error)}"
                ) from error

        return serialized


def _arrow(topic: str) -> ModuleType:
    """arrow.py, which loads pyarrow and numpy: 0.3 s, once."""
    try:
        from pykafka2.producer.bulk import arrow as arrow_input
    except ImportError as error:
        raise IllegalArgument(
            f"values of the records for topic {topic!r} is an Arrow column, which takes pyarrow and numpy: "
            f"{error}"
        ) from error
    return arrow_input
