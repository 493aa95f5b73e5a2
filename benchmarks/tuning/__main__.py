"""How the options of clients and broker act on throughput, latency and processor time.

    python -m benchmarks.tuning                       all curves on the bundled broker, 12 minutes
    python -m benchmarks.tuning --option batch_size   one curve; can be repeated
    python -m benchmarks.tuning --smoke               as few records as will do
    python -m benchmarks.tuning --write docs/images/tuning

Each point has a client process and a broker process of its own. Throughput is of records of 100 bytes as
fast as the client can, 6 partitions; latency of 2,000 records a second on a topic of its own. With --write
each curve becomes an SVG in that folder.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.consumer.runner import fill
from benchmarks.consumer.runs import Cell as Filled
from benchmarks.tuning.curves import CURVES, PARTITIONS, Curve
from benchmarks.tuning.plot import label, plot
from benchmarks.tuning.points import Outcome, Point
from pykafka2 import KafkaAdminClient, NewTopic

RECORDS = 1_000_000
SECONDS = 5.0
SMOKE_RECORDS = 2_000
SMOKE_SECONDS = 0.2


def play(curve: Curve, value: Any, records: int, seconds: float) -> Outcome:
    """Play one point with a broker of its own."""
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
    lines = [f"{curve.option:26} records/s  p50 ms  p99 ms  CPU us  broker CPU us"]
    for value, one in outcomes.items():
        lines.append(
            f"  {label(value):24} {one.records_per_second:9,.0f} {one.p50_ms:7.2f} {one.p99_ms:7.2f} "
            f"{one.cpu_us:7.2f} {one.broker_cpu_us:7.2f}"
        )
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    names = [curve.option for curve in CURVES]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tuning",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--option", action="append", choices=names, help="the curve of this option")
    parser.add_argument("--smoke", action="store_true", help="few records, to see that it runs")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write SVGs to this folder")
    options = parser.parse_args(arguments)
    chosen = [curve for curve in CURVES if options.option is None or curve.option in options.option]
    records, seconds = (SMOKE_RECORDS, SMOKE_SECONDS) if options.smoke else (RECORDS, SECONDS)
    with tqdm(total=sum(len(curve.values) for curve in chosen), disable=None, unit="point") as progress:
        for curve in chosen:
            outcomes = {}
            for value in curve.values:
                progress.set_description(f"{curve.option}={label(value)}")
                outcomes[value] = play(curve, value, records, seconds)
                progress.update()
            tqdm.write(table(curve, outcomes))
            if options.write is not None:
                plot(curve, outcomes, options.write / f"{curve.file_name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
