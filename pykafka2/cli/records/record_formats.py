r"""Formats of consumed records: the percent letters of kcat and rpk, and JSON lines.

A format is compiled once to functions that make whole columns of bytes. The default, `%v\n`, is one join of
the values.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common.output import iso_time

if TYPE_CHECKING:
    from pykafka2 import Columns

Render = Callable[["Columns", str, int], bytes]
"""Returns the bytes of some records: `render(columns, topic, partition)`."""

Column = Callable[["Columns", str, int], Iterable[bytes]]
Encode = Callable[[bytes], bytes]

DEFAULT = r"%v\n"
ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", "e": b"\x1b"}
LETTERS = (
    "%t topic, %p partition, %o offset, %k key, %v or %s value, %K and %V or %S their sizes, %R the value's "
    "size as 4 bytes (big-endian), %h headers, %H their number, %T or %d timestamp, %i number of the record, "
    "%% a percent sign"
)
BYTES_MODIFIERS = "hex, base64, json"
TIME_MODIFIERS = "iso, strftime[FORMAT]"
_TOKEN = re.compile(r"%(.)(?:\{((?:strftime\[[^\]]*\]|[^}])*)\})?|\\(x[0-9a-fA-F]{2}|.)|[^%\\]+|.", re.DOTALL)


class BadFormat(ValueError):
    """A format has an unknown letter, modifier or escape; the message has the valid ones."""


def compile_format(text: str, null: bytes = b"") -> Render:
    """Return the function that renders records. Raise `BadFormat`."""
    if text == DEFAULT:
        return partial(_values_and_newlines, null)
    parts: list[bytes | Column] = []
    for token in _TOKEN.finditer(text):
        letter, modifier, escape = token.groups()
        if letter is not None:
            part = _letter(letter, modifier, null)
        elif escape is not None:
            part = _escape(escape)
        elif token[0] in ("%", "\\"):
            raise BadFormat(f"{token[0]} at the end; write {token[0] * 2} for the character itself")
        else:
            part = token[0].encode("utf-8", "surrogateescape")
        if isinstance(part, bytes) and parts and isinstance(parts[-1], bytes):
            parts[-1] += part
        else:
            parts.append(part)
    return partial(_rows, parts)


def unescaped(text: str) -> bytes:
    r"""Return the bytes of a text with the escapes \n, \t, \r, \0, \e, \\ and \xHH. Raise `BadFormat`."""
    found = [
        _escape(token[1]) if token[1] is not None else token[0].encode("utf-8", "surrogateescape")
        for token in re.finditer(r"\\(x[0-9a-fA-F]{2}|.)|[^\\]+|\\", text, re.DOTALL)
    ]
    return b"".join(found)


def _escape(name: str) -> bytes:
    if name[0] == "x" and len(name) == 3:
        return bytes.fromhex(name[1:])
    if name not in ESCAPES:
        raise BadFormat(rf"\{name} is unknown; use \n, \t, \r, \0, \e, \\ or \xHH")
    return ESCAPES[name]


# ---------------------------------------------------------------------------------------------------
# Rendering
# ---------------------------------------------------------------------------------------------------


def _values_and_newlines(null: bytes, columns: Columns, topic: str, partition: int) -> bytes:
    values: Sequence[Any] = columns.values
    try:
        return b"\n".join(values) + b"\n"
    except TypeError:
        return b"\n".join([null if value is None else value for value in values]) + b"\n"


def _rows(parts: list[bytes | Column], columns: Columns, topic: str, partition: int) -> bytes:
    made = [
        repeat(part, len(columns)) if isinstance(part, bytes) else part(columns, topic, partition)
        for part in parts
    ]
    return b"".join(chain.from_iterable(zip(*made, strict=True)))


def _letter(letter: str, modifier: str | None, null: bytes) -> bytes | Column:
    if letter == "%" and modifier is None:
        return b"%"
    if letter in "kvs":
        return _bytes_column("keys" if letter == "k" else "values", modifier, null)
    if letter in "Td":
        return _time_column(modifier)
    if letter == "h":
        encode = _encoder(modifier) if modifier is not None else None
        return lambda columns, topic, partition: [
            _shown_headers(one, encode, null) for one in columns.headers
        ]
    column = _plain_column(letter)
    if column is None:
        raise BadFormat(f"%{letter} is unknown; use {LETTERS}")
    if modifier is not None:
        raise BadFormat(f"%{letter}{{{modifier}}}: %{letter} has no modifiers")
    return column


def _plain_column(letter: str) -> Column | None:
    if letter == "t":
        return lambda columns, topic, partition: repeat(topic.encode(), len(columns))
    if letter == "p":
        return lambda columns, topic, partition: repeat(b"%d" % partition, len(columns))
    if letter == "o":
        return lambda columns, topic, partition: [b"%d" % offset for offset in columns.offsets]
    if letter == "K":
        return lambda columns, topic, partition: _sizes(columns.keys)
    if letter in "VS":
        return lambda columns, topic, partition: _sizes(columns.values)
    if letter == "R":
        return lambda columns, topic, partition: [
            (-1 if value is None else len(value)).to_bytes(4, "big", signed=True) for value in columns.values
        ]
    if letter == "H":
        return lambda columns, topic, partition: [b"%d" % len(headers) for headers in columns.headers]
    if letter == "i":
        numbers = count(1)
        return lambda columns, topic, partition: [b"%d" % next(numbers) for _ in range(len(columns))]
    return None


def _sizes(column: Sequence[bytes | None]) -> list[bytes]:
    return [b"-1" if value is None else b"%d" % len(value) for value in column]


def _bytes_column(name: str, modifier: str | None, null: bytes) -> Column:
    if modifier is None:
        return lambda columns, topic, partition: [
            null if value is None else value for value in getattr(columns, name)
        ]
    encode = _encoder(modifier)
    if_null = b"null" if modifier == "json" else null
    return lambda columns, topic, partition: [
        if_null if value is None else encode(value) for value in getattr(columns, name)
    ]


def _encoder(modifier: str) -> Encode:
    if modifier == "hex":
        return lambda value: value.hex().encode()
    if modifier == "base64":
        return b64encode
    if modifier == "json":
        from json import dumps

        return lambda value: dumps(value.decode("utf-8", "replace"), ensure_ascii=False).encode()
    raise BadFormat(f"modifier {{{modifier}}} is unknown; use one of {BYTES_MODIFIERS}")


def _shown_headers(headers: Sequence[tuple[str, bytes | None]], encode: Encode | None, null: bytes) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape")
        + b"="
        + (null if value is None else value if encode is None else encode(value))
        for name, value in headers
    )


def _time_column(modifier: str | None) -> Column:
    if modifier is None:
        return lambda columns, topic, partition: [b"%d" % time_ms for time_ms in columns.timestamps]
    from datetime import UTC, datetime, timedelta

    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    if modifier == "iso":
        shown = iso_time
    else:
        found = re.fullmatch(r"strftime\[([^\]]*)\]", modifier)
        if found is None:
            raise BadFormat(f"modifier {{{modifier}}} is unknown; use one of {TIME_MODIFIERS}")
        pattern = found[1]

        def shown(time_ms: int) -> str:
            return (epoch + timedelta(milliseconds=time_ms)).astimezone().strftime(pattern)

    def text(time_ms: int) -> bytes:
        try:
            return shown(time_ms).encode()
        except (OverflowError, ValueError):  # beyond the year 9999
            return b"%d" % time_ms

    return lambda columns, topic, partition: [text(time_ms) for time_ms in columns.timestamps]


# ---------------------------------------------------------------------------------------------------
# JSON lines
# ---------------------------------------------------------------------------------------------------

TIMESTAMP_TYPES = ("create_time", "log_append_time")


def json_lines() -> Render:
    """Return the function that renders each record as one line of JSON."""
    from json.encoder import encode_basestring

    def field(name: str, value: bytes | None) -> str:
        if value is None:
            return f'"{name}":null'
        try:
            return f'"{name}":{encode_basestring(value.decode())}'
        except UnicodeDecodeError:
            return f'"{name}_base64":"{b64encode(value).decode()}"'

    def header_list(headers: Sequence[tuple[str, bytes | None]]) -> str:
        return ",".join(
            f'{{"name":{encode_basestring(name)},{field("value", value)}}}' for name, value in headers
        )

    def render(columns: Columns, topic: str, partition: int) -> bytes:
        start = f'{{"topic":{encode_basestring(topic)},"partition":{partition},"offset":'
        lines = [
            f'{start}{offset},"timestamp":{"null" if time_ms < 0 else time_ms},'
            f'"timestamp_type":"{TIMESTAMP_TYPES[kind]}",{field("key", key)},{field("value", value)},'
            f'"headers":[{header_list(headers)}]}}\n'
            for offset, time_ms, kind, key, value, headers in zip(
                columns.offsets,
                columns.timestamps,
                columns.timestamp_types,
                columns.keys,
                columns.values,
                columns.headers,
                strict=True,
            )
        ]
        # A header's name that is not UTF-8 has surrogates, which become JSON's escapes.
        return "".join(lines).encode("utf-8", "backslashreplace")

    return render
