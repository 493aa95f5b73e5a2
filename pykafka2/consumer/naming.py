"""Partitions and topics named in an error or a log line, which has to stay one that can be read.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MOST_NAMED: Final = 20
"""Of a consumer with ten thousand partitions a line would have 130,000 characters."""


def named(things: Iterable[object]) -> str:
    """The first of them by name, and how many more there are."""
    everything = list(things)
    text = ", ".join(map(str, everything[:MOST_NAMED]))
    more = len(everything) - MOST_NAMED
    return f"{text} and {more} more" if more > 0 else text
