"""The declarations of struct classes, for code generation and inspection.

Pure questions about a class; struct.py makes such classes, encoding.py, decoding.py and methods.py write
functions for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from pykafka2.protocol.fields import MISSING, STRUCT_CODES, WIRE_NAMES, Field
from pykafka2.protocol.primitives import Budget, Buffer, struct_of

Encoder = Callable[[Any, Callable[[Buffer], None]], None]
"""Appends the bytes of an instance, piece by piece."""

Decoder = Callable[[Buffer, int, int], "tuple[Any, int]"]
"""Reads an instance; also the position after it."""

WeighingDecoder = Callable[[Buffer, int, int, Budget], "tuple[Any, int]"]
"""The same, of a long message."""


class Declared(Protocol):
    """The attributes of every struct class: its fields, and its compiled codecs."""

    _fields: ClassVar[tuple[Field, ...]]
    _resolved: ClassVar[bool]
    _encoders: ClassVar[dict[tuple[int, bool], Encoder]]
    _decoders: ClassVar[dict[tuple[int, bool], Decoder]]
    _weighing_decoders: ClassVar[dict[tuple[int, bool], WeighingDecoder]]


def resolved_fields(cls: type[Declared]) -> tuple[Field, ...]:
    """The fields of a struct with their types looked up; done once per class."""
    if not cls._resolved:
        names = vars(module_of(cls))
        for one in cls._fields:
            text = one.annotation
            one.optional = text.endswith("| None")
            text = text.removesuffix("| None").strip()
            one.array = text.startswith("list[")
            text = text[5:-1] if one.array else text
            one.struct = None if text in WIRE_NAMES else names[text]
            one.kind = WIRE_NAMES.get(text, "struct")
        cls._resolved = True
    return cls._fields


def module_of(cls: type) -> Any:
    """The module whose names the annotations of `cls` use."""
    return sys.modules[cls.__module__]


def title_of(cls: type, version: int, flexible: bool, what: str) -> str:
    """A title that no other generated function has."""
    return f"{what} {cls.__module__}.{cls.__qualname__} v{version}{' flexible' if flexible else ''}"


def plain_values(one: Field) -> list[tuple[str, object]] | None:
    """The names and defaults inside a struct that is never null and holds plain values only, else None.

    Such structs are compared with their default, and made, in line: a Fetch response has three per partition.
    """
    made = one.struct
    if made is None or one.array or one.optional or one.factory is None:
        return None
    inner = resolved_fields(made)
    if any(part.array or part.struct is not None or part.default is MISSING for part in inner):
        return None
    return [(part.name, part.default) for part in inner]


def smallest_size(cls: type[Declared], version: int, flexible: bool) -> int:
    """The fewest bytes that an instance can take: what bounds the count of an array."""
    size = int(flexible)
    for one in resolved_fields(cls):
        if version in one.versions and not (flexible and version in one.tagged):
            size += smallest_field_size(one, version, flexible)
    return max(size, 1)


def smallest_field_size(one: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that a field can take where it is not tagged."""
    compact = flexible and one.flexible
    if one.array:
        return 1 if compact else 4
    if one.kind in STRUCT_CODES:
        return struct_of(STRUCT_CODES[one.kind]).size
    if one.struct is not None:
        return 1 if version in one.nullable else smallest_size(one.struct, version, flexible)
    if compact:
        return 1
    return 2 if one.kind == "string" else 4


def smallest_element_size(one: Field, version: int, flexible: bool) -> int:
    """The fewest bytes that one element of an array can take."""
    if one.struct is not None:
        return smallest_size(one.struct, version, flexible)
    if one.kind in STRUCT_CODES:
        return struct_of(STRUCT_CODES[one.kind]).size
    if flexible:
        return 1
    return 2 if one.kind == "string" else 4


POINTER_BYTES = 8
GC_BYTES = 16
NUMBER_BYTES = 32
LIST_BYTES = 56
TEXT_BYTES = 50
UUID_BYTES = 49
RECORDS_BYTES = 300
SMALL_NUMBERS = frozenset({"bool", "int8"})
"""Python has these once."""


def memory_of_element(one: Field, version: int) -> int:
    """About how many bytes of memory the smallest element of an array takes once it is decoded (CPython)."""
    return POINTER_BYTES + _memory_of_value(one, version)


def memory_of_struct(cls: type[Declared], version: int) -> int:
    """The same of an instance with all that every instance has: lists without elements, say."""
    held = sum(
        LIST_BYTES if one.array else _memory_of_value(one, version)
        for one in resolved_fields(cls)
        if version in one.versions or one.factory is not None or one.array
    )
    return cls.__basicsize__ + GC_BYTES + held


def _memory_of_value(one: Field, version: int) -> int:
    if one.struct is not None:
        return memory_of_struct(one.struct, version)
    if one.kind in STRUCT_CODES:
        return 0 if one.kind in SMALL_NUMBERS else NUMBER_BYTES
    return {"uuid": UUID_BYTES, "records": RECORDS_BYTES}.get(one.kind, TEXT_BYTES)
