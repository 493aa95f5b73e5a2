"""Declarations of the connector's options: the names of Spark's Kafka connector, and parsers of values.

Spark passes options as text, with names in lower case.  Pure data.  Neighbors: source_options.py and
sink_options.py declare options, reading.py reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs

OPTION = "spark option"
"""Key in the metadata of an attrs field for its `SparkOption`."""
INT64_MAX = 2**63 - 1

_UNITS_MS = {
    "us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000
}  # fmt: skip
"""Spark's units of time, in milliseconds."""


class Because(ValueError):
    """Raised by a parser to add its reason to the error message."""


@attrs.define(frozen=True)
class SparkOption:
    """One option.  `read` parses the text, or raises `ValueError`."""

    name: str
    read: Callable[[str], Any]
    legal: str
    doc: str
    default: str
    """The default as the documentation shows it."""
    batch: bool = True
    stream: bool = True


def option(
    name: str,
    default: object,
    read: Callable[[str], Any],
    legal: str,
    doc: str,
    *,
    shown: str = "",
    batch: bool = True,
    stream: bool = True,
) -> Any:
    """Declare an option.  `shown` replaces `default` in the documentation."""
    documented_default = shown or ("none" if default is None else str(default).lower())
    declared = SparkOption(name, read, legal, doc, documented_default, batch, stream)
    return attrs.field(default=default, metadata={OPTION: declared})


def flag(text: str) -> bool:
    """Parse a Boolean as Scala does."""
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def whole_number(minimum: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        number = int(text.strip())
        if not minimum <= number <= INT64_MAX:
            raise ValueError
        return number

    return read


def milliseconds(text: str) -> float:
    """Parse a duration as Spark writes it, such as `15m` or `500ms`; a bare number is milliseconds."""
    text = text.strip().lower()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(digits) :] or "ms"
    if not digits.strip().isdigit() or unit not in _UNITS_MS:
        raise ValueError
    return int(digits) * _UNITS_MS[unit]


def number_of_bytes(text: str) -> int:
    """Parse a number of bytes, with Spark's optional units: `64m`, `1g`, `10kb`."""
    text = text.strip().lower()
    digits = text.rstrip("bkmgt")
    unit = text[len(digits) :].removesuffix("b")
    if unit not in ("", "k", "m", "g", "t"):
        raise ValueError
    number = int(digits) << 10 * " kmgt".index(unit or " ")
    if not 1 <= number <= INT64_MAX:
        raise ValueError
    return number


def one_of(*legal: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text.strip().lower() not in legal:
            raise ValueError
        return text.strip().lower()

    return read


def json_object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise Because(f"it is not JSON: {error}") from None
    except RecursionError:
        raise Because("it is nested too deeply") from None
    if not isinstance(found, dict) or not found:
        raise Because("it is not a JSON object, or it is empty")
    return found
