"""How fast consumers are, side by side in one run.

    python -m benchmarks.consumer              100 bytes, and each axis varied: an hour
    python -m benchmarks.consumer --quick      the main cell on the bundled broker, few records: 2 minutes
    python -m benchmarks.consumer --smoke      the same with hardly any, to see that it runs: 30 seconds
    python -m benchmarks.consumer --size 100 --client "pykafka2 poll" --client aiokafka

Reads records of 100 B, 1 KB and 10 KB, of fixed and of varying lengths, with keys and with headers, through
no codec, lz4 and zstd, from 6 partitions of Apache Kafka and of the bundled broker, which have a process of
their own.  All read the same log, which pykafka2 has written in batches of 16 KiB.  confluent-kafka is played
at its defaults and tuned for rate (a queue of a million messages and 256 MB, a back-off of 2 ms).

Clients take turns, each in its own process, so that "us CPU a msg" and "peak RSS" are its own; the clock
begins with the first records.  Every other round goes backwards, and the ratios are medians over rounds.
They are worth more than the figures, as the machine may be busy.

With --write the table goes to build/benchmarks/<date>-consumer.txt, the plot beside it.  The exit code is 1
where a ratio that was asked for is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.consumer.clients import CLIENTS
from benchmarks.consumer.plot import plot
from benchmarks.consumer.report import reached, tables
from benchmarks.consumer.runner import Plan, play_all
from benchmarks.consumer.runs import CODECS, LENGTHS, PARTS, SIZES, Cell, one_axis_at_a_time
from benchmarks.consumer.waiting import WAITING
from benchmarks.producer.brokers import BROKERS
from benchmarks.side_by_side.command import Benchmark, add_outputs, run

QUICK_SHARE = 0.2
SMOKE_SHARE = 0.04


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.consumer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few records, one round, the main cell alone")
    parser.add_argument("--smoke", action="store_true", help="as --quick, with as few records as will do")
    parser.add_argument("--broker", choices=BROKERS, action="append", help="default: both (--quick: bundled)")
    parser.add_argument(
        "--client",
        choices=[*CLIENTS, *WAITING],
        action="append",
        metavar="NAME",
        help="default: all; " + "; ".join([*CLIENTS, *WAITING]),
    )
    parser.add_argument("--size", type=int, choices=SIZES, action="append", help="cells of this size alone")
    parser.add_argument("--codec", choices=CODECS, action="append", help="cells with this codec alone")
    parser.add_argument("--lengths", choices=LENGTHS, action="append", help="cells of such values alone")
    parser.add_argument("--parts", choices=PARTS, action="append", help="cells of such records alone")
    parser.add_argument("--rounds", type=int, default=None, help="of each cell (3; --quick: 1)")
    parser.add_argument(
        "--share", type=float, default=None, help="of a whole run's records (1; --quick: 0.2)"
    )
    add_outputs(parser)
    return parser.parse_args(arguments)


def plan_of(arguments: argparse.Namespace) -> Plan:
    is_quick = arguments.quick or arguments.smoke
    brokers = arguments.broker or (["bundled"] if is_quick else list(BROKERS))
    sizes, codecs = arguments.size or SIZES, arguments.codec or CODECS
    lengths, parts = arguments.lengths or LENGTHS, arguments.parts or PARTS
    cells = [
        cell
        for cell in one_axis_at_a_time(brokers)
        if cell.size in sizes and cell.codec in codecs and cell.lengths in lengths and cell.parts in parts
    ]
    if is_quick and not (arguments.size or arguments.codec or arguments.lengths or arguments.parts):
        cells = [cell for cell in cells if cell == Cell(cell.broker)]
    share = SMOKE_SHARE if arguments.smoke else QUICK_SHARE if arguments.quick else 1.0
    return Plan(
        cells,
        arguments.client or [*CLIENTS, *WAITING],
        arguments.rounds or (1 if is_quick else 3),
        arguments.share or share,
    )


def main(given: Sequence[str]) -> int:
    arguments = parse(given)
    benchmark = Benchmark("consumer", play_all, tables, reached, plot)
    return run(benchmark, plan_of(arguments), arguments, given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
