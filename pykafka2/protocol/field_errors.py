"""Turns an exception in compiled code into an error with message, version and field.

Called only after a failure. The traceback has one frame per nested struct. The table of source.py maps the
line of each frame to its fields, and the frame's locals decide which of several fields failed.
"""

from __future__ import annotations

import struct
from types import FrameType

from pykafka2.errors import CorruptData, KafkaError, SerializationError, UnsupportedVersion
from pykafka2.protocol.primitives import Malformed, NotInVersion, struct_of
from pykafka2.protocol.source import ABOUT_LINES, About


def corrupt_data(name: str, version: int, error: Exception) -> CorruptData:
    """Return the error for bytes that cannot be decoded."""
    if isinstance(error, Malformed):
        reason = str(error)
    elif isinstance(error, UnicodeDecodeError):
        reason = "the string is not UTF-8"
    else:
        reason = "the bytes end too early"
    return CorruptData(f"{_place(name, version, error)}: {reason}")


def trailing_bytes(name: str, version: int, count: int) -> CorruptData:
    """Return the error for bytes after the message."""
    return CorruptData(f"{name} v{version}: {count} bytes follow its last field")


def unencodable(name: str, version: int, error: Exception) -> KafkaError:
    """Return the error for values that do not fit their fields, or fields that the version lacks."""
    place = _place(name, version, error)
    if isinstance(error, NotInVersion):
        return UnsupportedVersion(f"{place} is set, but this version has no such field")
    return SerializationError(f"{place}: {error}")


def _place(name: str, version: int, error: Exception) -> str:
    path = []
    traceback = error.__traceback__
    while traceback is not None:
        lines = ABOUT_LINES.get(traceback.tb_frame.f_code.co_filename)
        if lines is not None:
            inner = _field_of(lines[traceback.tb_lineno - 1], traceback.tb_frame)
            path.append(inner or "tagged fields")
        traceback = traceback.tb_next
    return f"{name} v{version}, field {'.'.join(path)}"


def _field_of(about: About, frame: FrameType) -> str:
    """Return the field of the line that failed."""
    if not about:
        return ""
    values = frame.f_locals
    if "data" in values:
        position = values["p"]
        for name, code in about:
            position += struct_of(code).size
            if position > values["end"]:
                return name
    else:
        for name, code in about:
            if not _packs(code, getattr(values["x"], name, None)):
                return name
    return about[0][0]


def _packs(code: str, value: object) -> bool:
    """Return True if a value (for strings and lists, their length) fits its part of a struct call."""
    if not code:
        return True
    if code in "hi" and not isinstance(value, int | float):
        try:
            value = -1 if value is None else len(value.encode() if isinstance(value, str) else value)  # type: ignore[arg-type]
        except TypeError:
            return False
    try:
        struct_of(code).pack(value)
    except (struct.error, TypeError, OverflowError):
        return False
    return True
