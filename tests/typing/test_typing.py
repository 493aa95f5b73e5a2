"""The public signatures, as mypy lets an application see them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.typing.shortness import LONGEST, wrong_lines

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def run_mypy(cache: Path, file: str, *more: str) -> subprocess.CompletedProcess[str]:
    # In a process of its own, which takes its 200 MB along when it ends.
    options = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(cache), *more]
    command = [sys.executable, "-m", "mypy", *options, str(HERE / file)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.gate
@pytest.mark.slow
def test_applications_type_check(tmp_path: Path) -> None:
    done = run_mypy(tmp_path, "uses.py")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.gate
@pytest.mark.slow
def test_wrong_option_gives_one_short_mypy_error(tmp_path: Path) -> None:
    done = run_mypy(tmp_path, "wrong_options.py")
    messages = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [int(message.split(":")[1]) for message in messages] == wrong_lines(), done.stdout
    assert max(map(len, messages)) <= LONGEST
