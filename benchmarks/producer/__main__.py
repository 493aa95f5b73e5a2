"""Compares the throughput and latency of producers in one run.

    python -m benchmarks.producer              100 bytes without keys, then one axis varied at a time: 2 hours
    python -m benchmarks.producer --quick      the main cells on the bundled broker, few records: 3 minutes
    python -m benchmarks.producer --all        the product of all axes: a day
    python -m benchmarks.producer --resume F   keeps each run in F, and skips those that F has
    python -m benchmarks.producer --size 100 --keys unique --client "pykafka2 send" --client confluent-kafka

A cell is one combination of the axes: broker (Apache Kafka, the bundled broker), mode, size of a record
(100 B, 1 KB, 10 KB), keys (none, 1,000, unique ones of 36 bytes), codec (none, lz4, zstd), partitions (1, 6)
and batch_size (16 KiB to 4 MiB). An option of an axis selects cells from the product of all axes, also with
--quick; --list prints them.

  equal      all clients have the same linger_ms, batch_size, buffer and idempotence, and confluent-kafka
             hashes keys with murmur2; send_many is compared with confluent-kafka at 1 MiB batches
  defaults   each client has its own defaults; only the codec is set

Brokers and clients run in processes of their own, so processor time and peak memory are the client's. Clients
take turns, and every other round runs in reverse order. Ratios are medians over rounds; compare ratios rather
than rates, because the machine may be busy.

With --resume FILE, parts of a run (--broker, --mode, --size ...) can share a file; the whole command then
prints the table of all. A file holds runs of one commit.

--write keeps the table as build/benchmarks/<date>-producer.txt and a plot beside it. The exit status is 1 if
a target is missed.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.producer.brokers import BROKERS
from benchmarks.producer.clients import CLIENTS
from benchmarks.producer.kept import Kept
from benchmarks.producer.plot import plot
from benchmarks.producer.report import reached, tables
from benchmarks.producer.runner import Plan, play_all
from benchmarks.producer.runs import (
    BATCH_BYTES,
    CODECS,
    KEYS,
    LENGTHS,
    MODES,
    PARTITIONS,
    SIZES,
    Cell,
    every_cell,
    one_axis_at_a_time,
)
from benchmarks.producer.waiting import WAITING
from benchmarks.side_by_side.command import Benchmark, add_outputs, run
from benchmarks.side_by_side.turns import installed
from tests.campaign.results import UnlikeParts

QUICK_SHARE = 0.05
QUICK_PEERS = frozenset(name for name in CLIENTS if name.startswith(("pykafka2", "confluent-kafka")))
"""Clients that run in all cells of --quick; the others run in the first one only."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.producer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few records, one round, the main cells only")
    parser.add_argument(
        "--all", action="store_true", help="all combinations of sizes, keys, codecs and partitions"
    )
    parser.add_argument(
        "--broker",
        choices=BROKERS,
        action="append",
        help="only this broker; default: both (--quick: bundled)",
    )
    parser.add_argument("--mode", choices=MODES, action="append", help="only this mode; default: both")
    parser.add_argument(
        "--client",
        choices=[*CLIENTS, *WAITING],
        action="append",
        metavar="NAME",
        help="only this client; default: all of: " + "; ".join([*CLIENTS, *WAITING]),
    )
    parser.add_argument("--size", type=int, choices=SIZES, action="append", help="only cells with this size")
    parser.add_argument("--keys", choices=KEYS, action="append", help="only cells with these keys")
    parser.add_argument("--codec", choices=CODECS, action="append", help="only cells with this codec")
    parser.add_argument(
        "--partitions",
        type=int,
        choices=PARTITIONS,
        action="append",
        help="only cells with so many partitions",
    )
    parser.add_argument("--lengths", choices=LENGTHS, action="append", help="only cells with these lengths")
    parser.add_argument(
        "--batch-bytes",
        type=int,
        choices=BATCH_BYTES,
        action="append",
        help="only cells with this batch_size",
    )
    parser.add_argument(
        "--rounds", type=int, default=None, help="rounds of each cell (default 3; --quick: 1)"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=None,
        help="fraction of the records of a full run (default 1; --quick: 0.05)",
    )
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep each run in this file, and skip those that it has"
    )
    add_outputs(parser)
    return parser.parse_args(arguments)


def plan_of(arguments: argparse.Namespace) -> Plan:
    brokers = arguments.broker or (["bundled"] if arguments.quick else list(BROKERS))
    modes = arguments.mode or list(MODES)
    axes = {
        name: chosen
        for name in ("size", "keys", "codec", "partitions", "lengths", "batch_bytes")
        if (chosen := getattr(arguments, name))
    }
    make = every_cell if arguments.all or axes else one_axis_at_a_time
    cells = [
        cell
        for cell in make(brokers, modes)
        if all(getattr(cell, name) in chosen for name, chosen in axes.items())
    ]
    if arguments.quick and not axes:
        cells = [cell for cell in cells if cell == Cell(cell.broker, cell.mode)]
        cells += [Cell(broker, keys="unique") for broker in brokers if "equal" in modes]
        cells += [Cell(broker, lengths="varying") for broker in brokers if "equal" in modes]
    return Plan(
        cells,
        arguments.client or installed([*CLIENTS, *WAITING]),
        arguments.rounds or (1 if arguments.quick else 3),
        arguments.share or (QUICK_SHARE if arguments.quick else 1.0),
        QUICK_PEERS if arguments.quick and not arguments.client else None,
    )


def main(command_line: Sequence[str]) -> int:
    arguments = parse(command_line)
    try:
        kept = Kept(arguments.resume) if arguments.resume and not arguments.list else None
    except UnlikeParts as error:
        print(error, file=sys.stderr)
        return 2
    benchmark = Benchmark("producer", partial(play_all, kept=kept), tables, reached, plot)
    # SIGTERM and SIGINT stop the brokers first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(benchmark, plan_of(arguments), arguments, command_line)
    except KeyboardInterrupt:
        print("stopped" + (f"; --resume {arguments.resume} continues from here" if kept else ""))
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
