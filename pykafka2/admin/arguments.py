"""Checks the arguments of admin calls before a request is sent."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka2.errors import IllegalArgument


def texts(argument: str, values: Iterable[str]) -> list[str]:
    """Returns a list of the strings, each once; rejects a single string, which iterates by letters."""
    if isinstance(values, str):
        raise IllegalArgument(f"{argument}={values!r} must be a list; pass [{values!r}] for a single value")
    unique = list(dict.fromkeys(values))
    for value in unique:
        if not isinstance(value, str):
            raise IllegalArgument(f"{argument} must contain strings, not {value!r}")
    return unique
