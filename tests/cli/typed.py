"""Runs `pykafka2` as a user types it: in a process with pipes, or in a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

COMMAND = [sys.executable, "-m", "pykafka2.cli"]
ROOT = Path(__file__).parents[2]
TIMEOUT = 60.0


def environment(**changes: str) -> dict[str, str]:
    """The environment without options of pykafka2, and without the user's profiles."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYKAFKA2_")}
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "PYKAFKA2_PROFILES": os.devnull,
        "COLUMNS": "120",
        "TERM": "xterm",
        **changes,
    }


def pykafka2(
    *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The ended process, with pipes for its three streams."""
    return subprocess.run(
        [*COMMAND, *words], input=stdin, capture_output=True, timeout=TIMEOUT, env=environment(**(env or {}))
    )


def started(*words: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """The running process, with pipes for its streams."""
    return subprocess.Popen(
        [*COMMAND, *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )


class Terminal:
    """The command in a pseudo-terminal that is its stdin, stdout and stderr."""

    def __init__(self, *words: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(sys.executable, [*COMMAND, *words], environment())
        self.shown = b""
        with suppress(OSError):  # the process has ended
            fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))

    def type(self, text: str) -> None:
        """Type text; \\x03 is Ctrl-C and \\x04 is Ctrl-D."""
        os.write(self.fd, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until the terminal shows this text."""
        deadline = time.monotonic() + TIMEOUT
        while text.encode() not in self.shown:
            assert self._read(deadline), self.shown

    def end(self) -> tuple[int, str]:
        """The exit code and all that was shown."""
        deadline = time.monotonic() + TIMEOUT
        while self._read(deadline):
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status), self.shown.decode(errors="replace")

    def _read(self, deadline: float) -> bool:
        if not select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            os.kill(self.pid, signal.SIGKILL)
            raise TimeoutError(f"the command has not ended after {TIMEOUT:g} s: {self.shown!r}")
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: the process has ended
            return False
        self.shown += data
        return bool(data)


def in_terminal(*words: str) -> tuple[int, str]:
    """The exit code and what the terminal showed."""
    return Terminal(*words).end()
