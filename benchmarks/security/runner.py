"""Plays the runs of `benchmarks.security`: cell by cell, in rounds, each client in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from benchmarks.consumer.runner import fill
from benchmarks.consumer.runs import Cell as Read
from benchmarks.security import rules
from benchmarks.security.brokers import Secured, running
from benchmarks.security.runs import (
    LOG_IN,
    PARTITIONS,
    POLL,
    RULES,
    SEND,
    SIZE,
    Cell,
    Run,
    client_of,
    names_of,
    records_of,
    way_of,
)
from benchmarks.side_by_side.measured import Measured
from benchmarks.side_by_side.turns import Results, play_in_process, play_rounds

KINDS = (SEND, POLL, LOG_IN, RULES)


@attrs.define
class Plan:
    """Which runs there are: `share` is of a whole run's records; `clients` None plays all."""

    cells: Sequence[Cell]
    clients: Sequence[str] | None
    rounds: int
    share: float

    def runs_of(self, cell: Cell) -> list[Run]:
        """Return one round in this cell."""
        records = records_of(cell.kind, self.share)
        return [
            Run(name, cell, records)
            for name in names_of(cell.kind)
            if self.clients is None or cell.kind == RULES or client_of(name) in self.clients
        ]

    def __len__(self) -> int:
        return sum(len(self.runs_of(cell)) for cell in self.cells) * self.rounds


def play_all(plan: Plan, on_run: Callable[[Run], None]) -> Results[Cell]:
    """All runs; calls `on_run` before each. Every other round goes backwards."""
    results: Results[Cell] = Results()
    for name in dict.fromkeys(cell.broker for cell in plan.cells):
        cells = [cell for cell in plan.cells if cell.broker == name and cell.kind != RULES]
        if cells:
            with running(name) as secured:
                for cell in cells:
                    _play_cell(plan, cell, secured, results, on_run)
    for cell in plan.cells:
        if cell.kind == RULES:
            for _ in range(plan.rounds):
                _play_rules(plan.runs_of(cell), results, on_run)
    return results


def _play_cell(
    plan: Plan, cell: Cell, secured: Secured, results: Results[Cell], on_run: Callable[[Run], None]
) -> None:
    with secured.broker.topic(PARTITIONS) as topic:
        if cell.kind == POLL:
            fill(
                secured.broker.bootstrap_servers,
                topic,
                Read(cell.broker, size=SIZE),
                records_of(POLL, plan.share),
            )

        def play(run: Run) -> Measured:
            options = dict(secured.ways[way_of(run.client)])
            servers = options.pop("bootstrap_servers")
            placed = attrs.evolve(run, bootstrap_servers=servers, topic=topic, options=options)
            return play_in_process("benchmarks.security.worker", placed)

        play_rounds(plan.rounds, lambda: plan.runs_of(cell), play, results, on_run)


def _play_rules(runs: Sequence[Run], results: Results[Cell], on_run: Callable[[Run], None]) -> None:
    """Both at once: a block of requests to one broker, and one to the other."""
    for run in runs:
        on_run(run)
    served = rules.serve(runs[0].records)
    for run in runs:
        results.add(run, served[run.client])
