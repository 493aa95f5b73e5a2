"""The runs of `benchmarks.broker_acks`: a run's setting, and the runner that keeps the results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from benchmarks.acks_clients import DRIVERS, Load, Measured
from benchmarks.acks_cluster import ClusterProcess

MODES = ("serial", "pipelined")
SAMPLE_EVERY = 0.1
"""Seconds between two samples of the bytes of a running cluster."""
COLUMNS: dict[str, tuple[int, int]] = {"acks=-1": (-1, 2), "acks=1": (1, 2), "1 replica": (1, 1)}
# MB/s in the article's tables, at 5 and at 200 in flight, before and after: acks=-1, acks=1, one replica.
ARTICLE = {
    (5, "serial"): (16, 110, 115),
    (5, "pipelined"): (48, 110, 120),
    (200, "serial"): (21, 110, 115),
    (200, "pipelined"): (140, 110, 115),
}


@attrs.define(frozen=True)
class Setting:
    """One run: its cluster and its client."""

    driver: str
    mode: str
    rtt: float = 0.001
    acks: int = -1
    replicas: int = 2
    in_flight: int = 5
    idempotent: bool = False
    producers: int = 1
    partitions: int = 1
    leaders: int = 1


@attrs.define(frozen=True)
class Flow:
    """Bytes up to some moments of a run: from the client, and copied by the followers."""

    times: list[float]
    bytes_in: list[int]
    replicated: list[int]

    def rates(self, counts: list[int]) -> list[float]:
        """Return MB/s in each interval."""
        pairs = zip(self.times, self.times[1:], counts, counts[1:], strict=False)
        return [(after - before) / (end - start) / 1e6 for start, end, before, after in pairs]


@attrs.define(frozen=True)
class Result:
    client: Measured
    broker: dict[str, Any]

    @property
    def rate(self) -> float:
        return self.client.mb_per_second


class Runner:
    """Runs settings and keeps the results.

    A setting and its twin in the other mode run one after the other, `rounds` times in turn, and each keeps
    its best: other load on the machine can only slow a run down. `side_by_side` plays settings in turn and
    keeps every round, for ratios.
    """

    def __init__(self, seconds: float, rounds: int) -> None:
        self.seconds = seconds
        self.rounds = rounds
        self.results: dict[Setting, Result] = {}
        self.medians: dict[Setting, float] = {}
        """MB/s of the clients that ran side by side, for the plot."""
        self.flows: dict[Setting, Flow] = {}

    def run(self, setting: Setting) -> Result:
        if setting not in self.results:
            for _ in range(self.rounds):
                for mode in MODES:
                    twin = attrs.evolve(setting, mode=mode)
                    result, best = self._run_once(twin), self.results.get(twin)
                    if best is None or best.rate < result.rate:
                        self.results[twin] = result
        return self.results[setting]

    def side_by_side(self, settings: Sequence[Setting], rounds: int) -> list[dict[Setting, float]]:
        """Return MB/s of each setting in each round; a round runs all, every other round backwards."""
        return [
            {
                setting: self._run_once(setting).rate
                for setting in (settings if number % 2 == 0 else reversed(settings))
            }
            for number in range(rounds)
        ]

    def flow(self, setting: Setting) -> Flow:
        """Run a setting, and sample the bytes of its cluster meanwhile."""
        flow = Flow([], [], [])
        with self.cluster(setting) as cluster, ThreadPoolExecutor(1) as client:
            running = client.submit(DRIVERS[setting.driver], self.load(setting, cluster))
            while not running.done():
                figures = cluster.metrics()
                flow.times.append(time.perf_counter())
                flow.bytes_in.append(figures["bytes_in"])
                flow.replicated.append(figures["replicated"])
                time.sleep(SAMPLE_EVERY)
            running.result()
        self.flows[setting] = flow
        return flow

    def _run_once(self, setting: Setting) -> Result:
        with self.cluster(setting) as cluster:
            client = DRIVERS[setting.driver](self.load(setting, cluster))
            result = Result(client, cluster.metrics())
        if client.failed:
            print(f"  {client.failed} records failed in {setting}")
        return result

    def cluster(self, setting: Setting) -> ClusterProcess:
        return ClusterProcess(
            brokers=max(setting.replicas, setting.leaders, 2),
            mode=setting.mode,
            rtt=setting.rtt,
            topics={"t": (setting.partitions, setting.replicas)},
            leaders=setting.leaders,
        )

    def load(self, setting: Setting, cluster: ClusterProcess) -> Load:
        return Load(
            cluster.bootstrap_servers,
            acks=setting.acks,
            in_flight=setting.in_flight,
            idempotent=setting.idempotent,
            producers=setting.producers,
            seconds=self.seconds,
        )
