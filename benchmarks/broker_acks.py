"""What acks=all costs on one connection: the two tables of the article on pipelined synchronous replication.

    python -m benchmarks.broker_acks [--quick] [--seconds 1.2] [--rounds 2] [--driver pykafka2] [--plot FILE]

One topic, one partition, replication 2, records of 10 KB; acks=-1, acks=1 and a single replica; a connection
that is muted until its request is answered (serial, as in Apache Kafka) and one that is not (pipelined); 5,
200 and 2000 requests in flight; round trips of 0, 1 and 5 ms between the brokers.  The cluster runs in a
process of its own, the client is here: our producer and confluent-kafka's.  The two modes of a cell run one
right after the other, because the machine may be busy: read the ratios, not the MB/s.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from benchmarks.acks_clients import DRIVERS, Load, Measured, one_at_a_time, queued
from benchmarks.acks_cluster import ClusterProcess

MODES = ("serial", "pipelined")
COLUMNS: dict[str, tuple[int, int]] = {"acks=-1": (-1, 2), "acks=1": (1, 2), "1 replica": (1, 1)}
# The article's MB/s at 5 and at 200 in flight, before and after.
ARTICLE = {
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
    its best: whoever else uses the machine only ever takes something away.
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

    def _run_once(self, setting: Setting) -> None:
        with self.cluster(setting) as cluster:
            client = DRIVERS[setting.driver](self.load(setting, cluster))
            result = Result(client, cluster.metrics())
        if client.failed:
            print(f"  {client.failed} records failed in {setting}")
        best = self.results.get(setting)
        if best is None or best.rate < result.rate:
            self.results[setting] = result

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


def _depths(result: Result) -> str:
    return f"{result.client.in_flight_max}/{result.broker['in_flight_max']}"


def article_tables(runner: Runner, drivers: list[str], rtts: list[float], depths: list[int]) -> None:
    """Both tables of the article at every round trip, its own figures beside ours."""
    for driver in drivers:
        for rtt in rtts:
            print(f"\n{driver}, round trip {rtt * 1000:g} ms, MB/s (depth in client / in broker)")
            print(
                f"{'in flight':>10} {'mode':<10}" + "".join(f"{name:>24}" for name in COLUMNS) + "   article"
            )
            for depth in depths:
                for mode in MODES:
                    cells = []
                    for acks, replicas in COLUMNS.values():
                        result = runner.run(Setting(driver, mode, rtt, acks, replicas, depth))
                        cells.append(f"{result.rate:>10.1f} {f'({_depths(result)})':>13}")
                    article = " ".join(f"{mb:>4}" for mb in ARTICLE.get((depth, mode), ()))
                    print(f"{depth:>10} {mode:<10}" + "".join(cells) + f"   {article}", flush=True)


def targets(runner: Runner, drivers: list[str]) -> Iterator[tuple[str, float, float]]:
    """What was asked for at a round trip of 1 ms: name, measured, wanted (at least)."""
    for driver in drivers:

        def rate(mode: str, column: str, depth: int, driver: str = driver) -> float:
            acks, replicas = COLUMNS[column]
            return max(runner.run(Setting(driver, mode, 0.001, acks, replicas, depth)).rate, 1e-9)

        for depth, wanted in ((5, 2.5), (200, 6.0)):
            ratio = rate("pipelined", "acks=-1", depth) / rate("serial", "acks=-1", depth)
            yield f"{driver}: acks=-1 pipelined / serial at {depth}", ratio, wanted
        ratio = rate("pipelined", "acks=-1", 200) / rate("pipelined", "acks=1", 200)
        yield f"{driver}: pipelined at 200, acks=-1 / acks=1", ratio, 1.0
        for column in ("acks=1", "1 replica"):
            for depth in (5, 200):
                ratio = rate("pipelined", column, depth) / rate("serial", column, depth)
                yield f"{driver}: {column} pipelined / serial at {depth}", ratio, 0.9


def more_runs(runner: Runner, drivers: list[str]) -> None:
    """Requirement 000-05: producers, partitions, leaders, replicas, idempotence; depth of each run."""
    for driver in drivers:
        print(f"\n{driver}, serial, round trip 1 ms, 5 in flight: several producers on one partition")
        top = runner.run(Setting(driver, "serial", acks=1)).rate
        for producers in (1, 2, 4, 8):
            result = runner.run(Setting(driver, "serial", producers=producers))
            print(
                f"{producers:>4} producers {result.rate:>8.1f} MB/s, {result.rate / max(top, 1e-9):.2f} of "
                f"acks=1 with one (depth {_depths(result)})",
                flush=True,
            )
        print(f"\n{driver}, acks=-1, round trip 1 ms: shape of the topic, and idempotence")
        print(
            f"{'partitions':>11}{'leaders':>8}{'replicas':>9}{'idempotent':>11}"
            + "".join(f"{m:>20}" for m in MODES)
        )
        shapes = [
            (1, 1, 1, False),
            (1, 1, 2, False),
            (1, 1, 2, True),
            (1, 1, 3, False),
            (4, 1, 2, False),
            (4, 2, 2, False),
        ]
        for partitions, leaders, replicas, idempotent in shapes:
            cells = ""
            for mode in MODES:
                result = runner.run(
                    Setting(
                        driver,
                        mode,
                        replicas=replicas,
                        partitions=partitions,
                        leaders=leaders,
                        idempotent=idempotent,
                    )
                )
                cells += f"{result.rate:>10.1f} {f'({_depths(result)})':>9}"
            print(f"{partitions:>11}{leaders:>8}{replicas:>9}{idempotent!s:>11}{cells}", flush=True)


def latencies(runner: Runner, drivers: list[str]) -> None:
    """Row 25: one record at a time by acks; and a hundred at once, seen by broker and client."""
    for driver in drivers:
        print(f"\n{driver}, round trip 1 ms, one record of 10 KB at a time: ms p50 / p99 (expected to rise)")
        for acks in (0, 1, -1):
            setting = Setting(driver, "pipelined", acks=acks)
            with runner.cluster(setting) as cluster:
                times = one_at_a_time(driver, runner.load(setting, cluster), 200)
            print(f"  acks={acks:<3} {times[100] * 1000:>8.2f} / {times[198] * 1000:.2f}", flush=True)
        print(f"{driver}, 100 acks=-1 produces at once: ms p99 in the broker, and in the client")
        for mode in MODES:
            setting = Setting(driver, mode, in_flight=100)
            with runner.cluster(setting) as cluster:
                times = queued(driver, runner.load(setting, cluster), 100)
                broker = cluster.metrics()
            print(f"  {mode:<10} {broker['total_p99'] * 1000:>8.2f}   {times[98] * 1000:>8.2f}", flush=True)


def plot(runner: Runner, drivers: list[str], path: Path) -> None:
    """MB/s over requests in flight, a panel for each driver; the article's points beside them."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(drivers), figsize=(5.5 * len(drivers), 4.2), squeeze=False)
    for panel, driver in zip(panels[0], drivers, strict=True):
        for mode, style in zip(MODES, ("--", "-"), strict=True):
            for (name, (acks, replicas)), color in zip(
                list(COLUMNS.items())[:2], ("tab:blue", "tab:orange"), strict=True
            ):
                depths = sorted(
                    {one.in_flight for one in runner.results if one.driver == driver and one.in_flight != 100}
                )
                rates = [
                    runner.run(Setting(driver, mode, 0.001, acks, replicas, depth)).rate for depth in depths
                ]
                panel.plot(depths, rates, style, color=color, marker="o", label=f"{name}, {mode}")
        panel.plot([5, 200], [16, 21], "v", color="grey", label="article, acks=-1 before")
        panel.plot([5, 200], [48, 140], "^", color="grey", label="article, acks=-1 after")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("requests in flight")
        panel.set_title(f"{driver}, round trip 1 ms")
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("MB/s acknowledged, records of 10 KB")
    panels[0][-1].legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"\nplot: {path}")


