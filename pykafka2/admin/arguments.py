"""How arguments of admin calls are read: with an error that names them, before anything is sent."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka2.errors import IllegalArgument


def texts(argument: str, given: Iterable[str]) -> list[str]:
    """A list of strings, each once; one string alone would be read letter by letter."""
    if isinstance(given, str):
        raise IllegalArgument(f"{argument}={given!r}: takes several strings, in a list for one")
    found = list(dict.fromkeys(given))
    for one in found:
        if not isinstance(one, str):
            raise IllegalArgument(f"{argument} has {one!r}: takes strings")
    return found
