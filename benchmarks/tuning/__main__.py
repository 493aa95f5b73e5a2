"""Measures throughput, latency and processor time for a range of values of each tuning option.

    python -m benchmarks.tuning                       all curves on the bundled broker: 12 minutes
    python -m benchmarks.tuning --option batch_size   one curve; can be repeated
    python -m benchmarks.tuning --rounds 3            medians of three runs of each point
    python -m benchmarks.tuning --smoke               few records, to see that it runs: a minute
    python -m benchmarks.tuning --write docs/images/tuning
    python -m benchmarks.tuning --redraw docs/images/tuning

Each point has a client process and a broker process of its own. Throughput is that of a client that sends or
reads 1,000,000 records of 100 bytes as fast as it can, in 6 partitions. Latency is measured at 2,000 records
a second, on another topic of the same broker. Processor time is that of the throughput run.

--write keeps the figures in curves.csv in that folder and draws an SVG of each curve. --redraw draws the SVGs
from curves.csv and measures nothing. Both need matplotlib (the extra `bench`).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.consumer.runner import fill
from benchmarks.consumer.runs import Cell as Filled
from benchmarks.side_by_side.command import why_no_plot
from benchmarks.tuning.curve_data import FILE_NAME, read_curve, write_curve
from benchmarks.tuning.curves import CURVES, PARTITIONS, Curve
from benchmarks.tuning.plot import label, plot
from benchmarks.tuning.points import Outcome, Point, median_of
from pykafka2 import KafkaAdminClient, NewTopic

RECORDS = 1_000_000
SECONDS = 5.0
SMOKE_RECORDS = 2_000
SMOKE_SECONDS = 0.2


def play(curve: Curve, value: Any, records: int, seconds: float) -> Outcome:
    """Measure one point with a broker of its own."""
    replicas = 3 if curve.workload == "replicate" else 1
    with running(curve.broker_config(value), replicas) as (servers, process):
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            topics = ("fast", "paced")
            admin.create_topics([NewTopic(name, PARTITIONS, replication_factor=replicas) for name in topics])
            admin.wait_for_topics(topics)
        if curve.workload == "consume":
            fill(servers, "fast", Filled(), records)
        return Point(
            curve.workload,
            servers,
            process.pid,
            "fast",
            "paced",
            records,
            seconds,
            curve.client_options(value),
        ).play()


@contextmanager
def running(config: dict[str, Any], brokers: int) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the bundled broker in a process; yield its addresses and the process."""
    command = [sys.executable, "-m", "pykafka2.cli", "broker", "--brokers", str(brokers), "--port", "0"]
    for name, value in config.items():
        command += ["--config", f"{name}={value}"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline().strip()
            if not line.startswith("bootstrap.servers="):
                raise RuntimeError(f"the bundled broker did not start: {line!r}")
            yield line.partition("=")[2], process
        finally:
            process.terminate()


def table(curve: Curve, outcomes: dict[Any, Outcome]) -> str:
    lines = [f"{curve.option:26} records/s  p50 ms  p99 ms  client CPU us  broker CPU us"]
    for value, one in outcomes.items():
        lines.append(
            f"  {label(value):24} {one.records_per_second:9,.0f} {one.p50_ms:7.2f} {one.p99_ms:7.2f} "
            f"{one.client_cpu_us:14.2f} {one.broker_cpu_us:14.2f}"
        )
    return "\n".join(lines)


def commit() -> str:
    """Return the short hash of the checked-out commit."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def redraw(curves: list[Curve], folder: Path) -> int:
    """Draw the curves from the figures kept in the folder; 1 if there are none for one of them."""
    status = 0
    for curve in curves:
        outcomes = read_curve(folder, curve)
        if outcomes:
            plot(curve, outcomes, folder / f"{curve.file_name}.svg")
        else:
            print(f"{folder / FILE_NAME} has no figures for {curve.option}.", file=sys.stderr)
            status = 1
    return status


def main(arguments: list[str]) -> int:
    names = [curve.option for curve in CURVES]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--option",
        action="append",
        choices=names,
        metavar="OPTION",
        help=f"measure the curve of this option (default: all): {', '.join(names)}",
    )
    parser.add_argument("--rounds", type=int, default=1, help="runs of each point; medians count (default 1)")
    parser.add_argument("--smoke", action="store_true", help="send few records, to see that it runs")
    target = parser.add_mutually_exclusive_group()
    target.add_argument(
        "--write", type=Path, metavar="FOLDER", help="write curves.csv and SVGs to this folder"
    )
    target.add_argument(
        "--redraw", type=Path, metavar="FOLDER", help="draw the SVGs from this folder's curves.csv"
    )
    options = parser.parse_args(arguments)
    if options.write is not None and (reason := why_no_plot()) is not None:
        parser.error(f"--write: {reason}")  # now, not after the runs
    chosen = [curve for curve in CURVES if options.option is None or curve.option in options.option]
    if options.redraw is not None:
        return redraw(chosen, options.redraw)
    records, seconds = (SMOKE_RECORDS, SMOKE_SECONDS) if options.smoke else (RECORDS, SECONDS)
    with tqdm(
        total=options.rounds * sum(len(curve.values) for curve in chosen), disable=None, unit="point"
    ) as progress:
        for curve in chosen:
            played: dict[Any, list[Outcome]] = {value: [] for value in curve.values}
            for _ in range(options.rounds):
                for value in curve.values:
                    progress.set_description(f"{curve.option}={label(value)}")
                    played[value].append(play(curve, value, records, seconds))
                    progress.update()
            outcomes = {value: median_of(results) for value, results in played.items()}
            tqdm.write(table(curve, outcomes))
            if options.write is not None:
                write_curve(options.write, curve, outcomes, date.today().isoformat(), commit())
                plot(curve, outcomes, options.write / f"{curve.file_name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
