"""Generates the source of a decoder, which checks every length before it uses it.

Called by struct.py once per struct and version.  A decoder is `decode(data, p, end) -> (instance, p)`:
`p` is its position, `end` the first byte it must not read.  Neighbouring fields of fixed width, and the
length before a string or array of the old encoding, are read by one struct call straight into the instance.
Long messages have their own decoders, with a `Budget` as the last argument: a byte of a frame can become an
object of forty bytes, so they check the memory of each array before they create its elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pykafka2.protocol.declared import (
    Declared,
    Decoder,
    WeighingDecoder,
    memory_of_element,
    resolved_fields,
    smallest_element_size,
    title_of,
)
from pykafka2.protocol.fields import STRUCT_CODES, Field
from pykafka2.protocol.primitives import MAX_ARRAY_LENGTH, struct_of
from pykafka2.protocol.quiet import empty_rest, quiet_rest, write_absent, write_nothing
from pykafka2.protocol.single import single_decoder_of
from pykafka2.protocol.source import Source


def decoder_of(cls: type[Declared], version: int, flexible: bool) -> Decoder:
    """Return the function that reads an instance in this version; compiled once."""
    decoder = cls._decoders.get((version, flexible))
    if decoder is None:
        source = write_decoder(cls, version, flexible)
        decoder = cast(Decoder, source.compile(title_of(cls, version, flexible, "decode")))
        cls._decoders[version, flexible] = decoder
    return decoder


def weighing_decoder_of(cls: type[Declared], version: int, flexible: bool) -> WeighingDecoder:
    """Return the decoder with a memory budget; otherwise like `decoder_of`."""
    decoder = cls._weighing_decoders.get((version, flexible))
    if decoder is None:
        source = write_decoder(cls, version, flexible, weighs=True)
        decoder = cast(WeighingDecoder, source.compile(title_of(cls, version, flexible, "decode long")))
        cls._weighing_decoders[version, flexible] = decoder
    return decoder


def write_decoder(cls: type[Declared], version: int, flexible: bool, *, weighs: bool = False) -> Source:
    """Return the source of the decoder of `cls` in `version`."""
    source = Source("def decode(data, p, end, budget):" if weighs else "def decode(data, p, end):")
    source.names["Struct"] = cls
    source.names["new"] = object.__new__
    single = None if weighs else single_decoder_of(cls, version, flexible)
    if single is not None:
        source.add(f"x = {source.bind('decode', single)}(data, p, end)")
        source.add("if x is not None:")
        source.add("    return x, end")
    source.add("x = new(Struct)")
    writer = _DecoderWriter(source, version, flexible, weighs=weighs)
    tagged = []
    fields = resolved_fields(cls)
    rest = quiet_rest(fields, version, flexible)
    for at, field in enumerate(fields):
        if rest and at == len(fields) - len(rest):
            writer.take_quiet_rest(rest)
        source.field = field.name
        if version not in field.versions:
            write_absent(source, field)
        elif flexible and version in field.tagged:
            write_absent(source, field)
            tagged.append(field)
        else:
            writer.read(field)
    writer.flush()
    source.field = ""
    if tagged:
        writer.read_tagged_section(tagged)
    elif flexible:
        source.add("if data[p]:")
        source.add("    p = skip_tagged_fields(data, p, end)")
        source.add("else:")
        source.add("    p += 1")
    source.add("return x, p")
    return source


class _DecoderWriter:
    """Writes the steps of one decoder; collects fixed-width fields to read them with one call."""

    def __init__(self, source: Source, version: int, flexible: bool, *, weighs: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.weighs = weighs
        self.end = "end"
        self.run: list[tuple[str, str, str]] = []  # target, struct code, field

    def flush(self) -> None:
        """Write the call that reads the collected fields."""
        if not self.run:
            return
        made = struct_of("".join(code for _, code, _ in self.run))
        unpack = self.source.bind("unpack", made.unpack_from)
        targets = ", ".join(target for target, _, _ in self.run)
        comma = "," if len(self.run) == 1 else ""
        self.source.add(
            f"{targets}{comma} = {unpack}(data, p)", tuple((field, code) for _, code, field in self.run)
        )
        self.source.add(f"p += {made.size}")
        self.run = []

    def take_quiet_rest(self, rest: Sequence[Field]) -> None:
        """Write the fast path for a struct whose last fields are all empty.

        It can match bytes beyond `end`; the caller that checks the struct's size detects that.
        """
        source = self.source
        self.flush()
        empty = empty_rest(rest, self.version, self.flexible)
        source.add(f"if data[p : p + {len(empty)}] == {empty!r}:", ())
        source.indent += 1
        for field in rest:
            write_nothing(source, field, self.version, self.flexible)
        source.add(f"return x, p + {len(empty)}", ())
        source.indent -= 1

    def read(self, field: Field) -> None:
        """Write the code that reads one field into the instance."""
        target = f"x.{field.name}"
        nullable = self.version in field.nullable
        compact = self.flexible and field.flexible
        if field.array:
            self._read_array(field, target, nullable)
        elif field.struct is not None:
            self._read_struct(field, target, nullable)
        elif field.kind in STRUCT_CODES:
            self.run.append((target, STRUCT_CODES[field.kind], field.name))
        else:
            self._read_sized(field.kind, target, nullable, compact)

    def _read_length(self, code: str, compact: bool, is_string: bool = False) -> str:
        """Write the code that reads a length or count (-1 for null); return its variable."""
        source = self.source
        name = source.fresh("n")
        if not compact:
            self.run.append((name, code, source.field))
            self.flush()
            return name
        self.flush()
        reader = "read_string_length" if is_string else "read_uvarint"
        source.add(f"{name} = data[p] - 1")
        source.add(f"if {name} < 127:")
        source.add("    p += 1")
        source.add("else:")
        source.add(f"    {name}, p = {reader}(data, p)")
        source.add(f"    {name} -= 1")
        return name

    def _refuse_or_null(self, length: str, target: str, nullable: bool) -> None:
        """Write the branch for a negative length."""
        if nullable:
            self.source.add(f"elif {length} == -1:")
            self.source.add(f"    {target} = None")
        self.source.add("else:")
        self.source.add(f"    no_length({length})")

    def _read_sized(self, kind: str, target: str, nullable: bool, compact: bool) -> None:
        """Write the code that reads a string, bytes or records."""
        source = self.source
        is_string = kind == "string"
        length = self._read_length("h" if is_string else "i", compact, is_string)
        value = {
            "string": 'str(data[p:e], "utf-8")',
            "bytes": "bytes(data[p:e])",
            "records": "memoryview(data)[p:e]",
        }[kind]
        source.add(f"if {length} >= 0:")
        source.add(f"    e = p + {length}")
        source.add(f"    if e > {self.end}:")
        source.add(f"        overrun({length}, {self.end} - p)")
        source.add(f"    {target} = {value}")
        source.add("    p = e")
        self._refuse_or_null(length, target, nullable)

    def _read_array(self, field: Field, target: str, nullable: bool) -> None:
        """Write the code that reads an array; the rest of the frame limits its count."""
        source = self.source
        count = self._read_length("i", self.flexible)
        smallest = smallest_element_size(field, self.version, self.flexible)
        source.add(f"if {count} >= 0:")
        source.indent += 1
        # Only a long message has the bytes of so many elements.
        limit = f"{count} > {MAX_ARRAY_LENGTH} or " if self.weighs else ""
        source.add(f"if {limit}{count} * {smallest} > {self.end} - p:")
        source.add(f"    too_many({count}, {self.end} - p)")
        if self.weighs:
            source.add(f"budget.spend({count} * {memory_of_element(field, self.version)})")
        if field.kind == "uuid":
            source.add(f"e = p + 16 * {count}")
            source.add(f"{target} = [bytes(data[i : i + 16]) for i in range(p, e, 16)]")
            source.add("p = e")
        elif field.kind in STRUCT_CODES:
            source.add(f'{target} = list(unpack_from(f">{{{count}}}{STRUCT_CODES[field.kind]}", data, p))')
            source.add(f"p += {smallest} * {count}")
        else:
            items = source.fresh("items")
            source.add(f"{target} = {items} = []")
            source.add(f"for _ in range({count}):")
            source.indent += 1
            item = source.fresh("item")
            if field.struct is not None:
                source.add(f"{item}, p = {self._decode(field.struct)}")
            else:
                self._read_sized(field.kind, item, False, self.flexible)
            source.add(f"{items}.append({item})")
            source.indent -= 1
        source.indent -= 1
        self._refuse_or_null(count, target, nullable)

    def _read_struct(self, field: Field, target: str, nullable: bool) -> None:
        """Write the code that reads a struct, after the presence byte of a nullable one."""
        assert field.struct is not None  # noqa: S101
        source = self.source
        decode = self._decode(field.struct)
        if not nullable:
            self.flush()
            source.add(f"{target}, p = {decode}")
            return
        mark = source.fresh("mark")
        # Null is -1, but 0 in a tagged field, where Kafka writes the mark as an unsigned varint.
        null = 0 if self.end == "stop" else -1
        self.run.append((mark, "b", field.name))
        self.flush()
        source.add(f"if {mark} == 1:")
        source.add(f"    {target}, p = {decode}")
        source.add(f"elif {mark} == {null}:")
        source.add(f"    {target} = None")
        source.add("else:")
        source.add(f"    wrong_presence({mark})")

    def _decode(self, struct: type[Declared]) -> str:
        """Return the call that reads a struct."""
        if self.weighs:
            decoder: object = weighing_decoder_of(struct, self.version, self.flexible)
        else:
            decoder = decoder_of(struct, self.version, self.flexible)
        budget = ", budget" if self.weighs else ""
        return f"{self.source.bind('decode', decoder)}(data, p, {self.end}{budget})"

    def read_tagged_section(self, tagged: list[Field]) -> None:
        """Write the loop over tagged fields; each must have exactly its declared size."""
        source = self.source
        source.add("count = data[p]")
        source.add("p += 1")
        source.add("if count > 127:")
        source.add("    count, p = read_uvarint(data, p - 1)")
        source.add("    too_many_tagged(count)")
        source.add("while count:")
        source.indent += 1
        source.add("count -= 1")
        source.add("tag, p = read_uvarint(data, p)")
        self.end = "stop"
        for branch, field in enumerate(tagged):
            source.field = field.name
            source.add(f"{'elif' if branch else 'if'} tag == {field.tag}:")
            source.indent += 1
            source.add("size, p = read_uvarint(data, p)")
            source.add("stop = p + size")
            source.add("if stop > end:")
            source.add("    overrun(size, end - p)")
            self.read(field)
            self.flush()
            source.add("if p != stop:")
            source.add("    wrong_size(size, size + p - stop)")
            source.indent -= 1
        source.field = ""
        source.add("else:")
        source.add("    p = skip_tagged_field(data, p, end)")
        source.indent -= 1
        self.end = "end"
