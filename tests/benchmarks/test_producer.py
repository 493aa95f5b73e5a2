"""The benchmark of producers still runs, and its tables have a row for each client."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.producer.__main__ import main, parse, plan_of
from benchmarks.producer.clients import CLIENTS
from benchmarks.producer.inputs import CHUNK, inputs_of
from benchmarks.producer.report import targets
from benchmarks.producer.runs import Cell, one_axis_at_a_time
from benchmarks.producer.waiting import WAITING

ROOT = Path(__file__).parents[2]


def test_every_ratio_that_is_asked_for_is_played() -> None:
    plan = plan_of(parse([]))
    played = {(run.cell, run.client) for cell in plan.cells for run in plan.runs_of(cell)}
    for target in targets("apache"):
        assert (target.cell, target.one) in played
        assert (target.cell, target.other) in played


def test_one_axis_is_varied_at_a_time() -> None:
    base = Cell("bundled")
    for cell in one_axis_at_a_time(["bundled"], ["equal"]):
        names = ("size", "keys", "codec", "partitions", "lengths")
        assert sum(getattr(cell, name) != getattr(base, name) for name in names) <= 1
    chosen = plan_of(parse(["--size", "100", "--keys", "unique", "--mode", "equal", "--broker", "apache"]))
    assert {(cell.size, cell.keys, cell.mode) for cell in chosen.cells} == {(100, "unique", "equal")}


def test_inputs_are_as_long_as_the_cell_says() -> None:
    values, keys = inputs_of(Cell(keys="unique")).chunk()
    assert len(values) == CHUNK
    assert {len(value) for value in values} == {100}
    assert keys is not None
    assert {len(key) for key in keys} == {36}
    lengths = {len(value) for value in inputs_of(Cell(lengths="varying")).values}
    assert min(lengths) >= 50
    assert max(lengths) <= 150
    assert len(lengths) > 50


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    shown = capsys.readouterr().out
    assert "python -m benchmarks.producer --quick" in shown
    assert "equal" in shown
    assert "defaults" in shown


@pytest.mark.gate
@pytest.mark.slow
def test_the_command_writes_a_table_and_a_plot(tmp_path: Path) -> None:
    out = tmp_path / "speed.txt"
    clients = [*CLIENTS, *WAITING]
    command = [sys.executable, "-m", "benchmarks.producer", "--broker", "bundled", "--mode", "equal"]
    command += ["--size", "100", "--keys", "none", "--codec", "none", "--partitions", "6"]
    command += ["--rounds", "1", "--share", "0.001", "--out", str(out)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=170,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "Traceback" not in done.stderr + done.stdout
    assert "FAILED" not in done.stdout
    table = out.read_text()
    for client in clients:
        assert f"\n  {client} " in table
    assert "ratios that were asked for" in table
    if find_spec("matplotlib") is not None:  # it comes with the extra `bench`, which the gate does without
        assert out.with_suffix(".svg").stat().st_size > 1000
    assert main(["--list", "--quick"]) == 0
