"""Processes of the command `pykafka2` that are forked from one that has imported it.

Most of a short command is the start of Python and its imports. `Command` is a `subprocess.Popen` for
`python -m pykafka2.cli`: the process has its own descriptors, environment, folder and signals, and is a child
of this one. It ends as any Python, but frees no objects. If the environment changes how Python starts, on
systems other than Linux, and if the process that forks has ended, it starts a Python as usual. Tests of the
start and the end themselves do so, too.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from fcntl import ioctl
from importlib import import_module
from pathlib import Path
from runpy import run_module
from termios import TIOCSCTTY
from typing import Any, ClassVar

from pykafka2.cli.main import VERBS, main
from pykafka2.testing import QUICK, KafkaCluster

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "pykafka2.cli"]
WARMING = ("topics create t", "perf produce t --records 9", "consume t -e", "groups list")
"""Verbs that run before the first fork, because clients import much, and make codecs, when they need it."""
FIRST_COMMANDS = 2
"""So many start a Python as usual: a process that forks for a few takes longer than they do."""
LONGEST_MESSAGE = 1 << 17
PR_SET_CHILD_SUBREAPER = 36
LONGEST_END = 30.0
"""Seconds in which the threads of the first verbs end, on the slowest machine."""
UNFLUSHED = 120
"""Python's exit code if the last flush of stdout or stderr fails."""
AT_START = ("PYTHON", "LC_", "LANG", "LD_")
"""Variables that are read when Python starts."""


class Command(subprocess.Popen[Any]):
    """A process of the command, with these words behind its name and the options of `subprocess.Popen`."""

    def __init__(self, *words: str, is_terminal: bool = False, **options: Any) -> None:
        self._words = words
        self._is_terminal = is_terminal
        if is_terminal:
            options["preexec_fn"] = _take_terminal
        super().__init__([*COMMAND, *words], **options)

    def _execute_child(self, *arguments: Any) -> None:
        """Called by Popen with the ends of its pipes: private, and the same in 3.11 to 3.14."""
        environment = dict(os.environ if arguments[6] is None else arguments[6])
        pipes = arguments[10:16]
        ends = (pipes[0], pipes[3], pipes[5])
        streams = [number if end < 0 else end for number, end in enumerate(ends)]
        job = {
            "words": self._words,
            "environment": environment,
            "folder": os.fspath(arguments[5] or os.getcwd()),
            "is_terminal": self._is_terminal,
        }
        server = _Server.of(environment)
        forked = None if server is None else server.fork(job, streams)
        if forked is None:
            super()._execute_child(*arguments)  # type: ignore[misc]
            return
        self.pid = forked
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


class _Server:
    """The process that forks: it starts with a command of this process, and ends with this process."""

    _servers: ClassVar[dict[str, _Server]] = {}
    """By PYKAFKA2_IMPLEMENTATION."""
    _commands: ClassVar[Counter[str]] = Counter()

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._socket, inherited = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with inherited:
            number = inherited.fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(number)],
                env=environment,
                cwd=ROOT,
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
            )
        atexit.register(self._end)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> _Server | None:
        """Return the process for an environment; None if it needs a Python of its own."""
        if sys.platform != "linux" or _at_start(environment) != _at_start(os.environ):
            return None
        implementation = environment.get("PYKAFKA2_IMPLEMENTATION", "")
        cls._commands[implementation] += 1
        if cls._commands[implementation] <= FIRST_COMMANDS:
            return None
        if implementation not in cls._servers:
            cls._servers[implementation] = cls(environment)
        return cls._servers[implementation]

    def fork(self, job: Mapping[str, object], streams: list[int]) -> int | None:
        """Fork a child of this process, which becomes what the job says; return its id.

        Return None if the process that forks has ended; its stderr says why.
        """
        prctl = ctypes.CDLL(None).prctl
        with self._lock:
            # A process whose parent ends becomes a child of this process.
            prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._socket, [json.dumps(job).encode()], streams)
                answer = self._socket.recv(100)
            except ConnectionError:
                return None
            finally:
                prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        return int(answer) if answer else None

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(AT_START) and name != "PYTHONPATH"
    }


def _take_terminal() -> None:
    """Make the standard input the terminal of this process, whose Ctrl-C it gets."""
    os.setsid()
    ioctl(0, TIOCSCTTY, 0)


def _warm() -> None:
    """Import the verbs and run some on a cluster that ends again, with its threads."""
    for name in VERBS.values():
        import_module(name)
    failed: list[str] = []
    with (
        KafkaCluster(1, config=QUICK) as cluster,
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        failed += [line for line in WARMING if main([*line.split(), "-b", cluster.bootstrap_servers])]
    for thread in set(threading.enumerate()) - {threading.current_thread()}:
        thread.join(LONGEST_END)
    if failed or threading.active_count() > 1:
        raise RuntimeError(f"failed: {failed}; {threading.enumerate()}")
    gc.collect()
    gc.freeze()


def _serve(number: int) -> bool:
    """Fork for each message; return True in the forked processes, and False when the socket has ended."""
    _warm()
    with socket.socket(fileno=number) as server:
        while True:
            message, streams, _, _ = socket.recv_fds(server, LONGEST_MESSAGE, 3)
            if not message:
                return False
            reading, writing = os.pipe()
            parent = os.fork()
            if parent == 0:
                child = os.fork()
                if child:
                    os.write(writing, b"%d" % child)
                    os._exit(0)
                for descriptor in (reading, writing):
                    os.close(descriptor)
                _become(json.loads(message), streams)
                return True
            os.waitpid(parent, 0)
            server.send(os.read(reading, 100))
            for descriptor in (reading, writing, *streams):
                os.close(descriptor)


def _become(job: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Be the process as it is when Python has started it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if job["is_terminal"]:
        _take_terminal()
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        new = open(number, old.mode, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        if name == "stderr":
            new.reconfigure(line_buffering=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    sys.argv = ["pykafka2", *job["words"]]


def _run() -> None:
    """Run the command and end as Python does, but without freeing the objects that this process shares."""
    code: object = 1
    try:
        run_module("pykafka2.cli", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = UNFLUSHED
    os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _serve(int(sys.argv[1])):
        _run()
