"""Measures acks=all on one connection: serial, as in Apache Kafka, and pipelined.

    python -m benchmarks.broker_acks --into docs/guides/pipelined-acks.md   # all parts, 25 minutes
    python -m benchmarks.broker_acks --short                                # one round at 1 ms, 5 minutes
    python -m benchmarks.broker_acks --short --part window                  # one part

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
from importlib.util import find_spec
from pathlib import Path

import attrs

from benchmarks.acks_clients import DRIVERS, one_at_a_time, queued
from benchmarks.acks_runs import ARTICLE, COLUMNS, MODES, Result, Runner, Setting
from benchmarks.side_by_side.command import why_no_plot

CLIENTS = (1, 2, 4, 8)
# Milliseconds by acks in an article on the broker's requests, which measured no cluster of its own.
ARTICLE_MS = {0: "0.1", 1: "1–2", -1: "3–10"}
MISSED = "**missed**"
PRELIMINARY = "**Preliminary:** other programs took a large part of the processor time."
BUSY = 1.5
"""The load average of other programs from which on ratios say little."""
BEGIN, END = "<!-- figures -->\n", "<!-- end of the figures -->\n"


@attrs.define(frozen=True)
class Axes:
    """The settings that differ between the parts."""

    drivers: Sequence[str]
    rtts: Sequence[float]
    depths: Sequence[int]
    pairs: int
    """Rounds of the parts that compare medians."""


@attrs.define(frozen=True)
class Figures:
    """A table whose rows are measured when they are read."""

    title: str
    columns: Sequence[str]
    rows: Iterator[Sequence[str]]

    def lines(self) -> Iterator[str]:
        """Yield the table in Markdown, padded to its columns."""
        yield f"\n**{self.title}**\n"
        yield f"| {' | '.join(self.columns)} |"
        yield f"|{'|'.join('-' * (len(name) + 2) for name in self.columns)}|"
        for row in self.rows:
            padded = (cell.ljust(len(name)) for name, cell in zip(self.columns, row, strict=True))
            yield f"| {' | '.join(padded)} |"


def _rate_and_depth(result: Result) -> str:
    return f"{result.rate:.1f} ({result.client.in_flight_max}, {result.broker['in_flight_max']})"


def throughput(runner: Runner, axes: Axes) -> Iterator[Figures]:
    """Yield both tables of the article, for each client and round trip, beside its figures."""

    def rows(driver: str, rtt: float) -> Iterator[list[str]]:
        for depth in axes.depths:
            for mode in MODES:
                cells = [
                    _rate_and_depth(runner.run(Setting(driver, mode, rtt, acks, replicas, depth)))
                    for acks, replicas in COLUMNS.values()
                ]
                article = ", ".join(map(str, ARTICLE.get((depth, mode), ()))) or "–"
                yield [f"{depth:,}", mode, *cells, article]

    for driver in axes.drivers:
        for rtt in axes.rtts:
            yield Figures(
                f"Throughput, {driver}, round trip {rtt * 1000:g} ms: MB/s (depth in client, in broker)",
                ["in flight", "mode     ", *(name.ljust(16) for name in COLUMNS), "article      "],
                rows(driver, rtt),
            )


def window(runner: Runner, axes: Axes) -> Iterator[Figures]:
    """Yield how long the client is stopped because the broker does not read."""

    def rows(driver: str) -> Iterator[list[str]]:
        for depth in axes.depths:
            for mode in MODES:
                cells = []
                for acks in (-1, 1):
                    client = runner.run(Setting(driver, mode, acks=acks, in_flight=depth)).client
                    cells.append("–" if client.window_full is None else f"{client.window_full:.0%}")
                    cells.append("–" if client.zero_windows is None else str(client.zero_windows))
                yield [f"{depth:,}", mode, *cells]

    for driver in axes.drivers:
        yield Figures(
            f"TCP window, {driver}: time in which it is full, and how often it was closed",
            ["in flight", "mode     ", "acks=-1: full", "closed", "acks=1: full", "closed"],
            rows(driver),
        )


def flow(runner: Runner, axes: Axes) -> Iterator[Figures]:
    """Yield the bytes from the client beside those that the follower copied."""

    def rows(driver: str) -> Iterator[list[str]]:
        for acks in (1, -1):
            for mode in MODES:
                seen = runner.flow(Setting(driver, mode, acks=acks))
                rates = [statistics.median(seen.rates(counts)) for counts in (seen.bytes_in, seen.replicated)]
                share = seen.replicated[-1] / max(seen.bytes_in[-1], 1)
                yield [str(acks), mode, f"{rates[0]:.1f}", f"{rates[1]:.1f}", f"{share:.0%}"]

    for driver in axes.drivers:
        yield Figures(
            f"Replication, {driver}, 5 in flight: MB/s, medians of tenths of a second",
            ["acks", "mode     ", "bytes in", "replicated", "copied of all bytes"],
            rows(driver),
        )


def clients(runner: Runner, axes: Axes) -> Iterator[Figures]:
    """Yield the rates of several serial clients, and of one that is pipelined, by turns in one run."""
    rounds = max(1, axes.pairs)

    def rows(driver: str) -> Iterator[list[str]]:
        one = Setting(driver, "serial")
        leader_only = attrs.evolve(one, acks=1)
        sides = {
            **{f"{count} serial, acks=-1": attrs.evolve(one, producers=count) for count in CLIENTS},
            "1 pipelined, acks=-1, 200 in flight": Setting(driver, "pipelined", in_flight=200),
            "1 serial, acks=1": leader_only,
        }
        played = runner.side_by_side([*sides.values()], rounds)
        for name, setting in sides.items():
            runner.medians[setting] = statistics.median(each[setting] for each in played)
            over = [
                statistics.median(each[setting] / max(each[other], 1e-9) for each in played)
                for other in (one, leader_only)
            ]
            yield [name, f"{runner.medians[setting]:.1f}", *(f"{ratio:.2f} ×" for ratio in over)]

    for driver in axes.drivers:
        yield Figures(
            f"Clients, {driver}, one partition, medians; rounds: {rounds}",
            ["clients".ljust(35), "MB/s ", "over one serial", "over acks=1"],
            rows(driver),
        )


SHAPES = [
    # (partitions, leaders, replicas, idempotent)
    *((partitions, 1, replicas, False) for partitions in (1, 4) for replicas in (1, 2, 3)),
    (4, 2, 2, False),
    (1, 1, 2, True),
]


def shapes(runner: Runner, axes: Axes) -> Iterator[Figures]:
    """Yield the rate of acks=-1 by partitions, leaders, replicas and idempotence, with depths."""

    def rows(driver: str) -> Iterator[list[str]]:
        for partitions, leaders, replicas, idempotent in SHAPES:
            setting = Setting(
                driver,
                "serial",
                replicas=replicas,
                partitions=partitions,
                leaders=leaders,
                idempotent=idempotent,
            )
            cells = [_rate_and_depth(runner.run(attrs.evolve(setting, mode=mode))) for mode in MODES]
            yield [str(partitions), str(leaders), str(replicas), "yes" if idempotent else "no", *cells]

    for driver in axes.drivers:
        yield Figures(
            f"Shapes, {driver}, acks=-1, 5 in flight: MB/s (depth in client, in broker)",
            ["partitions", "leaders", "replicas", "idempotent", *(mode.ljust(14) for mode in MODES)],
            rows(driver),
        )


def latency(runner: Runner, axes: Axes) -> Iterator[Figures]:
    """Yield the milliseconds of one record at a time by acks, with one and with three replicas."""

    def rows(driver: str) -> Iterator[list[str]]:
        for acks in (0, 1, -1):
            cells = []
            for replicas in (1, 3):
                setting = Setting(driver, "pipelined", acks=acks, replicas=replicas)
                with runner.cluster(setting) as cluster:
                    took = one_at_a_time(driver, runner.load(setting, cluster), 200)
                cells.append(f"{took[100] * 1000:.2f}, {took[198] * 1000:.2f}")
            yield [str(acks), *cells, ARTICLE_MS[acks]]

    for driver in axes.drivers:
        yield Figures(
            f"Latency, {driver}, one record at a time: ms, p50 and p99",
            ["acks", "1 replica   ", "3 replicas  ", "article"],
            rows(driver),
        )


def times(runner: Runner, axes: Axes) -> Iterator[Figures]:
    """Yield the Produce times of the broker, and what the client waits for a hundred records at once."""

    def rows(driver: str) -> Iterator[list[str]]:
        for mode in MODES:
            setting = Setting(driver, mode, in_flight=100)
            with runner.cluster(setting) as cluster:
                took = queued(driver, runner.load(setting, cluster), 100)
                broker = cluster.metrics()
            yield [mode, f"{broker['total_p99'] * 1000:.1f}", f"{took[98] * 1000:.1f}", "1"]

    for driver in axes.drivers:
        yield Figures(
            f"Times, {driver}, 100 produces with acks=-1 at once: ms, p99",
            ["mode     ", "in the broker", "in the client", "article, in the broker"],
            rows(driver),
        )


@attrs.define(frozen=True)
class Target:
    """A wanted ratio, and the ratio of each round."""

    name: str
    ratios: list[float]
    wanted: float

    @property
    def is_reached(self) -> bool:
        return statistics.median(self.ratios) >= self.wanted

    @property
    def row(self) -> list[str]:
        """Name, median, range of the ratios, and the wanted ratio."""
        ratios = sorted(self.ratios)
        wanted = f"≥ {self.wanted:.1f} ×{'' if self.is_reached else f' {MISSED}'}"
        return [
            self.name,
            f"{statistics.median(ratios):.2f} ×",
            f"{ratios[0]:.2f} to {ratios[-1]:.2f}",
            wanted,
        ]


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
                f"{name}, pipelined over serial at {depth}",
                ratio((name, "pipelined"), (name, "serial")),
                wanted if name == "acks=-1" else 0.9,
            )
        if depth == 200:
            yield Target(
                f"acks=-1 over acks=1, pipelined at {depth}",
                ratio(("acks=-1", "pipelined"), ("acks=1", "pipelined")),
                1.0,
            )


def targets(runner: Runner, axes: Axes) -> Iterator[Figures]:
    """Yield the wanted ratios at a round trip of 1 ms; none without rounds."""
    for driver in axes.drivers if axes.pairs else ():
        yield Figures(
            f"Targets, {driver}, medians; rounds: {axes.pairs}",
            ["ratio".ljust(39), "median ", "range".ljust(14), "target"],
            (target.row for target in _targets_of(runner, driver, axes.pairs)),
        )


PARTS: dict[str, Callable[[Runner, Axes], Iterator[Figures]]] = {
    part.__name__: part for part in (throughput, window, flow, times, latency, shapes, clients, targets)
}


def machine() -> str:
    """Return date, commit, Python, processors, and their other load."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    commit = done.stdout.strip() or "unknown"
    python = sys.version.split()[0]
    return f"{date.today()}, commit `{commit}`, CPython {python}, {os.cpu_count()} cores, load average {load}"


