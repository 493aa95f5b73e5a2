"""The public signatures, as mypy lets an application see them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.slow
def test_applications_type_check(tmp_path: Path) -> None:
    out, err, status = api.run(
        [
            "--strict",
            "--config-file",
            str(ROOT / "pyproject.toml"),
            "--cache-dir",
            str(tmp_path),
            str(HERE / "uses.py"),
        ]
    )
    assert status == 0, out + err
