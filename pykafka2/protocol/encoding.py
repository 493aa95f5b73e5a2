"""Generates the source of an encoder, which appends an instance's bytes piece by piece.

Called by struct.py once per struct and version.  An encoder is `encode(x, w)`, where `w` takes the next
piece.  Neighbouring fields of fixed width are packed by one struct call, together with the length of a
following string of the old encoding and with an empty section of tagged fields; record batches and long
bytes are not copied.
"""

from __future__ import annotations

from typing import cast

from pykafka2.protocol.declared import Declared, Encoder, plain_values, resolved_fields, title_of
from pykafka2.protocol.fields import STRUCT_CODES, Field
from pykafka2.protocol.primitives import struct_of
from pykafka2.protocol.single import single_encoder_of
from pykafka2.protocol.source import Source


def encoder_of(cls: type[Declared], version: int, flexible: bool) -> Encoder:
    """Return the function that appends the bytes of an instance in this version; compiled once."""
    encoder = cls._encoders.get((version, flexible))
    if encoder is None:
        source = write_encoder(cls, version, flexible)
        encoder = cast(Encoder, source.compile(title_of(cls, version, flexible, "encode")))
        cls._encoders[version, flexible] = encoder
    return encoder


def write_encoder(cls: type[Declared], version: int, flexible: bool) -> Source:
    """Return the source of the encoder of `cls` in `version`."""
    source = Source("def encode(x, w):")
    single = single_encoder_of(cls, version, flexible)
    if single is not None:
        source.add(f"if {source.bind('encode', single)}(x, w):")
        source.add("    return None")
    writer = _EncoderWriter(source, version, flexible)
    tagged = []
    for field in resolved_fields(cls):
        source.field = field.name
        if version not in field.versions:
            writer.refuse_unless_default(field)
        elif flexible and version in field.tagged:
            tagged.append(field)
        else:
            writer.write(field)
    source.field = ""
    if tagged:
        writer.write_tagged_section(sorted(tagged, key=lambda field: field.tag or 0))
    elif flexible:
        writer.run.append(("x", "", ""))
    writer.flush()
    source.add("return None")
    return source


