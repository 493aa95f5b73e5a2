"""A run of the tests takes at most 720 MB a process; what needs care for that, see tests/memory.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TEXTS_IN_A_FRESH_CLONE = """
from hypothesis import strategies
from tests.hypothesis_start import make_unicode_tables
from tests.memory import peak_memory_mb

make_unicode_tables()
before = peak_memory_mb()
strategies.text().validate()
print(peak_memory_mb() - before)
"""


@pytest.mark.gate
def test_the_first_test_with_texts_in_a_clone_takes_no_more_than_later_ones(tmp_path: Path) -> None:
    fresh = {**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TEXTS_IN_A_FRESH_CLONE],
        cwd=ROOT,
        env=fresh,
        check=True,
        capture_output=True,
        text=True,
    )
    assert int(run.stdout) < 50
