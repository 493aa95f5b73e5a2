"""A generated function as Python source: its lines, its names, and the fields of each line.

encoding.py, decoding.py and methods.py write into it, with local names only and one line per step. The table
kept here maps lines to fields, so that field_errors.py can name the field of an exception.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from pykafka2.protocol import primitives

About = tuple[tuple[str, str], ...]
"""The fields that a line reads or writes, each with its struct code in that line ("" for none)."""

ABOUT_LINES: Final[dict[str, list[About]]] = {}
"""The fields of each line, by the file name of generated code."""

_HELPERS: Final[dict[str, Any]] = {
    name: getattr(primitives, name)
    for name in (
        "ONE_BYTE",
        "absent_but_set",
        "no_length",
        "null_refused",
        "overrun",
        "read_string_length",
        "read_uvarint",
        "skip_tagged_field",
        "skip_tagged_fields",
        "string_length",
        "too_many",
        "too_many_tagged",
        "total_size",
        "uncopied",
        "uvarint",
        "wrong_presence",
        "wrong_size",
        "wrong_uuid",
    )
}


class Source:
    """One generated function."""

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
        """Write a line; it belongs to the current field unless `about` is set."""
        self.lines.append("    " * self.indent + line)
        self.about.append(((self.field, ""),) if about is None and self.field else about or ())

    def fresh(self, prefix: str) -> str:
        """Return an unused local name."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def bind(self, prefix: str, value: object) -> str:
        """Return a name for `value` in the function."""
        name = self.fresh(f"{prefix}_")
        self.names[name] = value
        return name

    def literal(self, value: object) -> str:
        """Return the source of a constant."""
        if value is None or isinstance(value, bool | int | str | bytes):
            return repr(value)
        return self.bind("constant", value)

    def compile(self, title: str) -> Any:
        """Compile the function."""
        filename = f"<pykafka2 {title}>"
        exec(compile("\n".join(self.lines), filename, "exec"), self.names)  # noqa: S102
        ABOUT_LINES[filename] = self.about
        return self.names[self.lines[0][4:].partition("(")[0]]
