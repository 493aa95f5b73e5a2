"""Reads what a user gave into an options object: unknown names, contradictions and bad values end here.

Pure; called on the driver before any task starts.  Neighbours: fields.py, kafka_options.py for `kafka.*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import attrs

from pykafka2.errors import ConfigurationError, UnknownOption
from spark_connector.options.fields import OPTION, Because, SparkOption
from spark_connector.options.kafka_options import PREFIX

O = TypeVar("O")  # noqa: E741

SPARKS_OWN = frozenset(
    {
        "checkpointlocation", "queryname", "outputmode", "triggerinterval", "path",
    }
)  # fmt: skip
"""What Spark itself puts among the options of a source or sink."""
LONGEST_SHOWN = 300
"""Characters of a value in an error."""


def table_of(options_class: type[Any]) -> dict[str, tuple[str, SparkOption]]:
    """Field name and option by the option's name in lower case."""
    found: dict[str, tuple[str, SparkOption]] = {}
    for attribute in attrs.fields(options_class):
        declared: SparkOption | None = attribute.metadata.get(OPTION)
        if declared is not None:
            found[declared.name.lower()] = attribute.name, declared
    return found


def read_options(
    options_class: type[O],
    given: Mapping[str, str],
    *,
    elsewhere: type[Any],
    here: str,
    refused: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], dict[str, str], frozenset[str]]:
    """The values of the class's fields, the options `kafka.*` without that prefix, and the fields given.

    Args:
        elsewhere: the class of options of the other direction, known and not legal here.
        here: "source" or "sink", for messages.
        refused: names in lower case that are refused, with the reason.

    Raises:
        UnknownOption: there is no such option; the nearest is named.
        ConfigurationError: a value that is not legal, or an option that belongs elsewhere.
    """
    table, others = table_of(options_class), table_of(elsewhere)
    values: dict[str, Any] = {}
    kafka: dict[str, str] = {}
    for written, text in given.items():
        name = written.strip().lower()
        if name.startswith(PREFIX):
            dotted = name.replace("_", ".")  # the clients take both
            if dotted[len(PREFIX) :] in kafka:
                raise ConfigurationError(f"{dotted} is given twice, with dots and with underscores")
            kafka[dotted[len(PREFIX) :]] = str(text)
        elif name in table:
            field, declared = table[name]
            values[field] = _read(declared, str(text))
        elif refused and name in refused:
            raise ConfigurationError(f"{name} is refused: {refused[name]}")
        elif name in others:
            other = "sink" if here == "source" else "source"
            raise ConfigurationError(
                f"{others[name][1].name} is an option of the {other}, not of the {here}"
                f"{_NAMED_OTHERWISE.get(name, '')}"
            )
        elif name not in SPARKS_OWN:
            raise UnknownOption(f"there is no option {written!r}{_nearest(name, table)}")
    return values, kafka, frozenset(values)


_NAMED_OTHERWISE: Final = {
    "topic": ", where subscribe, subscribePattern or assign says what to read",
    "subscribe": ", where topic says what to write to",
}


def _read(declared: SparkOption, text: str) -> Any:
    try:
        return declared.read(text)
    except (ValueError, TypeError, OverflowError) as error:
        shown = repr(text) if len(text) <= LONGEST_SHOWN else repr(text[:LONGEST_SHOWN]) + "..."
        more = f" ({error})" if isinstance(error, Because) else ""
        raise ConfigurationError(
            f"{declared.name}={shown} is not valid; use {declared.legal}{more}"
        ) from None


def _nearest(name: str, table: Mapping[str, tuple[str, SparkOption]]) -> str:
    known = {"kafka.bootstrap.servers": "kafka.bootstrap.servers"} | {
        lower: declared.name for lower, (_, declared) in table.items()
    }
    found = get_close_matches(name, known, n=1, cutoff=0.0)
    return f"; the nearest is {known[found[0]]!r}" if found else ""
