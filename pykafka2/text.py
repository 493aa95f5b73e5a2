"""Makes text from brokers, records and long lists safe and short for errors and log lines.

A broker, or whatever answers at its address, must not be able to write log lines of its own, control a
terminal or fill a disk. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

MOST_CHARACTERS: Final = 1000
"""More of one text is not shown; Kafka's own messages have some hundred."""
LONGEST_ERROR: Final = 400
"""Of an error that others raised over a record: it may quote all of it."""


def shown(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text with everything escaped that cannot be printed, cut after `most` characters."""
    if len(text) > most:
        text = f"{text[:most]}… ({len(text) - most} more characters)"
    return printable(text)


def printable(text: str) -> str:
    """The text with escapes in place of what cannot be printed: line ends, commands of terminals."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def brief(error: BaseException) -> str:
    """The error as `repr` has it, without the whole record that it may hold."""
    if isinstance(error, UnicodeError):  # its arguments are all of the text; its words are the place in it
        return f"{type(error).__name__}({str(error)!r})"
    told = repr(error)
    half = LONGEST_ERROR // 2
    return told if len(told) <= LONGEST_ERROR else f"{told[:half]} ... {told[-half:]}"


MOST_NAMED: Final = 20
"""Of a consumer with ten thousand partitions a line would have 130,000 characters."""


def named(things: Iterable[object]) -> str:
    """The first of them by name, and how many more there are."""
    everything = list(things)
    text = ", ".join(map(str, everything[:MOST_NAMED]))
    more = len(everything) - MOST_NAMED
    return f"{text} and {more} more" if more > 0 else text
