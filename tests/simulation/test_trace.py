"""Same seed, same trace: within one interpreter and across two."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.story import tell

ROOT = Path(__file__).resolve().parents[2]


def hash_in_a_fresh_interpreter(module: str, seed: int, hash_seed: str) -> str:
    """The module's output, in an interpreter whose sets of strings have an order of their own."""
    finished = subprocess.run(
        [sys.executable, "-m", module, str(seed)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    assert tell(5) == tell(5)
    assert tell(5) != tell(6)


@pytest.mark.gate
@pytest.mark.slow
def test_two_fresh_interpreters_agree_for_each_hash_seed() -> None:
    hashes = {
        hash_in_a_fresh_interpreter("tests.simulation.story", 5, hash_seed) for hash_seed in ("1", "77")
    }
    assert hashes == {tell(5)}
