"""Parses the options of a user, and rejects unknown names, contradictions and illegal values.

Pure; called on the driver before any task starts.  Neighbors: fields.py, kafka_options.py for `kafka.*`.
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
"""Options that Spark itself adds to those of a source or sink."""
LONGEST_SHOWN = 300
"""Characters of a value that an error shows."""


def table_of(options_class: type[Any]) -> dict[str, tuple[str, SparkOption]]:
    """Return field name and option, by the option's name in lower case."""
    found: dict[str, tuple[str, SparkOption]] = {}
    for attribute in attrs.fields(options_class):
        declared: SparkOption | None = attribute.metadata.get(OPTION)
        if declared is not None:
            found[declared.name.lower()] = attribute.name, declared
    return found


def read_options(
    options_class: type[O],
    options: Mapping[str, str],
    *,
    elsewhere: type[Any],
    here: str,
    refused: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], dict[str, str], frozenset[str]]:
    """Return the values of the class's fields, the options `kafka.*` without that prefix, and the set
    fields.

    Args:
        elsewhere: options class of the other direction, whose options are known but not legal here.
        here: "source" or "sink", for messages.
        refused: names in lower case that are rejected, with the reason.

    Raises:
            UnknownOption: no such option exists; the message suggests the nearest name.
            ConfigurationError: a value is illegal, or an option belongs to the other direction.
    """
    table, others = table_of(options_class), table_of(elsewhere)
    values: dict[str, Any] = {}
    kafka: dict[str, str] = {}
    for written, text in options.items():
        name = written.strip().lower()
        if name.startswith(PREFIX):
            dotted = name.replace("_", ".")  # the clients accept both spellings
            if dotted[len(PREFIX) :] in kafka:
                raise ConfigurationError(
                    f"{dotted} is set twice, with dots and with underscores. Keep one of them."
                )
            kafka[dotted[len(PREFIX) :]] = str(text)
        elif name in table:
            field, declared = table[name]
            values[field] = _read(declared, str(text))
        elif refused and name in refused:
            raise ConfigurationError(f"{name} cannot be set: {refused[name]}.")
        elif name in others:
            other = "sink" if here == "source" else "source"
            raise ConfigurationError(
                f"{others[name][1].name} is an option of the {other}, not of the {here}"
                f"{_NAMED_OTHERWISE.get(name, '')}"
            )
        elif name not in SPARKS_OWN:
            raise UnknownOption(f"Unknown option {written!r}{_nearest(name, table)}")
    return values, kafka, frozenset(values)


_NAMED_OTHERWISE: Final = {
    "topic": ". Set subscribe, subscribePattern or assign to choose what to read.",
    "subscribe": ". Set topic to choose where to write.",
}


def _read(declared: SparkOption, text: str) -> Any:
    try:
        return declared.read(text)
    except (ValueError, TypeError, OverflowError) as error:
        shown = repr(text) if len(text) <= LONGEST_SHOWN else repr(text[:LONGEST_SHOWN]) + "..."
        more = f" ({error})" if isinstance(error, Because) else ""
        raise ConfigurationError(
            f"{declared.name}={shown} is illegal{more}. Set it to {declared.legal}."
        ) from None


def _nearest(name: str, table: Mapping[str, tuple[str, SparkOption]]) -> str:
    names = {"kafka.bootstrap.servers": "kafka.bootstrap.servers"} | {
        lower: declared.name for lower, (_, declared) in table.items()
    }
    is_like_clients_options = "." in name or "_" in name
    found = get_close_matches(name, names, n=1, cutoff=0.8 if is_like_clients_options else 0.0)
    suggested = names[found[0]] if found else PREFIX + name.replace("_", ".")
    return f". Did you mean {suggested!r}?"
