"""Plays the runs of `benchmarks.producer`: cell by cell, in rounds, each client in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from functools import partial

import attrs

from benchmarks.producer.brokers import Broker, running
from benchmarks.producer.clients import CLIENTS, is_played
from benchmarks.producer.kept import Kept
from benchmarks.producer.runs import Cell, Run, records_of
from benchmarks.producer.waiting import WAITING
from benchmarks.side_by_side.measured import Measured
from benchmarks.side_by_side.turns import Results, play_in_process, play_rounds

WAITING_CELL_RECORDS = 5000


@attrs.define
class Plan:
    """Which runs there are: `share` is of a whole run's records.

    `everywhere`: the clients that run in all cells, others run in those without any variation; None for all.
    """

    cells: Sequence[Cell]
    clients: Sequence[str]
    rounds: int
    share: float
    everywhere: Collection[str] | None = None

    def runs_of(self, cell: Cell) -> list[Run]:
        """Return one round in this cell.  Waiting for each record is played in cells without variation."""
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


def play_all(plan: Plan, on_run: Callable[[Run], None], kept: Kept | None = None) -> Results[Cell]:
    """All runs; calls `on_run` before each. Every other round goes backwards.

    What is `kept` of an earlier part is not played again, nor is a broker started for it.
    """
    results: Results[Cell] = Results()
    for name in dict.fromkeys(cell.broker for cell in plan.cells):
        cells = [cell for cell in plan.cells if cell.broker == name]
        runs = [run for cell in cells for run in plan.runs_of(cell)]
        is_all_kept = kept is not None and all(kept.has(run, plan.rounds) for run in runs)
        with nullcontext(None) if is_all_kept else running(name) as broker:

            def play_one(run: Run, broker: Broker | None = broker) -> Measured:
                if kept is None:
                    return play(broker, run)
                return kept.play(run, partial(play, broker))

            for cell in cells:
                play_rounds(plan.rounds, partial(plan.runs_of, cell), play_one, results, on_run)
    return results


def play(broker: Broker | None, run: Run) -> Measured:
    assert broker is not None
    with broker.topic(run.cell.partitions) as topic:
        placed = attrs.evolve(run, bootstrap_servers=broker.bootstrap_servers, topic=topic)
        return play_in_process("benchmarks.producer.worker", placed)
