"""Plays the runs of `benchmarks.producer`: cell by cell, in rounds, each client in a process of its own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from statistics import median

import attrs

from benchmarks.producer.brokers import Broker, running
from benchmarks.producer.clients import CLIENTS, is_played
from benchmarks.producer.runs import Cell, Measured, Run, records_of
from benchmarks.producer.waiting import WAITING

RUN_TIMEOUT = 300.0
WAITING_CELL_RECORDS = 5000


@attrs.define
class Results:
    """What came out, by cell and client, a round after the other."""

    rounds: dict[Cell, dict[str, list[Measured]]] = attrs.Factory(dict)
    problems: list[str] = attrs.Factory(list)
    """Runs that ended by an error; they are left out, and the others go on."""

    def add(self, run: Run, measured: Measured) -> None:
        self.rounds.setdefault(run.cell, {}).setdefault(run.client, []).append(measured)

    def median(self, cell: Cell, client: str, read: Callable[[Measured], float]) -> float:
        return median(read(one) for one in self.rounds[cell][client])

    def ratio(self, cell: Cell, one: str, other: str, read: Callable[[Measured], float]) -> float | None:
        """The median over rounds of one client's figure over the other's; None if either was not played."""
        played = self.rounds.get(cell, {})
        if one not in played or other not in played:
            return None
        pairs = zip(played[one], played[other], strict=False)  # a run that failed is missing
        return median([read(a) / read(b) for a, b in pairs if read(b)] or [float("nan")])


@attrs.define
class Plan:
    """Which runs there are: `share` is of a whole run's records.

    `everywhere`: who is played in all cells, others in those without any variation; None for all.
    """

    cells: Sequence[Cell]
    clients: Sequence[str]
    rounds: int
    share: float
    everywhere: Collection[str] | None = None

    def runs_of(self, cell: Cell) -> list[Run]:
        """One round in this cell.  Waiting for each record is played in the cells without any variation."""
        records = records_of(cell, self.share)
        is_plain = cell == Cell(cell.broker, "equal")
        runs = [
            Run(name, cell, records)
            for name in self.clients
            if name in CLIENTS
            and is_played(name, cell.mode)
            and (is_plain or self.everywhere is None or name in self.everywhere)
        ]
        if is_plain:
            waits = max(200, int(WAITING_CELL_RECORDS * self.share))
            runs += [Run(name, cell, waits) for name in self.clients if name in WAITING]
        return runs

    def __len__(self) -> int:
        return sum(len(self.runs_of(cell)) for cell in self.cells) * self.rounds


def play_all(plan: Plan, on_run: Callable[[Run], None]) -> Results:
    """All runs; `on_run` is told of each beforehand.  Every other round goes backwards."""
    results = Results()
    for name in dict.fromkeys(cell.broker for cell in plan.cells):
        with running(name) as broker:
            for cell in plan.cells:
                if cell.broker == name:
                    for number in range(plan.rounds):
                        runs = plan.runs_of(cell)
                        for run in runs if number % 2 == 0 else reversed(runs):
                            on_run(run)
                            try:
                                results.add(run, play(run, broker))
                            except (RuntimeError, subprocess.TimeoutExpired) as problem:
                                results.problems.append(f"{run.client} | {cell}: {problem}")
    return results


def play(run: Run, broker: Broker) -> Measured:
    with broker.topic(run.cell.partitions) as topic:
        placed = attrs.evolve(run, bootstrap_servers=broker.bootstrap_servers, topic=topic)
        command = [sys.executable, "-m", "benchmarks.producer.worker", json.dumps(attrs.asdict(placed))]
        if not counts_instructions():
            return Measured(**json.loads(_output(command)))
        with tempfile.NamedTemporaryFile("r") as counted:
            perf = ["perf", "stat", "-x,", "-e", "instructions:u", "-o", counted.name, "--", *command]
            measured = Measured(**json.loads(_output(perf)))
            found = re.search(r"^(\d+),", counted.read(), re.MULTILINE)
            if found is not None:
                measured.instructions = int(found.group(1)) / run.records
            return measured


def _output(command: Iterable[str]) -> str:
    done = subprocess.run([*command], capture_output=True, text=True, timeout=RUN_TIMEOUT)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-2000:])
    return done.stdout.strip().splitlines()[-1]


@cache
def counts_instructions() -> bool:
    """Whether the machine counts instructions (virtual ones often do not)."""
    if shutil.which("perf") is None:
        return False
    command = ["perf", "stat", "-x,", "-e", "instructions:u", "true"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode == 0 and re.search(r"^\d+,", done.stderr, re.MULTILINE) is not None
