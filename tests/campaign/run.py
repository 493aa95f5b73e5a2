"""`python -m tests.campaign.run`: many seeds of a scenario, or one again.

    --scenario producers                    all sorts of producers; without it, the whole system
    --scenario consumers                    the members of a group
    --scenario copies                       groups that read, and write what they read in transactions
    --scenario aio                          asyncio applications whose calls are cancelled
    --scenario queues                       share groups: locks, acknowledgements, dead letters
    --corpus 0-99 --fresh --seconds 300     this corpus first, then fresh seeds until the time is up
    --corpus 0-9999 --jobs 4 --resume F     four at a time; F gets a line a seed, and what it has is not
                                            played again: stopped runs go on, and parts are played elsewhere
    --summary F G H                         parts of the same code added up; plays nothing
    --seed 17                               one seed again, with its timeline

Prints a line for each seed that fails or does not count, and at the end the table fault x fired x outcome.
Exit status 1 if a seed failed, if most did not count, or if a kind of fault never took effect.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any

from pykafka2.testing.simulation.faults import table
from tests.campaign.results import Played, ResultFile, UnlikeParts, add_parts, total
from tests.campaign.scenarios import SCENARIOS, Scenario
from tests.campaign.seed import Report
from tests.campaign.seed_pool import play_all, without_logs

# What the arguments may say of a scenario's size.
SIZES = ("seconds", "brokers", "producers", "consumers", "members")

# How many seeds that do not count are named; of thousands every twentieth has met too few faults.
MOST_NAMED = 10

# What of a failed seed's timeline is printed.
LINES_SHOWN = 40


@without_logs()
def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; the exit status."""
    options = _parser().parse_args(arguments)
    scenario = SCENARIOS[options.scenario]
    try:
        sizes = _sizes(options, scenario)
        if options.summary:
            return _summary(options.summary, scenario)
        if options.seed is not None:
            return _replay(scenario.play(options.seed, sizes, True))
        if options.fresh and options.seconds is None:
            print("--fresh goes on until the time is up: say --seconds too", file=sys.stderr)
            return 2
        return _Run(options, scenario, sizes).play()
    except (UnlikeParts, UnknownSize) as error:
        print(error, file=sys.stderr)
        return 2


class UnknownSize(ValueError):
    """The scenario has nothing of this kind."""


def _sizes(options: argparse.Namespace, scenario: Scenario) -> dict[str, Any]:
    """The scenario's sizes, overridden by the command line."""
    sizes = dict(scenario.sizes)
    for name in SIZES:
        wanted = getattr(options, "virtual_seconds" if name == "seconds" else name)
        if wanted is not None and name not in sizes:
            raise UnknownSize(
                f"--{name} {wanted}: the scenario {scenario.name!r} has none; it has {[*sizes]}"
            )
        if wanted is not None:
            sizes[name] = wanted
    return sizes


def _replay(report: Report) -> int:
    print(report.timeline)
    print(_line(report))
    print(table(report.tallies))
    if report.error is not None:
        traceback.print_exception(report.error)
        return 1
    return 0


def play_one(seed: int, scenario: str, sizes: dict[str, Any]) -> Report:
    """One seed, in whatever process: the report carries its error in words only."""
    report = SCENARIOS[scenario].play(seed, sizes, False)
    report.error = None
    return report


class _Run:
    """Many seeds: the corpus, then fresh ones, until they have been played or time is up."""

    def __init__(self, options: argparse.Namespace, scenario: Scenario, sizes: dict[str, Any]) -> None:
        self._options = options
        self._scenario = scenario
        self._sizes = sizes
        self._began = time.monotonic()
        self._file = ResultFile(options.resume, self._played()) if options.resume else None
        self._reports: list[Report] = list(self._file.reports) if self._file else []
        self._is_stopped = False

    def _played(self) -> Played:
        return Played.now({"scenario": self._scenario.name, **self._sizes})

    def play(self) -> int:
        from tqdm import tqdm

        tqdm.monitor_interval = 0
        known = {report.seed for report in self._reports}
        corpus = [seed for seed in self._options.corpus if seed not in known]
        if known:
            print(f"{len(known)} seeds are in {self._options.resume}, {len(corpus)} are left to play")
        # If you stop a long run, you want to see how far it came; within a seed a signal would lose the
        # baton.
        before = signal.signal(signal.SIGTERM, lambda number, frame: self._stop())
        play = partial(play_one, scenario=self._scenario.name, sizes=self._sizes)
        total_seeds = None if self._options.fresh else len(corpus)
        with tqdm(unit="seed", disable=None, total=total_seeds) as bar:
            for report in play_all(play, self._seeds(corpus), self._options.jobs):
                self._reports.append(report)
                if self._file is not None:
                    self._file.add(report)
                bar.update()
                if report.failure:
                    tqdm.write(_failure(report), file=sys.stdout)
                elif not report.counts and sum(not one.counts for one in self._reports) <= MOST_NAMED:
                    tqdm.write(f"does not count: {_line(report)}", file=sys.stdout)
        signal.signal(signal.SIGTERM, before)
        if self._is_stopped:
            print(f"stopped after {len(self._reports)} seeds")
        print(f"played: {self._played()}")
        return _conclude(self._reports, self._scenario, time.monotonic() - self._began)

    def _stop(self) -> None:
        self._is_stopped = True

    def _seeds(self, corpus: Sequence[int]) -> Iterator[int]:
        """The corpus, then fresh ones: seconds since the epoch, another stretch with every run."""
        fresh = count(int(time.time())) if self._options.fresh else ()
        seconds = self._options.seconds
        for seed in chain(corpus, fresh):
            if self._is_stopped or (seconds is not None and time.monotonic() - self._began >= seconds):
                return
            yield seed


