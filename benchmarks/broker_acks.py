"""Measures acks=all on one connection: serial, as in Apache Kafka, and pipelined.

    python -m benchmarks.broker_acks --plot docs/guides/pipelined-acks.svg   # all parts, 25 minutes
    python -m benchmarks.broker_acks --short                                 # one round at 1 ms, 3 minutes
    python -m benchmarks.broker_acks --short --part window                   # one part

One topic with one partition and replication factor 2, records of 10 KB, one a request, unless a part varies
them. A serial connection is muted until its request is answered, a pipelined one only until it is processed
locally. The parts are the figures of the article in docs/guides/pipelined-acks.md:

    throughput   both tables and figure 1: acks=-1, acks=1, one replica; 5, 200 and 2,000 requests in flight;
                 figure 7: the depth of the queue in the client, and of those that the broker has read
    times        figures 4 and 5: Produce times of the broker, and what the client waits
    flow         figure 6: bytes in beside replicated bytes
    window       figure 8: the share of the time in which the TCP window is full
    clients      the other remedy: 1, 2, 4 and 8 serial clients on one partition
    shapes       replication factor 1 to 3, 1 and 4 partitions, 1 and 2 leaders, idempotence
    latency      milliseconds by acks, one record at a time
    targets      medians of ratios over --pairs rounds; the exit status is 1 if one is missed

The cluster runs in a process of its own. The two modes of a cell run one after the other, because the machine
can be busy: compare ratios rather than MB/s. Single runs of a cell differ by a quarter even on an idle
machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path

import attrs

from benchmarks.acks_clients import DRIVERS, one_at_a_time, queued
from benchmarks.acks_runs import ARTICLE, COLUMNS, MODES, Result, Runner, Setting
from benchmarks.side_by_side.command import why_no_plot

CLIENTS = (1, 2, 4, 8)
# Milliseconds by acks in an article on the broker's requests, which measured no cluster of its own.
ARTICLE_MS = {0: "0.1", 1: "1-2", -1: "3-10"}


@attrs.define(frozen=True)
class Axes:
    """What the parts vary."""

    drivers: Sequence[str]
    rtts: Sequence[float]
    depths: Sequence[int]
    pairs: int
    """Rounds of the parts that compare medians."""


def _depths(result: Result) -> str:
    return f"{result.client.in_flight_max}/{result.broker['in_flight_max']}"


def throughput(runner: Runner, axes: Axes) -> None:
    """Print a table for each client and round trip, the article's figures beside ours."""
    for driver in axes.drivers:
        for rtt in axes.rtts:
            print(f"\n{driver}, round trip {rtt * 1000:g} ms, MB/s (depth in client / in broker)")
            print(
                f"{'in flight':>10} {'mode':<10}" + "".join(f"{name:>24}" for name in COLUMNS) + "   article"
            )
            for depth in axes.depths:
                for mode in MODES:
                    cells = []
                    for acks, replicas in COLUMNS.values():
                        result = runner.run(Setting(driver, mode, rtt, acks, replicas, depth))
                        cells.append(f"{result.rate:>10.1f} {f'({_depths(result)})':>13}")
                    article = " ".join(f"{mb:>4}" for mb in ARTICLE.get((depth, mode), ()))
                    print(f"{depth:>10} {mode:<10}" + "".join(cells) + f"   {article}", flush=True)


def window(runner: Runner, axes: Axes) -> None:
    """Print how often the client must stop because the broker does not read."""
    for driver in axes.drivers:
        print(f"\n{driver}, round trip 1 ms: time with a full TCP window, and windows of zero in the run")
        print(f"{'in flight':>10} {'mode':<10}{'acks=-1':>20}{'acks=1':>20}")
        for depth in axes.depths:
            for mode in MODES:
                cells = ""
                for acks in (-1, 1):
                    client = runner.run(Setting(driver, mode, acks=acks, in_flight=depth)).client
                    full = "–" if client.window_full is None else f"{client.window_full:.0%}"
                    zeros = "–" if client.zero_windows is None else str(client.zero_windows)
                    cells += f"{full:>12}{zeros:>8}"
                print(f"{depth:>10} {mode:<10}{cells}", flush=True)


