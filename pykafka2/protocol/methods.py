"""Generates the `__init__` and `__eq__` of a struct's class.

Called by struct.py, on any thread, when the first instance is created or compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pykafka2.protocol.declared import Declared, resolved_fields
from pykafka2.protocol.fields import MISSING
from pykafka2.protocol.source import Source


def compile_init(cls: type[Declared]) -> Callable[..., None]:
    """Return `__init__` with the fields as keywords; lists and structs get a new default each time."""
    fields = resolved_fields(cls)
    parameters = []
    source = Source("")
    for field in fields:
        if field.factory is not None:
            parameters.append(f"{field.name}=MISSING")
            factory = source.bind("factory", field.factory)
            source.add(f"self.{field.name} = {factory}() if {field.name} is MISSING else {field.name}")
        else:
            default = "" if field.default is MISSING else f"={source.literal(field.default)}"
            parameters.append(field.name + default)
            source.add(f"self.{field.name} = {field.name}")
    source.add("return None")
    source.lines[0] = f"def __init__({', '.join(['self', *(['*'] if fields else []), *parameters])}):"
    source.names["MISSING"] = MISSING
    made = cast(Callable[..., None], source.compile(f"init {cls.__module__}.{cls.__qualname__}"))
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def compile_eq(cls: type[Declared]) -> Callable[[Any, object], bool]:
    """Return `__eq__`, which compares by value within the same class."""
    source = Source("def __eq__(self, other):")
    source.names["Struct"] = cls
    source.add("if other.__class__ is not Struct:")
    source.add("    return NotImplemented")
    comparisons = [f"self.{field.name} == other.{field.name}" for field in resolved_fields(cls)]
    source.add(f"return {' and '.join(comparisons) or 'True'}")
    return cast(Callable[[Any, object], bool], source.compile(f"eq {cls.__module__}.{cls.__qualname__}"))
