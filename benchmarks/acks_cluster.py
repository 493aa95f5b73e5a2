"""The cluster of `benchmarks.broker_acks`, in a process of its own.

    python -m benchmarks.acks_cluster --brokers 2 --mode serial --rtt-ms 1 --topic t:1:2

prints `bootstrap.servers=...`, answers each line `metrics` on its stdin with one line of JSON about Produce,
and ends with its stdin.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from itertools import combinations
from types import TracebackType
from typing import Any, Self

from pykafka2.testing import KafkaCluster
from pykafka2.testing.arguments import Topic


class ClusterProcess:
    """Starts this module as a child; `bootstrap_servers`, `metrics()`.  A context manager."""

    def __init__(
        self, *, brokers: int, mode: str, rtt: float, topics: dict[str, tuple[int, int]], leaders: int = 0
    ) -> None:
        command = [sys.executable, "-m", "benchmarks.acks_cluster", "--brokers", str(brokers)]
        command += ["--mode", mode, "--rtt-ms", str(rtt * 1000), "--leaders", str(leaders)]
        for name, (partitions, replicas) in topics.items():
            command += ["--topic", f"{name}:{partitions}:{replicas}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.bootstrap_servers = self._line().partition("=")[2]

    def metrics(self) -> dict[str, Any]:
        """Return the brokers' Produce figures: requests, in_flight_max, p50 and p99 of spans in seconds."""
        assert self._process.stdin is not None
        print("metrics", file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._line())
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the cluster's process has ended")
        return line.strip()


def produce_metrics(cluster: KafkaCluster) -> dict[str, Any]:
    """Return the figures of the broker with the most Produce requests, and the bytes of all brokers."""
    busiest = max((broker.metrics.api("Produce") for broker in cluster.brokers), key=lambda api: api.count)
    spans = {name: getattr(busiest, name) for name in ("local", "remote", "response_queue", "total")}
    brokers = [broker.metrics for broker in cluster.brokers]
    return {
        "bytes_in": sum(one.bytes_in for one in brokers),
        "replicated": sum(one.replication_bytes_in for one in brokers),
        "requests": busiest.count,
        "in_flight_max": cluster.history.in_flight_max("Produce"),
        **{f"{name}_p50": span.p50 for name, span in spans.items()},
        **{f"{name}_p99": span.p99 for name, span in spans.items()},
    }


def lead_by_few(cluster: KafkaCluster, leaders: int) -> None:
    """Have the first `leaders` brokers lead everything, where they have a replica."""
    for topic in cluster.topics():
        for number in range(len(cluster.controller.image.topics[topic].partitions)):
            known = cluster.partition(topic, number)
            wanted = number % leaders
            if known.leader != wanted and wanted in known.isr:
                cluster.controls.move_leader((topic, number), wanted)


def _topic(text: str) -> tuple[str, Topic]:
    name, partitions, replicas = text.split(":")
    # An hour's log would not fit in memory; a benchmark reads nothing back.
    return name, Topic(int(partitions), int(replicas), {"retention.bytes": 256 << 20, "retention.ms": 1000})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=2)
    parser.add_argument("--mode", choices=("serial", "pipelined"), default="pipelined")
    parser.add_argument("--rtt-ms", type=float, default=0.0, help="round trip between any two brokers")
    parser.add_argument("--leaders", type=int, default=0, help="let only so many brokers lead (0: all)")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME:PARTITIONS:REPLICAS")
    arguments = parser.parse_args()
    topics = dict(_topic(text) for text in arguments.topic)
    # Only the depth is wanted of the history, and it must not keep what was sent.
    is_pipelined = arguments.mode == "pipelined"
    cluster = KafkaCluster(arguments.brokers, topics, pipelined=is_pipelined, history_entries=1)
    with cluster:
        if arguments.rtt_ms:
            for one, other in combinations(range(arguments.brokers), 2):
                cluster.controls.delay_link(one, other, arguments.rtt_ms / 2000)
        if arguments.leaders:
            lead_by_few(cluster, arguments.leaders)
        print(f"bootstrap.servers={cluster.bootstrap_servers}", flush=True)
        for line in sys.stdin:
            if line.strip() == "metrics":
                print(json.dumps(produce_metrics(cluster)), flush=True)


if __name__ == "__main__":
    main()
