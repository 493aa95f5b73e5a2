"""Checks the arguments of `send_many` and converts them into columns of bytes.

Used on callers' threads. Lists and other sequences are read here, Arrow columns in arrow.py. Every error
names the argument, and the row if it is an error of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, Protocol

import attrs

from pykafka2.errors import IllegalArgument, SerializationError
from pykafka2.producer.arguments import (
    NO_TIMESTAMP_FROM,
    checked_headers,
    encoded_headers,
    encoded_pairs,
    refuse,
)
from pykafka2.records.column_encoder import ListColumns, RecordColumns
from pykafka2.records.encoder import NO_HEADERS
from pykafka2.records.pieces import Piece
from pykafka2.slotted import slotted
from pykafka2.text import type_of
from pykafka2.types import Headers

Serialize = Callable[[Headers, Any], "bytes | None"]
"""A serializer for one topic: called with headers, to which it can add, and data."""


class ArrowArray(Protocol):
    """An Arrow array or record batch of any library (the Arrow PyCapsule interface)."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...


class ArrowStream(Protocol):
    """A chunked array, table or data frame of any library."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


ArrowData = ArrowArray | ArrowStream
"""Data of pyarrow or of another library with Arrow's C interface: a column, a table or a record batch."""

Partitions = Sequence["int | None"]

NULL_KIND = type(None)


@attrs.define
class BulkArguments:
    """The arguments of one call of `send_many`."""

    topic: str
    values: Any
    keys: Any = None
    headers: Any = None
    partition: Any = None
    partitions: Any = None
    timestamps_ms: Any = None


@slotted
class BulkPart:
    """Records that are sent in order.

    Attributes:
        partitions: the partition of each record, None if the partitioner chooses; None without the argument.
        is_now: the records have no timestamps of their own.
        keys, values: the objects before serialization, for a partitioner; None if `columns` has them.
    """

    columns: RecordColumns
    partitions: Partitions | None
    is_now: bool
    keys: Sequence[Any] | None = None
    values: Sequence[Any] | None = None


def read_lists(
    arguments: BulkArguments,
    *,
    serialize_key: Serialize | None,
    serialize_value: Serialize | None,
    now_ms: int,
) -> BulkPart:
    """Return the arguments as columns of the same length.

    Raises:
        IllegalArgument: an argument has the wrong type or value.
        SerializationError: an entry is not bytes, or a serializer failed.
    """
    topic, timestamps_ms = arguments.topic, arguments.timestamps_ms
    values = before_values = as_list("values", topic, arguments.values)
    count = len(values)
    keys = before_keys = None if arguments.keys is None else as_list("keys", topic, arguments.keys, count)
    own_headers, header_pieces = read_headers(topic, arguments.headers, count)
    if serialize_key is not None or serialize_value is not None:
        lists = [[*own] for own in own_headers]
        if serialize_key is not None and keys is not None:
            keys = list(_serialized(serialize_key, lists, keys))
        if serialize_value is not None:
            values = list(_serialized(serialize_value, lists, values))
        header_pieces = [encoded_headers(topic, own) for own in lists] if any(lists) else NO_HEADERS
    columns = ListColumns(
        bytes_column("values", topic, values),
        None if keys is None else bytes_column("keys", topic, keys),
        header_pieces,
        now_ms if timestamps_ms is None else read_timestamps(topic, timestamps_ms, count, now_ms),
    )
    numbers = None if arguments.partitions is None else read_partitions(topic, arguments.partitions, count)
    return BulkPart(columns, numbers, timestamps_ms is None, before_keys, before_values)


def is_arrow(column: object) -> bool:
    """Return whether Arrow can read the column's buffers."""
    return hasattr(column, "__arrow_c_array__") or hasattr(column, "__arrow_c_stream__")


def as_list(argument: str, topic: str, column: Any, count: int | None = None) -> list[Any]:
    """Return the column as a list, checked to have `count` entries if `count` is set."""
    is_text = isinstance(column, str | bytes | bytearray | memoryview | dict)
    if hasattr(column, "__next__"):
        refuse(
            argument,
            column,
            topic,
            f"is an iterator, and its length is needed first: give list({argument}), or send one "
            "itertools.islice after another, as lists",
        )
    if is_text or not (hasattr(column, "__len__") and hasattr(column, "__getitem__")):
        refuse(argument, column, topic, "must be a list or another sequence with an entry for each record")
    entries = column if type(column) is list else _plain_list(column)
    if count is not None:
        check_length(argument, len(entries), count)
    return entries


