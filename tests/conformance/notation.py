"""Messages in the JSON notation of Kafka's JsonConverter classes, made at random, and our instances of them.

Driven by Kafka's schemas (schemas.py), not by our declarations, so that a wrong declaration shows.
"""

from __future__ import annotations

import base64
import random
from typing import Any

from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.primitives import uuid_from_text, uuid_to_text
from pykafka2.protocol.struct import Struct

from .schemas import Shape

Json = dict[str, Any]

INTEGER_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
LENGTHS = (0, 1, 5, 126, 127, 128, 300)
"""Lengths around those where a varint grows by a byte, a length being stored as one more."""
ALPHABET = "azAZ09-._ äß€漢字🐍"
ELEMENTS_AT_MOST = 3


class Maker:
    """Random messages; the same seed makes the same ones."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def message(self, fields: tuple[Shape, ...], richness: float) -> Json:
        """One message.  Richness 0 is all defaults and empty arrays, 1 sets and fills whatever it can."""
        return {one.json_name: self._value(one, richness) for one in fields}

    def _value(self, shape: Shape, richness: float) -> Any:
        filled = self._random.random() < richness
        if shape.nullable and not filled:
            return None
        if shape.tag is not None and not filled:
            return default_json(shape)
        if not shape.is_array:
            return self._element(shape, richness, filled)
        count = self._random.randint(1, ELEMENTS_AT_MOST) if filled else 0
        return [self._element(shape, richness, True) for _ in range(count)]

    def _element(self, shape: Shape, richness: float, filled: bool) -> Any:
        kind = shape.element
        if kind == "struct":
            return self.message(shape.fields, richness)
        if not filled:
            return to_json(kind, shape.default if kind != "records" else b"") if not shape.is_array else None
        return to_json(kind, self._scalar(kind))

    def _scalar(self, kind: str) -> Any:
        rng = self._random
        if kind in INTEGER_BITS:
            top = 1 << INTEGER_BITS[kind] - 1
            return rng.choice((0, 1, -1, top - 1, -top, rng.randrange(-top, top)))
        if kind == "uint16":
            return rng.choice((0, 1, 65535, rng.randrange(65536)))
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "float64":
            return rng.choice((0.0, -0.5, 1e300, rng.random()))
        if kind == "uuid":
            return rng.randbytes(16)
        length = rng.choice(LENGTHS)
        return "".join(rng.choices(ALPHABET, k=length)) if kind == "string" else rng.randbytes(length)


def to_json(kind: str, value: Any) -> Any:
    """A scalar in Kafka's notation."""
    if value is None:
        return None
    if kind == "uuid":
        return uuid_to_text(value)
    return base64.b64encode(value).decode() if kind in ("bytes", "records") else value


def default_json(shape: Shape) -> Any:
    if shape.default == "struct" and shape.kind == "struct":
        return {one.json_name: default_json(one) for one in shape.fields}
    return shape.default if shape.is_array else to_json(shape.kind, shape.default)


def instance(cls: type[Struct], fields: tuple[Shape, ...], values: Json) -> Any:
    """Our message with these values; what the version lacks keeps its default."""
    declared = {one.name: one for one in resolved_fields(cls)}
    arguments = {name: one.absent_value() for name, one in declared.items() if one.required}
    for shape in fields:
        value = values[shape.json_name]
        struct = declared[shape.name].struct
        if shape.is_array and value is not None:
            value = [_from_json(shape, item, struct) for item in value]
        else:
            value = _from_json(shape, value, struct)
        arguments[shape.name] = value
    return cls(**arguments)


def _from_json(shape: Shape, value: Any, struct: type[Struct] | None) -> Any:
    if value is None:
        return None
    if struct is not None:
        return instance(struct, shape.fields, value)
    if shape.element == "uuid":
        return uuid_from_text(value)
    return base64.b64decode(value) if shape.element in ("bytes", "records") else value


def as_java_writes(fields: tuple[Shape, ...], values: Json) -> Json:
    """The same message as Kafka's converters print it: tagged defaults left out, records as their size."""
    printed: Json = {}
    for shape in fields:
        value = values[shape.json_name]
        if shape.tag is not None and value == default_json(shape):
            continue
        if shape.element == "struct" and value is not None:
            items = value if shape.is_array else [value]
            items = [as_java_writes(shape.fields, item) for item in items]
            value = items if shape.is_array else items[0]
        if shape.kind == "records" and value is not None:
            printed[f"{shape.json_name}SizeInBytes"] = len(base64.b64decode(value))
        else:
            printed[shape.json_name] = value
    return printed
