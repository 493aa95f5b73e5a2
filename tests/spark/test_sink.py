"""The sink under Spark: rows of every shape, modes, refusals, and deliveries.  confluent-kafka reads."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from pykafka2.testing import ClusterApi, KafkaCluster
from tests.spark.committed import committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

TIMEOUT = 240


@pytest.fixture
def sink(spark_kafka: ClusterApi, topic: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": spark_kafka.bootstrap_servers, "topic": topic}


@pytest.fixture
def servers(spark_kafka: ClusterApi) -> dict[str, str]:
    return {"kafka.bootstrap.servers": spark_kafka.bootstrap_servers}


def write(df: DataFrame, options: dict[str, str], mode: str = "append") -> None:
    df.write.format("pykafka2").options(**options).mode(mode).save()


def messages(spark_kafka: ClusterApi, topic: str, count: int) -> list[Any]:
    """By partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": spark_kafka.bootstrap_servers,
            "group.id": "g",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in (0, 1)])
    found: list[Any] = []
    for _ in range(100):
        found += consumer.consume(count, timeout=0.1)
        if len(found) >= count:
            break
    consumer.close()
    return sorted(found, key=lambda one: (one.partition(), one.offset()))


class Input:
    """JSON files as a stream: each call of `add` is a file."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        (folder / "in").mkdir()
        self._count = 0

    def add(self, *values: str) -> None:
        self._count += 1
        lines = "".join(json.dumps({"key": value[:1], "value": value}) + "\n" for value in values)
        part = self.folder / f"{self._count:03}.part"
        part.write_text(lines)
        os.utime(part, (1_700_000_000 + self._count,) * 2)  # Spark takes them by age
        part.rename(self.folder / "in" / f"{self._count:03}.json")

    def stream(self) -> DataFrame:
        source = self._spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
        return source.json(str(self.folder / "in")).repartition(2, "value")

    def run(
        self, options: dict[str, str], mode: str = "append", df: DataFrame | None = None
    ) -> StreamingQuery:
        writer = (self.stream() if df is None else df).writeStream.format("pykafka2").options(**options)
        query = writer.option("checkpointLocation", str(self.checkpoint)).outputMode(mode)
        return finished(query.trigger(availableNow=True).start())

    def forget_last_commit(self) -> int:
        """Replay the batch as if the driver had died before Spark noted it as done."""
        number = max(int(one.name) for one in (self.checkpoint / "commits").iterdir() if one.name.isdigit())
        (self.checkpoint / "commits" / str(number)).unlink()
        (self.checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)
        return number


def finished(query: StreamingQuery) -> StreamingQuery:
    try:
        assert query.awaitTermination(TIMEOUT), "the query did not end"
    finally:
        query.stop()
    return query


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> Input:
    return Input(spark, tmp_path)


def test_every_column_is_written(
    spark: SparkSession, spark_kafka: ClusterApi, topic: str, servers: dict[str, str]
) -> None:
    df = spark.range(4).selectExpr(
        "if(id = 3, null, concat('v', id)) value",
        "cast(concat('k', id) as binary) key",
        "if(id = 1, null, array(struct('h' as key, cast(string(id) as binary) as value))) headers",
        f"'{topic}' topic",
        "cast(id % 2 as int) partition",
        "timestamp_millis(1700000000000 + id) timestamp",
    )
    write(df.coalesce(1), servers)
    found = messages(spark_kafka, topic, 4)
    assert [(one.partition(), one.key(), one.value()) for one in found] == [
        (0, b"k0", b"v0"),
        (0, b"k2", b"v2"),
        (1, b"k1", b"v1"),
        (1, b"k3", None),
    ]
    assert [one.timestamp()[1] - 1700000000000 for one in found] == [0, 2, 1, 3]
    assert [one.headers() for one in found] == [[("h", b"0")], [("h", b"2")], None, [("h", b"3")]]


def test_rows_go_to_the_topics_that_they_name(
    spark: SparkSession, spark_kafka: ClusterApi, topic: str, servers: dict[str, str]
) -> None:
    other = f"{topic}-other"
    spark_kafka.create_topic(other, partitions=2)
    df = spark.range(100).selectExpr(f"if(id % 3 = 0, '{topic}', '{other}') topic", "string(id) value")
    write(df, servers)
    assert committed(spark_kafka.bootstrap_servers, topic) == Counter(str(n) for n in range(0, 100, 3))
    assert committed(spark_kafka.bootstrap_servers, other) == Counter(str(n) for n in range(100) if n % 3)
    write(df, {**servers, "topic": other})
    assert committed(spark_kafka.bootstrap_servers, other).total() == 166


@pytest.mark.parametrize(
    ("columns", "options", "mode", "words"),
    [
        ("string(id) value", {}, "overwrite", "is not supported"),
        ("id value", {}, "append", "'value' is bigint, but must be string or binary"),
        ("string(id) value, id amount", {}, "append", "cannot write the column 'amount'"),
        ("string(id) value", {"kafka.linger": "5"}, "append", "kafka"),
        ("string(id) value", {"startingOffsets": "latest"}, "append", "option of the source"),
    ],
)
def test_invalid_write_raises_before_any_task(
    spark: SparkSession, sink: dict[str, str], columns: str, options: dict[str, str], mode: str, words: str
) -> None:
    with pytest.raises(Exception, match=words):
        write(spark.range(3).selectExpr(*columns.split(", ")), {**sink, **options}, mode)


@pytest.mark.long
def test_missing_topic_raises_before_any_task(spark: SparkSession) -> None:
    with KafkaCluster(brokers=1, process=True, config={"auto.create.topics.enable": "false"}) as cluster:
        sink = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": "misspelt"}
        with pytest.raises(Exception, match="topic=misspelt does not exist"):
            write(spark.range(3).selectExpr("string(id) value"), sink)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
def test_a_null_topic_fails_the_write(
    spark: SparkSession, spark_kafka: ClusterApi, topic: str, servers: dict[str, str], delivery: str
) -> None:
    df = spark.range(100).selectExpr(f"if(id = 70, null, '{topic}') topic", "string(id) value").coalesce(1)
    with pytest.raises(Exception, match="Row 70 of a batch is illegal: topic is null"):
        write(df, {**servers, "delivery": delivery})
    assert committed(spark_kafka.bootstrap_servers, topic, "read_uncommitted") == Counter()


def test_a_batch_write_is_all_or_nothing(
    spark: SparkSession, spark_kafka: ClusterApi, topic: str, sink: dict[str, str]
) -> None:
    once = {**sink, "delivery": "exactly_once"}
    rows = "if(id = 399, raise_error('broken'), string(id)) value"
    with pytest.raises(Exception, match="broken"):
        write(spark.range(0, 400, 1, 4).selectExpr(rows), once)
    assert committed(spark_kafka.bootstrap_servers, topic) == Counter()
    write(spark.range(0, 400, 1, 4).selectExpr("string(id) value"), once)
    assert committed(spark_kafka.bootstrap_servers, topic) == Counter(str(n) for n in range(400))


def test_a_stream_is_written_at_least_once(
    spark_kafka: ClusterApi, topic: str, sink: dict[str, str], files: Input
) -> None:
    files.add("a", "b", "c")
    files.add("d")
    files.run(sink)
    assert committed(spark_kafka.bootstrap_servers, topic) == Counter("abcd")


@pytest.mark.parametrize("delivery", ["exactly_once", "exactly_once_per_task"])
def test_a_batch_that_is_played_again_is_not_written_again(
    spark_kafka: ClusterApi, topic: str, sink: dict[str, str], files: Input, delivery: str
) -> None:
    once = {**sink, "delivery": delivery}
    files.add("a", "b", "c")
    files.add("d", "e")
    files.run(once)
    assert committed(spark_kafka.bootstrap_servers, topic) == Counter("abcde")
    assert files.forget_last_commit() == 1
    files.add("f")
    files.run(once)
    assert committed(spark_kafka.bootstrap_servers, topic) == Counter("abcdef")


Counts = Callable[[Input], "DataFrame"]


def counts(files: Input) -> DataFrame:
    return files.stream().groupBy("key").count().selectExpr("key", "concat(key, '=', count) value")


def test_output_mode_complete_writes_the_whole_table_each_time(
    spark_kafka: ClusterApi, topic: str, sink: dict[str, str], files: Input
) -> None:
    files.add("a1", "b1")
    files.add("a2")
    files.run({**sink, "delivery": "exactly_once"}, "complete", counts(files))
    assert committed(spark_kafka.bootstrap_servers, topic) == Counter({"a=1": 1, "b=1": 2, "a=2": 1})


def test_update_mode_in_foreach_batch(
    spark_kafka: ClusterApi, topic: str, sink: dict[str, str], files: Input
) -> None:
    from spark_connector import exactly_once_batches

    def run() -> None:
        batches = exactly_once_batches(f"totals-{topic}", **sink)
        writer = counts(files).writeStream.outputMode("update").foreachBatch(batches)
        writer = writer.option("checkpointLocation", str(files.checkpoint))
        finished(writer.trigger(availableNow=True).start())

    files.add("a1", "b1")
    files.add("a2")
    run()
    assert committed(spark_kafka.bootstrap_servers, topic) == Counter({"a=1": 1, "b=1": 1, "a=2": 1})
    files.forget_last_commit()
    files.add("b2")
    run()
    assert committed(spark_kafka.bootstrap_servers, topic) == Counter(
        {"a=1": 1, "b=1": 1, "a=2": 1, "b=2": 1}
    )


def test_update_mode_outside_foreach_batch_is_rejected(sink: dict[str, str], files: Input) -> None:
    files.add("a1")
    with pytest.raises(Exception, match=r"(?i)update"):
        files.run(sink, "update", counts(files))
