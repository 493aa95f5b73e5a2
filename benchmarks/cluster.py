"""The cost of the bundled cluster: `python -m benchmarks.cluster`.

Rows of the issues: three brokers start in 100 ms; 60 virtual seconds of an idle three-broker cluster with two
clients take less than a second.  Each figure is the best and the median of its rounds; the best is held to
the target, since a busy machine makes nothing faster.
"""

import argparse
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.testing import KafkaCluster, Simulation

LENGTH = struct.Struct(">i")
ALL_TOPICS = struct.pack(">ihhihi", 14, 3, 1, 1, -1, -1)  # Metadata v1, as an anonymous client


def start_seconds() -> float:
    started = time.perf_counter()
    with KafkaCluster(brokers=3):
        return time.perf_counter() - started


def cold_seconds() -> float:
    """From Python's start to the line that the broker process prints when it is ready."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "pykafka2.cli", "broker", "--port", "0", "--brokers", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        took = time.perf_counter() - started
        process.terminate()
    assert line.startswith("bootstrap.servers="), line
    return took


def create_seconds(partitions: int) -> float:
    with KafkaCluster(brokers=3) as cluster:
        started = time.perf_counter()
        cluster.create_topic("wide", partitions=partitions)
        return time.perf_counter() - started


def metadata_seconds(topics: int, *, again: bool) -> float:
    """Time from the request for all topics to the last byte of the response: the first such response, or the
    second.
    """
    with KafkaCluster(brokers=1, topics={f"topic-{number}": 3 for number in range(topics)}) as cluster:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        with (
            socket.create_connection((host, int(port)), 10) as connection,
            connection.makefile("rb") as stream,
        ):
            for _ in range(1 + again):
                started = time.perf_counter()
                connection.sendall(ALL_TOPICS)
                stream.read(*LENGTH.unpack(stream.read(LENGTH.size)))
            return time.perf_counter() - started


def idle_seconds(virtual: float) -> float:
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=3, topics={"orders": 6})
        with simulation.producer(cluster) as producer, simulation.consumer(cluster, "orders") as consumer:
            producer.send("orders", b"one").result(timeout=10)
            consumer.poll(timeout_ms=1000)
            started = time.perf_counter()
            simulation.run_for(virtual)
            return time.perf_counter() - started


def clients() -> tuple[type, type]:
    """Loaded once, so that no row pays for imports."""
    return KafkaProducer, KafkaConsumer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each row (default 5)")
    rounds = parser.parse_args().rounds
    clients()
    start_seconds()  # compiles codecs
    rows: dict[str, tuple[Callable[[], float], float | None]] = {
        "three brokers start": (start_seconds, 0.1),
        "pykafka2 broker, Python's start to ready": (cold_seconds, None),
        "create 1,000 partitions x 3 replicas": (lambda: create_seconds(1000), 2.0),
        "Metadata of 1,000 topics": (lambda: metadata_seconds(1000, again=False), None),
        "the same again": (lambda: metadata_seconds(1000, again=True), 0.005),
        "60 idle virtual seconds, 3 brokers, 2 clients": (lambda: idle_seconds(60.0), 1.0),
    }
    missed = 0
    print(f"{'':48s}{'best':>9s}{'median':>12s}{'target':>12s}")
    for name, (measure, target) in rows.items():
        taken = [measure() for _ in range(rounds)]
        line = f"{name:48s}{1000 * min(taken):9.1f}{1000 * median(taken):9.1f} ms"
        if target is not None:
            is_missed = min(taken) >= target
            missed += is_missed
            line += f"{1000 * target:9.0f} ms{'  MISSED' if is_missed else ''}"
        print(line, flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
