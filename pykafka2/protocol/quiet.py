"""Fields that say nothing: at the end of a struct, empty; in a version that lacks them, absent.

Questions about declared fields, and the lines that give them their values, for those who write decoders
(decoding.py, single.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.protocol.declared import plain_values
from pykafka2.protocol.fields import Field
from pykafka2.protocol.source import Source

SIZED_KINDS = ("string", "bytes")


def is_on_the_wire(one: Field, version: int, flexible: bool) -> bool:
    """Whether it has a place of its own, which a tagged field has not."""
    return version in one.versions and not (flexible and version in one.tagged)


def quiet_rest(fields: Sequence[Field], version: int, flexible: bool) -> Sequence[Field]:
    """The last fields, where it pays to ask for all of them at once whether they say anything.

    That is where two or more are lists or can be null, and one can: an error's details, as a rule.
    """
    quiet = can_be_null = 0
    begin = len(fields)
    for at in range(len(fields) - 1, -1, -1):
        one = fields[at]
        if is_on_the_wire(one, version, flexible):
            is_nullable = version in one.nullable
            if not one.array and not (is_nullable and one.kind in SIZED_KINDS):
                break
            quiet += 1
            can_be_null += is_nullable
            begin = at
    return fields[begin:] if quiet > 1 and can_be_null else ()


def empty_rest(rest: Sequence[Field], version: int, flexible: bool) -> bytes:
    """The end of a struct of which these fields are the last and say nothing."""
    empty = b""
    for one in rest:
        if is_on_the_wire(one, version, flexible):
            is_null = version in one.nullable
            width = 1 if flexible and (one.array or one.flexible) else 2 if one.kind == "string" else 4
            width = 4 if one.array and not flexible else width
            # Null is -1, and all lengths are one more where they are compact.
            length = (0 if is_null else 1) if width == 1 else (-1 if is_null else 0)
            empty += length.to_bytes(width, "big", signed=True)
    return empty + b"\0" * flexible  # tagged fields: none


def write_nothing(source: Source, one: Field, version: int, flexible: bool, x: str = "x") -> None:
    """Write the value of a field of a quiet rest in the instance `x`."""
    if is_on_the_wire(one, version, flexible):
        source.add(f"{x}.{one.name} = {None if version in one.nullable else []}")
    else:
        write_absent(source, one, x)


def write_absent(source: Source, one: Field, x: str = "x") -> None:
    """Write the value of a field that this version lacks, or that may not come."""
    plain = plain_values(one)
    if one.struct is not None and plain is not None:
        source.add(f"{x}.{one.name} = value = new({source.bind('Struct', one.struct)})")
        for name, value in plain:
            source.add(f"value.{name} = {source.literal(value)}")
    elif one.factory is not None:
        source.add(f"{x}.{one.name} = {source.bind('factory', one.factory)}()")
    elif one.array and one.required:
        source.add(f"{x}.{one.name} = []")
    elif one.struct is not None and one.required:
        source.add(f"{x}.{one.name} = {source.bind('factory', one.struct)}()")
    else:
        source.add(f"{x}.{one.name} = {source.literal(one.absent_value())}")
