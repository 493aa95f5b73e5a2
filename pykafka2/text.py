"""Makes text from brokers, records and long lists safe and short for errors and log lines.

A broker, or another program at its address, must not be able to forge log lines, control a terminal or fill a
disk. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sized
from typing import Final

MOST_CHARACTERS: Final = 1000
"""Most characters shown of a text; Kafka's own messages have a few hundred."""
_NAME: Final = re.compile(r"[A-Za-z_][\w.-]*")
LONGEST_NAME: Final = 200
LONGEST_WORD: Final = 24
"""Most characters of a name without a separator."""
PEM_BEGIN: Final = "-----BEGIN"
PEM_END: Final = "-----END"
_CREDENTIALS: Final = re.compile(r"""(?<![^"'(\[])[^"'(\[]*:[^"'(\[]*@""")
"""From the beginning of a quoted text to its last @: a password can contain slashes, commas and spaces."""
LONGEST_ERROR: Final = 400
"""Most characters of a user's exception, which can contain the whole record."""


def shown(text: str, most: int = MOST_CHARACTERS) -> str:
    """Return the text truncated to `most` characters, with unprintable characters escaped."""
    if len(text) > most:
        text = f"{text[:most]}… ({len(text) - most} more characters)"
    return printable(text)


def printable(text: str) -> str:
    """Return the text with unprintable characters escaped: line ends, terminal control codes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def brief(error: BaseException) -> str:
    """Return the error's `repr`, shortened, as it can contain a whole record."""
    if isinstance(error, UnicodeError):  # its arguments contain the whole text, its message only the position
        return f"{type(error).__name__}({str(error)!r})"
    full = repr(error)
    half = LONGEST_ERROR // 2
    return full if len(full) <= LONGEST_ERROR else f"{full[:half]} ... {full[-half:]}"


def without_secrets(text: str) -> str:
    """Return a user's text without the user and password of an address, and without PEM data."""
    before, pem, _ = text.partition(PEM_BEGIN)
    text = f"{before}[hidden PEM data]" if pem else text
    return _CREDENTIALS.sub("[hidden]@", text) if "@" in text else text


def is_like_a_name(text: str) -> bool:
    """Return whether a text can be a misspelt option's name; a line of base64 or a password is not shown."""
    if len(text) > LONGEST_NAME or (len(text) > LONGEST_WORD and text.isalnum()):
        return False
    return _NAME.fullmatch(text) is not None


def type_of(value: object) -> str:
    """Return the name of the value's type with its article: a str, an int."""
    name = type(value).__name__
    return f"an {name}" if name[0] in "AEIOUaeiou" else f"a {name}"


def counted(items: Sized | int, name: str, plural: str = "") -> str:
    """Return a number, or the number of items, with their name; without `plural` it gets an s."""
    number = items if isinstance(items, int) else len(items)
    return f"{number:,} {name if number == 1 else plural or name + 's'}"


def undelivered(records: int) -> str:
    """Return the sentence for this number of failed records, without its full stop."""
    return "1 record was not delivered" if records == 1 else f"{records} records were not delivered"


def records_remain(records: int, timeout: float) -> str:
    """Return the sentence for this number of records without a result, without its full stop."""
    what = "1 record remains" if records == 1 else f"{records} records remain"
    return f"{what} after {timeout:g} s"


MOST_NAMED: Final = 20
"""Most items of a list; for ten thousand partitions a line would have 130,000 characters."""


def named(things: Iterable[object]) -> str:
    """Return the first items as text, and the number of the others."""
    items = list(things)
    text = ", ".join(map(str, items[:MOST_NAMED]))
    more = len(items) - MOST_NAMED
    return f"{text} and {more} more" if more > 0 else text


def why_not_open(client: str, state: str, failure: str | None) -> str:
    """Return the sentence of `explain()` about a client that is closed or failed, with what to do."""
    because = f": {failure}; close it and create a new one" if failure else ""
    return f"The {client} is {state}{because}."
