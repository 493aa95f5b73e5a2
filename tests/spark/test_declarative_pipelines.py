"""The pipeline of examples/declarative_pipeline, run by `spark-pipelines`, with a replayed micro-batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.declarative_pipeline import __main__ as example
from tests.spark.warm_pythons import warm_pythons

GUIDE = Path(__file__).parents[2] / "docs/guides/spark.md"


def code_of(module: Path) -> str:
    """Return the module without its docstring."""
    return module.read_text(encoding="utf-8").split('"""', 2)[2].strip()


def test_the_guide_has_the_definitions_of_the_example() -> None:
    assert code_of(example.DEFINITIONS) in GUIDE.read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.slow
def test_pipeline_writes_each_row_once_through_a_replay_and_new_records(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    reason = example.why_not()
    if reason is not None:
        pytest.skip(reason)
    with warm_pythons(tmp_path) as python:
        monkeypatch.setenv("PYSPARK_PYTHON", str(python))
        assert example.main() == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "after the first run: 500 large orders, 500 different ones",
        "after a replay and new orders: 1000 large orders, 1000 different ones",
    ]
