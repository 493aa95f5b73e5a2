"""Compares the throughput of Spark's sinks and sources for Kafka in one run.

    python -m benchmarks.spark                 1,000,000 rows of 100 B, both brokers: about half an hour
    python -m benchmarks.spark --smoke         few rows, the bundled broker: at most a minute
    python -m benchmarks.spark --broker apache --kind source --columns value --rounds 5

Compares pykafka2's data source, one on confluent-kafka, and Spark's own connector, in one session of
`local[2]`. Apache Kafka or the bundled broker runs on the same cores. Rows have a value of 100 B only, or a
key and a header as well.

The clients take turns, and every other round runs in reverse order. Ratios are medians over rounds; compare
ratios rather than rates, because the machine may be busy.

Before they are measured, the clients of a cell play whole rounds until the processor time of two rounds in a
row differs by less than 5 %, because the JVM compiles more of its code in each of them. The columns "cold"
have the first of these rounds; the JVM is coldest in the first cell of a run.

Spark's own connector exists for pyspark 4.2.0, so all clients run with that version. If another one is
installed, pip downloads 4.2.0 once; Maven downloads the connector. --no-jvm runs the installed pyspark,
without Spark's own connector.

--write keeps the table as build/benchmarks/<date>-spark.txt and a plot beside it. The exit status is 1 if a
target is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.producer.brokers import BROKERS
from benchmarks.side_by_side.command import Benchmark, add_outputs, run
from benchmarks.spark.plot import plot
from benchmarks.spark.report import reached, tables
from benchmarks.spark.runner import SMOKE_SHARE, Plan, play_all
from benchmarks.spark.runs import CLIENTS, CONFLUENT, ONCE, OURS, cells_of


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    every = dict.fromkeys(name for names in CLIENTS.values() for name in names)
    parser.add_argument("--smoke", action="store_true", help="few rows, one round, the bundled broker")
    parser.add_argument("--broker", choices=BROKERS, action="append", help="default: both")
    parser.add_argument("--kind", choices=CLIENTS, action="append", help="default: all")
    parser.add_argument("--columns", choices=("value", "all"), action="append", help="default: both")
    parser.add_argument("--client", choices=every, action="append", metavar="NAME", help="default: all")
    parser.add_argument(
        "--rounds", type=int, default=None, help="rounds of each cell (default 3; --smoke: 1)"
    )
    parser.add_argument(
        "--share",
        type=float,
        default=None,
        help="fraction of the rows of a full run (default 1; --smoke: 0.02)",
    )
    parser.add_argument(
        "--no-jvm", action="store_true", help="use the installed pyspark, without Spark's own connector"
    )
    add_outputs(parser)
    return parser.parse_args(arguments)


def plan_of(arguments: argparse.Namespace) -> Plan:
    is_smoke = arguments.smoke
    cells = [
        cell
        for broker in arguments.broker or (["bundled"] if is_smoke else BROKERS)
        for cell in cells_of(broker)
        if cell.kind in (arguments.kind or CLIENTS)
        and cell.columns in (arguments.columns or (("value",) if is_smoke else ("value", "all")))
    ]
    return Plan(
        cells,
        arguments.client
        or ([OURS, ONCE, CONFLUENT] if is_smoke else [n for c in CLIENTS.values() for n in c]),
        arguments.rounds or (1 if is_smoke else 3),
        arguments.share or (SMOKE_SHARE if is_smoke else 1.0),
        has_jvm=not (arguments.no_jvm or is_smoke),
    )


def main(command_line: Sequence[str]) -> int:
    arguments = parse(command_line)
    benchmark = Benchmark("spark", play_all, tables, reached, plot)
    return run(benchmark, plan_of(arguments), arguments, command_line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
