"""Prints results to stdout, as tables for people or JSON lines with --json, and everything else to stderr.

Colors mark what is good, bad or needs attention. Only terminals get them, unless NO_COLOR is set.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, redirect_stderr, suppress
from typing import Any, TextIO

from pykafka2.cli.common.tables import Column, fields, layout

STYLES = {"head": "1", "good": "32", "warning": "33", "bad": "31"}
"""ANSI codes; the colors of the terminal's own palette suit light and dark backgrounds."""
HEADS = {"partition_count": "PARTITIONS", "replication_factor": "REPLICAS", "offline_replicas": "OFFLINE"}
"""Heads that are shorter than the names of their columns."""
Style = Callable[[Any], str]
"""Returns the style of a value: "good", "warning", "bad", or "" for none."""
CLI_EXTRA = "pip install 'pykafka2[cli]'"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", dest="is_json", action="store_true", help="print JSON, one object per line")


class Time(int):
    """A time in milliseconds since the epoch: a number in JSON, ISO 8601 in a table."""


class Change(int):
    """A difference: a number in JSON, with its sign in a table."""


def iso_time(time_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, such as 2026-11-30T08:15:00.000Z. Raise OverflowError."""
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
        self._is_terminal = is_terminal(sys.stdout)  # also while sys.stdout is redirected
        self._has_color = has_color(sys.stdout)

    # ------------------------------------------------------------------ results, on stdout

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        styles: Mapping[str, Style] | None = None,
        quiet: Collection[str] = (),
        json_only: Collection[str] = (),
        can_be_cut: Collection[str] = (),
    ) -> None:
        """Print rows; with --json one object per row, whose keys are the columns (snake_case).

        Values are str, int, float, bool, `Time`, `Change`, None, or lists and dicts of these. A table shows
        None and empty lists as `-`. It leaves out the columns of `json_only`, and those of `quiet` that are
        empty, 0 or "no" in all rows. Only texts in columns of `can_be_cut` are shortened if the terminal is
        too narrow. `styles` has the styles of the values by column.
        """
        found = [list(row) for row in rows]
        if self.is_json:
            for row in found:
                self.json(dict(zip(columns, row, strict=True)))
            return
        shown = []
        for at, name in enumerate(columns):
            values = [row[at] for row in found]
            if name in json_only or (name in quiet and values and not any(values)):
                continue
            style = (styles or {}).get(name, _no_style)
            shown.append(
                Column(
                    HEADS.get(name, name.replace("_", " ").upper()),
                    [_cell(value) for value in values],
                    [style(value) for value in values],
                    bool(values) and all(map(_is_number, values)),
                    name in can_be_cut,
                )
            )
        for line in layout(shown, self._width(), self._paint):
            print(line)

    def item(self, values: Mapping[str, Any], styles: Mapping[str, Style] | None = None) -> None:
        """Print one object: with --json as one line, otherwise one field per line."""
        if self.is_json:
            self.json(values)
            return
        lines = [
            (name.replace("_", " "), _cell(value), (styles or {}).get(name, _no_style)(value))
            for name, value in values.items()
        ]
        for line in fields(lines, self._paint):
            print(line)

    def json(self, value: Any) -> None:
        """Print a value as one line of JSON."""
        import json

        is_ascii = not (getattr(sys.stdout, "encoding", None) or "").lower().startswith("utf")
        print(json.dumps(value, ensure_ascii=is_ascii, separators=(",", ":")))

    def line(self, text: str, style: str = "") -> None:
        """Print a line for people; nothing with --json."""
        if not self.is_json:
            print(self._paint(printable(text), style))

    # ------------------------------------------------------------------ everything else, on stderr

    def note(self, text: str) -> None:
        """Print a remark, such as a summary, to stderr."""
        note(text)

    def error(self, text: str) -> None:
        """Print an error to stderr, after the name of the verb."""
        note(f"pykafka2 {self.verb}: {text}", "bad")

    def progress(self, total: float | None, text: str, unit: str = " records", **options: Any) -> Any:
        """Return a progress bar, which is a context manager; it is hidden unless stderr is a terminal."""
        return ProgressBar(total, text, unit, **options) if is_terminal(sys.stderr) else NoProgress()

    # ------------------------------------------------------------------ inside

    def _width(self) -> int | None:
        """Return the width of the terminal, which can change; None if stdout is not a terminal."""
        return shutil.get_terminal_size().columns if self._is_terminal else None

    def _paint(self, text: str, style: str) -> str:
        return _painted(text, style) if self._has_color else text


class ProgressBar:
    """A tqdm bar on stderr. Until it is closed, lines on stderr such as warnings are printed above it."""

    def __init__(self, total: float | None, text: str, unit: str, **options: Any) -> None:
        import logging

        from tqdm import tqdm
        from tqdm.contrib import DummyTqdmFile
        from tqdm.contrib.logging import logging_redirect_tqdm

        tqdm.monitor_interval = 0  # no monitor thread
        if not _columns_of(sys.stderr):  # unknown, as in some containers: tqdm would show nothing
            columns, rows = shutil.get_terminal_size()
            options = {"ncols": columns, "nrows": rows, **options}
        options = {"leave": False, **options}
        self._stack = ExitStack()
        bar = self._stack.enter_context(tqdm(total=total, desc=text, unit=unit, file=sys.stderr, **options))
        if logging.getLogger().handlers:  # of --verbose, which keep the stream that they were created with
            self._stack.enter_context(logging_redirect_tqdm())
        self._stack.enter_context(redirect_stderr(DummyTqdmFile(sys.stderr)))
        self.update = bar.update

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()


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


def has_color(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal that shows colors, and the user wants them."""
    return is_terminal(stream) and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def _painted(text: str, style: str) -> str:
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style and text else text


def _no_style(value: Any) -> str:
    return ""


def positive_is_warning(value: Any) -> str:
    """Return the style of a lag."""
    return "warning" if value is not None and value > 0 else ""


def true_is_bad(value: Any) -> str:
    """Return the style of a problem that a value reports: an error, offline replicas."""
    return "bad" if value else ""


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool | Time))


def _cell(value: Any) -> str:
    """Return the text of a value; control characters, which can steer a terminal, are escaped."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Change):
        return f"{value:+d}" if value else "0"
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


def note(text: str, style: str = "") -> None:
    """Print to stderr; a failure must not hide the exit code, or end the work."""
    text = printable(text)
    with suppress(OSError):
        print(_painted(text, style) if has_color(sys.stderr) else text, file=sys.stderr)


def printable(text: str) -> str:
    """Return a text of one or more lines with control characters, which can steer a terminal, escaped."""
    if text.isprintable():
        return text
    return "".join(letter if letter in "\n\t" else _escaped(letter) for letter in text)


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else repr(letter)[1:-1]
