"""Writes the `__init__` and `__eq__` of a struct's class.

Called by struct.py when the first instance is made or compared, on the thread that happens to do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pykafka2.protocol.declared import Declared, resolved_fields
from pykafka2.protocol.fields import MISSING
from pykafka2.protocol.source import Source


def compile_init(cls: type[Declared]) -> Callable[..., None]:
    """`__init__` with the fields as keywords; lists and structs get a fresh default each time."""
    fields = resolved_fields(cls)
    parameters = []
    source = Source("")
    for one in fields:
        if one.factory is not None:
            parameters.append(f"{one.name}=MISSING")
            factory = source.bind("factory", one.factory)
            source.add(f"self.{one.name} = {factory}() if {one.name} is MISSING else {one.name}")
        else:
            default = "" if one.default is MISSING else f"={source.literal(one.default)}"
            parameters.append(one.name + default)
            source.add(f"self.{one.name} = {one.name}")
    source.add("return None")
    source.lines[0] = f"def __init__({', '.join(['self', *(['*'] if fields else []), *parameters])}):"
    source.names["MISSING"] = MISSING
    made = cast(Callable[..., None], source.compile(f"init {cls.__module__}.{cls.__qualname__}"))
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def compile_eq(cls: type[Declared]) -> Callable[[Any, object], bool]:
    """`__eq__` by value, for instances of the very same class."""
    source = Source("def __eq__(self, other):")
    source.names["Struct"] = cls
    source.add("if other.__class__ is not Struct:")
    source.add("    return NotImplemented")
    comparisons = [f"self.{one.name} == other.{one.name}" for one in resolved_fields(cls)]
    source.add(f"return {' and '.join(comparisons) or 'True'}")
    return cast(Callable[[Any, object], bool], source.compile(f"eq {cls.__module__}.{cls.__qualname__}"))
