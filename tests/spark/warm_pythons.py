"""Pythons for Spark that have imported what they need: forked from one process, and not started one by one.

    with warm_pythons(folder) as python:
        os.environ["PYSPARK_PYTHON"] = str(python)

Spark starts a Python for each kind of work, some ten in a session, and each imports pyspark, pyarrow and
pykafka2 again, for one to two seconds. `python` is a script that Spark takes for a Python: to run pyspark's
modules it has a process forked, with its own descriptors, environment and folder; for all other work it calls
the real Python. The processes end as usual, when Spark closes their standard input or their socket.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from runpy import run_module

IMPORTED = (
    "numpy",
    "pyarrow.compute",
    "pyspark.daemon",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.analyze_udtf",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.worker",
    "pyspark_pykafka2",
    "spark_connector.sink.writers",
    "spark_connector.sink.writers",
    "spark_connector.source.batch",
    "spark_connector.source.stream",
)
"""Spark's versions have not all of them."""
LONGEST_MESSAGE = 1 << 18

SCRIPT = """#!/bin/sh
case "$1 $2" in
    "-m pyspark."*) shift; exec {python} -I -S {client} {place} "$@";;
    *) exec {python} "$@";;
esac
"""

CLIENT = """
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect(sys.argv[1])
job = {"run": sys.argv[2:], "folder": os.getcwd(), "environment": dict(os.environ)}
socket.send_fds(server, [json.dumps(job).encode()], [0, 1, 2])
server.shutdown(socket.SHUT_WR)
while server.recv(1):
    pass
"""
"""Lives as long as the process that it stands for."""


@contextmanager
def warm_pythons(folder: Path) -> Iterator[Path]:
    """The script, as long as the process that forks for it lives; that is in this one's session."""
    place, client, script = folder / "pythons.sock", folder / "python_client.py", folder / "python"
    client.write_text(CLIENT)
    script.write_text(SCRIPT.format(python=sys.executable, client=client, place=place))
    script.chmod(0o755)
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, "-m", __name__, str(place)],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()  # when it listens; an earlier client waits until all is imported
        yield script
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def serve(place: str) -> None:
    """Fork a process for each connection, until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(100)
        print("listening", flush=True)
        for name in IMPORTED:
            with suppress(ImportError):
                import_module(name)
        while True:
            ready, _, _ = select.select([listener.fileno(), 0], [], [])
            if 0 in ready:
                return
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _run(client)
            client.close()


def _run(client: socket.socket) -> None:
    """Run a module like `python -m`. The client's end of the socket shows when it is over."""
    try:
        message, descriptors = _received(client)
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        job = json.loads(message)
        os.environ.clear()
        os.environ.update(job["environment"])
        os.chdir(job["folder"])
        paths = job["environment"].get("PYTHONPATH", "").split(os.pathsep)
        sys.path += [one for one in paths if one and one not in sys.path]
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        sys.argv = job["run"]
        run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _received(client: socket.socket) -> tuple[bytes, list[int]]:
    message, descriptors, _, _ = socket.recv_fds(client, LONGEST_MESSAGE, 3)
    while more := client.recv(LONGEST_MESSAGE):
        message += more
    return message, descriptors


if __name__ == "__main__":
    serve(sys.argv[1])
