"""The declarations of struct classes, for code generation and inspection.

Pure functions of a class; struct.py creates such classes, encoding.py, decoding.py and methods.py generate
functions for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from pykafka2.protocol.fields import MISSING, STRUCT_CODES, WIRE_NAMES, Field
from pykafka2.protocol.primitives import Budget, Buffer, struct_of

Encoder = Callable[[Any, Callable[[Any], None]], None]
"""Appends the bytes of an instance, piece by piece."""

Decoder = Callable[[Buffer, int, int], "tuple[Any, int]"]
"""Reads an instance; returns it with the position after it."""

WeighingDecoder = Callable[[Buffer, int, int, Budget], "tuple[Any, int]"]
"""A decoder with a memory budget, for long messages."""


class Declared(Protocol):
    """The attributes of every struct class: its fields, and its compiled codecs."""

    _fields: ClassVar[tuple[Field, ...]]
    _resolved: ClassVar[bool]
    _encoders: ClassVar[dict[tuple[int, bool], Encoder]]
    _decoders: ClassVar[dict[tuple[int, bool], Decoder]]
    _weighing_decoders: ClassVar[dict[tuple[int, bool], WeighingDecoder]]


def resolved_fields(cls: type[Declared]) -> tuple[Field, ...]:
    """Return the fields of a struct with their types resolved; done once per class."""
    if not cls._resolved:
        names = vars(module_of(cls))
        for field in cls._fields:
            text = field.annotation
            field.optional = text.endswith("| None")
            text = text.removesuffix("| None").strip()
            field.array = text.startswith("list[")
            text = text[5:-1] if field.array else text
            field.struct = None if text in WIRE_NAMES else names[text]
            field.kind = WIRE_NAMES.get(text, "struct")
        cls._resolved = True
    return cls._fields


def module_of(cls: type) -> Any:
    """Return the module whose names the annotations of `cls` use."""
    return sys.modules[cls.__module__]


def title_of(cls: type, version: int, flexible: bool, what: str) -> str:
    """Return a unique title of a generated function."""
    return f"{what} {cls.__module__}.{cls.__qualname__} v{version}{' flexible' if flexible else ''}"


def plain_values(field: Field) -> list[tuple[str, object]] | None:
    """Return the fields and defaults of a struct with plain values that is never null, or None for others.

    Code for such structs is inlined: a Fetch response has three per partition.
    """
    made = field.struct
    if made is None or field.array or field.optional or field.factory is None:
        return None
    inner = resolved_fields(made)
    if any(part.array or part.struct is not None or part.default is MISSING for part in inner):
        return None
    return [(part.name, part.default) for part in inner]


def smallest_size(cls: type[Declared], version: int, flexible: bool) -> int:
    """Return the fewest bytes of an instance, which limit the count of an array."""
    size = int(flexible)
    for field in resolved_fields(cls):
        if version in field.versions and not (flexible and version in field.tagged):
            size += smallest_field_size(field, version, flexible)
    return max(size, 1)


def smallest_field_size(field: Field, version: int, flexible: bool) -> int:
    """Return the fewest bytes of a field that is not tagged."""
    compact = flexible and field.flexible
    if field.array:
        return 1 if compact else 4
    if field.kind in STRUCT_CODES:
        return struct_of(STRUCT_CODES[field.kind]).size
    if field.struct is not None:
        return 1 if version in field.nullable else smallest_size(field.struct, version, flexible)
    if compact:
        return 1
    return 2 if field.kind == "string" else 4


def smallest_element_size(field: Field, version: int, flexible: bool) -> int:
    """Return the fewest bytes of one element of an array."""
    if field.struct is not None:
        return smallest_size(field.struct, version, flexible)
    if field.kind in STRUCT_CODES:
        return struct_of(STRUCT_CODES[field.kind]).size
    if flexible:
        return 1
    return 2 if field.kind == "string" else 4


POINTER_BYTES = 8
GC_BYTES = 16
NUMBER_BYTES = 32
LIST_BYTES = 56
TEXT_BYTES = 50
UUID_BYTES = 49
RECORDS_BYTES = 300
SMALL_NUMBERS = frozenset({"bool", "int8"})
"""Types whose values Python shares, so they take no memory of their own."""


def memory_of_element(field: Field, version: int) -> int:
    """Return about how much memory the smallest element of an array takes once decoded (CPython)."""
    return POINTER_BYTES + _memory_of_value(field, version)


def memory_of_struct(cls: type[Declared], version: int) -> int:
    """Return about how much memory the smallest instance takes, with its empty lists, for example."""
    held = sum(
        LIST_BYTES if field.array else _memory_of_value(field, version)
        for field in resolved_fields(cls)
        if version in field.versions or field.factory is not None or field.array
    )
    return cls.__basicsize__ + GC_BYTES + held


def _memory_of_value(field: Field, version: int) -> int:
    if field.struct is not None:
        return memory_of_struct(field.struct, version)
    if field.kind in STRUCT_CODES:
        return 0 if field.kind in SMALL_NUMBERS else NUMBER_BYTES
    return {"uuid": UUID_BYTES, "records": RECORDS_BYTES}.get(field.kind, TEXT_BYTES)
