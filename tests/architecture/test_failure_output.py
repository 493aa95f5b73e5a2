"""A failure is printed when it happens, so a run that is stopped midway has already shown the reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

STORY = """
def test_fails():
    assert 1 == 2, "the reason"

def test_ends_the_process():
    import os
    os._exit(9)
"""

CONFTEST = """
from tests.failures import FailuresAtOnce

def pytest_configure(config):
    if FailuresAtOnce.is_wanted(config):
        config.pluginmanager.register(FailuresAtOnce(config))
"""


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("ci", ["true", ""])
def test_killed_run_has_reported_its_failures(tmp_path: Path, ci: str) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_story.py").write_text(STORY, encoding="utf-8")
    without = ("-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *without, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 9
    printed = ("FAILED so far" in ended.stdout, "the reason" in ended.stdout)
    assert printed == (bool(ci), bool(ci)), ended.stdout
