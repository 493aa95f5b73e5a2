"""The sinks of examples/own_sink.py in the session that other tests have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pykafka2.testing import KafkaCluster

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


def test_transaction_of_a_task_can_wait_fifteen_minutes_for_the_last_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pyspark")
    from examples import own_sink

    task = SimpleNamespace(partitionId=lambda: 2, taskAttemptId=lambda: 7)
    monkeypatch.setattr(own_sink.TaskContext, "get", lambda: task)
    with KafkaCluster(brokers=1, topics={"orders": 1}) as cluster:
        sink = own_sink.Transactions({"servers": cluster.bootstrap_servers, "topic": "orders"}, "job")
        written = sink.write(iter([SimpleNamespace(value="apple")]))  # type: ignore[list-item]
        transaction = cluster.transaction(written.transaction.transactional_id)
        assert transaction.is_open
        assert transaction.timeout == 900
        sink.end([written], commit=True)
        assert cluster.log("orders", 0).values() == [b"apple"]
