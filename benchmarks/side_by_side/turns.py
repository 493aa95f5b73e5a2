"""Clients take turns, each in a process of its own; every other round goes backwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from statistics import median
from typing import Any, Generic, TypeVar

import attrs

from benchmarks.side_by_side.measured import Measured
from benchmarks.side_by_side.run import AnyRun

RUN_TIMEOUT = 300.0

PURE, COMPILED = "pykafka2", "pykafka2[c]"
"""How the names of clients begin that run in Python alone, and with the extension."""

Cell = TypeVar("Cell")
C = TypeVar("C")

R = TypeVar("R", bound=AnyRun)


@attrs.define
class Results(Generic[Cell]):
    """The results, by cell and client, a round after the other."""

    rounds: dict[Cell, dict[str, list[Measured]]] = attrs.Factory(dict)
    problems: list[str] = attrs.Factory(list)
    """Runs that ended by an error; they are left out, and the others go on."""
    notes: list[str] = attrs.Factory(list)
    """Further lines above the tables."""
    cold: dict[Cell, dict[str, Measured]] = attrs.Factory(dict)
    """The first round of each client, before the warm-up; only of benchmarks that measure it."""

    def add(self, run: AnyRun, measured: Measured) -> None:
        self.rounds.setdefault(run.cell, {}).setdefault(run.client, []).append(measured)

    def median(self, cell: Cell, client: str, read: Callable[[Measured], float]) -> float:
        return median(read(one) for one in self.rounds[cell][client])

    def ratio(self, cell: Cell, one: str, other: str, read: Callable[[Measured], float]) -> float | None:
        """Return the median over rounds of one client's figure over the other's; None if one is missing."""
        played = self.rounds.get(cell, {})
        if one not in played or other not in played:
            return None
        pairs = zip(played[one], played[other], strict=False)  # a run that failed is missing
        return median([read(a) / read(b) for a, b in pairs if read(b)] or [float("nan")])


def play_rounds(
    rounds: int,
    runs_of_a_round: Callable[[], Sequence[R]],
    play: Callable[[R], Measured],
    results: Results[Any],
    on_run: Callable[[R], None],
) -> None:
    """All rounds of one cell; calls `on_run` before each run."""
    for number in range(rounds):
        runs = runs_of_a_round()
        for run in runs if number % 2 == 0 else reversed(runs):
            on_run(run)
            try:
                results.add(run, play(run))
            except (RuntimeError, subprocess.TimeoutExpired) as problem:
                results.problems.append(f"{run.client} | {run.cell}: {problem}")


def with_compiled(clients: Mapping[str, C], *names: str) -> dict[str, C]:
    """Add these clients of pykafka2 once more, as `pykafka2[c] ...`."""
    return {**clients, **{name.replace(PURE, COMPILED, 1): clients[name] for name in names}}


def installed(clients: Iterable[str]) -> list[str]:
    """Return the clients without those of the compiled code, unless pykafka2-c is installed."""
    has_compiled = find_spec("pykafka2_c") is not None
    return [name for name in clients if has_compiled or not name.startswith(COMPILED)]


def environment_of(client: str) -> dict[str, str]:
    """Return the environment of a client's process, which picks pykafka2's implementation."""
    return {**os.environ, "PYKAFKA2_IMPLEMENTATION": "c" if client.startswith(COMPILED) else "python"}


def play_in_process(worker: str, run: AnyRun) -> Measured:
    """Play a run (attrs) in a process of the module `worker`, counting instructions if possible."""
    command = [sys.executable, "-m", worker, json.dumps(attrs.asdict(run))]
    if not counts_instructions():
        return Measured(**json.loads(_output(command, run.client)))
    with tempfile.NamedTemporaryFile("r") as counted:
        perf = ["perf", "stat", "-x,", "-e", "instructions:u", "-o", counted.name, "--", *command]
        measured = Measured(**json.loads(_output(perf, run.client)))
        found = re.search(r"^(\d+),", counted.read(), re.MULTILINE)
        if found is not None:
            measured.instructions = int(found.group(1)) / run.records
        return measured


def _output(command: Iterable[str], client: str) -> str:
    done = subprocess.run(
        [*command], capture_output=True, text=True, timeout=RUN_TIMEOUT, env=environment_of(client)
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-2000:])
    return done.stdout.strip().splitlines()[-1]


@cache
def counts_instructions() -> bool:
    """Return whether the machine counts instructions (virtual ones often do not)."""
    if shutil.which("perf") is None:
        return False
    command = ["perf", "stat", "-x,", "-e", "instructions:u", "true"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0 and re.search(r"^\d+,", done.stderr, re.MULTILINE) is not None
