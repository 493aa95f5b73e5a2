"""The command of a benchmark: runs a plan, prints tables and targets, and can keep them in files."""

from __future__ import annotations

import argparse
import os
import shlex
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import attrs
from tqdm import tqdm

from benchmarks.side_by_side.report import machine, versions
from benchmarks.side_by_side.run import AnyRun
from benchmarks.side_by_side.turns import Results

RESULTS = Path(__file__).parents[2] / "build" / "benchmarks"


class Plan(Protocol):
    """The runs of a benchmark; `len` is their number."""

    @property
    def cells(self) -> Sequence[Any]: ...

    def runs_of(self, cell: Any) -> Sequence[AnyRun]:
        """Return the runs of one round in this cell."""
        ...

    def __len__(self) -> int: ...


@attrs.frozen
class Benchmark:
    """A benchmark: runs a plan, and reports its results."""

    name: str
    """Name of the package in `benchmarks`, and in the names of the result files."""
    play_all: Callable[[Any, Callable[[Any], None]], Results[Any]]
    tables: Callable[[Results[Any]], Iterable[str]]
    reached: Callable[[Results[Any]], tuple[list[str], int]]
    plot: Callable[[Results[Any], Path], None] | None = None


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the options for files and --list."""
    parser.add_argument(
        "--write", action="store_true", help="write the table and a plot to build/benchmarks/"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write the table to this file, and a plot as .svg beside it"
    )
    parser.add_argument("--list", action="store_true", help="print the cells with their clients, and exit")


def why_no_plot() -> str | None:
    """Return why plots cannot be drawn; None if they can."""
    if find_spec("matplotlib") is None:
        return "matplotlib is missing (python -m pip install 'pykafka2[bench]')"
    return None


def run(benchmark: Benchmark, plan: Plan, arguments: argparse.Namespace, command_line: Sequence[str]) -> int:
    """Run the plan, or list it; return 1 if a target is missed or a run failed."""
    if arguments.list:
        for cell in plan.cells:
            print(f"{cell}: {'; '.join(run.client for run in plan.runs_of(cell))}")
        print(f"{len(plan)} runs")
        return 0
    heading = f"$ python -m benchmarks.{benchmark.name} {shlex.join(command_line)}\n{machine()}\n{versions()}"
    started = time.monotonic()
    with tqdm(total=len(plan), unit="run", disable=None) as bar:

        def on_run(run: AnyRun) -> None:
            bar.set_postfix_str(f"{run.client} | {run.cell}")
            bar.update()

        results = benchmark.play_all(plan, on_run)
    lines, missed = benchmark.reached(results)
    ended = f"{time.monotonic() - started:.0f} s, load average at the end {os.getloadavg()[0]:.1f}"
    targets = ["", "targets", *lines, ""]
    text = "\n".join([heading, *benchmark.tables(results), *targets, *results.problems, ended])
    print(text)
    out = arguments.out
    if out is None and arguments.write:
        out = RESULTS / f"{date.today().isoformat()}-{benchmark.name}.txt"
    if out is not None:
        _keep(benchmark, results, text, out)
    return 1 if missed or results.problems else 0


def _keep(benchmark: Benchmark, results: Results[Any], text: str, out: Path) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n", encoding="utf-8")
    print(f"written to {out}")
    if benchmark.plot is None:
        return
    reason = why_no_plot()
    if reason is not None:
        print(f"no plot: {reason}")
        return
    benchmark.plot(results, out.with_suffix(".svg"))
    print(f"written to {out.with_suffix('.svg')}")
