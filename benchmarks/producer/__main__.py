"""How fast producers are, side by side in one run.

    python -m benchmarks.producer              100 bytes without keys, and each axis varied: 2 hours
    python -m benchmarks.producer --quick      the main cells on the bundled broker, few records: 3 minutes
    python -m benchmarks.producer --all        the product of all axes: a day
    python -m benchmarks.producer --size 100 --keys unique --client "pykafka2 send" --client confluent-kafka

Sends records of 100 B, 1 KB and 10 KB, without keys, with 1,000 and with unique keys of 36 bytes, through no
codec, lz4 and zstd, to 1 and 6 partitions of Apache Kafka and of the bundled broker, which have a process of
their own.

Clients take turns, each in its own process, so that "us CPU a msg" and "peak RSS" are its own; every other
round goes backwards, and the ratios are medians over rounds.  They are worth more than the figures, as the
machine may be busy.

  equal      the same linger, batch size, buffer and idempotence for all (confluent-kafka with murmur2);
             columns are compared with confluent-kafka at batches as large
  defaults   what each client does if it is told nothing but the codec

With --write the table goes to docs/evidence/<date>-producer.txt and the plot beside it.  The exit code is 1
where a ratio that was asked for is missed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import date
from importlib.util import find_spec
from pathlib import Path

from tqdm import tqdm

from benchmarks.producer.brokers import BROKERS
from benchmarks.producer.clients import CLIENTS
from benchmarks.producer.plot import plot
from benchmarks.producer.report import machine, reached, tables, versions
from benchmarks.producer.runner import Plan, Results, play_all
from benchmarks.producer.runs import (
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

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
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
    parser.add_argument("--rounds", type=int, default=None, help="of each cell (3; --quick: 1)")
    parser.add_argument(
        "--share", type=float, default=None, help="of a whole run's records (1; --quick: 0.05)"
    )
    parser.add_argument("--write", action="store_true", help="keep table and plot in docs/evidence/")
    parser.add_argument("--out", type=Path, help="keep the table here, and the plot as .svg beside it")
    parser.add_argument("--list", action="store_true", help="say what would be played, and end")
    return parser.parse_args(arguments)


def plan_of(arguments: argparse.Namespace) -> Plan:
    brokers = arguments.broker or (["bundled"] if arguments.quick else list(BROKERS))
    modes = arguments.mode or list(MODES)
    axes = {
        name: chosen
        for name in ("size", "keys", "codec", "partitions")
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
    plan = plan_of(arguments)
    if arguments.list:
        for cell in plan.cells:
            print(f"{cell}: {', '.join(run.client for run in plan.runs_of(cell))}")
        print(f"{len(plan)} runs")
        return 0
    heading = f"$ python -m benchmarks.producer {shlex.join(given)}\n{machine()}\n{versions()}"
    started = time.monotonic()
    with tqdm(total=len(plan), unit="run", disable=None) as bar:

        def on_run(run: object) -> None:
            bar.set_postfix_str(f"{getattr(run, 'client', '')} | {getattr(run, 'cell', '')}")
            bar.update()

        results = play_all(plan, on_run)
    lines, missed = reached(results)
    ended = f"{time.monotonic() - started:.0f} s, load average at the end {os.getloadavg()[0]:.1f}"
    text = "\n".join(
        [heading, *tables(results), "", "ratios that were asked for", *lines, "", *results.problems, ended]
    )
    print(text)
    keep(arguments, results, text)
    return 1 if missed or results.problems else 0


def keep(arguments: argparse.Namespace, results: Results, text: str) -> None:
    out = arguments.out
    if out is None and arguments.write:
        out = EVIDENCE / f"{date.today().isoformat()}-producer.txt"
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n", encoding="utf-8")
        print(f"kept in {out}")
        if find_spec("matplotlib") is None:
            print("no plot: matplotlib is missing (python -m pip install 'pykafka2[bench]')")
            return
        plot(results, out.with_suffix(".svg"))
        print(f"kept in {out.with_suffix('.svg')}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
