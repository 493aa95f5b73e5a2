"""Hypothesis strategies for messages: `instances(cls, version)` makes any value that a version can carry.

Used by tests/properties and tests/conformance.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar, cast

from hypothesis import strategies as st

from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.fields import Field
from pykafka2.protocol.registry import all_messages
from pykafka2.protocol.struct import Message, Struct

StructT = TypeVar("StructT", bound=Struct)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "uuid": st.binary(min_size=16, max_size=16),
    # Lengths on both sides of 127, where a compact length takes a second byte.
    "string": TEXT | st.integers(120, 135).map(lambda size: "x" * size),
    "bytes": st.binary(max_size=6) | st.integers(120, 135).map(bytes),
    "records": st.binary(max_size=6) | st.integers(120, 135).map(bytes),
}


@lru_cache(maxsize=16)  # a test asks for each of its examples
def instances(cls: type[StructT], version: int) -> st.SearchStrategy[StructT]:
    """Any instance of a message in a version; fields that the version lacks keep their defaults."""
    fields = {
        one.name: _values(one, version)
        for one in resolved_fields(cls)
        if version in one.versions or one.required
    }
    return cast("st.SearchStrategy[StructT]", st.builds(cls, **fields))


def message_versions() -> list[tuple[type[Message], int]]:
    """Every message with every version declared."""
    return [
        (cls, version) for cls in all_messages() for version in range(cls.MIN_VERSION, cls.LAST_VERSION + 1)
    ]


def _values(one: Field, version: int) -> st.SearchStrategy[Any]:
    value = PLAIN[one.kind] if one.struct is None else instances(one.struct, version)
    if one.array:
        value = st.lists(value, max_size=3)
    if version in one.nullable:
        value = st.none() | value
    if one.required or version not in one.tagged:
        return value
    return st.builds(one.absent_value) | value
