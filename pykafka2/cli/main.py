"""The `pykafka2` command: finds the sub-command, shows --help, converts errors to exit codes.

Exit codes: 0 success; 1 failure, with a message; 2 wrong command line; 130 interrupted.
Each sub-command is a module with `SUMMARY`, `configure(parser)` and `run(arguments) -> int`, loaded on first
use.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from pykafka2.errors import KafkaError

COMMANDS = {"demo": "pykafka2.cli.demo", "broker": "pykafka2.cli.broker"}

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

EPILOG = """\
Try first:
  pykafka2 demo                          crash a broker under load and prove that no record is lost
  pykafka2 broker --port 9092            a Kafka cluster for your tests, for any client, until Ctrl-C
  pykafka2 COMMAND --help                what a command does, with examples
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command; the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser(words)
    parsed = parser.parse_args(words)
    if parsed.command is None:
        parser.print_help()
        return 0
    try:
        code: int = import_module(COMMANDS[parsed.command]).run(parsed)
    except KafkaError as error:
        print(f"pykafka2 {parsed.command}: {type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print(f"pykafka2 {parsed.command}: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return code


class Parser(argparse.ArgumentParser):
    """An argparse parser that suggests the nearest command or option for a misspelt one."""

    def error(self, message: str) -> NoReturn:
        subparsers = [
            parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for parser in action.choices.values()
        ]
        known = [option for parser in (self, *subparsers) for option in parser._option_string_actions]
        chosen = re.findall(r"argument (\S+): invalid choice: '([^']*)'", message)
        misspelt = (
            []
            if message.startswith("argument ")
            else re.findall(r"(?:unrecognized arguments: |\s)(-[^\s=]+)", message)
        )
        close = _nearest(misspelt, known)
        for name, word in chosen:
            action = self._option_string_actions.get(name)
            close += _nearest([word], COMMANDS if action is None else action.choices or ())
        super().error(f"{message}; did you mean {', '.join(close)}?" if close else message)


def _nearest(words: Iterable[str], known: Iterable[str]) -> list[str]:
    """The word that each of these may have been meant to be, where there is one."""
    from difflib import get_close_matches

    return [close for word in words for close in get_close_matches(word, list(known), n=1)]


def _parser(words: list[str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="pykafka2",
        description="A Kafka client, and a Kafka cluster that starts in milliseconds.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    # A command that is named on the line is the only one that is loaded.
    for name in [name for name in COMMANDS if name in words[:1]] or COMMANDS:
        module: ModuleType = import_module(COMMANDS[name])
        command = commands.add_parser(
            name,
            help=module.SUMMARY,
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(command)
    return parser


class _Version(argparse.Action):
    """Looks up the version only on demand: importlib.metadata is slow to load."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        parser.exit(message=f"pykafka2 {version('pykafka2')}\n")


if __name__ == "__main__":
    sys.exit(main())
