"""The layers hold (contracts in pyproject.toml, enforced by import-linter)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# In a process of its own: import-linter's logging settings silence every logger made before it.
LINT = "import sys; from importlinter import cli; sys.exit(cli.lint_imports(no_cache=True))"


@pytest.mark.slow
def test_nobody_takes_a_shortcut_between_layers() -> None:
    done = subprocess.run([sys.executable, "-c", LINT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kept, 0 broken" in done.stdout
