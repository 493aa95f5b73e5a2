"""Options of brokers, topics, groups and client metrics by name: type, default, valid values.

Built once from the tables of Apache Kafka 4.4.0 (kafka_table.py) and of this broker (table.py). Stateless;
configs.py looks values up here.

`parser_of("INT", "[1,...,9] or -1")` reads the notation in which Kafka prints its validators. Pure functions;
an invalid value raises `ValueError` with the second half of Kafka's message ("Invalid value x for
configuration y: ...").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import attrs

from pykafka2.broker.config.kafka_table import (
    BROKER_TABLE,
    DYNAMIC_ONLY_TABLE,
    GROUP_SYNONYMS,
    GROUP_TABLE,
    INTERNAL_TOPIC_TABLE,
    METRICS_TABLE,
    TOPIC_SYNONYMS,
    TOPIC_TABLE,
)
from pykafka2.broker.config.table import DEPARTURES, OWN_TABLE, REFUSED, TAKEN

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


@attrs.define(slots=True)
class Key:
    """One option. `default` is None if Kafka has none; `valid` is in Kafka's own notation."""

    name: str
    type_name: str
    default: str | None
    valid: str
    is_dynamic: bool = False
    synonym: str | None = None
    _parser: Parser | None = None

    def parse(self, text: str) -> Any:
        """Return the parsed value. Raise `ValueError` with Kafka's message if it is invalid."""
        if self._parser is None:
            self._parser = parser_of(self.type_name, self.valid)
        return self._parser(text)

    def invalid(self, text: str, error: ValueError) -> str:
        """Return Kafka's message about an invalid value."""
        entry = error.entry if isinstance(error, InvalidEntry) else text
        message = str(error).replace("{name}", self.name)
        return f"Invalid value {entry} for configuration {self.name}: {message}"

    @property
    def type_code(self) -> int:
        return TYPE_CODES[self.type_name]

    @property
    def is_sensitive(self) -> bool:
        """Whether the value is a password, which responses never include."""
        return self.type_name == "PASSWORD"


def _keys(table: str) -> dict[str, Key]:
    keys = {}
    for line in table.splitlines():
        name, type_name, default, *valid = line.split(" ", 3)
        text = None if default in ("null", "required") else default.strip('"')
        keys[name] = Key(
            name, type_name.rstrip("*"), text, valid[0] if valid else "", type_name.endswith("*")
        )
    return keys


def _topic_keys() -> dict[str, Key]:
    keys = _keys(TOPIC_TABLE)
    for name, synonym in TOPIC_SYNONYMS.items():
        keys[name].synonym = synonym
    return keys


def _group_keys() -> dict[str, Key]:
    keys = _keys(GROUP_TABLE)
    for name, key in keys.items():
        synonym = GROUP_SYNONYMS.get(name, f"group.{name}")
        if synonym in BROKER_KEYS:
            key.synonym = synonym
    return keys


def _broker_keys() -> dict[str, Key]:
    keys = {**_keys(BROKER_TABLE), **_keys(OWN_TABLE)}
    for name, (default, valid, _) in DEPARTURES.items():
        keys[name].default, keys[name].valid = default, valid
    return keys


TOPIC_KEYS: Final[dict[str, Key]] = _topic_keys()
"""Topic options by name."""

INTERNAL_TOPIC_KEYS: Final[dict[str, Key]] = _keys(INTERNAL_TOPIC_TABLE)
"""Internal topic options: they can be set, but are described only on topics that set them."""

BROKER_KEYS: Final[dict[str, Key]] = _broker_keys()
"""Broker options by name, including those that only this broker has."""


DYNAMIC_ONLY_KEYS: Final[dict[str, Key]] = _keys(DYNAMIC_ONLY_TABLE)
"""Options that only a running broker accepts; described only where they are set."""

GROUP_KEYS: Final[dict[str, Key]] = _group_keys()
"""Group options by name."""

METRICS_KEYS: Final[dict[str, Key]] = _keys(METRICS_TABLE)
"""Client metrics subscription options by name."""


def topic_key(name: str) -> Key | None:
    """Return a topic option by name, including internal ones."""
    return TOPIC_KEYS.get(name) or INTERNAL_TOPIC_KEYS.get(name)


def why_refused(name: str) -> str | None:
    """Return why `KafkaCluster(config=...)` refuses a broker option, or None if it accepts it."""
    if name in TAKEN:
        return None
    for beginning, reason in REFUSED.items():
        if name == beginning or (name.startswith(beginning) and beginning[-1] in ".r"):
            return reason
    return None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean ...?)" or an empty string, for messages about misspelt names."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def as_text(value: object) -> str:
    """Return a configuration value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)
