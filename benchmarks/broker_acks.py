"""Measures the cost of acks=all on one connection: serial and pipelined.

    python -m benchmarks.broker_acks [--quick] [--seconds 1.2] [--rounds 2] [--pairs 7] [--plot FILE]
    python -m benchmarks.broker_acks --remedy [--driver confluent-kafka]

One topic, one partition, replication factor 2, records of 10 KB. The axes are acks=all, acks=1 and a single
replica; a serial connection, which is muted until its request is answered, as in Apache Kafka, and a
pipelined one; 5, 200 and 2,000 requests in flight; round trips of 0, 1 and 5 ms between the brokers;
pykafka2's and confluent-kafka's producer.

The cluster runs in a process of its own. The two modes of a cell run one after the other, because the machine
may be busy: compare ratios rather than MB/s. Single runs of a cell differ by a quarter even on an idle
machine, so the targets are medians of ratios over `--pairs` rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs

from benchmarks.acks_clients import DRIVERS, one_at_a_time, queued
from benchmarks.acks_runs import COLUMNS, MODES, PROPOSAL, Result, Runner, Setting
from benchmarks.side_by_side.command import why_no_plot


def _depths(result: Result) -> str:
    return f"{result.client.in_flight_max}/{result.broker['in_flight_max']}"


def tables(runner: Runner, drivers: list[str], rtts: list[float], depths: list[int]) -> None:
    """A table for each driver and round trip, the pipelining proposal's figures beside ours."""
    for driver in drivers:
        for rtt in rtts:
            print(f"\n{driver}, round trip {rtt * 1000:g} ms, MB/s (depth in client / in broker)")
            print(
                f"{'in flight':>10} {'mode':<10}" + "".join(f"{name:>24}" for name in COLUMNS) + "   proposal"
            )
            for depth in depths:
                for mode in MODES:
                    cells = []
                    for acks, replicas in COLUMNS.values():
                        result = runner.run(Setting(driver, mode, rtt, acks, replicas, depth))
                        cells.append(f"{result.rate:>10.1f} {f'({_depths(result)})':>13}")
                    proposal = " ".join(f"{mb:>4}" for mb in PROPOSAL.get((depth, mode), ()))
                    print(f"{depth:>10} {mode:<10}" + "".join(cells) + f"   {proposal}", flush=True)


@attrs.define(frozen=True)
class Target:
    """A ratio that was asked for, and what it was in each round."""

    name: str
    ratios: list[float]
    wanted: float

    @property
    def is_reached(self) -> bool:
        return statistics.median(self.ratios) >= self.wanted

    def __str__(self) -> str:
        ratios = sorted(self.ratios)
        spread = f"({ratios[0]:.2f} to {ratios[-1]:.2f})"
        return (
            f"{self.name:<52}{statistics.median(ratios):>8.2f}x {spread:<18}>= {self.wanted:.1f}x"
            f"{'' if self.is_reached else '  MISSED'}"
        )


def targets(runner: Runner, driver: str, rounds: int) -> Iterator[Target]:
    """What was asked for at a round trip of 1 ms, each the median over rounds that play both sides."""
    for depth, wanted in ((5, 2.5), (200, 6.0)):
        sides = {
            (name, mode): Setting(driver, mode, 0.001, acks, replicas, depth)
            for name, (acks, replicas) in COLUMNS.items()
            for mode in MODES
        }
        played = runner.side_by_side(list(sides.values()), rounds)

        def ratio(
            above: tuple[str, str],
            below: tuple[str, str],
            played: list[dict[Setting, float]] = played,
            sides: dict[tuple[str, str], Setting] = sides,
        ) -> list[float]:
            return [one[sides[above]] / max(one[sides[below]], 1e-9) for one in played]

        for name in COLUMNS:
            yield Target(
                f"{driver}: {name} pipelined / serial at {depth}",
                ratio((name, "pipelined"), (name, "serial")),
                wanted if name == "acks=-1" else 0.9,
            )
        if depth == 200:
            yield Target(
                f"{driver}: pipelined at {depth}, acks=-1 / acks=1",
                ratio(("acks=-1", "pipelined"), ("acks=1", "pipelined")),
                1.0,
            )


