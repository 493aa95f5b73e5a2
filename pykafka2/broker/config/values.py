"""Parsers for configuration values by type and valid range, with Kafka's messages.

`parser_of("INT", "[1,...,9] or -1")` reads the notation in which Kafka prints its validators. Pure functions;
an invalid value raises `ValueError` with the second half of Kafka's message ("Invalid value x for
configuration y: ...").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import attrs

Parser = Callable[[str], Any]
Check = Callable[[Any], None]

TYPE_CODES: Final = {
    "BOOLEAN": 1,
    "STRING": 2,
    "INT": 3,
    "SHORT": 4,
    "LONG": 5,
    "DOUBLE": 6,
    "LIST": 7,
    "CLASS": 8,
    "PASSWORD": 9,
}
"""Type numbers in DescribeConfigs (KIP-569)."""

_BITS: Final = {"SHORT": 15, "INT": 31, "LONG": 63}
_RANGE = re.compile(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\]( or -1)?\Z")
_WORDS = re.compile(r"(\(case insensitive\) )?\[([\w.\- ]*(?:, [\w.\- ]+)*)\]\Z")
_THROTTLED = re.compile(r"\d+:\d+\Z")
_RESETS: Final = "[latest, earliest, by_duration:PnDTnHnMn.nS]"
# The syntax of java.time.Duration.
_DURATION = re.compile(
    r"([-+]?)P(?=[-+\dT])(?:([-+]?\d+)D)?"
    r"(?:T(?=[-+\d])(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:[.,]\d{0,9})?)S)?)?\Z",
    re.IGNORECASE | re.ASCII,
)


def parser_of(type_name: str, valid: str) -> Parser:
    """Return the parser for a type and its valid values."""
    if valid.startswith("[address]"):
        return _limits
    read = _READERS.get(type_name) or _number(type_name)
    check = _check_of(type_name, valid)
    if check is None:
        return read
    ignores_case = valid.startswith("(case insensitive)")

    def parse(text: str) -> Any:
        value = read(text)
        check(value)
        return value.lower() if ignores_case else value

    return parse


def _number(type_name: str) -> Parser:
    limit = 1 << _BITS[type_name]
    what = f"Not a number of type {type_name}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(what) from None
        if not -limit <= value < limit or "_" in text:
            raise ValueError(what)
        return value

    return parse


def _double(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("Not a number of type DOUBLE") from None


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return lowered == "true"


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text.strip() else ()


def _limits(text: str) -> dict[str, int]:
    pairs = [part.strip().rpartition(":") for part in text.split(",") if part.strip()]
    if not all(name and limit.isdigit() for name, _, limit in pairs):
        raise ValueError("Value must be a list of address:number")
    return {name: int(limit) for name, _, limit in pairs}


_READERS: Final[dict[str, Parser]] = {
    "BOOLEAN": _boolean,
    "STRING": str.strip,
    "CLASS": str.strip,
    "PASSWORD": str,
    "DOUBLE": _double,
    "LIST": _list,
}


@attrs.define(frozen=True)
class InvalidEntry(ValueError):
    """An invalid entry of a list; Kafka's message names the entry, not the list."""

    entry: str
    message: str

    def __str__(self) -> str:
        return self.message


def _check_of(type_name: str, valid: str) -> Check | None:
    if bounds := _RANGE.match(valid):
        return _within(
            int(bounds[1]), None if bounds[2] is None else int(bounds[2]), minus_one=bool(bounds[3])
        )
    if valid.startswith("[partitionId]"):
        return _throttled_replicas
    if valid == _RESETS:
        return _reset
    match = _WORDS.match(valid)
    if match is None:
        return None  # "non-empty string" and the like: classes and files that this broker does not use
    choices = match[2].split(", ")
    known = {choice.lower() if match[1] else choice for choice in choices}
    refusal = "String must be one of: " + ", ".join(choices)

    def check_word(value: str) -> None:
        if (value.lower() if match[1] else value) not in known:
            raise ValueError(refusal)

    def check_list(value: tuple[str, ...]) -> None:
        for entry in value:
            if entry not in known:
                raise InvalidEntry(entry, refusal)

    return check_list if type_name == "LIST" else check_word


def _within(low: int, high: int | None, *, minus_one: bool) -> Check:
    def check(value: float) -> None:
        if minus_one:
            if value != -1 and not low <= value <= (high or low):
                raise ValueError(f"Value must be between {low} and {high} or equal to -1")
        elif value < low:
            raise ValueError(f"Value must be at least {low}")
        elif high is not None and value > high:
            raise ValueError(f"Value must be no more than {high}")

    return check


def _reset(value: str) -> None:
    """Check share.auto.offset.reset: earliest, latest, or by_duration with an ISO-8601 duration."""
    word, colon, text = value.partition(":")
    if value in ("latest", "earliest") or (word == "by_duration" and colon and _is_duration(text)):
        return
    raise ValueError(
        f"Invalid value `{value}` for configuration {{name}}. The value must be either 'earliest', 'latest' "
        "or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _is_duration(text: str) -> bool:
    """Return whether Java parses it as a duration that is not negative."""
    found = _DURATION.match(text)
    if found is None:
        return False
    sign, *numbers = found.groups()
    seconds = 0.0
    for number, unit in zip(numbers, (86400, 3600, 60, 1), strict=True):
        seconds += float((number or "0").replace(",", ".")) * unit
    return seconds * (-1 if sign == "-" else 1) >= 0


def _throttled_replicas(value: tuple[str, ...]) -> None:
    if value != ("*",) and not all(_THROTTLED.match(entry) for entry in value):
        raise InvalidEntry(
            f"[{', '.join(value)}]",
            "{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )
