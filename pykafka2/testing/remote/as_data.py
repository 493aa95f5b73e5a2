"""Converts values of the testing API to plain JSON data and back: views, entries, events, rules.

Views have their properties, too.  The way back uses declared types: attrs classes, dicts, tuples, lists,
optional values.  Numbers that JSON does not have are "Infinity", "-Infinity" and "NaN", because None has a
meaning of its own; bytes are base64 text; partitions as keys are "topic-number".  No state.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import attrs

from pykafka2.broker.base.arguments import error_name
from pykafka2.broker.base.as_json import from_plain, plain_float, to_plain
from pykafka2.broker.faults.rule import FaultRule
from pykafka2.broker.observed.history import Entry
from pykafka2.errors import BrokerError
from pykafka2.protocol.registry import API_KEYS, request_class
from pykafka2.protocol.struct import Request, Struct
from pykafka2.records.batch import RecordBatch
from pykafka2.types import TopicPartition


def to_data(value: Any) -> Any:
    """Convert a value to JSON data."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return plain_float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, RecordBatch):
        return to_data(value.buffer)
    if isinstance(value, Struct):
        return to_plain(value)
    if isinstance(value, Entry):
        return _entry(value)
    if isinstance(value, FaultRule):
        return to_data({**value.to_dict(), "is_spent": value.is_spent})
    if isinstance(value, type):
        return error_name(value) if issubclass(value, BrokerError) else value.__name__
    if isinstance(value, Mapping):
        return {_key(key): to_data(item) for key, item in value.items()}
    if isinstance(value, TopicPartition):
        return [value.topic, value.partition]
    kind: Any = type(value)
    if attrs.has(kind):
        fields = {one.alias: getattr(value, one.name) for one in attrs.fields(kind) if one.init}
        fields |= {name: getattr(value, name) for name in properties_of(kind)}
        return {name: to_data(field) for name, field in fields.items()}
    if isinstance(value, Iterable):
        return [to_data(item) for item in value]
    return repr(value)


def from_data(kind: Any, data: Any) -> Any:
    """Convert JSON data that `to_data` returned back to this type."""
    origin = get_origin(kind)
    if data is None or kind is Any:
        return data
    if origin in (Union, UnionType):
        return from_data(next(one for one in get_args(kind) if one is not type(None)), data)
    if origin is dict or origin is Mapping:
        key_kind, item_kind = get_args(kind)
        return {_key_from(key_kind, key): from_data(item_kind, item) for key, item in data.items()}
    if origin is tuple:
        return tuple(from_data(get_args(kind)[0], item) for item in data)
    if origin is list:
        return [from_data(get_args(kind)[0], item) for item in data]
    if kind is TopicPartition:
        return TopicPartition(*data)
    if kind is RecordBatch:
        return RecordBatch(memoryview(base64.b64decode(data)))
    if kind is float and isinstance(data, str):
        return float(data)
    if kind is bytes:
        return base64.b64decode(data)
    if kind is Entry:
        return _entry_from(data)
    if isinstance(kind, type) and attrs.has(kind):
        return _attrs_from(kind, data)
    return data


@cache
def properties_of(kind: Any) -> dict[str, Any]:
    """Return the public properties of a class with their types."""
    found = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {
        name: get_type_hints(one.fget).get("return", Any)
        for name, one in found.items()
        if isinstance(one, property)
    }


def _attrs_from(kind: type, data: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    kinds = {one.alias: hints.get(one.name, Any) for one in attrs.fields(kind)}
    return kind(**{name: from_data(kinds[name], value) for name, value in data.items() if name in kinds})


def _entry(entry: Entry) -> dict[str, Any]:
    names = [*(one.name for one in attrs.fields(Entry)), *properties_of(Entry)]
    data = {name: getattr(entry, name) for name in names}
    return {name: to_data(value) for name, value in data.items()}


def _entry_from(data: Mapping[str, Any]) -> Entry:
    values = {name: value for name, value in data.items() if name not in properties_of(Entry)}
    key = next(info.key for info in API_KEYS.values() if info.name == values["api"])
    request: type[Request[Any]] = request_class(key)
    values["request"] = from_plain(request, values["request"])
    if values["response"] is not None:
        values["response"] = from_plain(request.RESPONSE, values["response"])
    return Entry(**values)


def _key(key: Any) -> str:
    if isinstance(key, tuple) and len(key) == 2:
        return f"{key[0]}-{key[1]}"
    if isinstance(key, TopicPartition):
        return f"{key.topic}-{key.partition}"
    return str(key)


def _key_from(kind: Any, key: str) -> Any:
    if kind is TopicPartition:
        topic, _, number = key.rpartition("-")
        return TopicPartition(topic, int(number))
    return int(key) if kind is int else key
