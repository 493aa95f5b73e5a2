"""Turns a declaration into functions: `__init__`, `__eq__`, and one encoder and decoder per version.

Called by struct.py at first use, on the thread that happens to need the function.  The codecs themselves are
written by encoding.py and decoding.py as Python source with local names only, one line per step; this module
holds what both share: the source under construction, its compilation, and the table that tells which fields
a line is about, from which field_errors.py names the field where an exception arose.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, cast

from pykafka2.protocol import primitives
from pykafka2.protocol.fields import MISSING, STRUCT_CODES, Field
from pykafka2.protocol.struct import Decoder, Encoder, Struct, resolved_fields

About = tuple[tuple[str, str], ...]
"""The fields that a line reads or writes, each with the struct code of its part in it ("" for none)."""

ABOUT_LINES: Final[dict[str, list[About]]] = {}
"""By the file name of generated code, what each of its lines is about."""

_HELPERS: Final[dict[str, Any]] = {
    name: getattr(primitives, name)
    for name in (
        "ONE_BYTE",
        "absent_but_set",
        "flat",
        "no_length",
        "null_refused",
        "overrun",
        "read_string_length",
        "read_uvarint",
        "skip_tagged_field",
        "skip_tagged_fields",
        "string_length",
        "too_many",
        "total_size",
        "uvarint",
        "wrong_presence",
        "wrong_size",
        "wrong_uuid",
    )
}

_STRUCTS: Final[dict[str, struct.Struct]] = {}


def struct_of(codes: str) -> struct.Struct:
    """The big-endian struct.Struct of these codes, made once."""
    made = _STRUCTS.get(codes)
    if made is None:
        made = _STRUCTS[codes] = struct.Struct(">" + codes)
    return made


class Source:
    """One function being written."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.about: list[About] = [()]
        self.names: dict[str, Any] = {
            **_HELPERS,
            "pack": struct.pack,
            "unpack_from": struct.unpack_from,
        }
        self.indent = 1
        self.field = ""
        self._counter = 0

    def add(self, line: str, about: About | None = None) -> None:
        """Write a line; it is about the field at hand unless said otherwise."""
        self.lines.append("    " * self.indent + line)
        self.about.append(((self.field, ""),) if about is None and self.field else about or ())

    def fresh(self, prefix: str) -> str:
        """A local name not used before."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def bind(self, prefix: str, value: object) -> str:
        """A name under which the function finds `value`."""
        name = self.fresh(f"{prefix}_")
        self.names[name] = value
        return name

    def literal(self, value: object) -> str:
        """How the function says a constant."""
        if value is None or isinstance(value, bool | int | str | bytes):
            return repr(value)
        return self.bind("constant", value)

    def compile(self, title: str) -> Any:
        """The function."""
        filename = f"<pykafka2 {title}>"
        exec(compile("\n".join(self.lines), filename, "exec"), self.names)  # noqa: S102
        ABOUT_LINES[filename] = self.about
        return self.names[self.lines[0][4:].partition("(")[0]]


def title_of(cls: type[Struct], version: int, flexible: bool, what: str) -> str:
    """A title that no other generated function has."""
    return f"{what} {cls.__module__}.{cls.__qualname__} v{version}{' flexible' if flexible else ''}"


def encoder_of(cls: type[Struct], version: int, flexible: bool) -> Encoder:
    """The function that appends the bytes of an instance in this version; compiled once."""
    encoder = cls._encoders.get((version, flexible))
    if encoder is None:
        from pykafka2.protocol.encoding import write_encoder

        source = write_encoder(cls, version, flexible)
        encoder = cast(Encoder, source.compile(title_of(cls, version, flexible, "encode")))
        cls._encoders[version, flexible] = encoder
    return encoder


def decoder_of(cls: type[Struct], version: int, flexible: bool) -> Decoder:
    """The function that reads an instance in this version; compiled once."""
    decoder = cls._decoders.get((version, flexible))
    if decoder is None:
        from pykafka2.protocol.decoding import write_decoder

        source = write_decoder(cls, version, flexible)
        decoder = cast(Decoder, source.compile(title_of(cls, version, flexible, "decode")))
        cls._decoders[version, flexible] = decoder
    return decoder


def compile_init(cls: type[Struct]) -> Callable[..., None]:
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


def compile_eq(cls: type[Struct]) -> Callable[[Any, object], bool]:
    """`__eq__` by value, for instances of the very same class."""
    source = Source("def __eq__(self, other):")
    source.names["Struct"] = cls
    source.add("if other.__class__ is not Struct:")
    source.add("    return NotImplemented")
    comparisons = [f"self.{one.name} == other.{one.name}" for one in resolved_fields(cls)]
    source.add(f"return {' and '.join(comparisons) or 'True'}")
    return cast(Callable[[Any, object], bool], source.compile(f"eq {cls.__module__}.{cls.__qualname__}"))


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


def smallest_size(cls: type[Struct], version: int, flexible: bool) -> int:
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
