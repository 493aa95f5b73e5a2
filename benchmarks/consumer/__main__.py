"""Compares the throughput and latency of consumers in one run.

    python -m benchmarks.consumer              100 bytes, then one axis varied at a time: an hour
    python -m benchmarks.consumer --quick      the main cell on the bundled broker, few records: 2 minutes
    python -m benchmarks.consumer --smoke      even fewer records, to see that it runs: 30 seconds
    python -m benchmarks.consumer --size 100 --client "pykafka2 poll" --client aiokafka

A cell is one combination of broker (Apache Kafka, the bundled broker), size of a record (100 B, 1 KB, 10 KB),
lengths of the values (fixed, varying), parts of a record (values, or with keys or headers) and codec (none,
lz4, zstd). The topic has 6 partitions. All clients read the same log, which pykafka2 wrote in batches of
16 KiB. confluent-kafka runs with its defaults and tuned for throughput (a queue of a million messages and
256 MB, a back-off of 2 ms).

Brokers and clients run in processes of their own, so processor time and peak memory are the client's. The
time starts with the first records. Clients take turns, and every other round runs in reverse order. Ratios
are medians over rounds; compare ratios rather than rates, because the machine may be busy.

--write keeps the table as build/benchmarks/<date>-consumer.txt and a plot beside it. The exit status is 1 if
a target is missed.
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
from benchmarks.side_by_side.turns import installed

QUICK_SHARE = 0.2
SMOKE_SHARE = 0.04


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.consumer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few records, one round, the main cell only")
    parser.add_argument("--smoke", action="store_true", help="as --quick, with even fewer records")
    parser.add_argument(
        "--broker",
        choices=BROKERS,
        action="append",
        help="only this broker; default: both (--quick: bundled)",
    )
    parser.add_argument(
        "--client",
        choices=[*CLIENTS, *WAITING],
        action="append",
        metavar="NAME",
        help="only this client; default: all of: " + "; ".join([*CLIENTS, *WAITING]),
    )
    parser.add_argument("--size", type=int, choices=SIZES, action="append", help="only cells with this size")
    parser.add_argument("--codec", choices=CODECS, action="append", help="only cells with this codec")
    parser.add_argument("--lengths", choices=LENGTHS, action="append", help="only cells with these lengths")
    parser.add_argument("--parts", choices=PARTS, action="append", help="only cells with these records")
    parser.add_argument(
        "--rounds", type=int, default=None, help="rounds of each cell (default 3; --quick: 1)"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=None,
        help="fraction of the records of a full run (default 1; --quick: 0.2)",
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
        arguments.client or installed([*CLIENTS, *WAITING]),
        arguments.rounds or (1 if is_quick else 3),
        arguments.share or share,
    )


def main(command_line: Sequence[str]) -> int:
    arguments = parse(command_line)
    benchmark = Benchmark("consumer", play_all, tables, reached, plot)
    return run(benchmark, plan_of(arguments), arguments, command_line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
