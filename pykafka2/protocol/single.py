"""Fast codecs for messages whose lists have one element each: one struct call for nearly all fields.

Generated from the declared fields as a fast path before the general codecs (encoding.py, decoding.py). If a
message does not have that shape, or uses rare fields, these do nothing and the general codec runs. They pay
off for messages sent once per record that a thread waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pykafka2.protocol.declared import Declared, resolved_fields, title_of
from pykafka2.protocol.fields import STRUCT_CODES, Field
from pykafka2.protocol.primitives import ENCODE_ERRORS, struct_of
from pykafka2.protocol.quiet import empty_rest, is_on_the_wire, quiet_rest, write_nothing
from pykafka2.protocol.source import Source

OFTEN_SINGLE: Final = frozenset({"ProduceRequest", "ProduceResponse"})
"""Messages with such a codec, if all of their fields are suitable."""

ONE: Final = 2
"""The encoded length of a compact array of one element."""


class _HasNoShortWay(Exception):
    """The fields of this version are not suitable."""


def single_encoder_of(cls: type[Declared], version: int, flexible: bool) -> Callable[[Any, Any], bool] | None:
    """Return `encode(x, w)`, which returns True if it has written `x`, False if nothing was written."""
    source = Source("def encode(x, w):")
    made: Callable[[Any, Any], bool] | None
    made = _codec_of(cls, version, flexible, source, _SingleEncoder(source, version), "encode single")
    return made


def single_decoder_of(
    cls: type[Declared], version: int, flexible: bool
) -> Callable[[Any, int, int], Any] | None:
    """Return `decode(data, p, end)`, which returns the instance up to `end`, or None."""
    source = Source("def decode(data, p, end):")
    made: Callable[[Any, int, int], Any] | None
    made = _codec_of(cls, version, flexible, source, _SingleDecoder(source, version), "decode single")
    return made


def _codec_of(
    cls: type[Declared],
    version: int,
    flexible: bool,
    source: Source,
    writer: _SingleEncoder | _SingleDecoder,
    kind: str,
) -> Any:
    """Compile the code that `writer` generates; return None if there is no fast path."""
    if cls.__name__ not in OFTEN_SINGLE or not flexible:
        return None
    try:
        writer.write(cls)
    except _HasNoShortWay:
        return None
    return source.compile(title_of(cls, version, flexible, kind))


class _SingleEncoder:
    """Writes one encoder: first the conditions, then the packed fields, then the uncopied ones."""

    def __init__(self, source: Source, version: int) -> None:
        self._source = source
        self._version = version
        self._codes = ""
        self._values: list[str] = []
        self._packed: list[str] = []
        self._pieces: list[str] = []

    def write(self, cls: type[Declared]) -> None:
        source = self._source
        source.names["ENCODE_ERRORS"] = ENCODE_ERRORS
        source.add("try:")
        source.indent += 1
        self._ask(cls, "x")
        self._end_run()
        for step in self._packed:
            source.add(step)
        source.indent -= 1
        source.add("except ENCODE_ERRORS:")
        source.add("    return False  # the general codec names the field")
        for piece in self._pieces:
            source.add(f"w({piece})")
        source.add("return True")

    def _ask(self, cls: type[Declared], x: str) -> None:
        for field in resolved_fields(cls):
            if self._version not in field.versions and field.ignorable:
                continue
            if not is_on_the_wire(field, self._version, True):
                raise _HasNoShortWay  # nor does a field that must not be set
            self._ask_field(field, f"{x}.{field.name}")
        self._codes += "x"

    def _ask_field(self, field: Field, value: str) -> None:
        source = self._source
        is_nullable = self._version in field.nullable
        if field.array and field.struct is not None and not is_nullable:
            item, items = source.fresh("item"), source.fresh("items")
            source.add(f"{items} = {value}")
            source.add(f"if len({items}) != 1:")
            source.add("    return False")
            source.add(f"{item} = {items}[0]")
            self._codes += "B"
            self._values.append(str(ONE))
            self._ask(field.struct, item)
        elif field.array or field.struct is not None:
            raise _HasNoShortWay
        elif field.kind == "uuid":
            source.add(f"if len({value}) != 16:")
            source.add("    return False")
            self._codes += "16s"
            self._values.append(value)
        elif field.kind in STRUCT_CODES:
            self._codes += STRUCT_CODES[field.kind]
            self._values.append(value)
        elif field.kind == "records":
            records = source.fresh("records")
            source.add(f"{records} = {value}")
            source.add(f"if type({records}) is not bytes:")
            source.add("    return False")
            self._end_run()
            self._pieces += [f"uvarint(len({records}) + 1)", records]
        elif is_nullable and field.flexible:
            source.add(f"if {value} is not None:")
            source.add("    return False")
            self._codes += "x"
        else:
            raise _HasNoShortWay

    def _end_run(self) -> None:
        if not self._codes:
            return
        made = struct_of(self._codes)
        if self._values:
            name = self._source.fresh("piece")
            pack = self._source.bind("pack", made.pack)
            self._packed.append(f"{name} = {pack}({', '.join(self._values)})")
            self._pieces.append(name)
        else:
            self._pieces.append(repr(made.pack()))
        self._codes, self._values = "", []


class _SingleDecoder:
    """Writes one decoder, which reads the whole message at once if it has the right length."""

    def __init__(self, source: Source, version: int) -> None:
        self._source = source
        self._version = version
        self._codes = ""
        self._targets: list[str] = []
        self._marks: list[str] = []
        self._expected: list[object] = []
        self._made: list[str] = []
        self._rest: list[tuple[Field, str]] = []

    def write(self, cls: type[Declared]) -> None:
        source = self._source
        self._read(cls, "x")
        made = struct_of(self._codes)
        source.names["new"] = object.__new__
        source.add(f"if end - p != {made.size}:")
        source.add("    return None")
        for line in self._made:
            source.add(line)
        source.add(f"{', '.join(self._targets)} = {source.bind('unpack', made.unpack_from)}(data, p)")
        expected = source.bind("expected", tuple(self._expected))
        source.add(f"if ({', '.join(self._marks)},) != {expected}:")
        source.add("    return None")
        for field, x in self._rest:
            write_nothing(source, field, self._version, True, x)
        source.add("return x")

    def _read(self, cls: type[Declared], x: str) -> None:
        fields = resolved_fields(cls)
        self._made.append(f"{x} = new({self._source.bind('Struct', cls)})")
        rest = quiet_rest(fields, self._version, True)
        for field in fields[: len(fields) - len(rest)]:
            if is_on_the_wire(field, self._version, True):
                self._read_field(field, x)
            else:
                self._rest.append((field, x))
        if rest:
            empty = empty_rest(rest, self._version, True)
            self._mark(f"{len(empty)}s", empty)
            self._rest += [(field, x) for field in rest]
        else:
            self._mark("B", 0)

    def _read_field(self, field: Field, x: str) -> None:
        if field.array and field.struct is not None and self._version not in field.nullable:
            item = self._source.fresh("item")
            self._mark("B", ONE)
            self._read(field.struct, item)
            self._made.append(f"{x}.{field.name} = [{item}]")
        elif field.kind in STRUCT_CODES and not field.array:
            self._codes += STRUCT_CODES[field.kind]
            self._targets.append(f"{x}.{field.name}")
        else:
            raise _HasNoShortWay

    def _mark(self, code: str, expected: object) -> None:
        """Record a condition that must hold."""
        name = self._source.fresh("mark")
        self._codes += code
        self._targets.append(name)
        self._marks.append(name)
        self._expected.append(expected)