def flow(runner: Runner, axes: Axes) -> None:
    """Print the bytes from the client beside those that the follower copied."""
    for driver in axes.drivers:
        print(f"\n{driver}, 5 in flight, round trip 1 ms, MB/s: median of each tenth of a second")
        print(f"{'acks':>10} {'mode':<10}{'bytes in':>12}{'replicated':>12}{'share copied':>14}")
        for acks in (1, -1):
            for mode in MODES:
                seen = runner.flow(Setting(driver, mode, acks=acks))
                rates = [statistics.median(seen.rates(counts)) for counts in (seen.bytes_in, seen.replicated)]
                share = seen.replicated[-1] / max(seen.bytes_in[-1], 1)
                print(f"{acks:>10} {mode:<10}{rates[0]:>12.1f}{rates[1]:>12.1f}{share:>14.1%}", flush=True)


def clients(runner: Runner, axes: Axes) -> None:
    """Print the rates of several serial clients, and of one that is pipelined, by turns in one run."""
    rounds = max(1, axes.pairs)
    for driver in axes.drivers:
        one = Setting(driver, "serial")
        sides = {
            **{
                f"acks=-1, serial, {count} client{'s' * (count > 1)}": attrs.evolve(one, producers=count)
                for count in CLIENTS
            },
            "acks=-1, pipelined, 1 client, 200 in flight": Setting(driver, "pipelined", in_flight=200),
            "acks=1, serial, 1 client": attrs.evolve(one, acks=1),
        }
        played = runner.side_by_side([*sides.values()], rounds)
        print(f"\n{driver}, one partition, 5 in flight, round trip 1 ms, medians of rounds: {rounds}")
        for name, setting in sides.items():
            rate = statistics.median(each[setting] for each in played)
            over = [
                statistics.median(each[setting] / max(each[other], 1e-9) for each in played)
                for other in (one, sides["acks=1, serial, 1 client"])
            ]
            print(
                f"  {name:<46}{rate:>8.1f} MB/s {over[0]:>7.2f} x one serial {over[1]:>7.2f} x acks=1",
                flush=True,
            )


SHAPES = [
    # (partitions, leaders, replicas, idempotent)
    *((partitions, 1, replicas, False) for partitions in (1, 4) for replicas in (1, 2, 3)),
    (4, 2, 2, False),
    (1, 1, 2, True),
]


def shapes(runner: Runner, axes: Axes) -> None:
    """Print acks=-1 by partitions, leaders, replicas and idempotence, with the depth of each run."""
    for driver in axes.drivers:
        print(f"\n{driver}, acks=-1, 5 in flight, round trip 1 ms, MB/s (depth in client / in broker)")
        print(
            f"{'partitions':>11}{'leaders':>8}{'replicas':>9}{'idempotent':>11}"
            + "".join(f"{mode:>20}" for mode in MODES)
        )
        for partitions, leaders, replicas, idempotent in SHAPES:
            setting = Setting(
                driver,
                "serial",
                replicas=replicas,
                partitions=partitions,
                leaders=leaders,
                idempotent=idempotent,
            )
            cells = ""
            for mode in MODES:
                result = runner.run(attrs.evolve(setting, mode=mode))
                cells += f"{result.rate:>10.1f} {f'({_depths(result)})':>9}"
            print(f"{partitions:>11}{leaders:>8}{replicas:>9}{idempotent!s:>11}{cells}", flush=True)


def latency(runner: Runner, axes: Axes) -> None:
    """Print milliseconds of one record at a time by acks, with one and with three replicas."""
    for driver in axes.drivers:
        print(f"\n{driver}, round trip 1 ms, one record of 10 KB at a time: ms p50 / p99")
        print(f"{'acks':>6}{'1 replica':>18}{'3 replicas':>18}{'article':>10}")
        for acks in (0, 1, -1):
            cells = ""
            for replicas in (1, 3):
                setting = Setting(driver, "pipelined", acks=acks, replicas=replicas)
                with runner.cluster(setting) as cluster:
                    took = one_at_a_time(driver, runner.load(setting, cluster), 200)
                cells += f"{f'{took[100] * 1000:.2f} / {took[198] * 1000:.2f}':>18}"
            print(f"{acks:>6}{cells}{ARTICLE_MS[acks]:>10}", flush=True)


