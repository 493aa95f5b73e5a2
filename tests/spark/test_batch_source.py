"""Batch reads through Spark itself: what only a session shows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pykafka2 import KafkaProducer
from pykafka2.testing import ClusterApi
from tests.spark.kafka_data import groups, send

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


@pytest.mark.smoke
def test_rows_equal_the_sent_records(
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


def test_dataframe_reads_the_offsets_that_its_first_query_planned(
    spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str]
) -> None:
    """Spark keeps the plan of a Python source as long as the DataFrame lives, and calls no method again."""
    send(spark_kafka, options["subscribe"], [4, 6])
    frame = read(spark, options)
    assert frame.count() == 10
    send(spark_kafka, options["subscribe"], [2, 3])
    assert frame.count() == frame.select("value").count() == 10
    assert frame.where("partition = 1").count() == 6
    assert read(spark, options).count() == 15


@pytest.mark.long
@pytest.mark.usefixtures("pushdown")
def test_dataframe_with_pushdown_keeps_the_limits_of_the_last_condition(
    spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str]
) -> None:
    """A defect of Spark's (4.3.0): a query without conditions reads what the last one with conditions read.

    docs/guides/spark.md advises to build the DataFrame again; this test shows when that is no longer needed.
    """
    send(spark_kafka, options["subscribe"], [4, 6])
    frame = read(spark, options, pushDownFilters="true")
    assert frame.count() == 10
    assert frame.where("partition = 1").count() == 6
    assert frame.count() == 6
    assert read(spark, options, pushDownFilters="true").count() == 10


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"startingOfsets": "earliest"}, "Did you mean 'startingOffsets'?"),
        ({"kafka.fetch.max.byte": "1"}, "nearest is 'fetch.max.bytes'"),
        (
            {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "700"},
            "nothing listens there",
        ),
    ],
    ids=["name", "client", "broker"],
)
def test_load_fails_for_illegal_options_and_unreachable_brokers(
    spark: SparkSession, options: dict[str, str], changed: dict[str, str], words: str
) -> None:
    for reader in (spark.read, spark.readStream):
        with pytest.raises(Exception, match=words):  # whatever pyspark makes of it
            reader.format("pykafka2").options(**{**options, **changed}).load()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"assign": '{"t": [0]}'}, "subscribe and assign are set"),
        ({"subscribe": "no-such-topic"}, "topic 'no-such-topic' does not exist"),
        ({"startingOffsets": "latest"}, "where a batch query cannot begin"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger is an option of stream queries"),
    ],
    ids=["contradiction", "topic", "latest", "stream only"],
)
def test_invalid_options_raise_before_any_task(
    spark: SparkSession, options: dict[str, str], changed: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):  # whatever pyspark makes of it
        read(spark, options, **changed).count()


def test_no_group_is_left(spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str]) -> None:
    send(spark_kafka, options["subscribe"], [5])
    before = groups(spark_kafka)
    assert read(spark, options, groupIdPrefix="mine").count() == 5
    assert groups(spark_kafka) == before
