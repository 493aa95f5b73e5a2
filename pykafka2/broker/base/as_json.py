"""Messages as plain data (dicts, lists, numbers, text) and back, for JSON.

Bytes, records and ids are base64 text; the declaration of a field says which it is, so the way back is
exact.  Used by the admin port, by replies given as data and by timelines.  No state.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, TypeVar

from pykafka2.broker.config.keys import nearest
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.fields import Field
from pykafka2.protocol.struct import Struct

S = TypeVar("S", bound=Struct)

BINARY = frozenset({"bytes", "records", "uuid"})


def to_plain(struct: Struct) -> dict[str, Any]:
    """Every field of a struct, as JSON can say it."""
    return {one.name: _plain(one, getattr(struct, one.name)) for one in resolved_fields(type(struct))}


def from_plain(cls: type[S], data: Mapping[str, Any]) -> S:
    """The struct that `to_plain` turned into `data`; fields left out take their defaults.

    Raises `ConfigurationError` for a field that there is not, and for one that is missing.
    """
    fields = {one.name: one for one in resolved_fields(cls)}
    _check_names(cls, data, fields)
    try:
        return cls(**{name: _value(fields[name], value) for name, value in data.items()})
    except TypeError as error:
        raise ConfigurationError(f"{cls.__name__}: {error}") from None


def merged(struct: S, changes: Mapping[str, Any]) -> S:
    """A copy of a struct with these fields changed; structs and lists of structs inside are merged too.

    A list of structs is merged item by item; further items in `changes` are added.
    """
    fields = {one.name: one for one in resolved_fields(type(struct))}
    _check_names(type(struct), changes, fields)
    values = {name: getattr(struct, name) for name in fields}
    for name, change in changes.items():
        values[name] = _merged_value(fields[name], values[name], change)
    return type(struct)(**values)


def check_fields(cls: type[Struct], data: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` for a field that there is not, in structs inside too; names the nearest."""
    fields = {one.name: one for one in resolved_fields(cls)}
    _check_names(cls, data, fields)
    for name, value in data.items():
        inner = fields[name].struct
        if inner is not None:
            for item in value if isinstance(value, list | tuple) else [value]:
                if isinstance(item, Mapping):
                    check_fields(inner, item)


def _merged_value(one: Field, old: Any, change: Any) -> Any:
    if one.struct is None or change is None or old is None:
        return _value(one, change)
    if not one.array:
        return merged(old, change)
    items = [
        merged(old[index], item) if index < len(old) else from_plain(one.struct, item)
        for index, item in enumerate(change)
    ]
    return items + list(old[len(items) :])


def _plain(one: Field, value: Any) -> Any:
    if value is None:
        return None
    if one.array:
        return [_plain_item(one, item) for item in value]
    return _plain_item(one, value)


def _plain_item(one: Field, value: Any) -> Any:
    if isinstance(value, Struct):
        return to_plain(value)
    if one.kind in BINARY:
        return base64.b64encode(value).decode()
    return value


def _value(one: Field, value: Any) -> Any:
    if value is None:
        return None
    if one.array:
        return [_item(one, item) for item in value]
    return _item(one, value)


def _item(one: Field, value: Any) -> Any:
    if one.struct is not None:
        return value if isinstance(value, Struct) else from_plain(one.struct, value)
    if one.kind in BINARY and isinstance(value, str):
        return base64.b64decode(value)
    return value


def _check_names(cls: type[Struct], data: Mapping[str, Any], fields: Mapping[str, Field]) -> None:
    for name in data:
        if name not in fields:
            raise ConfigurationError(f"{cls.__name__} has no field {name!r}{nearest(name, fields)}")
