"""The sinks of examples/own_sink.py in the session that other tests have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_every_sink_of_ones_own_writes_each_row_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from examples import own_sink  # with pyspark

    monkeypatch.setattr(own_sink, "local_session", lambda: spark)  # Spark looks for sinks in this one
    monkeypatch.setattr(type(spark), "stop", lambda self: None)  # others need it after this
    assert own_sink.main() == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"{topic}: 150 records, 150 different ones" for topic in own_sink.TOPICS]
