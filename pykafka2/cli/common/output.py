"""Prints results to stdout, as tables for people or JSON lines with --json, and everything else to stderr.

Tables are made with `rich` if it is installed (extra `cli`) and stdout is a terminal, and plain otherwise.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

CLI_EXTRA = "pip install 'pykafka2[cli]'"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", dest="is_json", action="store_true", help="print JSON, one object per line")


class Time(int):
    """A time in milliseconds since the epoch: a number in JSON, ISO 8601 in a table."""


def iso_time(time_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, such as 2026-11-30T08:15:00.000Z. Raises OverflowError."""
    from datetime import UTC, datetime, timedelta

    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_or_none(time_ms: int | None) -> Time | None:
    """Return a time; None if it is unknown, which Kafka encodes as a negative number."""
    return None if time_ms is None or time_ms < 0 else Time(time_ms)


class Output:
    """Prints the results of one verb. `is_json` is set by --json."""

    def __init__(self, verb: str, is_json: bool = False) -> None:
        self.verb = verb
        self.is_json = is_json

    # ------------------------------------------------------------------ results, on stdout

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> None:
        """Print rows; with --json one object per row, whose keys are the columns (snake_case).

        Values are str, int, float, bool, `Time`, None, or lists and dicts of these. A table shows None
        and empty lists as `-`.
        """
        if self.is_json:
            for row in rows:
                self.json(dict(zip(columns, row, strict=True)))
            return
        found = [list(row) for row in rows]
        heads = [column.replace("_", " ").upper() for column in columns]
        numeric = [all(_is_number(row[at]) for row in found) and bool(found) for at in range(len(columns))]
        cells = [[_cell(value) for value in row] for row in found]
        if title:
            self.line(title)
        if not self._rich_table(heads, cells, numeric):
            self._plain_table(heads, cells, numeric)

    def item(self, fields: Mapping[str, Any]) -> None:
        """Print one object: with --json as one line, otherwise one field per line."""
        if self.is_json:
            self.json(fields)
            return
        width = max((len(name) for name in fields), default=0)
        for name, value in fields.items():
            self.line(f"{name.replace('_', ' '):<{width}}  {_cell(value)}")

    def json(self, value: Any) -> None:
        """Print a value as one line of JSON."""
        import json

        is_ascii = not (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
        print(json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":")))

    def line(self, text: str) -> None:
        """Print a line for people; nothing with --json."""
        if not self.is_json:
            print(printable(text))

    # ------------------------------------------------------------------ everything else, on stderr

    def note(self, text: str) -> None:
        """Print a remark, such as a summary, to stderr."""
        note(text)

    def error(self, text: str) -> None:
        """Print an error to stderr, after the name of the verb."""
        note(f"pykafka2 {self.verb}: {text}")

    def progress(self, total: float | None, text: str, unit: str = " records", **options: Any) -> Any:
        """Return a tqdm bar, which is a context manager; it is disabled unless stderr is a terminal."""
        if not is_terminal(sys.stderr):
            return NoProgress()
        from tqdm import tqdm

        tqdm.monitor_interval = 0  # no monitor thread
        if not _columns_of(sys.stderr):  # unknown, as in some containers: tqdm would show nothing
            columns, rows = shutil.get_terminal_size()
            options = {"ncols": columns, "nrows": rows, **options}
        return tqdm(total=total, desc=text, unit=unit, file=sys.stderr, leave=False, **options)

    # ------------------------------------------------------------------ inside

    def _rich_table(self, heads: list[str], cells: list[list[str]], numeric: list[bool]) -> bool:
        """Print with rich; return False if it is not installed or stdout is not a terminal."""
        if not is_terminal(sys.stdout) or os.environ.get("TERM") == "dumb":
            return False
        try:
            from rich.box import SIMPLE_HEAD
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:
            return False
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for head, is_right in zip(heads, numeric, strict=True):
            table.add_column(head, justify="right" if is_right else "left", overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))  # Text: a name can contain markup
        Console(file=sys.stdout, soft_wrap=False).print(table)
        return True

    def _plain_table(self, heads: list[str], cells: list[list[str]], numeric: list[bool]) -> None:
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        for row in [heads, *cells]:
            padded = [
                cell.rjust(width) if is_right else cell.ljust(width)
                for cell, width, is_right in zip(row, widths, numeric, strict=True)
            ]
            print("  ".join(padded).rstrip())


class NoProgress:
    """A progress bar that shows nothing."""

    def __enter__(self) -> NoProgress:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: float = 1) -> None:
        pass

    def close(self) -> None:
        pass

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        pass


def _columns_of(stream: TextIO) -> int:
    """Return the width of a terminal, or 0 if it is unknown."""
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream is open and a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool | Time))


def _cell(value: Any) -> str:
    """Return the text of a value; control characters, which can steer a terminal, are escaped."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Time):
        try:
            return iso_time(value)
        except OverflowError:  # beyond the year 9999
            return f"{value:d}"
    if isinstance(value, list | tuple | set | frozenset | dict) and not value:
        return "-"
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(map(_cell, value))
    if isinstance(value, dict):
        return ",".join(f"{_cell(key)}={_cell(one)}" for key, one in value.items())
    text = str(value)
    return text if text.isprintable() else "".join(map(_escaped, text))


def note(text: str) -> None:
    """Print to stderr; a failure must not hide the exit code, or end the work."""
    with suppress(OSError):
        print(printable(text), file=sys.stderr)


def printable(text: str) -> str:
    """Return a text of one or more lines with control characters, which can steer a terminal, escaped."""
    if text.isprintable():
        return text
    return "".join(letter if letter in "\n\t" else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else repr(letter)[1:-1]
