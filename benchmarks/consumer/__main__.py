"""How fast consumers are, side by side in one run.

    python -m benchmarks.consumer              100 bytes, and each axis varied: an hour
    python -m benchmarks.consumer --quick      the main cell on the bundled broker, few records: 2 minutes
    python -m benchmarks.consumer --smoke      the same with hardly any, to see that it runs: 30 seconds
    python -m benchmarks.consumer --size 100 --client "pykafka2 poll" --client aiokafka

Reads records of 100 B, 1 KB and 10 KB, through no codec, lz4 and zstd, from 6 partitions of Apache Kafka and
of the bundled broker, which have a process of their own.  All read the same log, which pykafka2 has written
in batches of 16 KiB.  confluent-kafka is played at its defaults and tuned for rate (a queue of a million
messages and 256 MB, a back-off of 2 ms).

Clients take turns, each in its own process, so that "us CPU a msg" and "peak RSS" are its own; the clock
begins with the first records.  Every other round goes backwards, and the ratios are medians over rounds.
They are worth more than the figures, as the machine may be busy.

With --write the table goes to docs/evidence/<date>-consumer.txt and the plot beside it.  The exit code is 1
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

from benchmarks.consumer.clients import CLIENTS
from benchmarks.consumer.plot import plot
from benchmarks.consumer.report import reached, tables
from benchmarks.consumer.runner import Plan, Results, play_all
from benchmarks.consumer.runs import CODECS, SIZES, Cell, one_axis_at_a_time
from benchmarks.consumer.waiting import WAITING
from benchmarks.producer.brokers import BROKERS
from benchmarks.producer.report import machine, versions

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"
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
    parser.add_argument("--rounds", type=int, default=None, help="of each cell (3; --quick: 1)")
    parser.add_argument(
        "--share", type=float, default=None, help="of a whole run's records (1; --quick: 0.2)"
    )
    parser.add_argument("--write", action="store_true", help="keep table and plot in docs/evidence/")
    parser.add_argument("--out", type=Path, help="keep the table here, and the plot as .svg beside it")
    parser.add_argument("--list", action="store_true", help="say what would be played, and end")
    return parser.parse_args(arguments)


def plan_of(arguments: argparse.Namespace) -> Plan:
    is_quick = arguments.quick or arguments.smoke
    brokers = arguments.broker or (["bundled"] if is_quick else list(BROKERS))
    sizes, codecs = arguments.size or SIZES, arguments.codec or CODECS
    cells = [cell for cell in one_axis_at_a_time(brokers) if cell.size in sizes and cell.codec in codecs]
    if is_quick and not (arguments.size or arguments.codec):
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
    plan = plan_of(arguments)
    if arguments.list:
        for cell in plan.cells:
            print(f"{cell}: {', '.join(run.client for run in plan.runs_of(cell))}")
        print(f"{len(plan)} runs")
        return 0
    heading = f"$ python -m benchmarks.consumer {shlex.join(given)}\n{machine()}\n{versions()}"
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
        out = EVIDENCE / f"{date.today().isoformat()}-consumer.txt"
    if out is None:
        return
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
