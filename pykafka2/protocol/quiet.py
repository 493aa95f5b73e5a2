"""Fields without content: empty ones at the end of a struct, and those that a version lacks.

Queries of declared fields, and the generated lines that set them, for decoding.py and single.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.protocol.declared import plain_values
from pykafka2.protocol.fields import Field
from pykafka2.protocol.source import Source

SIZED_KINDS = ("string", "bytes")


def is_on_the_wire(field: Field, version: int, flexible: bool) -> bool:
    """Return True if it has a fixed place, which a tagged field does not have."""
    return version in field.versions and not (flexible and version in field.tagged)


def quiet_rest(fields: Sequence[Field], version: int, flexible: bool) -> Sequence[Field]:
    """Return the last fields, if it pays to check with one comparison that all are empty.

    That is so if two or more are lists or nullable, and one is nullable: usually the details of an error.
    """
    quiet = can_be_null = 0
    begin = len(fields)
    for at in range(len(fields) - 1, -1, -1):
        field = fields[at]
        if is_on_the_wire(field, version, flexible):
            is_nullable = version in field.nullable
            if not field.array and not (is_nullable and field.kind in SIZED_KINDS):
                break
            quiet += 1
            can_be_null += is_nullable
            begin = at
    return fields[begin:] if quiet > 1 and can_be_null else ()


def empty_rest(rest: Sequence[Field], version: int, flexible: bool) -> bytes:
    """Return the bytes of a struct's last fields if all are empty."""
    empty = b""
    for field in rest:
        if is_on_the_wire(field, version, flexible):
            is_null = version in field.nullable
            width = 1 if flexible and (field.array or field.flexible) else 2 if field.kind == "string" else 4
            width = 4 if field.array and not flexible else width
            # Null is -1; compact lengths are one more.
            length = (0 if is_null else 1) if width == 1 else (-1 if is_null else 0)
            empty += length.to_bytes(width, "big", signed=True)
    return empty + b"\0" * flexible  # tagged fields: none


def write_nothing(source: Source, field: Field, version: int, flexible: bool, x: str = "x") -> None:
    """Write the value of an empty last field into the instance `x`."""
    if is_on_the_wire(field, version, flexible):
        source.add(f"{x}.{field.name} = {None if version in field.nullable else []}")
    else:
        write_absent(source, field, x)


def write_absent(source: Source, field: Field, x: str = "x") -> None:
    """Write the value of a field that this version lacks or that can be absent."""
    plain = plain_values(field)
    if field.struct is not None and plain is not None:
        source.add(f"{x}.{field.name} = value = new({source.bind('Struct', field.struct)})")
        for name, value in plain:
            source.add(f"value.{name} = {source.literal(value)}")
    elif field.factory is not None:
        source.add(f"{x}.{field.name} = {source.bind('factory', field.factory)}()")
    elif field.array and field.required:
        source.add(f"{x}.{field.name} = []")
    elif field.struct is not None and field.required:
        source.add(f"{x}.{field.name} = {source.bind('factory', field.struct)}()")
    else:
        source.add(f"{x}.{field.name} = {source.literal(field.absent_value())}")
