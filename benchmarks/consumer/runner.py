"""Plays the runs of `benchmarks.consumer`: cell by cell, in rounds, each client in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice

import attrs

from benchmarks.consumer.clients import CLIENTS
from benchmarks.consumer.runs import PARTITIONS, Cell, Run, records_of
from benchmarks.consumer.waiting import WAITING
from benchmarks.producer.brokers import Broker, running
from benchmarks.producer.inputs import inputs_of
from benchmarks.producer.runs import Cell as Sent
from benchmarks.side_by_side.measured import Measured
from benchmarks.side_by_side.turns import Results, play_in_process, play_rounds
from pykafka2 import KafkaProducer

WAITS = 3000


@attrs.define
class Plan:
    """Which runs there are: `share` is of a whole run's records."""

    cells: Sequence[Cell]
    clients: Sequence[str]
    rounds: int
    share: float

    def runs_of(self, cell: Cell) -> list[Run]:
        """Return one round in this cell.  One record at a time is played in cells without variation."""
        records = records_of(cell, self.share)
        runs = [Run(name, cell, records) for name in self.clients if name in CLIENTS]
        if cell == Cell(cell.broker):
            waits = max(50, int(WAITS * self.share / 4))
            runs += [Run(name, cell, waits) for name in self.clients if name in WAITING]
        return runs

    def __len__(self) -> int:
        return sum(len(self.runs_of(cell)) for cell in self.cells) * self.rounds


def play_all(plan: Plan, on_run: Callable[[Run], None]) -> Results[Cell]:
    """All runs; calls `on_run` before each. Every other round goes backwards."""
    results: Results[Cell] = Results()
    for name in dict.fromkeys(cell.broker for cell in plan.cells):
        with running(name) as broker:
            for cell in plan.cells:
                if cell.broker == name:
                    _play_cell(plan, cell, broker, results, on_run)
    return results


def _play_cell(
    plan: Plan, cell: Cell, broker: Broker, results: Results[Cell], on_run: Callable[[Run], None]
) -> None:
    with broker.topic(PARTITIONS) as topic, broker.topic(PARTITIONS) as quiet_topic:
        fill(broker.bootstrap_servers, topic, cell, records_of(cell, plan.share))

        def play(run: Run) -> Measured:
            where = quiet_topic if run.client in WAITING else topic
            placed = attrs.evolve(run, bootstrap_servers=broker.bootstrap_servers, topic=where)
            return play_in_process("benchmarks.consumer.worker", placed)

        play_rounds(plan.rounds, lambda: plan.runs_of(cell), play, results, on_run)


def fill(bootstrap_servers: str, topic: str, cell: Cell, count: int) -> None:
    """Write what is to be read: a producer's batches of 16 KiB, as most topics have them."""
    inputs = inputs_of(Sent(size=cell.size, lengths=cell.lengths, keys="1000"))
    values, keys = inputs.values, inputs.keys or []
    with KafkaProducer(
        bootstrap_servers=bootstrap_servers,
        compression_type=cell.codec,
        bulk_batch_size=max(16_384, cell.size * 2),
    ) as producer:
        for start in range(0, count, len(values)):
            part = values[: min(len(values), count - start)]
            producer.send_many(
                topic,
                part,
                keys=list(islice(cycle(keys), len(part))) if cell.parts == "keys" else None,
                headers=[("trace", b"0af7651916cd43dd")] if cell.parts == "headers" else None,
                partitions=[(start // len(values)) % PARTITIONS] * len(part),
            )