class _EncoderWriter:
    """Writes the steps of one encoder; collects fixed-width fields to pack them with one call."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.out = "w"
        self.run: list[tuple[str, str, str]] = []  # struct code, value, field

    def flush(self) -> None:
        """Write the call that packs the collected fields."""
        if not self.run:
            return
        values = [value for _, value, _ in self.run if value]
        made = struct_of("".join(code for code, _, _ in self.run))
        about = tuple((field, code) for code, _, field in self.run if field)
        if values:
            pack = self.source.bind("pack", made.pack)
            self.source.add(f"{self.out}({pack}({', '.join(values)}))", about)
        else:
            self.source.add(f"{self.out}({made.pack()!r})", about)
        self.run = []

    def differs_from_default(self, field: Field) -> str:
        """Return the condition under which a field differs from its default."""
        plain = plain_values(field)
        if plain is not None:
            return " or ".join(
                f"x.{field.name}.{name} != {self.source.literal(value)}" for name, value in plain
            )
        default = field.absent_value()
        if default is None:
            return f"x.{field.name} is not None"
        if field.array:
            return f"x.{field.name} or x.{field.name} is None"
        return f"x.{field.name} != {self.source.literal(default)}"

    def refuse_unless_default(self, field: Field) -> None:
        """Write the check that a field which this version lacks is not set."""
        if not field.ignorable:
            self.source.add(f"if {self.differs_from_default(field)}:")
            self.source.add("    absent_but_set()")

    def write(self, field: Field) -> None:
        """Write the code that encodes one field."""
        value = f"x.{field.name}"
        nullable = self.version in field.nullable
        compact = self.flexible and field.flexible
        if field.array:
            self._write_array(field, value, nullable)
        elif field.struct is not None:
            self._write_struct(field, value, nullable)
        elif field.kind == "uuid":
            self._write_uuid(value)
        elif field.kind in STRUCT_CODES:
            self.run.append((STRUCT_CODES[field.kind], value, field.name))
        else:
            self._write_sized(field.kind, value, nullable, compact)

    def _write_uuid(self, value: str) -> None:
        name = self.source.fresh("u")
        self.source.add(f"{name} = {value}")
        self.source.add(f"if len({name}) != 16:")
        self.source.add(f"    wrong_uuid({name})")
        self.run.append(("16s", name, self.source.field))

    def _write_sized(self, kind: str, value: str, nullable: bool, compact: bool) -> None:
        """Write the code that encodes a string, bytes or records."""
        source = self.source
        content, length = source.fresh("s"), source.fresh("n")
        get = f"{value}.encode()"
        if kind != "string":
            get = f"{value} if type({value}) is bytes else uncopied({value})"
        if not compact:
            if nullable:
                source.add(f"if {value} is None:")
                source.add(f'    {content} = b""')
                source.add(f"    {length} = -1")
                source.add("else:")
                source.indent += 1
            source.add(f"{content} = {get}")
            source.add(f"{length} = len({content})")
            source.indent -= nullable
            self.run.append(("h" if kind == "string" else "i", length, source.field))
            self.flush()
            source.add(f"{self.out}({content})")
            return
        self.flush()
        if nullable:
            source.add(f"if {value} is None:")
            source.add(f'    {self.out}(b"\\0")')
            source.add("else:")
            source.indent += 1
        source.add(f"{content} = {get}")
        source.add(f"{length} = len({content}) + 1")
        longer = "string_length" if kind == "string" else "uvarint"
        source.add(f"{self.out}(ONE_BYTE[{length}] if {length} < 128 else {longer}({length}))")
        source.add(f"{self.out}({content})")
        source.indent -= nullable

    def _write_array(self, field: Field, value: str, nullable: bool) -> None:
        """Write the code that encodes a list; its count is packed with the fields before it."""
        source = self.source
        items = source.fresh("items")
        source.add(f"{items} = {value}")
        if not self.flexible:
            count = f"-1 if {items} is None else len({items})" if nullable else f"len({items})"
            self.run.append(("i", count, source.field))
            self.flush()
            source.add(f"if {items}:")
            self._write_elements(field, items)
            return
        self.flush()
        if nullable:
            source.add(f"if {items} is None:")
            source.add(f'    {self.out}(b"\\0")')
            source.add("else:")
            source.indent += 1
        count = source.fresh("n")
        source.add(f"{count} = len({items}) + 1")
        source.add(f"{self.out}(ONE_BYTE[{count}] if {count} < 128 else uvarint({count}))")
        source.add(f"if {items}:")
        self._write_elements(field, items)
        source.indent -= nullable

    def _write_elements(self, field: Field, items: str) -> None:
        """Write the loop over a list that is not empty."""
        source = self.source
        source.indent += 1
        if field.struct is not None:
            encoder = source.bind("encode", encoder_of(field.struct, self.version, self.flexible))
            item = source.fresh("item")
            source.add(f"for {item} in {items}:")
            source.add(f"    {encoder}({item}, {self.out})")
        elif field.kind in STRUCT_CODES and field.kind != "uuid":
            source.add(f'{self.out}(pack(f">{{len({items})}}{STRUCT_CODES[field.kind]}", *{items}))')
        else:
            item = source.fresh("item")
            source.add(f"for {item} in {items}:")
            source.indent += 1
            if field.kind == "uuid":
                self._write_uuid(item)
                self.flush()
            else:
                self._write_sized(field.kind, item, False, self.flexible)
            source.indent -= 1
        source.indent -= 1

    def _write_struct(self, field: Field, value: str, nullable: bool) -> None:
        """Write the code that encodes a struct, after the presence byte of a nullable one.

        Null is -1, but 0 in a tagged field, where Kafka writes the mark as an unsigned varint.
        """
        assert field.struct is not None  # noqa: S101
        source = self.source
        encoder = source.bind("encode", encoder_of(field.struct, self.version, self.flexible))
        self.flush()
        if nullable:
            null = b"\xff" if self.out == "w" else b"\0"
            source.add(f"if {value} is None:")
            source.add(f"    {self.out}({null!r})")
            source.add("else:")
            source.add(f'    {self.out}(b"\\1")')
            source.indent += 1
        source.add(f"{encoder}({value}, {self.out})")
        source.indent -= nullable

    def write_tagged_section(self, tagged: list[Field]) -> None:
        """Write the tagged fields that differ from their defaults, each after its tag and size."""
        source = self.source
        self.flush()
        source.add("count = 0")
        source.add("section = []")
        self.out = "piece"
        for field in tagged:
            source.field = field.name
            source.add(f"if {self.differs_from_default(field)}:")
            source.indent += 1
            source.add("count += 1")
            source.add("pieces = []")
            source.add("piece = pieces.append")
            self.write(field)
            self.flush()
            source.add(f"section += (ONE_BYTE[{field.tag}], uvarint(total_size(pieces)), *pieces)")
            source.indent -= 1
        source.field = ""
        self.out = "w"
        source.add("w(ONE_BYTE[count])")
        source.add("for one in section:")
        source.add("    w(one)")
