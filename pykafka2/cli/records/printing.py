"""Printing of records to stdout: whole batches in spite of Ctrl-C, the progress, and closed pipes."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable
from io import BufferedWriter
from types import FrameType
from typing import Any

from pykafka2.cli.common.output import NoProgress, Output, is_terminal

PIPE_BYTES = 4096
"""A pipe that is ready accepts so many bytes without blocking (PIPE_BUF)."""
SECONDS_AFTER_INTERRUPT = 2.0
CHECK_MS = 100


class DeferredInterrupt:
    """Defers the first Ctrl-C or SIGTERM to the end of the with block; the second one is not deferred."""

    def __init__(self) -> None:
        self.received_at: float | None = None
        self._number = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> DeferredInterrupt:
        self.received_at = None
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if callable(before):
                try:
                    signal.signal(number, self._receive)
                except ValueError:  # another thread, which receives no signals
                    break
                self._before[number] = before
        return self

    def __exit__(self, *_: object) -> None:
        handlers = dict(self._before)
        self._restore()
        if self.received_at is not None:
            handlers[self._number](self._number, None)

    def check(self) -> None:
        """Raise a deferred interrupt that has waited long enough."""
        if self.received_at is not None and time.monotonic() > self.received_at + SECONDS_AFTER_INTERRUPT:
            self._raise(None)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.received_at is not None:
            self._raise(frame)
        self.received_at, self._number = time.monotonic(), number

    def _raise(self, frame: FrameType | None) -> None:
        self.received_at = None
        self._before[self._number](self._number, frame)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


class WholeWriter:
    """Writes to stdout without a buffer; a reader that reads nothing does not defer an interrupt for long."""

    def __init__(self, interrupt: DeferredInterrupt) -> None:
        self._interrupt = interrupt
        self._fd = sys.stdout.fileno()
        self._poll: Any = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(self._fd, select.POLLOUT)

    def write(self, data: bytes) -> None:
        """Write all bytes. Raise BrokenPipeError."""
        left = memoryview(data)
        while left:
            if self._poll is not None and not self._poll.poll(CHECK_MS):
                self._interrupt.check()
                continue
            try:
                left = left[os.write(self._fd, left[:PIPE_BYTES]) :]
            except BlockingIOError:
                self._interrupt.check()

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""


def buffered_stdout() -> BufferedWriter:
    """Return a writer of stdout. With PYTHONUNBUFFERED sys.stdout.buffer can write a part of the bytes."""
    return open(sys.stdout.fileno(), "wb", closefd=False)


def progress_of_records(output: Output, total: int | None) -> Any:
    """Return a bar if records go to a file and stderr is a terminal; it would mix with other output."""
    if not is_terminal(sys.stderr) or is_terminal(sys.stdout) or _is_pipe():
        return NoProgress()
    return output.progress(total, "consumed")


def _is_pipe() -> bool:
    try:
        mode = os.fstat(sys.stdout.fileno()).st_mode
    except (OSError, ValueError):
        return True
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def closed_stdout() -> Callable[[], bool]:
    """Return a function that returns whether the reader of stdout is gone, which a write would notice."""
    if not hasattr(select, "poll") or not _is_pipe():
        return lambda: False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # POLLERR and POLLHUP are always reported
    return lambda: bool(poll.poll(0))
