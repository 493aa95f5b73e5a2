"""The floors of the design hold (contracts in pyproject.toml, enforced by import-linter)."""

from __future__ import annotations

from pathlib import Path

import pytest
from importlinter import cli

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_nobody_takes_a_shortcut_between_floors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    broken = cli.lint_imports(no_cache=True)
    assert not broken, capsys.readouterr().out