def machine() -> str:
    """Commit, Python, processors, and how busy they are with other things."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    commit = done.stdout.strip() or "unknown"
    return f"commit {commit}, CPython {sys.version.split()[0]}, {os.cpu_count()} cores, load average {load}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=float, default=1.2, help="measured time of each run (default %(default)s)"
    )
    parser.add_argument("--driver", choices=sorted(DRIVERS), action="append", help="default: all")
    parser.add_argument("--rtt-ms", type=float, action="append", help="default: 0, 1 and 5")
    parser.add_argument("--in-flight", type=int, action="append", help="default: 5, 200 and 2000")
    parser.add_argument("--rounds", type=int, default=1, help="of each run; the best counts (default 1)")
    parser.add_argument("--quick", action="store_true", help="the article's tables at 1 ms only")
    parser.add_argument("--plot", type=Path, help="write a plot here (png or svg)")
    arguments = parser.parse_args()
    drivers: list[str] = arguments.driver or list(DRIVERS)
    rtts = [ms / 1000 for ms in arguments.rtt_ms or ([1.0] if arguments.quick else [0.0, 1.0, 5.0])]
    depths = arguments.in_flight or ([5, 200] if arguments.quick else [5, 200, 2000])
    runner = Runner(arguments.seconds, arguments.rounds)
    print(f"{machine()}; records of 10 KB, one a request")
    article_tables(runner, drivers, rtts, depths)
    missed = 0
    if 0.001 in rtts and {5, 200} <= set(depths):
        print("\nat a round trip of 1 ms" + " " * 36 + "measured   wanted")
        for name, ratio, wanted in targets(runner, drivers):
            missed += ratio < wanted
            print(f"{name:<58}{ratio:>8.2f}x  >= {wanted:.1f}x  {'' if ratio >= wanted else 'MISSED'}")
    if not arguments.quick:
        more_runs(runner, drivers)
        latencies(runner, drivers)
    print(f"\nload average at the end {os.getloadavg()[0]:.1f}")
    if arguments.plot is not None:
        plot(runner, drivers, arguments.plot)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
