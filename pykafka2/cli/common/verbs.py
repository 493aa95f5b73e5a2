"""Sub-verbs such as `topics list`: each an `Action`, added to the parser of its verb."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import attrs

from pykafka2.cli.common import connection
from pykafka2.cli.common import output as outputs
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import Parser


@attrs.define
class Action:
    """One sub-verb. Its docstring-like `text` is the body of its --help and ends with examples."""

    name: str
    summary: str
    run: Callable[[argparse.Namespace, Output], int]
    configure: Callable[[Parser], None] = lambda parser: None
    text: str = ""
    has_connection: bool = True


def add_actions(parser: Parser, *actions: Action) -> None:
    """Add the sub-verbs, each with the options of connection and output."""
    choices = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action in actions:
        summary = f"{action.summary[:1].upper()}{action.summary[1:]}."
        sub = choices.add_parser(
            action.name,
            help=action.summary,
            description=f"{summary}\n\n{_with_heading(action.text)}" if action.text else summary,
        )
        action.configure(sub)
        if action.has_connection:
            connection.add_options(sub)
        outputs.add_options(sub)
        sub.set_defaults(run_action=action.run)


def _with_heading(text: str) -> str:
    """Return the text with a heading above its examples."""
    before, example, after = f"\n{text}".partition("\n  pykafka2 ")
    return f"{before}\nexamples:{example}{after}".lstrip("\n") if example else text


def run_action(arguments: argparse.Namespace, output: Output) -> int:
    """Run the sub-verb that was typed; return its exit code."""
    code: int = arguments.run_action(arguments, output)
    return code
