"""The benchmark of reads under load runs and prints both figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "io_under_load.py"


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--tls"]])
def test_script_prints_both_figures(options: list[str]) -> None:
    answer = subprocess.run(
        [sys.executable, str(SCRIPT), "--seconds", "0.1", "--frame-mib", "0.25", *options],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "reads of 64 KiB" in answer.stdout
    assert "times as fast" in answer.stdout
