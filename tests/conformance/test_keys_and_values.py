"""Hashes of keys, and bytes of keys and values, are those of Kafka's own classes."""

from __future__ import annotations

import random
from typing import Any
from uuid import UUID

import pytest

from pykafka2 import serializers
from pykafka2.producer.partitioning.murmur2 import murmur2, positive

from .bridge import Bridge, b64, unb64

MIN32, MAX32, MIN64, MAX64 = -(2**31), 2**31 - 1, -(2**63), 2**63 - 1

# For each of Kafka's types: the beginning of our classes' names, and values.
VALUES: dict[str, tuple[str, list[Any]]] = {
    "string": ("String", ["", "a", "äß€漢字", "🐍", "\0", "x" * 300]),
    "boolean": ("Boolean", [True, False]),
    "short": ("Short", [0, 1, -1, -32768, 32767]),
    "integer": ("Integer", [0, 1, -1, MIN32, MAX32]),
    "long": ("Long", [0, 1, -1, MIN64, MAX64]),
    "float": ("Float", [0.0, -0.5, 1.5, 16777216.0]),
    "double": ("Double", [0.0, -0.5, 0.1, 1e300]),
    "uuid": ("UUID", [str(UUID(int=0)), str(UUID(int=2**128 - 1)), str(UUID(int=0x1234567890ABCDEF << 40))]),
}
LISTS: dict[str, list[list[Any]]] = {
    "string": [[], ["a", "", "äß"], ["a", None, "b"]],
    "integer": [[], [1, -1, MAX32], [None, 7, None]],
    "long": [[1, MIN64, None]],
    "uuid": [[str(UUID(int=5)), None]],
}


def test_a_thousand_keys_hash_as_in_java(java: Bridge) -> None:
    rng = random.Random("murmur2")
    keys = [rng.randbytes(length) for length in (*range(300), *(rng.randrange(64) for _ in range(700)))]
    assert len(keys) == 1000
    for key, expected in zip(keys, java("murmur2", [b64(key) for key in keys]), strict=True):
        # Java's int is signed, ours is not: the bits agree.
        assert murmur2(key) == expected & 0xFFFFFFFF
        assert positive(murmur2(key)) == expected & 0x7FFFFFFF


@pytest.mark.parametrize("kind", VALUES)
def test_values_serialize_as_in_java(java: Bridge, kind: str) -> None:
    name, values = VALUES[kind]
    serializer = getattr(serializers, f"{name}Serializer")()
    deserializer = getattr(serializers, f"{name}Deserializer")()
    _compare(java, kind, values, serializer, deserializer)


@pytest.mark.parametrize("kind", LISTS)
def test_lists_serialize_as_in_java(java: Bridge, kind: str) -> None:
    name, _ = VALUES[kind]
    serializer = serializers.ListSerializer(getattr(serializers, f"{name}Serializer")())
    deserializer = serializers.ListDeserializer(getattr(serializers, f"{name}Deserializer")())
    _compare(java, f"list of {kind}", LISTS[kind], serializer, deserializer)


def _compare(java: Bridge, kind: str, values: list[Any], serializer: Any, deserializer: Any) -> None:
    kafkas = java("serialize", [{"type": kind, "value": value} for value in values])
    for value, answer in zip(values, kafkas, strict=True):
        ours = serializer.serialize("t", [], _python_value(kind, value))
        assert ours == unb64(answer), value
        assert deserializer.deserialize("t", [], ours) == _python_value(kind, value)
    assert java("deserialize", [{"type": kind, "bytes": answer} for answer in kafkas]) == values


def _python_value(kind: str, value: Any) -> Any:
    if kind == "uuid":
        return UUID(value)
    if kind == "list of uuid":
        return [None if entry is None else UUID(entry) for entry in value]
    return value
