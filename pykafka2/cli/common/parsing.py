"""The argument parser of all verbs: argparse with suggestions for misspelt words, and types of arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from pykafka2.cli.common.output import printable
from pykafka2.errors import KafkaError

SUBCOMMANDS = argparse._SubParsersAction
REPEATABLE = (
    argparse._AppendAction,  # and "extend"
    argparse._CountAction,
    argparse._StoreTrueAction,
)
"""Kinds of options that can be typed more than once: each adds to the ones before, or says the same."""
MAX_INT16, MAX_INT32, MAX_INT64 = 2**15 - 1, 2**31 - 1, 2**63 - 1
MAX_NAMED_PARTITIONS = 1_000_000
LEAST_RATE, MOST_RATE = 1e-6, 1e9


class UsageError(KafkaError, ValueError):
    """An argument is wrong; the message names it, its value and the valid values. The exit code is 2."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions, and aligns the help of all arguments and verbs in one column."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, **options)
        self._action_max_length = self._max_help_position - 2


class AddSetting(argparse._AppendAction):
    """Appends NAME=VALUE; rejects a NAME that was set before, without its value, which can be a secret."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        name = _set_name(values)
        if name and name in map(_set_name, getattr(namespace, self.dest)):
            raise argparse.ArgumentError(
                self, f"{values.partition('=')[0].strip()} is set twice; set it once"
            )
        super().__call__(parser, namespace, values, option_string)


def _set_name(text: str) -> str:
    """Return the name of NAME=VALUE, with underscores; "" if it is not valid, which the verb reports."""
    name = text.partition("=")[0].strip() if "=" in text else ""
    return name.replace(".", "_") if re.fullmatch(r"[\w.-]+", name) else ""


class Parser(argparse.ArgumentParser):
    """An argparse parser that suggests the nearest verb, choice or option for a misspelt one.

    An option that takes one value can be typed once: of two values, one would be dropped silently.
    """

    def __init__(self, **arguments: Any) -> None:
        arguments.setdefault("formatter_class", HelpFormatter)
        super().__init__(allow_abbrev=False, **arguments)
        self._is_intermixed = False
        self._typed: dict[str, argparse.Action] = {}

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument; without a type its value must be valid Unicode text. `str` accepts any bytes."""
        action = super().add_argument(*names, **options)
        if action.type is None and action.nargs != 0:
            action.type = unicode_text
        return action

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; the error for an unknown option does not show its value, which can be a secret."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            shown = (word.partition("=")[0] if word.startswith("-") else word for word in unknown)
            self.error(f"unrecognized arguments: {' '.join(shown)}")
        return parsed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; the parser of a verb accepts options between its positional arguments."""
        if self._is_intermixed or any(isinstance(action, SUBCOMMANDS) for action in self._actions):
            return super().parse_known_args(args, namespace)
        self._is_intermixed = True
        self._typed = {}
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixed = False

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return the value of an argument that was typed; called for each occurrence."""
        if action.option_strings and not isinstance(action, REPEATABLE):
            before = self._typed.get(action.dest)
            if before is action:
                raise argparse.ArgumentError(action, "typed twice; type it once")
            if before is not None:
                other = "/".join(before.option_strings)
                raise argparse.ArgumentError(action, f"cannot be combined with {other}")
            self._typed[action.dest] = action
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        """Print usage and message with suggestions, and exit with code 2."""
        message = printable(message)
        close: list[str] = []
        for name, word in re.findall(r"argument (\S+): invalid choice: '([^']*)'", message):
            close += nearest([word], self._choices_of(name))
        if message.startswith("unrecognized arguments: "):
            unknown = re.findall(r"(?:unrecognized arguments: |\s)(-[^\s=]+)", message)
            close += nearest(unknown, self._known_options())
        super().error(f"{message}; did you mean {', '.join(close)}?" if close else message)

    def _choices_of(self, name: str) -> Iterable[str]:
        for action in self._actions:
            names = {"/".join(action.option_strings), action.dest, action.metavar}
            if name in names and action.choices is not None:
                return [str(choice) for choice in action.choices]
        return ()

    def _known_options(self) -> list[str]:
        """Return the options of this parser and of its sub-verbs: the top parser reports unknown ones."""
        known = list(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, SUBCOMMANDS):
                for parser in action.choices.values():
                    known += parser._known_options()
        return known


