"""Runs `pykafka2` as a user types it: in a process with pipes, or in a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping

from tests.fork_server import COMMAND, ROOT, Command

__all__ = ["COMMAND", "ROOT", "Terminal", "environment", "in_terminal", "pykafka2", "started"]
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
    pipe = subprocess.PIPE
    changed = environment(**(env or {}))
    with Command(*words, stdin=pipe, stdout=pipe, stderr=pipe, env=changed) as process:
        try:
            shown, errors = process.communicate(stdin, timeout=TIMEOUT)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, shown, errors)


def started(*words: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """The running process, with pipes for its streams."""
    return Command(*words, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())


class Terminal:
    """The command in a pseudo-terminal that is its stdin, stdout and stderr."""

    def __init__(self, *words: str) -> None:
        self.fd, inside = pty.openpty()
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
        streams = {"stdin": inside, "stdout": inside, "stderr": inside}
        self.process = Command(*words, is_terminal=True, env=environment(), **streams)
        os.close(inside)
        self.shown = b""

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
        code = self.process.wait()
        os.close(self.fd)
        return code, self.shown.decode(errors="replace")

    def _read(self, deadline: float) -> bool:
        if not select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            self.process.kill()
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
