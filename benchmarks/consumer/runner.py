"""Plays the runs of `benchmarks.consumer`: cell by cell, in rounds, each client in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from statistics import median

import attrs

from benchmarks.consumer.clients import CLIENTS
from benchmarks.consumer.runs import PARTITIONS, Cell, Run, records_of
from benchmarks.consumer.waiting import WAITING
from benchmarks.producer.brokers import Broker, running
from benchmarks.producer.inputs import inputs_of
from benchmarks.producer.runner import counts_instructions
from benchmarks.producer.runs import Cell as Sent
from benchmarks.producer.runs import Measured
from pykafka2 import KafkaProducer

RUN_TIMEOUT = 300.0
WAITS = 3000


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
    """Which runs there are: `share` is of a whole run's records."""

    cells: Sequence[Cell]
    clients: Sequence[str]
    rounds: int
    share: float

    def runs_of(self, cell: Cell) -> list[Run]:
        """One round in this cell.  One record at a time is played in the cells without any variation."""
        records = records_of(cell, self.share)
        runs = [Run(name, cell, records) for name in self.clients if name in CLIENTS]
        if cell == Cell(cell.broker):
            waits = max(50, int(WAITS * self.share / 4))
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
                    _play_cell(plan, cell, broker, results, on_run)
    return results


def _play_cell(
    plan: Plan, cell: Cell, broker: Broker, results: Results, on_run: Callable[[Run], None]
) -> None:
    with broker.topic(PARTITIONS) as topic, broker.topic(PARTITIONS) as quiet_topic:
        fill(broker.bootstrap_servers, topic, cell, records_of(cell, plan.share))
        for number in range(plan.rounds):
            runs = plan.runs_of(cell)
            for run in runs if number % 2 == 0 else reversed(runs):
                on_run(run)
                where = quiet_topic if run.client in WAITING else topic
                try:
                    results.add(run, play(run, broker, where))
                except (RuntimeError, subprocess.TimeoutExpired) as problem:
                    results.problems.append(f"{run.client} | {cell}: {problem}")


def fill(bootstrap_servers: str, topic: str, cell: Cell, count: int) -> None:
    """Write what is to be read: a producer's batches of 16 KiB, as most topics have them."""
    values = inputs_of(Sent(size=cell.size, lengths=cell.lengths)).values
    with KafkaProducer(
        bootstrap_servers=bootstrap_servers,
        compression_type=cell.codec,
        bulk_batch_size=max(16_384, cell.size * 2),
    ) as producer:
        for start in range(0, count, len(values)):
            part = values[: min(len(values), count - start)]
            producer.send_many(topic, part, partitions=[(start // len(values)) % PARTITIONS] * len(part))


def play(run: Run, broker: Broker, topic: str) -> Measured:
    placed = attrs.evolve(run, bootstrap_servers=broker.bootstrap_servers, topic=topic)
    command = [sys.executable, "-m", "benchmarks.consumer.worker", json.dumps(attrs.asdict(placed))]
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