def _summary(paths: Sequence[Path], scenario: Scenario) -> int:
    """Parts of one run, added up."""
    played, reports, problems = add_parts(paths)
    print(f"{len(paths)} parts of {played}")
    for report in reports:
        if report.failure:
            print(_failure(report))
    return _conclude(reports, scenario, None, problems)


def _conclude(
    reports: Sequence[Report], scenario: Scenario, took: float | None, problems: Sequence[str] = ()
) -> int:
    tallies = total(reports)
    failed = sorted(report.seed for report in reports if report.failure)
    counting = sum(report.counts for report in reports)
    spent = sum(report.processor_seconds for report in reports)
    print(table(tallies))
    print(
        f"{len(reports)} seeds{f' in {took:.0f} s' if took is not None else ''} "
        f"({spent:.0f} s of processor time), {counting} count "
        f"({sum(report.seconds for report in reports):.0f} virtual seconds, "
        f"{sum(report.operations for report in reports)} operations, "
        f"{sum(report.effective_faults for report in reports)} faults that took effect)"
    )
    problems = list(problems)
    if failed:
        problems.append(f"failed seeds: {', '.join(map(str, failed))}")
    if counting * 2 < len(reports):
        problems.append("most seeds did not count: too short, too idle or too calm")
    if len(reports) >= scenario.seeds_for_all_faults:
        idle = [name for name in scenario.fault_names if name not in tallies or not tallies[name].effective]
        if idle:
            problems.append(f"faults that never took effect: {', '.join(idle)}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _failure(report: Report) -> str:
    recent = "\n".join(report.timeline.splitlines()[-LINES_SHOWN:])
    again = f"replay: python -m tests.campaign.run --scenario {report.scenario} --seed {report.seed}"
    return f"FAILED: {_line(report)}\n{recent}\n{report.failure}{again}"


def _line(report: Report) -> str:
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(report.outcomes.items()))
    return (
        f"seed {report.seed}: {report.seconds:.1f} virtual s, {report.operations} operations, "
        f"{report.records} records ({outcomes}), {report.reads} read, "
        f"{report.effective_faults} faults, trace {report.trace_hash}"
    )


def seed_range(text: str) -> list[int]:
    """`0-99` or `5` or `1,2,7-9`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            seeds.extend(range(int(first), int(last if dash else first) + 1))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{part!r} is no range of seeds; write 0-99") from None
    return seeds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.campaign.run",
        description="Play a simulated scenario for many seeds.",
    )
    parser.add_argument("--scenario", choices=list(SCENARIOS), default="system", help="what is played")
    parser.add_argument(
        "--corpus",
        "--seeds",
        type=seed_range,
        default=seed_range("0-19"),
        help="seeds that are always played: 0-99",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="then seeds that were never played, until time is up"
    )
    parser.add_argument("--seconds", type=float, default=None, help="real time after which no seed begins")
    parser.add_argument("--jobs", type=int, default=1, help="how many seeds are played at a time")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="write a line for each seed there; play only those it lacks",
    )
    parser.add_argument(
        "--summary", type=Path, nargs="+", metavar="FILE", help="add up what --resume wrote, play nothing"
    )
    parser.add_argument("--seed", type=int, default=None, help="replay one seed with its timeline")
    parser.add_argument("--virtual-seconds", type=float, default=None, help="how long faults go on")
    parser.add_argument("--brokers", type=int, default=None)
    parser.add_argument("--producers", type=int, default=None)
    parser.add_argument("--consumers", type=int, default=None)
    parser.add_argument("--members", type=int, default=None, help="of a group")
    return parser


if __name__ == "__main__":
    sys.exit(main())