def several_producers(runner: Runner, driver: str, rtt: float) -> None:
    """The other remedy: more clients instead of requests in flight."""
    print(
        f"\n{driver}, serial, round trip {rtt * 1000:g} ms, 5 in flight: several producers on one partition"
    )
    for producers in (1, 2, 4, 8, 16, 32):
        result = runner.run(Setting(driver, "serial", rtt, producers=producers))
        top = runner.run(Setting(driver, "serial", rtt, acks=1, producers=producers)).rate
        print(
            f"{producers:>4} producers {result.rate:>8.1f} MB/s, {result.rate / max(top, 1e-9):.2f} of the "
            f"{top:.1f} of as many with acks=1 (depth {_depths(result)})",
            flush=True,
        )


SERIAL_CLIENTS = 8
"""Clients of the remedy that the proposal rejects."""


def rejected_remedy(runner: Runner, driver: str, rounds: int) -> None:
    """Eight serial acks=all clients against one with acks=1, and a pipelined one, by turns in one run."""
    eight = f"acks=-1, serial, {SERIAL_CLIENTS} clients"
    sides = {
        "acks=-1, serial": Setting(driver, "serial"),
        eight: Setting(driver, "serial", producers=SERIAL_CLIENTS),
        "acks=-1, pipelined, 200 in flight": Setting(driver, "pipelined", in_flight=200),
        "acks=1, serial": Setting(driver, "serial", acks=1),
    }
    played = runner.side_by_side([*sides.values()], rounds)
    print(f"\n{driver}, round trip 1 ms, one partition: several clients instead, {rounds} rounds, medians")
    for name, setting in sides.items():
        rate = statistics.median(one[setting] for one in played)
        over = [one[setting] / max(one[sides["acks=1, serial"]], 1e-9) for one in played]
        print(f"  {name:<36}{rate:>8.1f} MB/s {statistics.median(over):>7.2f} x acks=1", flush=True)


def more_runs(runner: Runner, drivers: list[str]) -> None:
    """Producers, partitions, leaders, replicas, idempotence; depth of each run."""
    for driver in drivers:
        for rtt in (0.0, 0.001):
            several_producers(runner, driver, rtt)
        rejected_remedy(runner, driver, 3)
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
    """One record at a time by acks; and a hundred at once, seen by broker and client."""
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
    parser.add_argument(
        "--driver", choices=sorted(DRIVERS), action="append", help="only this client (default: both)"
    )
    parser.add_argument(
        "--rtt-ms", type=float, action="append", help="only this round trip (default: 0, 1 and 5)"
    )
    parser.add_argument(
        "--in-flight",
        type=int,
        action="append",
        help="only so many requests in flight (default: 5, 200 and 2000)",
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="rounds of each run; the best counts (default 1)"
    )
    parser.add_argument(
        "--pairs",
        type=int,
        default=7,
        help="rounds of the targets (default %(default)s); 0 skips the targets",
    )
    parser.add_argument(
        "--remedy",
        action="store_true",
        help="only compare eight serial clients with acks=1 and with pipelining",
    )
    parser.add_argument("--quick", action="store_true", help="the tables at 1 ms only")
    parser.add_argument("--plot", type=Path, help="write a plot here (png or svg)")
    arguments = parser.parse_args()
    if arguments.plot is not None and (reason := why_no_plot()) is not None:
        parser.error(f"--plot: {reason}")  # now, not after the runs
    drivers: list[str] = arguments.driver or list(DRIVERS)
    rtts = [ms / 1000 for ms in arguments.rtt_ms or ([1.0] if arguments.quick else [0.0, 1.0, 5.0])]
    depths = arguments.in_flight or ([5, 200] if arguments.quick else [5, 200, 2000])
    runner = Runner(arguments.seconds, arguments.rounds)
    print(f"{machine()}; records of 10 KB, one a request")
    if arguments.remedy:
        for driver in drivers:
            rejected_remedy(runner, driver, max(1, arguments.pairs))
        print(f"\nload average at the end {os.getloadavg()[0]:.1f}")
        return 0
    tables(runner, drivers, rtts, depths)
    missed = 0
    if arguments.pairs:
        print(f"\nat a round trip of 1 ms, medians of {arguments.pairs} rounds (least to greatest)")
        for driver in drivers:
            for target in targets(runner, driver, arguments.pairs):
                missed += not target.is_reached
                print(target, flush=True)
    if not arguments.quick:
        more_runs(runner, drivers)
        latencies(runner, drivers)
    print(f"\nload average at the end {os.getloadavg()[0]:.1f}")
    if arguments.plot is not None:
        from benchmarks.acks_plot import plot

        plot(runner, drivers, arguments.plot)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
