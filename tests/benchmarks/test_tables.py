"""The benchmark of tables plays all of its runs, and judges their figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.tables import RUNS, report

ROOT = Path(__file__).parents[2]


@pytest.mark.gate
@pytest.mark.slow
def test_the_command_plays_all_runs() -> None:
    command = [sys.executable, "-m", "benchmarks.tables", "--records", "20000", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--broker", "bundled"], capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode in (0, 1), done.stderr  # 1: a target is missed, which so few records can
    assert "20,000 records of 100 bytes, medians of 1 rounds" in done.stdout
    assert [name for name in RUNS if name not in done.stdout] == []


@pytest.mark.parametrize(
    ("name", "changed", "is_reached"),
    [
        ("scan to polars", {}, True),
        ("scan to polars", {"seconds": 11.0}, False),
        ("scan to polars", {"peak_mb": 1600.0}, False),
        ("scan to parquet", {"peak_mb": 500.0}, False),
        ("lazy aggregate", {"peak_mb": 501.0}, False),
    ],
)
def test_targets(
    name: str, changed: dict[str, float], is_reached: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = {"seconds": 5.0, "cpu": 5.0, "peak_mb": 400.0, "frame_mb": 0.0}
    found = {run: [{**usual}, {**usual}] for run in RUNS}
    found["confluent-kafka to polars"] = [{**usual, "seconds": 20.0}] * 2
    found["scan to polars"] = [{**usual, "peak_mb": 1500.0, "frame_mb": 1000.0}] * 2
    found[name] = [{**one, **changed} for one in found[name]]
    assert report(found, 10) is is_reached
    assert ("MISSED" in capsys.readouterr().out) is not is_reached
