"""The pipeline of examples/ in the session that other tests have; by its command it has one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from examples.pipeline import __main__ as pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_pipelines_totals_are_plain_pythons(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pipeline, "local_session", spark.newSession)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)  # others need it after this
    assert pipeline.main(["--orders", "3000"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("3000 orders, ")
    assert said[-1].endswith("the same as in plain Python, none missing, none repeated")
