"""The option --watch: prints results again and again, in a terminal over the last ones."""

from __future__ import annotations

import argparse
import io
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

from pykafka2.cli.common.changes import described
from pykafka2.cli.common.output import Output, is_terminal
from pykafka2.cli.common.parsing import Parser, UsageError, positive, rate
from pykafka2.cli.common.tables import columns_of
from pykafka2.errors import RetriableError
from pykafka2.text import counted

HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
STYLE = re.compile(r"\x1b\[\d+m")
WATCH_SECONDS = 2.0


class _Watch(argparse.Action):
    """Stores the interval of `--watch [SECONDS]`; a word that is not a number is the name after it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: object,
        option: str | None = None,
    ) -> None:
        namespace.watch = WATCH_SECONDS
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                namespace.after_watch = [value]
                return
            try:
                namespace.watch = rate(value)
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentError(self, str(error)) from None


def add_watch(parser: Parser) -> None:
    parser.set_defaults(after_watch=[])
    parser.add_argument(
        "--watch",
        nargs="?",
        action=_Watch,
        metavar="SECONDS",
        help="print again every SECONDS (2) until Ctrl-C",
    )
    parser.add_argument("--times", type=positive, metavar="N", help="with --watch: print N times, then end")


def watched(arguments: argparse.Namespace, output: Output, show: Callable[[], int]) -> int:
    """Print once, or with --watch until Ctrl-C, which is the usual end and no error."""
    if arguments.watch is None:
        if arguments.times is not None:
            raise UsageError("--times needs --watch")
        return show()
    import time

    def title() -> str:
        return f"{time.strftime('%Y-%m-%d %H:%M:%S')}, every {arguments.watch:g} s"

    code, count = 0, 0
    is_screen = is_terminal(sys.stdout) and not output.is_json
    try:
        while True:
            if is_screen:
                frame = io.StringIO()
                with redirect_stdout(frame), redirect_stderr(frame):
                    code = _shown_again(show, output) if count else show()
                draw([title(), *frame.getvalue().splitlines()])
            else:
                if count:
                    output.line("")
                output.line(title())
                code = _shown_again(show, output) if count else show()
                sys.stdout.flush()
            count += 1
            if count == arguments.times:
                return code
            time.sleep(arguments.watch)
    except KeyboardInterrupt as error:
        if type(error) is not KeyboardInterrupt:  # SIGTERM
            raise
        return code


def _shown_again(show: Callable[[], int], output: Output) -> int:
    """Print again. Errors that can pass, such as those of a restart of all brokers, do not end --watch."""
    try:
        return show()
    except RetriableError as error:
        output.error(described(error))
        return 1


def draw(lines: list[str]) -> None:
    """Draw over the last frame in one piece, so that the screen is never blank; cut what is below it."""
    size = shutil.get_terminal_size()
    heights = [max(1, -(-columns_of(STYLE.sub("", line)) // size.columns)) for line in lines]
    if sum(heights) >= size.lines:
        fitting = [end for end in range(len(lines)) if sum(heights[:end]) <= size.lines - 2]
        end = max(fitting, default=0)
        lines = [*lines[:end], f"... {counted(lines[end:], 'more line')}"]
        heights[end:] = [1]
    drawn = (
        (CLEAR_LINE + "\n") * height + f"\x1b[{height}A{line}\n"  # a long line fills several rows
        for height, line in zip(heights, lines, strict=True)
    )
    sys.stdout.write(HOME + "".join(drawn) + CLEAR_BELOW)
    sys.stdout.flush()
