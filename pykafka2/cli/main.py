"""The entry point of the command `pykafka2`: finds the verb, runs it, and converts errors to exit codes.

Exit codes: 0 success, also if the reader of a pipe closed it; 1 failure, with a message; 2 wrong arguments or
options; 130 interrupted by Ctrl-C; 143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import FrameType, ModuleType
from typing import NoReturn

from pykafka2.cli.common.exits import EXIT_FAILED, EXIT_OK, EXIT_USAGE, Terminated, code_of
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import Parser, UsageError
from pykafka2.errors import ConfigurationError, IllegalArgument, InvalidTopicException, KafkaError

VERBS = {
    "produce": "pykafka2.cli.records.produce",
    "consume": "pykafka2.cli.records.consume",
    "sql": "pykafka2.cli.records.sql",
    "topics": "pykafka2.cli.admin.topics",
    "groups": "pykafka2.cli.admin.groups",
    "configs": "pykafka2.cli.admin.configs",
    "acls": "pykafka2.cli.admin.acls",
    "users": "pykafka2.cli.admin.users",
    "tokens": "pykafka2.cli.admin.tokens",
    "quotas": "pykafka2.cli.admin.quotas",
    "transactions": "pykafka2.cli.admin.transactions",
    "cluster": "pykafka2.cli.admin.cluster",
    "reassign": "pykafka2.cli.admin.reassign",
    "elect": "pykafka2.cli.admin.elect",
    "check": "pykafka2.cli.admin.check",
    "metrics": "pykafka2.cli.admin.metrics",
    "perf": "pykafka2.cli.perf.perf",
    "completion": "pykafka2.cli.completion",
    "demo": "pykafka2.cli.demo.demo",
    "broker": "pykafka2.cli.broker.broker",
}
"""The module of each verb, in the order of `pykafka2 --help`; see the docstring of the package."""

EPILOG = """\
try first:
  pykafka2 demo                          crash a broker under load and prove that no record is lost
  pykafka2 broker --port 9092            a Kafka cluster for your tests, for any client, until Ctrl-C
  pykafka2 VERB --help                   what a verb does, with examples

exit codes:
  0 success   1 failure   2 wrong arguments or options   130 interrupted by Ctrl-C   143 ended by SIGTERM
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _prepare_process()
    code = EXIT_OK
    try:
        try:
            code = _run(words)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
    except OSError as error:  # such as a full disk
        _forget_stdout()
        print(f"pykafka2: stdout: {error.strerror or error}", file=sys.stderr)
        return code or EXIT_FAILED
    except KeyboardInterrupt as interrupt:  # before the verb started, or twice
        return code_of(interrupt)
    return code


def _run(words: list[str]) -> int:
    parser = build_parser(words)
    if words[:1] and words[0].startswith("-"):
        _check_order(parser, words)
    parsed = parser.parse_args(words)
    if parsed.verb is None:
        parser.print_help()
        return EXIT_OK
    output = Output(parsed.verb, getattr(parsed, "is_json", False))
    if getattr(parsed, "verbose", 0):
        _log_to_stderr(parsed.verbose)
    verb = import_module(VERBS[parsed.verb])
    restore_signals = _handle_signals()
    try:
        code: int = verb.run(parsed, output)
    except (UsageError, ConfigurationError, IllegalArgument, InvalidTopicException) as error:
        output.error(str(error))
        return EXIT_USAGE
    except KafkaError as error:
        outcomes = getattr(error, "outcomes", None)  # of ItemsFailed
        for item, one in outcomes.errors.items() if outcomes else [("", error)]:
            output.error(f"{item}{': ' if outcomes else ''}{type(one).__name__}: {one}")
        return EXIT_FAILED
    except BrokenPipeError:
        raise
    except OSError as error:
        output.error(f"{error.filename or type(error).__name__}: {error.strerror or error}")
        return EXIT_FAILED
    except KeyboardInterrupt as interrupt:
        if not isinstance(interrupt, Terminated):
            output.error("interrupted")
        return code_of(interrupt)
    finally:
        restore_signals()
    return code


def _check_order(parser: Parser, words: list[str]) -> None:
    """Report an option of a verb that precedes the verb, which argparse would take for a wrong verb."""
    option, verb = words[0].partition("=")[0], next((word for word in words if word in VERBS), None)
    if verb is not None and option not in ("-h", "--help", "--version"):
        parser.error(f"option {option} must follow the verb: pykafka2 {verb} ... {option}")


def build_parser(words: Sequence[str] = ()) -> Parser:
    """Return the parser: with the first of the words, if it is a verb, otherwise with all verbs."""
    parser = Parser(
        prog="pykafka2",
        description="A Kafka client for the command line, and a Kafka cluster that starts in milliseconds.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    for name in [name for name in VERBS if name in words[:1]] or VERBS:
        module: ModuleType = import_module(VERBS[name])
        module.configure(verbs.add_parser(name, help=module.SUMMARY, description=module.__doc__))
    return parser


class _Version(argparse.Action):
    """Looks up the version only on demand."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from pykafka2 import __version__, implementation

        print(f"pykafka2 {__version__} (implementation: {implementation})")
        parser.exit()


def _handle_signals() -> Callable[[], object]:
    """Let SIGTERM raise `Terminated`, and SIGINT `KeyboardInterrupt`; return the function that undoes it."""

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    try:
        previous = signal.signal(signal.SIGTERM, terminate)
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    except ValueError:  # another thread
        return lambda: None
    return lambda: signal.signal(signal.SIGTERM, previous)


def _prepare_process() -> None:
    """Set what belongs to a process of its own: how streams encode, and how warnings of the client look."""
    import warnings

    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    if sys.stderr is None:  # else print() would write messages to stdout
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name can be outside the terminal's encoding
    warnings.showwarning = lambda message, *_, **__: print(f"pykafka2: warning: {message}", file=sys.stderr)


def _log_to_stderr(verbosity: int) -> None:
    import logging

    logging.basicConfig(
        level=logging.INFO if verbosity == 1 else logging.DEBUG,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


def _forget_stdout() -> None:
    """Let the interpreter's last flush of stdout, whose reader is gone, go nowhere."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        pass


if __name__ == "__main__":
    sys.exit(main())
