"""Tasks and checks of the at-least-once sink, against a broker and without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from pykafka2.errors import KafkaError, NoBrokersAvailable, UnknownOption, UnknownTopicOrPartition
from pykafka2.testing import KafkaCluster, Topic
from spark_connector import connections
from spark_connector.errors import WrongRow
from spark_connector.options.sink_options import SinkOptions
from spark_connector.sink import preflight as checks
from spark_connector.sink.preflight import sink_options
from spark_connector.sink.sending import write_at_least_once
from tests.spark.committed import committed

pytestmark = pytest.mark.kafka(
    brokers=1,
    topics={"t": Topic(partitions=2, configs={"max.message.bytes": "20000"})},
    config={"auto.create.topics.enable": "false"},
)

VALUE = StructType([StructField("value", StringType())])


@pytest.fixture(autouse=True)
def _close(kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(checks, "_checked", set())
    yield
    connections.close_all()


def options(cluster: KafkaCluster, **settings: str) -> SinkOptions:
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    return sink_options({**servers, "topic": "t", **settings}, streaming=False)


def rows(*values: str, **more: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values), **more})


def test_more_than_the_producers_buffer_is_written(kafka_cluster: KafkaCluster) -> None:
    small = {"kafka.buffer.memory": "65536", "kafka.batch.size": "4096", "kafka.bulk.batch.size": "4096"}
    values = [f"{number:0200}" for number in range(1000)]
    batches = [rows(*values[:400]), rows(*values[400:])]
    written = write_at_least_once(options(kafka_cluster, **small), batches, 7)
    assert (written.partition, written.rows) == (7, 1000)
    assert (written.sink, written.run, written.transaction) == (None, None, None)
    assert committed(kafka_cluster.bootstrap_servers, "t") == Counter(values)


def test_rows_of_a_finished_task_are_written(kafka_cluster: KafkaCluster) -> None:
    write_at_least_once(options(kafka_cluster, **{"kafka.linger.ms": "60000"}), [rows("a", "b")], 0)
    assert committed(kafka_cluster.bootstrap_servers, "t") == Counter("ab")


def test_rows_of_a_failed_task_are_not_sent_by_a_later_one(kafka_cluster: KafkaCluster) -> None:
    patient = options(kafka_cluster, **{"kafka.linger.ms": "60000"})
    wrong = rows("c", partition=pa.array([9], pa.int32()))
    with pytest.raises(WrongRow, match="partition \\(9\\) is not among the 2 partitions"):
        write_at_least_once(patient, [rows("a", "b"), wrong], 0)
    write_at_least_once(patient, [rows("d")], 0)
    assert committed(kafka_cluster.bootstrap_servers, "t") == Counter("d")


@pytest.mark.parametrize("last", [[], [rows("b")]], ids=["in the last batch", "before it"])
def test_a_row_that_the_broker_refuses_fails_the_task(
    kafka_cluster: KafkaCluster, last: list[pa.RecordBatch]
) -> None:
    with pytest.raises(KafkaError, match=r"the topic.s max\.message\.bytes is 20000"):
        write_at_least_once(options(kafka_cluster), [rows("a"), rows("x" * 50_000), *last], 0)


def test_tasks_of_one_process_share_a_producer(kafka_cluster: KafkaCluster) -> None:
    for number in range(3):
        write_at_least_once(options(kafka_cluster), [rows("a")], number)
    ids = [entry for entry in kafka_cluster.history if entry.api == "InitProducerId"]
    assert len(ids) == 1


# ---------------------------------------------------------------------------------------- before any task


def test_missing_topic_raises_in_the_check(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "PATIENCE", 0.3)
    with pytest.raises(UnknownTopicOrPartition, match="topic=misspelt does not exist"):
        checks.check_before_tasks(options(kafka_cluster, topic="misspelt"), VALUE)
    checks.check_before_tasks(options(kafka_cluster), VALUE)


def test_checked_topic_does_not_excuse_another(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "PATIENCE", 0.3)
    checks.check_before_tasks(options(kafka_cluster), VALUE)
    with pytest.raises(UnknownTopicOrPartition, match="topic=misspelt"):
        checks.check_before_tasks(options(kafka_cluster, topic="misspelt"), VALUE)


def test_successful_check_is_not_repeated_with_every_micro_batch(kafka_cluster: KafkaCluster) -> None:
    checks.check_before_tasks(options(kafka_cluster), VALUE)
    before = len(kafka_cluster.history)
    checks.check_before_tasks(options(kafka_cluster), VALUE)
    assert len(kafka_cluster.history) == before


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_options_that_producers_do_not_know_are_named(kafka_cluster: KafkaCluster, delivery: str) -> None:
    wrong = options(kafka_cluster, delivery=delivery, **{"kafka.linger": "5"})
    with pytest.raises(UnknownOption, match=r"kafka\.\*.*'linger'.*nearest is 'linger_ms'"):
        checks.check_before_tasks(wrong, VALUE)


def test_brokers_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PATIENCE", 0.3)
    nowhere = sink_options({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}, streaming=False)
    with pytest.raises(NoBrokersAvailable, match=r"127\.0\.0\.1:1"):
        checks.check_before_tasks(nowhere, VALUE)
