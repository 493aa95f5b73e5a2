"""All benchmarks run, whichever of them miss their targets, and the figures are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.every import run


def test_benchmark_that_misses_its_target_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "misses.py").write_text("import sys; print('12 ms  MISSED'); sys.exit(1)")
    (tmp_path / "breaks.py").write_text("raise ValueError('broken')")
    (tmp_path / "passes.py").write_text("print('3 ms')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    figures = tmp_path / "figures.log"
    assert run(["misses", "breaks", "passes"], figures) == ["misses (1)", "breaks (1)"]
    kept = figures.read_text(encoding="utf-8")
    assert "--- python -m misses\n12 ms  MISSED\n" in kept
    assert "ValueError: broken" in kept
    assert kept.endswith("3 ms\nfailed or missed a target: misses (1), breaks (1)\n")
    assert capfd.readouterr().out == kept
