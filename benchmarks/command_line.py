"""Compares `pykafka2 consume` with kcat: `python -m benchmarks.command_line [-b HOST:PORT] [--rounds N]`.

Targets: a million records of 100 bytes go to /dev/null at 0.8 times kcat's rate, and the first record of a
local broker arrives 400 ms after the start of Python. The commands take turns. The best round is compared
with the target, because a busy machine makes nothing faster. Without -b the broker is a `pykafka2 broker`
process.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

from pykafka2 import KafkaAdminClient, KafkaProducer, NewTopic

PYKAFKA2 = [sys.executable, "-m", "pykafka2.cli"]
LEAST_RATE = 0.8
MOST_SECONDS_TO_FIRST = 0.4
CHUNK = 50_000


@contextlib.contextmanager
def bundled() -> Iterator[str]:
    """Yield the address of a broker in a process of its own."""
    command = [*PYKAFKA2, "broker", "--port", "0", "--brokers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip().removeprefix("bootstrap.servers=")
        finally:
            process.terminate()


def fill(servers: str, records: int) -> str:
    """Create a topic with one partition and so many records; its name."""
    topic = f"command-line-{time.time_ns()}"
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)], wait_for_metadata=True)
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for first in range(0, records, CHUNK):
            producer.send_many(topic, [b"%0100d" % n for n in range(first, min(first + CHUNK, records))])
    return topic


def run(command: list[str]) -> tuple[float, float]:
    """Wall and processor seconds of a command whose output is discarded."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-b", "--bootstrap-servers", metavar="HOST:PORT", help="use this cluster")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each command (default 5)")
    parser.add_argument("--records", type=int, default=1_000_000, help="records (default 1,000,000)")
    arguments = parser.parse_args()
    cluster = (
        bundled()
        if arguments.bootstrap_servers is None
        else contextlib.nullcontext(arguments.bootstrap_servers)
    )
    with cluster as servers:
        topic = fill(servers, arguments.records)
        ours = [*PYKAFKA2, "consume", "-b", servers, topic]
        commands = {"pykafka2 consume": [*ours, "-e"], "first record": [*ours, "-c", "1"]}
        if shutil.which("kcat") is not None:
            commands["kcat"] = ["kcat", "-b", servers, "-C", "-t", topic, "-o", "beginning", "-e", "-q"]
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(arguments.rounds):
            for name, command in commands.items():
                taken[name].append(run(command))
    return report(taken)


def report(taken: dict[str, list[tuple[float, float]]]) -> int:
    """Print the rows; 1 if a target was missed."""
    best = {name: min(wall for wall, _ in runs) for name, runs in taken.items()}
    print(f"{'seconds':20s}{'best':>8s}{'median':>8s}{'processor':>11s}")
    for name, runs in taken.items():
        walls, processor = zip(*runs, strict=True)
        print(f"{name:20s}{best[name]:8.2f}{median(walls):8.2f}{median(processor):11.2f}")
    missed = best["first record"] > MOST_SECONDS_TO_FIRST
    if "kcat" in best:
        rate = best["kcat"] / best["pykafka2 consume"]
        missed |= rate < LEAST_RATE
        print(f"rate: {rate:.2f} x kcat's (target: at least {LEAST_RATE})")
    print("MISSED" if missed else "targets met")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
