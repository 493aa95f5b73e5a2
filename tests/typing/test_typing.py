"""The public signatures, as mypy lets an application see them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.typing.shortness import LONGEST, wrong_lines

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
USES, WRONG_OPTIONS = "uses.py", "wrong_options.py"


@pytest.mark.gate
@pytest.mark.slow
def test_applications_type_check_and_wrong_options_give_one_short_mypy_error() -> None:
    """One run with the cache of `python -m mypy`: two seconds after that, and half a minute otherwise."""
    # In a process of its own, which takes its 200 MB along when it ends.
    command = [sys.executable, "-m", "mypy", *(str(HERE / name) for name in (USES, WRONG_OPTIONS))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "(checked 2 source files)" in done.stdout, done.stdout + done.stderr
    errors: dict[str, list[str]] = {USES: [], WRONG_OPTIONS: []}
    for line in done.stdout.splitlines():
        if ": error: " in line:
            errors[Path(line.partition(":")[0]).name].append(line)
    assert errors[USES] == []
    assert [int(error.split(":")[1]) for error in errors[WRONG_OPTIONS]] == wrong_lines(), done.stdout
    assert max(map(len, errors[WRONG_OPTIONS])) <= LONGEST