def nearest(words: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the nearest known word of each word that has one."""
    from difflib import get_close_matches

    names = list(dict.fromkeys(known))
    return [close for word in words for close in get_close_matches(word, names, n=1)]


# ---------------------------------------------------------------------------------------------------
# Types of arguments, for `add_argument(type=...)`
# ---------------------------------------------------------------------------------------------------


def unicode_text(text: str) -> str:
    """Return a text that requests can carry; bytes that are not UTF-8 are surrogates in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid Unicode text") from None
    return text


def positive(text: str) -> int:
    """Return an integer above 0."""
    return _integer(text, 1, MAX_INT64)


def partition_count(text: str) -> int:
    """Return a number of partitions, or of bytes."""
    return _integer(text, 1, MAX_INT32)


def replica_count(text: str) -> int:
    """Return a number of replicas."""
    return _integer(text, 1, MAX_INT16)


def natural(text: str) -> int:
    """Return an integer, at least 0."""
    return _integer(text, 0, MAX_INT64)


def rate(text: str) -> float:
    """Return a number of seconds, or per second."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not LEAST_RATE <= number <= MOST_RATE:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not valid; use a number above 0, from {LEAST_RATE:.6f} to {MOST_RATE:.0f}"
        )
    return number


def duration(text: str) -> float:
    """Return a duration in seconds: a number of them, or with a unit, such as 90s, 15m, 2h or 7d."""
    found = re.fullmatch(r"(\d{1,12}(?:\.\d{1,9})?)(ms|s|m|h|d|w)?", text, re.ASCII)
    seconds = float(found[1]) * SECONDS[found[2] or "s"] if found is not None else 0.0
    if not LEAST_RATE <= seconds <= MOST_RATE:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; use a duration such as 90s, 15m, 2h or 7d")
    return seconds


def partition_numbers(text: str) -> list[int]:
    """Return the partition numbers of a list such as `0,2,5-7`."""
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", part.strip(), re.ASCII)
        first, last = (int(found[1]), int(found[2] or found[1])) if found is not None else (1, 0)
        if not first <= last <= MAX_INT32:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not valid; use partition numbers, such as 0 or 0,2,5-7"
            )
        if len(numbers) + last - first >= MAX_NAMED_PARTITIONS:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not valid; use at most {MAX_NAMED_PARTITIONS:,} partitions"
            )
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def time_ms(text: str) -> int:
    """Return a time in milliseconds since the epoch: ISO 8601, milliseconds, or back from now (-90m, -2d)."""
    try:
        number = _time_ms(text)
    except (ValueError, OverflowError):
        number = -1
    if not 0 <= number <= MAX_INT64:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; use 2026-11-30, 2026-11-30T08:15:00Z, milliseconds since the epoch, "
            "or a time before now such as -90s, -15m, -2h, -7d, but none before 1970"
        )
    return number


def _time_ms(text: str) -> int:
    import datetime

    if re.fullmatch(r"\d{1,19}", text, re.ASCII) and len(text) != 8:  # 20261130 is a date
        return int(text)
    back = re.fullmatch(r"-(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", text)
    if back is not None:
        import time

        return int((time.time() - float(back[1]) * SECONDS[back[2]]) * 1000)
    return round(datetime.datetime.fromisoformat(text).timestamp() * 1000)


SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def _integer(text: str, least: int, most: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        legal = f"at least {least}" if number < least else f"at most {most}"
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; use a whole number, {legal}")
    return number
