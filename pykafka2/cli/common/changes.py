"""Parts of the administrative verbs: outcomes by item, reports of interruptions, confirmation, arguments."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka2.cli.common.output import NoProgress, Output, Time, is_terminal, iso_time, printable
from pykafka2.cli.common.parsing import MAX_INT32, UsageError
from pykafka2.errors import (
    GroupAuthorizationFailed,
    GroupIdNotFound,
    IllegalArgument,
    InvalidTopicException,
    KafkaError,
    NonEmptyGroup,
)

if TYPE_CHECKING:
    from pykafka2.admin import Listings, Outcomes

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
REFUSALS = (GroupAuthorizationFailed, GroupIdNotFound, NonEmptyGroup)
"""Errors of a whole group after which no item was changed."""
BATCH = 50
"""Items per call of a change: after an interruption, the outcome of at most so many is unknown."""


# ---------------------------------------------------------------------------------------------------
# Outcomes
# ---------------------------------------------------------------------------------------------------


def change(
    output: Output,
    items: Iterable[K],
    call: Callable[[list[K]], Outcomes[K, V]],
    done: str,
    fields: Callable[[K], Mapping[str, Any]],
    values: Callable[[V], Mapping[str, Any]] = lambda value: {},
    *,
    batch: int = BATCH,
    result: Callable[[V], str] | None = None,
) -> int:
    """Change the items in batches and print one line for each; return the exit code.

    With --json a line has the item's fields, `result` ("failed", or `done`, or what `result` returns),
    `error` and the values of its outcome. If a call fails or is interrupted, or stdout is closed, prints
    which items are unchanged or have an unknown outcome.
    """
    word_of = result or (lambda _: done)
    every = list(dict.fromkeys(items))
    failed = 0
    # In a terminal the lines themselves show the progress.
    has_bar = len(every) > batch and not is_terminal(sys.stdout)
    with output.progress(len(every), done, unit=" items") if has_bar else NoProgress() as bar:
        for start in range(0, len(every), batch):
            some = every[start : start + batch]
            try:
                outcomes = call(some)
            except REFUSALS as error:
                outcomes = _failed(some, error)
            except (KeyboardInterrupt, KafkaError) as error:
                if not isinstance(error, IllegalArgument | InvalidTopicException):
                    _report_end(output, every, start, len(some))
                raise
            for at, item in enumerate(some):
                try:
                    failed += not _print_outcome(output, item, outcomes, word_of, fields, values)
                except BrokenPipeError:
                    unsent = every[start + batch :]
                    _report_closed_pipe(output, some[at:], unsent)
                    if not unsent and not failed and not outcomes.errors:
                        raise
                    return 1
            bar.update(len(some))
    return 1 if failed else 0


def _failed(items: list[K], error: KafkaError) -> Outcomes[K, Any]:
    from pykafka2.admin import Outcomes

    return Outcomes({}, dict.fromkeys(items, error))


def _print_outcome(
    output: Output,
    item: K,
    outcomes: Outcomes[K, V],
    word_of: Callable[[V], str],
    fields: Callable[[K], Mapping[str, Any]],
    values: Callable[[V], Mapping[str, Any]],
) -> bool:
    """Print a line about an item; return whether it succeeded."""
    error = outcomes.errors.get(item)
    if error is not None:
        output.error(f"{item}: {described(error)}")
        if output.is_json:
            output.json({**fields(item), "result": "failed", "error": described(error)})
        return False
    found, word = values(outcomes[item]), word_of(outcomes[item])
    if output.is_json:
        output.json({**fields(item), "result": word, "error": None, **found})
    else:
        more = "".join(f", {_name(name, value)} {_text(value)}" for name, value in found.items())
        output.line(f"{item}: {word}{more}")
    return True


def _name(name: str, value: Any) -> str:
    """Return the name of a value for people: `settings` of a list with one item are one setting."""
    text = name.replace("_", " ")
    return text.removesuffix("s") if isinstance(value, list) and len(value) == 1 else text


def _text(value: Any) -> str:
    if isinstance(value, Time):
        return iso_time(value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _report_end(output: Output, every: Sequence[Hashable], start: int, count: int) -> None:
    unknown, unsent = every[start : start + count], every[start + count :]
    output.error(
        f"{start} of {len(every)} requested before this; the outcome is unknown of {_shortened(unknown)}"
        + (f"; nothing was sent for {_shortened(unsent)}" if unsent else "")
    )


def _report_closed_pipe(output: Output, unprinted: Sequence[Hashable], unsent: Sequence[Hashable]) -> None:
    output.error(
        f"stdout was closed before the results of {_shortened(unprinted)} were printed"
        + (f"; nothing was sent for {_shortened(unsent)}" if unsent else "")
    )


def found(output: Output, outcomes: Outcomes[K, V]) -> tuple[dict[K, V], int]:
    """Print one line for each item that failed; return the values of the others, and the exit code."""
    for item, error in outcomes.errors.items():
        output.error(f"{item}: {described(error)}")
    return outcomes.succeeded, 1 if outcomes.errors else 0


def listed(output: Output, listings: Listings[V]) -> tuple[list[V], int]:
    """Print one line for each broker whose part is missing; return the items, and the exit code."""
    for broker, error in listings.errors.items():
        output.error(f"broker {broker}: {described(error)}")
    return listings, 1 if listings.errors else 0


def described(error: KafkaError) -> str:
    """Return the class and the message of an error."""
    return f"{type(error).__name__}: {error}"


def _shortened(items: Sequence[Hashable], limit: int = 10) -> str:
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(map(str, items[:limit])) + more


def checked(
    run: Callable[[argparse.Namespace, Output], int],
) -> Callable[[argparse.Namespace, Output], int]:
    """Convert an argument that the client rejects to a `UsageError`, which has the exit code 2."""

    def run_checked(arguments: argparse.Namespace, output: Output) -> int:
        try:
            return run(arguments, output)
        except (IllegalArgument, InvalidTopicException) as error:
            raise UsageError(str(error)) from error

    return run_checked


# ---------------------------------------------------------------------------------------------------
# Confirmation
# ---------------------------------------------------------------------------------------------------


def add_yes(parser: argparse.ArgumentParser) -> None:
    """Add --yes."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def is_confirmed(arguments: argparse.Namespace, output: Output, question: str, items: Iterable[Any]) -> bool:
    """Return whether to go on: ask if stdin is a terminal, unless --yes was typed."""
    if arguments.yes or not is_terminal(sys.stdin):
        return True
    prompt = printable(f"{question}: {_shortened(list(items))}? [y/N] ")
    print(prompt, end="", file=sys.stderr, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        output.note("")
    if answer.strip().lower() in ("y", "yes"):
        return True
    output.error("not confirmed; nothing was changed")
    return False


# ---------------------------------------------------------------------------------------------------
# Arguments
# ---------------------------------------------------------------------------------------------------


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """Add --dry-run."""
    parser.add_argument(
        "--dry-run", action="store_true", help="let the brokers check the change without making it"
    )


def add_isolation_level(parser: argparse.ArgumentParser, default: str) -> None:
    """Add --isolation-level, which decides what the end (latest offset) of a partition is."""
    parser.add_argument(
        "--isolation-level",
        choices=("read_committed", "read_uncommitted"),
        default=default,
        help="the end of a partition (latest) is the last stable offset, before open transactions "
        f"(read_committed), or the high watermark (default: {default})",
    )


def settings(argument: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the settings of NAME=VALUE texts. Raise `UsageError`, which shows no value."""
    values: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            shown = name if re.fullmatch(r"[\w.-]+", name) else ""
            raise UsageError(f"{argument} {shown}: write NAME=VALUE, such as retention.ms=3600000")
        values[name.strip()] = value
    return values


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that match any of the patterns (* and ?), or all names without a pattern."""
    return [name for name in names if not patterns or any(fnmatchcase(name, one) for one in patterns)]


def integers(text: str) -> list[int]:
    """Return the numbers of a list such as `1,2`."""
    try:
        numbers = [int(part) for part in text.split(",")]
        if not all(0 <= number <= MAX_INT32 for number in numbers):
            raise ValueError
        return numbers
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; use numbers, such as 1 or 1,2") from None
