"""A benchmark's command, played as a user would type it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from benchmarks.side_by_side.turns import installed

ROOT = Path(__file__).parents[2]


def some_and_all(some: Iterable[str], clients: Iterable[str]) -> list[object]:
    """Return cases for `parametrize`: these clients, and for `nox -s long` all that are quick to start."""
    return [
        pytest.param(installed(some), id="some"),
        pytest.param(installed(quick_to_start(clients)), id="all", marks=pytest.mark.long),
    ]


def quick_to_start(clients: Iterable[str]) -> list[str]:
    """Those whose process is there at once; the other peers have tests of their own."""
    return [name for name in clients if not name.startswith(("kafka-python", "aiokafka"))]


def table_of(name: str, *options: str, out: Path, clients: Iterable[str] = (), seconds: float = 170) -> str:
    """Output that `python -m benchmarks.NAME` writes to `out`; asserts that the command succeeded."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *options, "--out", str(out)]
    command += [word for client in clients for word in ("--client", client)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    table = out.read_text()
    for said in (done.stdout, done.stderr, table):
        assert "Traceback" not in said
        assert "FAILED" not in said
    return table
