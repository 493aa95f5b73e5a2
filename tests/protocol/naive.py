"""A second codec, slow and plain, to hold the compiled one against.

Reads descriptions (protocol/describe.py), not declarations, and goes through a message field by field as
Kafka's protocol guide tells it.  Shares no code with the compiled codec.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

WIDTHS = {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16}

Description = dict[str, Any]


def naive_encode(description: Description, message: object, version: int) -> bytes:
    """The bytes of `message`, which the description is of."""
    flexible = _covers(description["flexible_versions"], version)
    return _encode_struct(description["fields"], message, version, flexible)


def naive_decode(description: Description, data: bytes, version: int) -> dict[str, Any]:
    """The values of the fields that `version` carries and `data` holds."""
    flexible = _covers(description["flexible_versions"], version)
    stream = BytesIO(data)
    values = _decode_struct(description["fields"], stream, version, flexible)
    assert stream.read() == b""
    return values


def as_values(description: Description, message: object, version: int) -> dict[str, Any]:
    """A message as naive_decode shows it."""
    return _struct_values(description["fields"], message, version)


def _covers(span: tuple[int, int] | None, version: int) -> bool:
    return span is not None and span[0] <= version <= span[1]


def _number(value: int) -> bytes:
    """Groups of seven bits, the lowest first."""
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F)
    return bytes([group | 0x80 for group in groups[:-1]] + groups[-1:])


def _read_number(stream: BytesIO) -> int:
    value = shift = 0
    while True:
        byte = stream.read(1)[0]
        value += (byte % 128) << shift
        if byte < 128:
            return value
        shift += 7


def _encode_struct(fields: list[Description], message: object, version: int, flexible: bool) -> bytes:
    out = b""
    tagged = {}
    for field in fields:
        if not _covers(field["versions"], version):
            continue
        value = getattr(message, field["name"])
        if flexible and _covers(field["tagged_versions"], version):
            if not _is_default(field, value):
                tagged[field["tag"]] = _encode_field(field, value, version, True, null_struct=b"\0")
        else:
            out += _encode_field(field, value, version, flexible and field["flexible"])
    if flexible:
        out += _number(len(tagged))
        for tag, content in sorted(tagged.items()):
            out += _number(tag) + _number(len(content)) + content
    return out


def _is_default(field: Description, value: Any) -> bool:
    if field["default"] == "struct":
        return value is not None and all(
            _is_default(inner, getattr(value, inner["name"])) for inner in field["fields"]
        )
    return bool(value == field["default"])


def _encode_field(
    field: Description, value: Any, version: int, flexible: bool, null_struct: bytes = b"\xff"
) -> bytes:
    kind = field["type"]
    if kind.startswith("[]"):
        if value is None:
            return b"\0" if flexible else b"\xff\xff\xff\xff"
        items = b"".join(_encode_one(field, kind[2:], item, version, flexible) for item in value)
        return (_number(len(value) + 1) if flexible else len(value).to_bytes(4, "big")) + items
    if kind == "struct" and field["nullable_versions"] and _covers(field["nullable_versions"], version):
        return null_struct if value is None else b"\1" + _encode_one(field, kind, value, version, flexible)
    return _encode_one(field, kind, value, version, flexible)


def _encode_one(field: Description, kind: str, value: Any, version: int, flexible: bool) -> bytes:
    if kind == "struct":
        return _encode_struct(field["fields"], value, version, flexible)
    if kind == "bool":
        return b"\1" if value else b"\0"
    if kind == "uuid":
        return bytes(value)
    if kind == "float64":
        return _double_bits(value).to_bytes(8, "big")
    if kind in WIDTHS:
        return int(value).to_bytes(WIDTHS[kind], "big", signed=kind != "uint16")
    width = 2 if kind == "string" else 4
    if value is None:
        return b"\0" if flexible else b"\xff" * width
    content = value.encode("utf-8") if kind == "string" else bytes(value)
    return (_number(len(content) + 1) if flexible else len(content).to_bytes(width, "big")) + content


def _double_bits(value: float) -> int:
    """IEEE 754, from the number's mathematical parts."""
    text = float(value).hex()
    if text in ("0x0.0p+0", "-0x0.0p+0"):
        return (text[0] == "-") << 63
    if text.lstrip("-") == "inf":
        return (text[0] == "-") << 63 | 0x7FF << 52
    mantissa, _, exponent = text.lstrip("-").removeprefix("0x").partition("p")
    whole, _, fraction = mantissa.partition(".")
    biased = int(exponent) + 1023 if whole == "1" else 0
    return (text[0] == "-") << 63 | biased << 52 | int(fraction.ljust(13, "0"), 16)