def times(runner: Runner, axes: Axes) -> None:
    """Print the Produce times of the broker, and what the client waits for a hundred records at once."""
    for driver in axes.drivers:
        print(f"\n{driver}, round trip 1 ms, 100 acks=-1 produces at once, ms p99 (article: 1 in the broker)")
        print(f"{'mode':<10}{'in the broker':>16}{'in the client':>16}")
        for mode in MODES:
            setting = Setting(driver, mode, in_flight=100)
            with runner.cluster(setting) as cluster:
                took = queued(driver, runner.load(setting, cluster), 100)
                broker = cluster.metrics()
            print(f"{mode:<10}{broker['total_p99'] * 1000:>16.2f}{took[98] * 1000:>16.2f}", flush=True)


@attrs.define(frozen=True)
class Target:
    """A wanted ratio, and the ratio of each round."""

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


def _targets_of(runner: Runner, driver: str, rounds: int) -> Iterator[Target]:
    """Yield the targets at a round trip of 1 ms, each the median over rounds that run both sides."""
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


def targets(runner: Runner, axes: Axes) -> bool:
    """Print the targets; return whether one was missed."""
    if not axes.pairs:
        return False
    print(f"\nat a round trip of 1 ms, medians (least to greatest); rounds: {axes.pairs}")
    is_missed = False
    for driver in axes.drivers:
        for target in _targets_of(runner, driver, axes.pairs):
            is_missed |= not target.is_reached
            print(target, flush=True)
    return is_missed


PARTS: dict[str, Callable[[Runner, Axes], bool | None]] = {
    part.__name__: part for part in (throughput, times, flow, window, clients, shapes, latency, targets)
}


def machine() -> str:
    """Return commit, date, Python, processors, and their other load."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    commit = done.stdout.strip() or "unknown"
    python = sys.version.split()[0]
    return f"commit {commit}, {date.today()}, CPython {python}, {os.cpu_count()} cores, load average {load}"


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.broker_acks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--part", choices=list(PARTS), action="append", metavar="NAME", help="only this part (default: all)"
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="runs of 0.5 s, one round, only a round trip of 1 ms, no targets; a first look",
    )
    parser.add_argument(
        "--seconds", type=float, help="measured time of each run (default 1.2, with --short 0.5)"
    )
    parser.add_argument(
        "--driver", choices=sorted(DRIVERS), action="append", help="only this client (default: both)"
    )
    parser.add_argument(
        "--rtt-ms",
        type=float,
        action="append",
        help="only this round trip in `throughput` (default: 0, 1 and 5)",
    )
    parser.add_argument(
        "--in-flight",
        type=int,
        action="append",
        help="only so many requests in flight in `throughput` and `window` (default: 5, 200 and 2000)",
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="rounds of each single run; the best counts (default 1)"
    )
    parser.add_argument(
        "--pairs",
        type=int,
        help="rounds of `clients` and `targets`; 0 skips the targets (default 7, with --short 0)",
    )
    parser.add_argument("--plot", type=Path, help="write a plot here (png or svg)")
    arguments = parser.parse_args(argv)
    if arguments.plot is not None and (reason := why_no_plot()) is not None:
        parser.error(f"--plot: {reason}")  # now, not after the runs
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    is_short: bool = arguments.short
    axes = Axes(
        drivers=arguments.driver or list(DRIVERS),
        rtts=[ms / 1000 for ms in arguments.rtt_ms or ([1.0] if is_short else [0.0, 1.0, 5.0])],
        depths=arguments.in_flight or [5, 200, 2000],
        pairs=(0 if is_short else 7) if arguments.pairs is None else arguments.pairs,
    )
    runner = Runner(arguments.seconds or (0.5 if is_short else 1.2), arguments.rounds)
    print(f"{machine()}; records of 10 KB, one a request")
    is_missed = False
    for name in arguments.part or PARTS:
        is_missed |= bool(PARTS[name](runner, axes))
    print(f"\nload average at the end {os.getloadavg()[0]:.1f}")
    if arguments.plot is not None:
        from benchmarks.acks_plot import plot

        plot(runner, axes.drivers, arguments.plot)
    return 1 if is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
