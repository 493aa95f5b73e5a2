"""The runs of `benchmarks.broker_acks`: what a run is, and who plays it and remembers what came out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from benchmarks.acks_clients import DRIVERS, Load, Measured
from benchmarks.acks_cluster import ClusterProcess

MODES = ("serial", "pipelined")
COLUMNS: dict[str, tuple[int, int]] = {"acks=-1": (-1, 2), "acks=1": (1, 2), "1 replica": (1, 1)}
# MB/s that the proposal to pipeline acks=all gives for its own broker at 5 and at 200 in flight, before and
# after: acks=-1, acks=1, one replica.
PROPOSAL = {
    (5, "serial"): (16, 110, 115),
    (5, "pipelined"): (48, 110, 120),
    (200, "serial"): (21, 110, 115),
    (200, "pipelined"): (140, 110, 115),
}


@attrs.define(frozen=True)
class Setting:
    """One run: which cluster, which client."""

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
class Result:
    client: Measured
    broker: dict[str, Any]

    @property
    def rate(self) -> float:
        return self.client.mb_per_second


class Runner:
    """Runs settings and remembers what came out.

    A setting and its twin in the other mode run one after the other, `rounds` times in turn, and each keeps
    its best: whoever else uses the machine only ever takes something away.  `side_by_side` plays settings in
    turn and keeps every round, for ratios.
    """

    def __init__(self, seconds: float, rounds: int) -> None:
        self.seconds = seconds
        self.rounds = rounds
        self.results: dict[Setting, Result] = {}

    def run(self, setting: Setting) -> Result:
        if setting not in self.results:
            for _ in range(self.rounds):
                for mode in MODES:
                    self._run_once(attrs.evolve(setting, mode=mode))
        return self.results[setting]

    def side_by_side(self, settings: Sequence[Setting], rounds: int) -> list[dict[Setting, float]]:
        """MB/s of each setting in each round; a round plays them all, every other round backwards."""
        return [
            {
                setting: self._run_once(setting).rate
                for setting in (settings if number % 2 == 0 else reversed(settings))
            }
            for number in range(rounds)
        ]

    def _run_once(self, setting: Setting) -> Result:
        with self.cluster(setting) as cluster:
            client = DRIVERS[setting.driver](self.load(setting, cluster))
            result = Result(client, cluster.metrics())
        if client.failed:
            print(f"  {client.failed} records failed in {setting}")
        best = self.results.get(setting)
        if best is None or best.rate < result.rate:
            self.results[setting] = result
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
