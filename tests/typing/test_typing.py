"""The public signatures, as mypy lets an application see them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.gate
@pytest.mark.slow
def test_applications_type_check(tmp_path: Path) -> None:
    # In a process of its own, which takes its 200 MB along when it ends.
    options = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path)]
    command = [sys.executable, "-m", "mypy", *options, str(HERE / "uses.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