def check_length(argument: str, length: int, count: int) -> None:
    if length != count:
        raise IllegalArgument(
            f"{argument} has {length} entries, and values has {count}; give columns of the same length"
        )


def _plain_list(column: Any) -> list[Any]:
    # Columns of numpy and pyarrow, with Python's numbers instead of theirs.
    for method in ("tolist", "to_pylist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def bytes_column(argument: str, topic: str, column: list[Any]) -> list[bytes | None]:
    """Return the list if it has only bytes and None; else a copy with bytes-like entries converted."""
    kinds = set(map(type, column))
    if kinds <= {bytes, NULL_KIND}:
        return column
    return [_as_bytes(argument, topic, row, entry) for row, entry in enumerate(column)]


def _as_bytes(argument: str, topic: str, row: int, entry: Any) -> bytes | None:
    if entry is None or type(entry) is bytes:
        return entry
    if isinstance(entry, bytes | bytearray | memoryview):
        return memoryview(entry).tobytes()
    name = argument.removesuffix("s")
    raise SerializationError(
        f"{argument}[{row}] of the records for topic {topic!r} is {type_of(entry)}; give bytes, or "
        f"set {name}_serializer"
    )


def _serialized(serialize: Serialize, headers: list[Headers], column: list[Any]) -> Iterator[bytes | None]:
    for own, entry in zip(headers, column, strict=True):
        yield None if entry is None else serialize(own, entry)


def read_headers(topic: str, headers: Any, count: int) -> tuple[Sequence[Headers], Piece]:
    """Return each record's headers, as objects and encoded.

    One list of pairs is used for all records; a list of such lists (or None) has the headers of each.
    """
    if headers is None:
        return _Same([], count), NO_HEADERS
    if is_shared(headers):
        checked = checked_headers(topic, headers)
        return _Same(checked, count), encoded_pairs(topic, checked)
    own = [
        _headers_of_row(topic, row, headers_of_row)
        for row, headers_of_row in enumerate(as_list("headers", topic, headers, count))
    ]
    return own, [encoded_pairs(topic, pairs) for pairs in own]


def is_shared(headers: Any) -> bool:
    """Return whether the headers are one list of pairs, or invalid as a column."""
    if isinstance(headers, str | bytes | dict) or not hasattr(headers, "__getitem__") or not len(headers):
        return True
    first = headers[0]
    if first is None or isinstance(first, dict):
        return False
    # A pair starts with a name.
    return not isinstance(first, list | tuple) or bool(first and isinstance(first[0], str))


def _headers_of_row(topic: str, row: int, headers: Any) -> Headers:
    if headers is None:
        return []
    try:
        return checked_headers(topic, headers)
    except IllegalArgument as error:
        raise IllegalArgument(f"record {row}: {error}") from None


class _Same(Sequence[Headers]):
    """A sequence of one repeated entry."""

    def __init__(self, entry: Headers, count: int) -> None:
        self._entry = entry
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._entry


def read_timestamps(topic: str, timestamps_ms: Any, count: int, now_ms: int) -> list[int]:
    """Return the timestamps as ints; None becomes the current time."""
    numbers = as_list("timestamps_ms", topic, timestamps_ms, count)
    kinds = set(map(type, numbers))
    if NULL_KIND in kinds:
        numbers = [now_ms if number is None else number for number in numbers]
    if kinds - {int, NULL_KIND} or (numbers and not 0 <= min(numbers) <= max(numbers) < NO_TIMESTAMP_FROM):
        for row, number in enumerate(numbers):
            if type(number) is not int or not 0 <= number < NO_TIMESTAMP_FROM:
                refuse_row(
                    "timestamps_ms",
                    row,
                    number,
                    topic,
                    "must be milliseconds since the epoch (an int), or None",
                )
    return numbers


def read_partitions(topic: str, partitions: Any, count: int) -> list[int | None]:
    """Return the partitions as ints or None."""
    numbers = as_list("partitions", topic, partitions, count)
    if set(map(type, numbers)) - {int, NULL_KIND} or any(
        number is not None and number < 0 for number in {*numbers}
    ):
        for row, number in enumerate(numbers):
            if number is not None and (type(number) is not int or number < 0):
                refuse_row(
                    "partitions", row, number, topic, "takes the number of a partition (an int), or None"
                )
    return numbers


def refuse_row(argument: str, row: int, got: object, topic: str, because: str) -> NoReturn:
    """Raise IllegalArgument for one entry of a column."""
    refuse(f"{argument}[{row}]", got, topic, because)
