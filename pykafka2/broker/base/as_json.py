"""Conversion of messages to plain data (dicts, lists, numbers, strings) for JSON and back; copies of them.

Bytes, records and ids are base64 strings; floats that JSON does not have are "Infinity", "-Infinity" or
"NaN". The field's declaration gives the type, so the round trip is exact.
Used by the admin port and by fault rules, whose responses can be data. Stateless.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from struct import error as StructError  # noqa: N812  as a class
from struct import pack
from typing import Any, Final, TypeVar

from pykafka2.broker.config.keys import nearest
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.fields import STRUCT_CODES, Field
from pykafka2.protocol.primitives import MAX_STRING_BYTES, UNREAD_PARTS
from pykafka2.protocol.struct import Struct
from pykafka2.text import shown

S = TypeVar("S", bound=Struct)

BINARY = frozenset({"bytes", "records", "uuid"})
FLOAT = "float64"


def plain_float(value: float) -> float | str:
    """Return the number, or the string for a number that JSON does not have; `float` reads both."""
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def to_plain(struct: Struct) -> dict[str, Any]:
    """Return every field of a struct as JSON data."""
    return {field.name: _plain(field, getattr(struct, field.name)) for field in resolved_fields(type(struct))}


def from_plain(cls: type[S], data: Mapping[str, Any]) -> S:
    """Return the struct for the output of `to_plain`; missing fields get their defaults.

    Raise `ConfigurationError` for an unknown field, and for a missing one without a default.
    """
    fields = {field.name: field for field in resolved_fields(cls)}
    _check_names(cls, data, fields)
    try:
        return cls(**{name: _value(fields[name], value) for name, value in data.items()})
    except TypeError as error:
        raise ConfigurationError(f"{cls.__name__}: {error}") from None


def copied(struct: S) -> S:
    """Return a copy of a struct, its nested structs and lists, with the records of a file as bytes.

    Raise `KafkaStorageError` if the file cannot be read.
    """
    fields = resolved_fields(type(struct))
    return type(struct)(**{field.name: _copied_value(getattr(struct, field.name)) for field in fields})


def _copied_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied_value(item) for item in value]
    if isinstance(value, Struct):
        return copied(value)
    return value.read() if isinstance(value, UNREAD_PARTS) else value


def merged(struct: S, changes: Mapping[str, Any]) -> S:
    """Return a copy of a struct with these fields changed.

    Nested structs and lists of structs are merged too.

    A list of structs is merged item by item; extra items in `changes` are appended.
    """
    fields = {field.name: field for field in resolved_fields(type(struct))}
    _check_names(type(struct), changes, fields)
    values = {name: getattr(struct, name) for name in fields}
    for name, change in changes.items():
        values[name] = _merged_value(fields[name], values[name], change)
    return type(struct)(**values)


def check_fields(cls: type[Struct], data: Mapping[str, Any] | Struct, place: str = "") -> None:
    """Raise `ConfigurationError` for an unknown field, or a value that its field has in no version.

    The message names the nearest field. Nested structs are checked too; `place` is the path to this one.
    """
    fields = {field.name: field for field in resolved_fields(cls)}
    if isinstance(data, Struct):
        data = {name: getattr(data, name) for name in fields}
    _check_names(cls, data, fields)
    for name, value in data.items():
        _check_value(fields[name], value, f"{place}{name}")


def _check_value(field: Field, value: Any, place: str) -> None:
    if value is None:
        if not field.optional:
            raise ConfigurationError(f"{place}=None: this field cannot be null")
    elif not field.array:
        _check_item(field, value, place)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_item(field, item, f"{place}[{index}]")
    else:
        raise ConfigurationError(f"{place}={shown(repr(value))}: use a list")


def _check_item(field: Field, value: Any, place: str) -> None:
    if field.struct is None:
        if not _fits(field.kind, value):
            raise ConfigurationError(f"{place}={shown(repr(value))}: use {_KINDS[field.kind]}")
    elif isinstance(value, Mapping | field.struct):
        check_fields(field.struct, value, f"{place}.")
    else:
        raise ConfigurationError(
            f"{place}={shown(repr(value))}: use a mapping of the fields of {field.struct.__name__}"
        )


_KINDS: Final = {
    "bool": "true or false",
    "int8": "a whole number from -2^7 to 2^7-1",
    "int16": "a whole number from -2^15 to 2^15-1",
    "int32": "a whole number from -2^31 to 2^31-1",
    "int64": "a whole number from -2^63 to 2^63-1",
    "uint16": "a whole number from 0 to 2^16-1",
    "float64": "a number, or 'Infinity', '-Infinity' or 'NaN'",
    "string": f"text of at most {MAX_STRING_BYTES} bytes",
    "bytes": "bytes, or base64 text",
    "records": "bytes, or base64 text",
    "uuid": "16 bytes, or base64 text of them",
}
"""The values of each type, for messages."""


def _fits(kind: str, value: Any) -> bool:
    """Return whether a field of this type can have the value, or what `_item` makes of it."""
    try:
        if kind == "bool" or isinstance(value, bool):
            return kind == "bool" and isinstance(value, bool)
        if kind == "string":
            return isinstance(value, str) and len(value.encode()) <= MAX_STRING_BYTES
        if kind in BINARY:
            data = base64.b64decode(value, validate=True) if isinstance(value, str) else value
            if not isinstance(data, bytes | bytearray | memoryview):
                return kind == "records" and isinstance(data, UNREAD_PARTS)
            return kind != "uuid" or len(data) == 16
        pack(f">{STRUCT_CODES[kind]}", float(value) if kind == FLOAT and isinstance(value, str) else value)
    except (ValueError, OverflowError, StructError):  # ValueError: no base64, or a lone surrogate
        return False
    return True


def _merged_value(field: Field, old: Any, change: Any) -> Any:
    if field.struct is None or change is None or old is None:
        return _value(field, change)
    if not field.array:
        return _merged_struct(old, change)
    items = [
        _merged_struct(old[index], item) if index < len(old) else _item(field, item)
        for index, item in enumerate(change)
    ]
    return items + list(old[len(items) :])


def _merged_struct(old: Struct, change: Any) -> Struct:
    return change if isinstance(change, Struct) else merged(old, change)


def _plain(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.array:
        return [_plain_item(field, item) for item in value]
    return _plain_item(field, value)


def _plain_item(field: Field, value: Any) -> Any:
    if isinstance(value, Struct):
        return to_plain(value)
    if field.kind in BINARY:
        return base64.b64encode(value).decode()
    return plain_float(value) if field.kind == FLOAT else value


def _value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.array:
        return [_item(field, item) for item in value]
    return _item(field, value)


def _item(field: Field, value: Any) -> Any:
    if field.struct is not None:
        return value if isinstance(value, Struct) else from_plain(field.struct, value)
    if field.kind in BINARY and isinstance(value, str):
        return base64.b64decode(value)
    if field.kind == FLOAT and isinstance(value, str):
        return float(value)
    return value


def _check_names(cls: type[Struct], data: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    for name in data:
        if name not in fields:
            raise ConfigurationError(f"{cls.__name__} has no field {name!r}{nearest(str(name), fields)}")
