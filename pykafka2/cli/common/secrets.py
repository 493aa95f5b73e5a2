"""Reads secrets from files and stdin, so that no list of processes shows them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TextIO

from pykafka2.cli.common.parsing import UsageError

MAX_CHARACTERS = 1_000_000


def first_line(name: str, path: str | None = None) -> str:
    """Return the first line of a file, or of stdin, without its end.

    Raise `UsageError`, which begins with `name`.
    """
    return _read(name, path, lambda file: file.readline(MAX_CHARACTERS + 1)).rstrip("\r\n")


def lines(name: str, path: str) -> list[str]:
    """Return the lines of a file without their ends. Raise `UsageError`, which begins with `name`."""
    return _read(name, path, lambda file: file.read(MAX_CHARACTERS + 1)).splitlines()


def _read(name: str, path: str | None, read: Callable[[TextIO], str]) -> str:
    try:
        with nullcontext(sys.stdin) if path is None else open(path, encoding="utf-8-sig") as file:
            text = read(file)
    except UnicodeDecodeError:
        raise UsageError(f"{name}: it is not UTF-8 text") from None
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"{name}: more than {MAX_CHARACTERS:,} characters")
    return text