def is_busy(before: float, after: float) -> bool:
    """Return whether the load averages show other programs: client and cluster add two at most."""
    return before > BUSY or after > BUSY + 2


def around_figures(page: Path) -> tuple[str, str]:
    """Return the page's text before and after the two marks.  Raises ValueError without them, and OSError."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no lines {BEGIN.strip()} and {END.strip()}")
    return before, after


def replace_figures(page: Path, lines: Sequence[str]) -> None:
    """Put the lines between the page's two marks."""
    before, after = around_figures(page)
    page.write_text("\n".join([before + BEGIN, *lines, "", END + after]), encoding="utf-8")


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
    parser.add_argument(
        "--into",
        type=Path,
        metavar="PAGE",
        help="replace the figures between the marks of this page, and draw the plot beside it as .svg",
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a plot here (svg)")
    arguments = parser.parse_args(argv)
    # All that can fail is checked now, not after the runs.
    if arguments.into is not None:
        arguments.plot = arguments.plot or arguments.into.with_suffix(".svg")
        try:
            around_figures(arguments.into)
        except (OSError, ValueError) as error:
            parser.error(f"--into: {error}")
    if arguments.plot is not None and (reason := why_no_plot()) is not None:
        parser.error(f"--plot: {reason}")
    arguments.driver = arguments.driver or list(DRIVERS)
    if "confluent-kafka" in arguments.driver and find_spec("confluent_kafka") is None:
        parser.error("confluent-kafka is missing; install it, or use --driver pykafka2")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse(argv)
    is_short: bool = arguments.short
    axes = Axes(
        drivers=arguments.driver,
        rtts=[ms / 1000 for ms in arguments.rtt_ms or ([1.0] if is_short else [0.0, 1.0, 5.0])],
        depths=arguments.in_flight or [5, 200, 2000],
        pairs=(0 if is_short else 7) if arguments.pairs is None else arguments.pairs,
    )
    runner = Runner(arguments.seconds or (0.5 if is_short else 1.2), arguments.rounds)
    lines: list[str] = []
    for_page: list[str] = []
    """Those without the targets, whose ratios are in docs/benchmarks.md alone."""

    def say(line: str, part: str = "") -> None:
        print(line, flush=True)
        lines.append(line)
        if part != targets.__name__:
            for_page.append(line)

    load_before = os.getloadavg()[0]
    say(f"{machine()}; runs of {runner.seconds} s, best of {runner.rounds}.")
    for name in arguments.part or PARTS:
        for figures in PARTS[name](runner, axes):
            for line in figures.lines():
                say(line, name)
    load_after = os.getloadavg()[0]
    say(f"\nLoad average at the end: {load_after:.1f}.")
    if is_busy(load_before, load_after):
        print(PRELIMINARY)
        for_page[0] += f" {PRELIMINARY}"  # a reader sees it before the figures
    if arguments.into is not None:
        replace_figures(arguments.into, for_page)
    if arguments.plot is not None:
        from benchmarks.acks_plot import plot

        plot(runner, axes.drivers, arguments.plot, lines[0].replace("`", ""))
    return 1 if any(MISSED in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
