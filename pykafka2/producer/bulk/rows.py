"""Converts the arguments of `send_many` to columns of bytes: interceptors, Arrow or lists, serializers.

Used on callers' threads before any record is appended, so a call with an invalid argument appends nothing.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType

import attrs

from pykafka2.clock import Clock
from pykafka2.errors import IllegalArgument
from pykafka2.producer.append import Serializers, serialize_entry
from pykafka2.producer.arguments import checked_partition
from pykafka2.producer.bulk.columns import BulkArguments, BulkPart, as_list, is_arrow, read_lists
from pykafka2.producer.bulk.interception import BulkInterception, with_headers


class BulkReader:
    """Reads the arguments of one call; `interception` is None without interceptors."""

    def __init__(self, clock: Clock, interception: BulkInterception | None, serializers: Serializers) -> None:
        self._clock = clock
        self._interception = interception
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
        interception = self._interception
        if interception is None:
            return self._parts(arguments, None)
        try:
            parts = self._parts(self._begun(arguments, interception), interception)
        except Exception as error:
            interception.refuse_all(error)
            raise
        interception.read()
        return parts

    def _begun(self, arguments: BulkArguments, interception: BulkInterception) -> BulkArguments:
        """Call `on_send_many`; return the arguments with the headers that it adds."""
        topic, headers = arguments.topic, arguments.headers
        count = len(arguments.values) if hasattr(arguments.values, "__len__") else 0
        added = interception.begin(topic, count, headers)
        if added and is_arrow(headers):
            headers = _arrow(topic).header_lists(topic, headers)
        return attrs.evolve(arguments, headers=with_headers(topic, headers, added, count))

    def _parts(self, arguments: BulkArguments, interception: BulkInterception | None) -> list[BulkPart]:
        topic = arguments.topic
        needs_objects = interception is not None and interception.needs_objects
        if is_arrow(arguments.values):
            if self._serializers:
                self._refuse_arrow(topic)
            arrow = _arrow(topic)
            if interception is None or not needs_objects:
                parts: list[BulkPart] = arrow.read_arrow(arguments, now_ms=self._clock.wall_ms())
                return parts
            interception.warn_of_arrow()
            arguments = attrs.evolve(arguments, values=arrow.values_as_list(topic, arguments.values))
        others = (arguments.keys, arguments.headers, arguments.partitions, arguments.timestamps_ms)
        if any(map(is_arrow, others)):
            arguments = attrs.evolve(arguments, values=as_list("values", topic, arguments.values))
            arguments = _arrow(topic).as_lists(
                arguments, serializes_keys=self._serializers.key is not None, now_ms=self._clock.wall_ms()
            )
        if interception is not None and needs_objects:
            arguments = interception.on_send(arguments)
        return [self._part(arguments)]

    def _part(self, arguments: BulkArguments) -> BulkPart:
        topic, serializers = arguments.topic, self._serializers
        return read_lists(
            arguments,
            serialize_key=serializers.key and partial(serialize_entry, serializers.key, "key", topic),
            serialize_value=serializers.value and partial(serialize_entry, serializers.value, "value", topic),
            now_ms=self._clock.wall_ms(),
        )

    def _refuse_arrow(self, topic: str) -> None:
        raise IllegalArgument(
            f"values of the records for topic {topic!r} is an Arrow column, and this producer has a "
            "serializer, to be called with an object for each record: give a list (column.to_pylist()), or "
            "use a producer without"
        )


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
