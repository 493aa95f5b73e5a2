"""Batch reads through Spark itself: what only a session shows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from pykafka2 import KafkaProducer
from pykafka2.testing import ClusterApi
from tests.spark.kafka_data import send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
T_MS = 1_767_225_600_000


def read(spark: SparkSession, options: dict[str, str], **more: str) -> DataFrame:
    return spark.read.format("pykafka2").options(**{**options, **more}).load()


@pytest.fixture
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_rows_are_what_was_sent(
    spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str]
) -> None:
    topic = options["subscribe"]
    with KafkaProducer(bootstrap_servers=spark_kafka.bootstrap_servers) as producer:
        headers = [("a", b"1"), ("b", None)]
        producer.send(topic, key=b"k", value=b"v", partition=1, timestamp_ms=T_MS + 5, headers=headers)
        producer.send(topic, partition=1, timestamp_ms=T_MS)
    first, second = read(spark, options, includeHeaders="true").orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value), first.topic) == (b"k", b"v", topic)
    assert (first.partition, first.offset, first.timestampType) == (1, 0, 0)
    assert first.timestamp.astimezone(datetime.UTC) == T + datetime.timedelta(milliseconds=5)
    assert [(one.key, one.value) for one in first.headers] == [("a", b"1"), ("b", None)]
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_an_empty_topic_has_no_rows(spark: SparkSession, options: dict[str, str]) -> None:
    assert read(spark, options).count() == 0


def test_ranges_splits_and_columns(
    spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str]
) -> None:
    topic = options["subscribe"]
    send(spark_kafka, topic, [100, 20])
    frame = read(
        spark,
        options,
        startingOffsets=f'{{"{topic}": {{"0": 10, "1": -2}}}}',
        endingOffsets=f'{{"{topic}": {{"0": 90, "1": -1}}}}',
        minPartitions="5",
        columns="offset,partition",
    )
    assert frame.columns == ["offset", "partition"]
    assert frame.rdd.getNumPartitions() == 5
    found = sorted((row.partition, row.offset) for row in frame.collect())
    assert found == [*((0, one) for one in range(10, 90)), *((1, one) for one in range(20))]


def test_sql_reads_a_topic(spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str]) -> None:
    topic = options["subscribe"]
    send(spark_kafka, topic, [30, 12])
    spark.sql(
        f"create temporary view {topic} using pykafka2 options "
        f"(`kafka.bootstrap.servers` '{spark_kafka.bootstrap_servers}', subscribe '{topic}')"
    )
    found = spark.sql(f"select partition, count(*) as rows from {topic} group by partition").collect()
    assert {row.partition: row.rows for row in found} == {0: 30, 1: 12}


@pytest.mark.usefixtures("pushdown")
def test_conditions_are_pushed_down(
    spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str]
) -> None:
    send(spark_kafka, options["subscribe"], [50, 50], first_ms=T_MS)
    frame = read(spark, options, pushDownFilters="true").where(
        "partition = 1 and offset < 30 and timestamp >= timestamp'2026-01-01 00:00:10'"
    )
    assert frame.rdd.getNumPartitions() == 1
    assert sorted(row.offset for row in frame.collect()) == list(range(10, 30))
    assert read(spark, options, pushDownFilters="true").where("partition = 7").count() == 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOfsets": "earliest"}, "the nearest is 'startingOffsets'"),
        ({"assign": '{"t": [0]}'}, "subscribe and assign are given"),
        ({"kafka.fetch.max.byte": "1"}, "the nearest is 'fetch_max_bytes'"),
        ({"subscribe": "no-such-topic"}, "there is no topic 'no-such-topic'"),
        ({"startingOffsets": "latest"}, "a batch query cannot begin at latest"),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "700"},
            "nothing listens there",
        ),
    ],
    ids=["name", "contradiction", "client", "topic", "latest", "broker"],
)
def test_what_is_wrong_is_said_before_any_task(
    spark: SparkSession, options: dict[str, str], given: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):  # whatever pyspark makes of it
        read(spark, options, **given).count()


def test_no_group_is_left(spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str]) -> None:
    send(spark_kafka, options["subscribe"], [5])
    assert read(spark, options, groupIdPrefix="mine").count() == 5
    admin = AdminClient({"bootstrap.servers": spark_kafka.bootstrap_servers})
    assert admin.list_consumer_groups().result(10).valid == []
