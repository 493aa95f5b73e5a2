"""The command of a benchmark: plays a plan, prints tables and ratios, keeps them where that is wanted."""

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
    """Which runs there are; `len` is how many."""

    @property
    def cells(self) -> Sequence[Any]: ...

    def runs_of(self, cell: Any) -> Sequence[AnyRun]:
        """One round in this cell."""
        ...

    def __len__(self) -> int: ...


@attrs.frozen
class Benchmark:
    """What one benchmark brings: how a plan is played, and what is made of the results."""

    name: str
    """Of the package in `benchmarks`, and of the result files."""
    play_all: Callable[[Any, Callable[[Any], None]], Results[Any]]
    tables: Callable[[Results[Any]], Iterable[str]]
    reached: Callable[[Results[Any]], tuple[list[str], int]]
    plot: Callable[[Results[Any], Path], None] | None = None


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """The options that say what becomes of the results."""
    parser.add_argument("--write", action="store_true", help="keep the table and a plot in build/benchmarks/")
    parser.add_argument("--out", type=Path, help="keep the table here, and the plot as .svg beside it")
    parser.add_argument("--list", action="store_true", help="say what would be played, and end")


def run(benchmark: Benchmark, plan: Plan, arguments: argparse.Namespace, given: Sequence[str]) -> int:
    """Play the plan, or say what it is; 1 if a ratio that was asked for is missed, or a run failed."""
    if arguments.list:
        for cell in plan.cells:
            print(f"{cell}: {', '.join(run.client for run in plan.runs_of(cell))}")
        print(f"{len(plan)} runs")
        return 0
    heading = f"$ python -m benchmarks.{benchmark.name} {shlex.join(given)}\n{machine()}\n{versions()}"
    started = time.monotonic()
    with tqdm(total=len(plan), unit="run", disable=None) as bar:

        def on_run(run: AnyRun) -> None:
            bar.set_postfix_str(f"{run.client} | {run.cell}")
            bar.update()

        results = benchmark.play_all(plan, on_run)
    lines, missed = benchmark.reached(results)
    ended = f"{time.monotonic() - started:.0f} s, load average at the end {os.getloadavg()[0]:.1f}"
    asked = ["", "ratios that were asked for", *lines, ""]
    text = "\n".join([heading, *benchmark.tables(results), *asked, *results.problems, ended])
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
    print(f"kept in {out}")
    if benchmark.plot is None:
        return
    if find_spec("matplotlib") is None:
        print("no plot: matplotlib is missing (python -m pip install 'pykafka2[bench]')")
        return
    benchmark.plot(results, out.with_suffix(".svg"))
    print(f"kept in {out.with_suffix('.svg')}")
