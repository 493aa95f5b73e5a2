"""The benchmark of the command line runs, and holds the best round to its targets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.command_line import report
from tests.cli.typed import ROOT


@pytest.mark.gate
@pytest.mark.slow
def test_command_prints_a_row_for_each_program() -> None:
    command = [sys.executable, "-m", "benchmarks.command_line", "--rounds", "1", "--records", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert "pykafka2 consume" in done.stdout, done.stderr
    assert "first record" in done.stdout


@pytest.mark.parametrize(("seconds", "code"), [(1.2, 0), (1.3, 1)])
def test_best_round_is_held_to_the_target(
    seconds: float, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = {
        "pykafka2 consume": [(9.0, 1.0), (seconds, 1.0)],
        "first record": [(0.3, 0.1)],
        "kcat": [(1.0, 0.4)],
    }
    assert report(taken) == code
    assert ("MISSED" in capsys.readouterr().out) == bool(code)
