"""How fast producers are, side by side in one run.

    python -m benchmarks.producer              100 bytes without keys, and each axis varied: 2 hours
    python -m benchmarks.producer --quick      the main cells on the bundled broker, few records: 3 minutes
    python -m benchmarks.producer --all        the product of all axes: a day
    python -m benchmarks.producer --resume F   the same in parts: stopped, it goes on where it was
    python -m benchmarks.producer --size 100 --keys unique --client "pykafka2 send" --client confluent-kafka

Sends records of 100 B, 1 KB and 10 KB, without keys, with 1,000 and with unique keys of 36 bytes, through no
codec, lz4 and zstd, with a batch_size of 16 KiB to 4 MiB, to 1 and 6 partitions of Apache Kafka and of the
bundled broker, which have a process of their own.

Clients take turns, each in its own process, so that "us CPU a msg" and "peak RSS" are its own; every other
round goes backwards, and the ratios are medians over rounds.  They are worth more than the figures, as the
machine may be busy.

  equal      the same linger, batch size, buffer and idempotence for all (confluent-kafka with murmur2);
             columns are compared with confluent-kafka at batches as large
  defaults   what each client does if it is told nothing but the codec

With --resume FILE each run is kept there as it ends.  Parts that name cells (--broker, --mode, --size ...)
may share a file, and the whole command afterwards makes the table of all.  A file holds runs of one code.

With --write the table goes to build/benchmarks/<date>-producer.txt, the plot beside it.  The exit code is 1
where a ratio that was asked for is missed.
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
    MODES,
    PARTITIONS,
    SIZES,
    Cell,
    every_cell,
    one_axis_at_a_time,
)
from benchmarks.producer.waiting import WAITING
from benchmarks.side_by_side.command import Benchmark, add_outputs, run
from tests.campaign.results import UnlikeParts

QUICK_SHARE = 0.05
QUICK_PEERS = frozenset(name for name in CLIENTS if name.startswith(("pykafka2", "confluent-kafka")))
"""Who is played in all cells of --quick; the others in the first one alone."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.producer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few records, one round, the main cells alone")
    parser.add_argument(
        "--all", action="store_true", help="every combination of sizes, keys, codecs, partitions"
    )
    parser.add_argument("--broker", choices=BROKERS, action="append", help="default: both (--quick: bundled)")
    parser.add_argument("--mode", choices=MODES, action="append", help="default: both")
    parser.add_argument(
        "--client",
        choices=[*CLIENTS, *WAITING],
        action="append",
        metavar="NAME",
        help="default: all; " + "; ".join(CLIENTS),
    )
    parser.add_argument("--size", type=int, choices=SIZES, action="append", help="cells of this size alone")
    parser.add_argument("--keys", choices=KEYS, action="append", help="cells with these keys alone")
    parser.add_argument("--codec", choices=CODECS, action="append", help="cells with this codec alone")
    parser.add_argument(
        "--partitions", type=int, choices=PARTITIONS, action="append", help="cells with so many"
    )
    parser.add_argument(
        "--batch-bytes",
        type=int,
        choices=BATCH_BYTES,
        action="append",
        help="cells with this batch_size alone",
    )
    parser.add_argument("--rounds", type=int, default=None, help="of each cell (3; --quick: 1)")
    parser.add_argument(
        "--share", type=float, default=None, help="of a whole run's records (1; --quick: 0.05)"
    )
    parser.add_argument(
        "--resume", type=Path, help="a file that gets each run; those that it has are not played again"
    )
    add_outputs(parser)
    return parser.parse_args(arguments)


def plan_of(arguments: argparse.Namespace) -> Plan:
    brokers = arguments.broker or (["bundled"] if arguments.quick else list(BROKERS))
    modes = arguments.mode or list(MODES)
    axes = {
        name: chosen
        for name in ("size", "keys", "codec", "partitions", "batch_bytes")
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
        arguments.client or [*CLIENTS, *WAITING],
        arguments.rounds or (1 if arguments.quick else 3),
        arguments.share or (QUICK_SHARE if arguments.quick else 1.0),
        QUICK_PEERS if arguments.quick and not arguments.client else None,
    )


def main(given: Sequence[str]) -> int:
    arguments = parse(given)
    try:
        kept = Kept(arguments.resume) if arguments.resume and not arguments.list else None
    except UnlikeParts as error:
        print(error, file=sys.stderr)
        return 2
    benchmark = Benchmark("producer", partial(play_all, kept=kept), tables, reached, plot)
    # Ended by either signal it stops its brokers first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(benchmark, plan_of(arguments), arguments, given)
    except KeyboardInterrupt:
        print("stopped" + (f"; --resume {arguments.resume} goes on from here" if kept else ""))
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