def _decode_struct(
    fields: list[Description], stream: BytesIO, version: int, flexible: bool
) -> dict[str, Any]:
    values = {}
    tagged = {}
    for field in fields:
        if not _covers(field["versions"], version):
            continue
        if flexible and _covers(field["tagged_versions"], version):
            tagged[field["tag"]] = field
            values[field["name"]] = _default_values(field, version)
        else:
            values[field["name"]] = _decode_field(field, stream, version, flexible and field["flexible"])
    if flexible:
        for _ in range(_read_number(stream)):
            tag, size = _read_number(stream), _read_number(stream)
            content = BytesIO(stream.read(size))
            if tag in tagged:
                values[tagged[tag]["name"]] = _decode_field(
                    tagged[tag], content, version, True, null_struct=b"\0"
                )
                assert content.read() == b""
    return values


def _default_values(field: Description, version: int) -> Any:
    if field["default"] != "struct":
        return field["default"]
    return {
        inner["name"]: _default_values(inner, version)
        for inner in field["fields"]
        if _covers(inner["versions"], version)
    }


def _decode_field(
    field: Description, stream: BytesIO, version: int, flexible: bool, null_struct: bytes = b"\xff"
) -> Any:
    kind = field["type"]
    if kind.startswith("[]"):
        count = _read_number(stream) - 1 if flexible else int.from_bytes(stream.read(4), "big", signed=True)
        if count < 0:
            return None
        return [_decode_one(field, kind[2:], stream, version, flexible) for _ in range(count)]
    nullable = _covers(field["nullable_versions"], version)
    if kind == "struct" and nullable and stream.read(1) == null_struct:
        return None
    return _decode_one(field, kind, stream, version, flexible)


def _decode_one(field: Description, kind: str, stream: BytesIO, version: int, flexible: bool) -> Any:
    if kind == "struct":
        return _decode_struct(field["fields"], stream, version, flexible)
    if kind == "bool":
        return stream.read(1) != b"\0"
    if kind == "uuid":
        return stream.read(16)
    if kind == "float64":
        return ("bits", int.from_bytes(stream.read(8), "big"))
    if kind in WIDTHS:
        return int.from_bytes(stream.read(WIDTHS[kind]), "big", signed=kind != "uint16")
    width = 2 if kind == "string" else 4
    size = _read_number(stream) - 1 if flexible else int.from_bytes(stream.read(width), "big", signed=True)
    if size < 0:
        return None
    content = stream.read(size)
    return content.decode("utf-8") if kind == "string" else content


def _struct_values(fields: list[Description], message: object, version: int) -> dict[str, Any]:
    return {
        field["name"]: _field_values(field, getattr(message, field["name"]), version)
        for field in fields
        if _covers(field["versions"], version)
    }


def _field_values(field: Description, value: Any, version: int) -> Any:
    if value is None:
        return None
    kind = field["type"].removeprefix("[]")
    items = value if field["type"].startswith("[]") else [value]
    if kind == "struct":
        items = [_struct_values(field["fields"], item, version) for item in items]
    elif kind == "float64":
        items = [("bits", _double_bits(item)) for item in items]
    elif kind in ("bytes", "records"):
        items = [bytes(item) for item in items]
    return items if field["type"].startswith("[]") else items[0]
