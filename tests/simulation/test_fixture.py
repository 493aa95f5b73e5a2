"""The pytest fixture `simulation`: its option, and what a failing test's report says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pykafka2.testing.simulation import Simulation

STORY = """
def test_it(simulation):
    simulation.note("the hero enters")
    assert simulation.seed == 1
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_story.py").write_text(STORY)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_story.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.gate
@pytest.mark.slow
def test_a_failure_shows_the_seed_the_replay_and_the_timeline(tmp_path: Path) -> None:
    finished = run_pytest(tmp_path, "--simulation-seed=2")
    assert finished.returncode == 1, finished.stdout
    assert "seed 2; replay: pytest 'test_story.py::test_it' --simulation-seed=2" in finished.stdout
    assert "the hero enters" in finished.stdout


def test_simulation_fixture_is_available_without_an_import(simulation: Simulation) -> None:
    simulation.sleep(1)
    assert simulation.now == pytest.approx(1)
    assert isinstance(simulation, Simulation)
