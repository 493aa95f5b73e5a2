"""Reads Java's .properties files: comments, continued lines, escapes, `=`, `:` or a space after the key."""

from __future__ import annotations

import re

from pykafka2.cli.common.parsing import UsageError
from pykafka2.text import PEM_BEGIN, PEM_END, is_like_a_name

OPEN_PEM = (
    "PEM data that does not end on its line; end each of its lines but the last with \\n\\, or set the "
    "option of a file, such as ssl.keyfile"
)
NO_NAME = "this is no name=value; the text is not shown, because it can be a part of a secret"
MAX_CHARACTERS = 1_000_000
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|u|(.))", re.DOTALL)


def read_properties(path: str) -> dict[str, str]:
    """Return the properties of a file; `-` reads stdin. Raise `UsageError`, which shows no value."""
    import sys

    try:
        if path == "-":
            if sys.stdin is None:
                raise UsageError("--config -: stdin is closed")
            text = sys.stdin.read(MAX_CHARACTERS + 1)
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read(MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        if "=" in path:
            name = path.partition("=")[0]
            raise UsageError(
                f"--config {name}: name a file of client options; a single option is -X NAME=VALUE, and the "
                "setting of a new topic --setting NAME=VALUE"
            ) from None
        raise UsageError(f"--config {path}: {reason}") from None
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"--config {path}: more than {MAX_CHARACTERS:,} characters; name a properties file")
    try:
        return parse_properties(text)
    except ValueError as error:
        raise UsageError(f"--config {path}, {error}") from None


def parse_properties(text: str) -> dict[str, str]:
    r"""Return the properties of a text; the last of equal keys wins.

    Raise ValueError, which names the line and shows none of it: it can be a part of a private key.
    """
    found: dict[str, str] = {}
    text = text.removeprefix("\ufeff")  # of editors on Windows
    lines = iter(enumerate(re.split(r"\r\n|\r|\n", text), 1))
    for number, line in lines:
        logical = line.lstrip(" \t\f")
        if not logical or logical[0] in "#!":
            continue
        first = number
        while (len(logical) - len(logical.rstrip("\\"))) % 2:
            _, continued = next(lines, (0, ""))
            logical = logical[:-1] + continued.lstrip(" \t\f")
        try:
            key, value = map(_unescaped, _KEY.findall(logical)[0])
        except ValueError:
            raise ValueError(f"line {number}: \\u needs four hexadecimal digits") from None
        if PEM_BEGIN in logical and PEM_END not in logical:
            raise ValueError(f"line {first}: {OPEN_PEM}")
        if not value.strip("=") and not is_like_a_name(key):
            raise ValueError(f"line {first}: {NO_NAME}")
        found[key] = value
    return found


def _unescaped(text: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] is None:
            raise ValueError
        return _ESCAPES.get(match[2], match[2])

    return _ESCAPE.sub(replacement, text) if "\\" in text else text
