"""Compares the throughput of share consumers in one run.

    python -m benchmarks.share                     three rounds on Apache Kafka: five minutes
    python -m benchmarks.share --broker bundled    on the bundled broker
    python -m benchmarks.share --smoke             few records of the bundled broker, to see that it runs

One member of a share group takes and accepts all records of a topic of 6 partitions, 100 bytes each. pykafka2
polls and accepts with the next poll, iterates with a `with record:` block for each record, and does the same
in a task; confluent-kafka polls; Java runs its own tool, ShareConsumerPerformance. max.poll.records is 500
for all. Each run has a group of its own.

Brokers and clients run in processes of their own, so processor time and peak memory are the client's. The
time starts with the first records; that of Java's tool with its first report, half a second after it has
started. Clients take turns, and every other round runs in reverse order. Ratios are medians over rounds. A
run that takes less than three seconds is named: raise --records then.

The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import attrs

from benchmarks.consumer.runner import fill
from benchmarks.consumer.runs import Cell as Filled
from benchmarks.producer.brokers import BROKERS, Broker, running
from benchmarks.share.clients import BLOCKS, CLIENTS, CONFLUENT, JAVA, POLL, java_tool
from benchmarks.share.runs import PARTITIONS, Cell, Run
from benchmarks.side_by_side import report
from benchmarks.side_by_side.command import Benchmark, add_outputs, run
from benchmarks.side_by_side.measured import Measured
from benchmarks.side_by_side.report import Target, over, rate
from benchmarks.side_by_side.turns import Results, installed, play_in_process, play_rounds
from pykafka2 import KafkaAdminClient
from pykafka2.admin.config_values import ConfigResource, ConfigResourceType

RECORDS = 1_000_000
SMOKE_RECORDS = 5000
LEAST_SECONDS = 3.0


@attrs.define
class Plan:
    """Which runs there are, and how many records each reads."""

    cells: Sequence[Cell]
    clients: Sequence[str]
    rounds: int
    records: int

    def runs_of(self, cell: Cell) -> list[Run]:
        return [Run(name, cell, self.records) for name in self.clients]

    def __len__(self) -> int:
        return len(self.cells) * len(self.clients) * self.rounds


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.share",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--smoke", action="store_true", help="one round of few records on the bundled broker")
    parser.add_argument("--broker", choices=BROKERS, action="append", help="this broker; default: apache")
    parser.add_argument(
        "--client",
        choices=[*CLIENTS, JAVA],
        action="append",
        metavar="NAME",
        help="only this client; default: all of: " + "; ".join([*CLIENTS, JAVA]),
    )
    parser.add_argument("--rounds", type=int, default=None, help="rounds (default 3; --smoke: 1)")
    parser.add_argument("--records", type=int, default=None, help=f"records a run (default {RECORDS})")
    add_outputs(parser)
    return parser.parse_args(arguments)


def plan_of(arguments: argparse.Namespace) -> Plan:
    is_smoke = arguments.smoke
    return Plan(
        [Cell(broker) for broker in arguments.broker or (["bundled"] if is_smoke else ["apache"])],
        arguments.client or installed([*CLIENTS, *([] if is_smoke else [JAVA])]),
        arguments.rounds or (1 if is_smoke else 3),
        arguments.records or (SMOKE_RECORDS if is_smoke else RECORDS),
    )


def play_all(plan: Plan, on_run: Callable[[Run], None]) -> Results[Cell]:
    """All runs; calls `on_run` before each."""
    results: Results[Cell] = Results()
    for cell in plan.cells:
        with running(cell.broker) as broker, broker.topic(PARTITIONS) as topic:
            fill(broker.bootstrap_servers, topic, Filled(broker=cell.broker, size=cell.size), plan.records)
            _play_cell(plan, cell, broker, topic, results, on_run)
    for cell, clients in results.rounds.items():
        for client, rounds in clients.items():
            shortest = min(plan.records / one.records_per_second for one in rounds)
            if shortest < LEAST_SECONDS:
                results.notes.append(f"{cell}: a run of {client} took only {shortest:.1f} s")
    return results


def _play_cell(
    plan: Plan,
    cell: Cell,
    broker: Broker,
    topic: str,
    results: Results[Cell],
    on_run: Callable[[Run], None],
) -> None:
    numbers = count()

    def play(run: Run) -> Measured:
        group = f"share-benchmark-{next(numbers)}"
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            changes = {"share.auto.offset.reset": "earliest"}
            admin.alter_configs({ConfigResource(ConfigResourceType.GROUP, group): changes})
        placed = attrs.evolve(
            run, bootstrap_servers=broker.bootstrap_servers, topic=topic, options={"group": group}
        )
        if run.client == JAVA:
            return java_tool(placed)
        return play_in_process("benchmarks.share.worker", placed)

    play_rounds(plan.rounds, lambda: plan.runs_of(cell), play, results, on_run)


def targets(broker: str) -> Iterator[Target]:
    cell = Cell(broker)
    yield Target("poll over confluent-kafka's poll", cell, POLL, CONFLUENT, rate, 0.5)
    yield Target("with record over the same", cell, BLOCKS, CONFLUENT, rate, 0.25)


def tables(results: Results[Cell]) -> Iterator[str]:
    """Yield the lines of a table for each cell: the medians of its rounds."""

    def beside(cell: Cell, client: str) -> str:
        return over(results, cell, client, CONFLUENT) + over(results, cell, client, JAVA)

    heading = "over confluent-kafka: rate, CPU; over Java: rate, CPU"
    yield from report.tables(results, heading, beside)
    yield from results.notes


def main(command_line: Sequence[str]) -> int:
    arguments = parse(command_line)
    benchmark = Benchmark("share", play_all, tables, lambda results: report.reached(results, targets))
    return run(benchmark, plan_of(arguments), arguments, command_line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
