"""Text that another process sent, made fit for an error and a log line.

Pure.  A broker, or whatever else answers at its address, must not be able to write lines of its own into a
log, to steer a terminal, or to fill a disk.
"""

from __future__ import annotations

from typing import Final

MOST_CHARACTERS: Final = 1000
"""More of one text is not shown; Kafka's own messages have some hundred."""


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
