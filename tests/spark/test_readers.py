"""What Spark is handed, without a session: schemas, readers that travel, offsets as text."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator

import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructField, StructType

import pyspark_pykafka2
from pykafka2.errors import ConfigurationError
from pykafka2.testing import KafkaCluster
from spark_connector import KafkaDataSource, connections
from spark_connector.errors import WrongSchema
from spark_connector.options.source_options import COLUMNS
from spark_connector.source.arrow import arrow_schema
from spark_connector.source.schema import spark_schema
from tests.spark.kafka_data import send

OPTIONS = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}


def test_spark_finds_the_source_by_its_module() -> None:
    assert pyspark_pykafka2.DefaultSource is KafkaDataSource
    assert KafkaDataSource.name() == "pykafka2"


def test_arrows_schema_is_what_spark_makes_of_its_own() -> None:
    assert to_arrow_schema(spark_schema(COLUMNS), timezone="UTC").equals(arrow_schema(COLUMNS))


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        ({}, COLUMNS[:-1]),
        ({"includeheaders": "true"}, COLUMNS),
        ({"columns": "offset,VALUE"}, ("offset", "value")),
    ],
    ids=str,
)
def test_the_schema_follows_the_options(given: dict[str, str], columns: tuple[str, ...]) -> None:
    assert KafkaDataSource({**OPTIONS, **given}).schema() == spark_schema(columns)


def test_a_schema_of_the_users_is_a_choice_of_columns() -> None:
    chosen = spark_schema(("offset", "key"))
    assert KafkaDataSource(OPTIONS).reader(chosen)._task._columns == ("offset", "key")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (StructField("value", StringType()), "column value is binary, not string"),
        (StructField("id", StringType()), "there is no column 'id'"),
    ],
    ids=["type", "name"],
)
def test_another_schema_is_refused(field: StructField, words: str) -> None:
    with pytest.raises(WrongSchema, match=words):
        KafkaDataSource(OPTIONS).reader(StructType([field]))


@pytest.mark.parametrize("method", ["reader", "streamReader"])
def test_wrong_options_are_told_before_any_task(method: str) -> None:
    source = KafkaDataSource({**OPTIONS, "assign": '{"t": [0]}'})
    with pytest.raises(ConfigurationError, match="subscribe and assign are given"):
        getattr(source, method)(spark_schema(COLUMNS[:-1]))
    with pytest.raises(ConfigurationError, match="subscribe and assign are given"):
        source.schema()


@pytest.fixture
def reader(kafka_cluster: KafkaCluster) -> Iterator[DataSourceStreamReader]:
    kafka_cluster.create_topic("t", partitions=12)
    options = {
        "kafka.bootstrap.servers": kafka_cluster.bootstrap_servers,
        "subscribe": "t",
        "startingoffsets": "earliest",
        "minpartitions": "20",
    }
    yield KafkaDataSource(options).streamReader(spark_schema(COLUMNS[:-1]))
    connections.close_all()


@pytest.mark.kafka(brokers=1)
def test_equal_offsets_are_equal_text(reader: DataSourceStreamReader, kafka_cluster: KafkaCluster) -> None:
    first = reader.initialOffset()
    send(kafka_cluster, "t", [1] * 12)
    assert json.dumps(reader.latestOffset(first, ReadAllAvailable())) == json.dumps(
        {"t": {str(number): 1 for number in range(12)}}
    )
    again = json.loads(json.dumps(reader.latestOffset(first, reader.getDefaultReadLimit())))
    assert json.dumps(reader.latestOffset(again, reader.getDefaultReadLimit())) == json.dumps(again)
    assert json.dumps(reader.reportLatestOffset()) == json.dumps(again)


@pytest.mark.kafka(brokers=1)
def test_tasks_are_the_same_each_time_and_travel(reader: DataSourceStreamReader) -> None:
    start = {"t": {"0": 5, "1": 0}}
    end = {"t": {"0": 500, "1": 3, "2": 40}}
    tasks = reader.partitions(start, end)
    assert len(tasks) >= 20
    assert [one.value for one in reader.partitions(start, end)] == [one.value for one in tasks]
    assert [one.value for one in pickle.loads(pickle.dumps(tasks))] == [one.value for one in tasks]


@pytest.mark.kafka(brokers=1)
def test_a_reader_travels(reader: DataSourceStreamReader, kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [3])
    copy = pickle.loads(pickle.dumps(KafkaDataSource(
        {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "subscribe": "t"}
    ).streamReader(spark_schema(("offset",)))))  # fmt: skip
    (task,) = reader.partitions({"t": {"0": 2}}, {"t": {"0": 3}})
    assert [batch.to_pylist() for batch in copy.read(task)] == [[{"offset": 2}]]


def test_sparks_question_what_the_source_can_is_answered_yes() -> None:
    reader = KafkaDataSource(OPTIONS).streamReader(spark_schema(COLUMNS[:-1]))
    assert isinstance(reader, SupportsTriggerAvailableNow)
