"""Compares the throughput and latency of asyncio clients in one run.

    python -m benchmarks.aio              Apache Kafka and the bundled broker, 29 minutes
    python -m benchmarks.aio --quick      the bundled broker, few records, 2 minutes
    python -m benchmarks.aio --smoke      even fewer records: 30 seconds
    python -m benchmarks.aio --what send --what "async for" --broker apache

Compares pykafka2.aio with aiokafka, confluent_kafka.aio and pykafka2's own sync clients, with equal
settings: idempotence, batches of 16 KiB, a linger of 5 ms. Records have 100 bytes.

send           awaits the deliveries of ten thousand records at a time; pykafka2.aio also with asyncio.gather,
               and with send_many of ten thousand
getmany        reads up to 500 records at a time
async for      reads record by record
send and wait  awaits each record before the next one, linger 0
loop lag       delay of the loop's timers while it sends as fast as it can, also after gc.freeze(); the column
               p99 shows p99.9

Each client runs in a process of its own. Every other round runs in reverse order, and ratios are medians over
rounds. --write keeps the table as build/benchmarks/<date>-aio.txt. The exit status is 1 if a target is
missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence

import attrs

from benchmarks.aio.clients import CLIENTS
from benchmarks.aio.runs import PARTITIONS, RECORDS, Cell, Run
from benchmarks.consumer.runner import fill
from benchmarks.consumer.runs import Cell as Filled
from benchmarks.producer.brokers import BROKERS, Broker, running
from benchmarks.side_by_side import report
from benchmarks.side_by_side.command import Benchmark, add_outputs
from benchmarks.side_by_side.command import run as run_command
from benchmarks.side_by_side.measured import Measured
from benchmarks.side_by_side.report import Target, latencies, over, rate
from benchmarks.side_by_side.turns import Results, installed, play_in_process, play_rounds

QUICK_SHARE = 0.2
SMOKE_SHARE = 0.02
READS = ("getmany", "async for")
OURS, AIOKAFKA, SYNC = "pykafka2.aio", "aiokafka", "pykafka2"


@attrs.define
class Plan:
    """Which runs there are; `share` is of a whole run."""

    cells: Sequence[Cell]
    clients: Sequence[str] | None
    rounds: int
    share: float

    def records_of(self, cell: Cell) -> int:
        return max(100, int(RECORDS[cell.what] * self.share))

    def runs_of(self, cell: Cell) -> list[Run]:
        """Return one round in this cell."""
        names = CLIENTS[cell.what]
        wanted = installed(names) if self.clients is None else self.clients
        chosen = [name for name in names if name in wanted]
        return [Run(name, cell, self.records_of(cell)) for name in chosen]

    def __len__(self) -> int:
        return sum(len(self.runs_of(cell)) for cell in self.cells) * self.rounds


def play_all(plan: Plan, on_run: Callable[[Run], None]) -> Results[Cell]:
    results: Results[Cell] = Results()
    for name in dict.fromkeys(cell.broker for cell in plan.cells):
        with running(name) as broker:
            for cell in plan.cells:
                if cell.broker == name:
                    play_cell(plan, cell, broker, results, on_run)
    return results


def play_cell(
    plan: Plan, cell: Cell, broker: Broker, results: Results[Cell], on_run: Callable[[Run], None]
) -> None:
    with broker.topic(PARTITIONS) as topic:
        if cell.what in READS:
            fill(broker.bootstrap_servers, topic, Filled(size=cell.size), plan.records_of(cell))

        def play(run: Run) -> Measured:
            placed = attrs.evolve(run, bootstrap_servers=broker.bootstrap_servers, topic=topic)
            return play_in_process("benchmarks.aio.worker", placed)

        play_rounds(plan.rounds, lambda: plan.runs_of(cell), play, results, on_run)


def targets(broker: str) -> Iterator[Target]:
    def p50(measured: Measured) -> float:
        return measured.p50 or 0.0

    def high(measured: Measured) -> float:
        return measured.p99 or 0.0

    cells = {what: Cell(broker, what) for what in CLIENTS}
    yield Target("send over aiokafka", cells["send"], OURS, AIOKAFKA, rate, 3.0)
    yield Target("send over our sync client", cells["send"], OURS, SYNC, rate, 0.8)
    yield Target("getmany over aiokafka", cells["getmany"], OURS, AIOKAFKA, rate, 1.3)
    yield Target("getmany over our sync poll", cells["getmany"], OURS, SYNC, rate, 0.8)
    yield Target("async for over aiokafka", cells["async for"], OURS, AIOKAFKA, rate, 1.5)
    yield Target("send and wait, p50", cells["send and wait"], OURS, AIOKAFKA, p50, 1.0, is_least=False)
    yield Target("loop lag, p99.9", cells["loop lag"], OURS, None, high, 10.0, is_least=False)
    yield Target(
        "loop lag, p99.9 over aiokafka", cells["loop lag"], OURS, AIOKAFKA, high, 1.0, is_least=False
    )


def tables(results: Results[Cell]) -> Iterator[str]:
    def beside(cell: Cell, client: str) -> str:
        return latencies(results, cell, client) or over(results, cell, client, AIOKAFKA)

    return report.tables(results, "over aiokafka: rate, CPU", beside)


def reached(results: Results[Cell]) -> tuple[list[str], int]:
    return report.reached(results, targets)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    names = sorted({name for clients in CLIENTS.values() for name in clients})
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.aio",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few records, one round, the bundled broker")
    parser.add_argument("--smoke", action="store_true", help="as --quick, with even fewer records")
    parser.add_argument("--broker", choices=BROKERS, action="append", help="default: both (--quick: bundled)")
    parser.add_argument("--what", choices=[*CLIENTS], action="append", metavar="WHAT", help="default: all")
    parser.add_argument(
        "--client", choices=names, action="append", metavar="NAME", help="default: all; " + "; ".join(names)
    )
    parser.add_argument(
        "--rounds", type=int, default=None, help="rounds of each cell (default 3; --quick: 1)"
    )
    parser.add_argument(
        "--share", type=float, default=None, help="fraction of a full run (default 1; --quick: 0.2)"
    )
    add_outputs(parser)
    return parser.parse_args(arguments)


def plan_of(arguments: argparse.Namespace) -> Plan:
    is_quick = arguments.quick or arguments.smoke
    brokers = arguments.broker or (["bundled"] if is_quick else list(BROKERS))
    cells = [Cell(broker, what) for broker in brokers for what in arguments.what or CLIENTS]
    share = SMOKE_SHARE if arguments.smoke else QUICK_SHARE if arguments.quick else 1.0
    return Plan(cells, arguments.client, arguments.rounds or (1 if is_quick else 3), arguments.share or share)


def main(command_line: Sequence[str]) -> int:
    arguments = parse(command_line)
    return run_command(
        Benchmark("aio", play_all, tables, reached), plan_of(arguments), arguments, command_line
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
