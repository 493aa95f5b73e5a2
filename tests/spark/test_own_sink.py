"""The sinks of examples/own_sink.py in the session that other tests have; their transactions without one."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING

import attrs
import pytest
from pyspark.sql import Row

from pykafka2 import KafkaProducer
from pykafka2.testing import KafkaCluster
from tests.spark.committed import committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from examples.own_sink import Open, Transactions


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


@attrs.define
class Task:
    """The part of Spark's TaskContext that the example reads."""

    partition: int
    attempt: int

    def partitionId(self) -> int:
        return self.partition

    def taskAttemptId(self) -> int:
        return self.attempt


@pytest.fixture
def transactions(kafka_cluster: KafkaCluster) -> Transactions:
    from examples import own_sink

    return own_sink.Transactions({"servers": kafka_cluster.bootstrap_servers, "topic": "t"}, "job")


def write(transactions: Transactions, task: Task, value: str) -> Open:
    from examples import own_sink

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_sink.TaskContext, "get", lambda: task)
        return transactions.write(iter([Row(value=value)]))


def records(cluster: KafkaCluster, *, waits: bool = True) -> Counter[str]:
    return committed(cluster.bootstrap_servers, "t", waits=waits)


@pytest.mark.kafka(brokers=1, topics={"t": 2})
def test_rows_of_an_own_sink_show_when_the_driver_commits_them(
    kafka_cluster: KafkaCluster, transactions: Transactions
) -> None:
    messages = [write(transactions, Task(0, 0), "a"), write(transactions, Task(1, 1), "b")]
    assert records(kafka_cluster, waits=False) == Counter()
    transactions.end([*messages, None], commit=True)
    assert records(kafka_cluster) == Counter("ab")


@pytest.mark.kafka(brokers=1, topics={"t": 2})
def test_aborted_rows_of_an_own_sink_never_show(
    kafka_cluster: KafkaCluster, transactions: Transactions
) -> None:
    transactions.end([write(transactions, Task(0, 0), "a"), None], commit=False)
    assert records(kafka_cluster) == Counter()


@pytest.mark.kafka(brokers=1, topics={"t": 2})
def test_second_attempt_of_a_task_of_an_own_sink_does_not_fence_the_first(
    kafka_cluster: KafkaCluster, transactions: Transactions
) -> None:
    first, second = (write(transactions, Task(0, attempt), "a") for attempt in (0, 1))
    transactions.end([first], commit=True)
    transactions.end([second], commit=False)
    assert records(kafka_cluster) == Counter("a")


@pytest.mark.kafka(brokers=1, topics={"t": 2})
def test_lost_transaction_of_an_own_sink_fails_the_commit(
    kafka_cluster: KafkaCluster, transactions: Transactions
) -> None:
    messages = [write(transactions, Task(task, task), "a") for task in (0, 1)]
    lost = messages[1].transaction.transactional_id
    with KafkaProducer(bootstrap_servers=transactions.servers, transactional_id=lost) as producer:
        producer.init_transactions()  # aborts it
    with pytest.raises(RuntimeError, match="1 of 2 transactions were lost"):
        transactions.end(messages, commit=True)
