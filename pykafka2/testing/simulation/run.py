"""`python -m pykafka2.testing.simulation.run`: many seeds of the whole-system scenario, or one again.

    --corpus 0-99 --fresh --seconds 300     this corpus first, then fresh seeds until the time is up
    --seed 17                               one seed again, with its timeline

Prints a line for each seed that fails or does not count, and at the end the table fault x fired x outcome.
Exit status 1 if a seed failed, if most did not count, or if a kind of fault never took effect.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from itertools import chain, count

from pykafka2.testing.simulation.fault_table import KINDS
from pykafka2.testing.simulation.faults import Tallies, add_tallies, table
from pykafka2.testing.simulation.scenario import Report, Shape, run_seed

# With fewer seeds than this a kind may be missing by chance: each seed uses half of them.
SEEDS_FOR_ALL_KINDS = 25


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; the exit status."""
    options = _parser().parse_args(arguments)
    # Clients and brokers log what faults do to them; the timeline says it better.
    logging.disable(logging.CRITICAL)
    shape = Shape(
        seconds=options.virtual_seconds,
        brokers=options.brokers,
        producers=options.producers,
        consumers=options.consumers,
        members=options.members,
    )
    if options.seed is not None:
        return _replay(options.seed, shape)
    if options.fresh and options.seconds is None:
        print("--fresh goes on until the time is up: say --seconds too", file=sys.stderr)
        return 2
    # Seconds since the epoch: another stretch of seeds with every run.
    fresh_from = int(time.time()) if options.fresh else None
    return _run_many(options.corpus, options.seconds, fresh_from, shape)


def _replay(seed: int, shape: Shape) -> int:
    report = run_seed(seed, shape, keep_timeline=True)
    print(report.timeline)
    print(_line(report))
    print(table(report.tallies))
    if report.error is not None:
        traceback.print_exception(report.error)
        return 1
    return 0


def _run_many(corpus: Sequence[int], seconds: float | None, fresh_from: int | None, shape: Shape) -> int:
    from tqdm import tqdm

    tqdm.monitor_interval = 0
    began = time.monotonic()
    reports: list[Report] = []
    tallies: Tallies = {}
    # Whoever stops a long run wants to see how far it came; within a seed a signal would lose the baton.
    stopped: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    with tqdm(unit="seed", disable=None, total=len(corpus) if fresh_from is None else None) as bar:
        for seed in _seeds(corpus, seconds, fresh_from, began):
            report = run_seed(seed, shape)
            add_tallies(tallies, report.tallies)
            reports.append(report)
            bar.update()
            if report.error is not None:
                tqdm.write(_failure(report), file=sys.stdout)
            elif not report.counts:
                tqdm.write(f"does not count: {_line(report)}", file=sys.stdout)
            if stopped:
                print(f"stopped after seed {seed}")
                break
    signal.signal(signal.SIGTERM, before)
    return _conclude(reports, tallies, time.monotonic() - began)


def _seeds(
    corpus: Sequence[int], seconds: float | None, fresh_from: int | None, began: float
) -> Iterator[int]:
    """The corpus, then fresh ones; the end of time ends either."""
    for seed in chain(corpus, count(fresh_from) if fresh_from is not None else ()):
        if seconds is not None and time.monotonic() - began >= seconds:
            return
        yield seed


def _conclude(reports: Sequence[Report], tallies: Tallies, took: float) -> int:
    failed = [report.seed for report in reports if report.error is not None]
    counting = sum(report.counts for report in reports)
    print(table(tallies))
    print(
        f"{len(reports)} seeds in {took:.0f} s, {counting} count "
        f"({sum(report.seconds for report in reports):.0f} virtual seconds, "
        f"{sum(report.operations for report in reports)} operations, "
        f"{sum(report.effective_faults for report in reports)} faults that took effect)"
    )
    problems = [f"failed seeds: {', '.join(map(str, failed))}"] if failed else []
    if counting * 2 < len(reports):
        problems.append("most seeds did not count: too short, too idle or too calm")
    if len(reports) >= SEEDS_FOR_ALL_KINDS:
        idle = [kind.name for kind in KINDS if kind.name not in tallies or not tallies[kind.name].effective]
        if idle:
            problems.append(f"faults that never took effect: {', '.join(idle)}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _failure(report: Report) -> str:
    error = report.error
    words = "".join(traceback.format_exception(error)) if error is not None else ""
    recent = "\n".join(report.timeline.splitlines()[-40:])
    again = f"replay: python -m pykafka2.testing.simulation.run --seed {report.seed}"
    return f"FAILED: {_line(report)}\n{recent}\n{words}{again}"


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
        prog="python -m pykafka2.testing.simulation.run",
        description="Play the whole-system simulation for many seeds.",
    )
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
    parser.add_argument("--seed", type=int, default=None, help="replay one seed with its timeline")
    parser.add_argument("--virtual-seconds", type=float, default=60.0, help="how long faults go on")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--producers", type=int, default=2)
    parser.add_argument("--consumers", type=int, default=1)
    parser.add_argument("--members", type=int, default=2, help="of a group that commits offsets")
    return parser


if __name__ == "__main__":
    sys.exit(main())
