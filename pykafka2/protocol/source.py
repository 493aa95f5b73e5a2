"""A function being written as Python source: its lines, the names it uses, and what each line is about.

What encoding.py, decoding.py and methods.py write into, with local names only and one line per step.  Knows
no messages.  The table kept here tells which fields a line is about, from which field_errors.py names the
field where an exception arose.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from pykafka2.protocol import primitives

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
        "too_many_tagged",
        "total_size",
        "uvarint",
        "wrong_presence",
        "wrong_size",
        "wrong_uuid",
    )
}


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
