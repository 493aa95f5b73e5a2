"""Streams through Spark itself: checkpoints, restarts, triggers, progress."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.testing import ClusterApi
from spark_connector import OffsetsBehindLatest, OffsetsBehindLatestListener, QueryLag, query_lag
from tests.spark.kafka_data import groups, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


class Query:
    """A query that is started and ended again and again; its rows go to files, by Spark's own sink."""

    def __init__(self, spark: SparkSession, options: dict[str, str], where: Path) -> None:
        self._spark, self._options, self._where = spark, options, where
        self.checkpoint = where / "checkpoint"

    def run(self, *, once: bool = False, into: str = "rows", **more: str) -> StreamingQuery:
        """All that is there now, in as many batches as the options say."""
        source = self._spark.readStream.format("pykafka2").options(**{**self._options, **more}).load()
        chosen = source.selectExpr("cast(value as string) as value", "partition", "offset")
        writer = chosen.writeStream.format("json").option("checkpointLocation", str(self.checkpoint))
        trigger: dict[str, Any] = {"once": True} if once else {"availableNow": True}
        query = writer.trigger(**trigger).start(str(self._where / into))
        assert query.awaitTermination(400)
        return query

    def rows(self, into: str = "rows") -> list[tuple[int, int]]:
        """Partition and offset of each row that was written; read without Spark, which wants all batches."""
        files = (self._where / into).glob("part-*.json")
        lines = [line for path in files for line in path.read_text().splitlines()]
        return sorted((row["partition"], row["offset"]) for row in map(json.loads, lines))

    def logged(self, batch: int) -> dict[str, dict[str, int]]:
        lines = (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()
        return json.loads(lines[2])  # type: ignore[no-any-return]

    def log(self, batch: int, offsets: str) -> None:
        """Write offsets into the checkpoint as Spark would."""
        path = self.checkpoint / "offsets" / str(batch)
        lines = path.read_text().splitlines()
        path.write_text("\n".join([*lines[:2], offsets]))
        path.with_name(f".{batch}.crc").unlink(missing_ok=True)

    def forget_end_of(self, batch: int) -> None:
        """Stop as if Spark had died before it wrote that the batch is done."""
        (self.checkpoint / "commits" / str(batch)).unlink()
        (self.checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


@pytest.fixture
def query(spark: SparkSession, options: dict[str, str], tmp_path: Path) -> Query:
    return Query(spark, options, tmp_path)


def every(*counts: int) -> list[tuple[int, int]]:
    return [(number, offset) for number, count in enumerate(counts) for offset in range(count)]


@pytest.mark.long
def test_a_restart_repeats_and_loses_nothing(
    query: Query, spark_kafka: ClusterApi, options: dict[str, str]
) -> None:
    topic = options["subscribe"]
    send(spark_kafka, topic, [30, 10])
    first = query.run(startingOffsets="earliest", maxOffsetsPerTrigger="20")
    assert [one.numInputRows for one in first.recentProgress] == [0, 20, 20]
    assert query.logged(0) == {topic: {"0": 0, "1": 0}}
    assert query.rows() == every(30, 10)
    send(spark_kafka, topic, [5, 5])
    second = query.run(maxOffsetsPerTrigger="1000")
    assert query.rows() == every(35, 15)
    (progress,) = [one for one in second.recentProgress if one.numInputRows]
    assert json.loads(progress.sources[0].latestOffset) == {topic: {"0": 35, "1": 15}}


@pytest.mark.long
def test_a_first_batch_that_is_played_again_begins_where_it_began(
    query: Query, spark_kafka: ClusterApi, options: dict[str, str]
) -> None:
    topic = options["subscribe"]
    send(spark_kafka, topic, [10, 10])
    query.run()
    assert query.logged(0) == {topic: {"0": 10, "1": 10}}
    query.forget_end_of(0)
    send(spark_kafka, topic, [7, 3])
    query.run()
    assert query.rows() == [*((0, one) for one in range(10, 17)), *((1, one) for one in range(10, 13))]


@pytest.mark.long
def test_checkpoint_of_sparks_own_connector_is_resumed(
    query: Query, spark_kafka: ClusterApi, options: dict[str, str]
) -> None:
    topic = options["subscribe"]
    send(spark_kafka, topic, [10, 10])
    query.run(startingOffsets="earliest")
    query.log(1, f'{{"{topic}":{{"1":4,"0":7}}}}')
    query.run(into="more")
    assert query.rows("more") == [*((0, one) for one in range(7, 10)), *((1, one) for one in range(4, 10))]


@pytest.mark.long
def test_trigger_once_reads_everything_at_its_first_run_and_continues(
    query: Query, spark_kafka: ClusterApi, options: dict[str, str]
) -> None:
    send(spark_kafka, options["subscribe"], [10, 10])
    query.run(once=True, startingOffsets="earliest", maxOffsetsPerTrigger="5")
    assert query.rows() == every(10, 10)
    send(spark_kafka, options["subscribe"], [1])
    query.run(once=True)
    assert query.rows() == every(11, 10)


@pytest.mark.long
def test_a_loss_ends_the_query(query: Query, spark_kafka: ClusterApi, options: dict[str, str]) -> None:
    topic = options["subscribe"]
    send(spark_kafka, topic, [10, 10])
    query.run(startingOffsets="earliest")
    spark_kafka.delete_topic(topic)
    spark_kafka.create_topic(topic, partitions=2)
    with pytest.raises(Exception, match="was truncated from offset 10 to 0"):  # pyspark's, with ours in it
        query.run()
    send(spark_kafka, topic, [2, 1])
    query.run(failOnDataLoss="false")  # takes the new ends for its own
    send(spark_kafka, topic, [1])
    query.run(failOnDataLoss="false")
    assert query.rows() == sorted([*every(10, 10), (0, 2)])


def test_option_of_batches_fails_a_stream_before_its_first_micro_batch(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    """Spark calls the source after start() has returned, so the error is the query's."""
    stream = spark.readStream.format("pykafka2").options(**options, endingOffsets="latest").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).start()
    with pytest.raises(Exception, match="endingOffsets is an option of batch queries"):
        query.awaitTermination(240)
    assert query.recentProgress == []


def test_listener_reports_offsets_behind_latest_after_each_micro_batch(
    spark: SparkSession, query: Query, spark_kafka: ClusterApi, options: dict[str, str]
) -> None:
    send(spark_kafka, options["subscribe"], [30, 10])
    lags: list[QueryLag] = []
    listener = OffsetsBehindLatestListener(lags.append)
    spark.streams.addListener(listener)
    try:
        run = query.run(startingOffsets="earliest", maxOffsetsPerTrigger="20")
        spark_kafka.wait_until(lambda: len(lags) == 3)
    finally:
        spark.streams.removeListener(listener)
    assert {one.query_id for one in lags} == {run.id}
    assert [one.batch_id for one in lags] == [0, 1, 2]
    assert [one.sources for one in lags] == [
        (OffsetsBehindLatest(min=10, max=30, avg=20.0),),
        (OffsetsBehindLatest(min=5, max=15, avg=10.0),),
        (OffsetsBehindLatest(min=0, max=0, avg=0.0),),
    ]
    assert run.lastProgress is not None
    assert query_lag(run.lastProgress) == lags[-1]


def test_two_streams_leave_no_group(
    spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str], tmp_path: Path
) -> None:
    send(spark_kafka, options["subscribe"], [5, 5])
    before = groups(spark_kafka)
    for name in ("first", "second"):
        query = Query(spark, {**options, "groupIdPrefix": name}, tmp_path / name)
        query.run(startingOffsets="earliest")
        assert query.rows() == every(5, 5)
    assert groups(spark_kafka) == before


def test_commit_to_group_has_the_end_of_the_last_batch(
    spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str], topic: str, tmp_path: Path
) -> None:
    send(spark_kafka, topic, [30, 20])
    group = f"group-{topic}"
    stream = spark.readStream.format("pykafka2").options(**options, commitToGroup=group)
    stream = stream.options(startingOffsets="earliest", maxOffsetsPerTrigger="20")
    query = (
        stream.load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    with KafkaAdminClient(bootstrap_servers=spark_kafka.bootstrap_servers) as admin:
        committed = admin.list_group_offsets(group)
    assert {place.partition: found.offset for place, found in committed.items()} == {0: 30, 1: 20}


def test_real_time_mode_is_refused_with_the_errors_that_the_guide_quotes(
    spark: SparkSession, options: dict[str, str], tmp_path: Path
) -> None:
    stream = spark.readStream.format("pykafka2").options(**options).load().select("value")
    servers = {"kafka.bootstrap.servers": options["kafka.bootstrap.servers"]}
    sinks = {
        "OPERATOR_OR_SINK_NOT_IN_ALLOWLIST": stream.writeStream.format("pykafka2").options(
            **servers, topic=options["subscribe"]
        ),
        "INPUT_STREAM_NOT_SUPPORTED": stream.writeStream.format("console"),
    }
    for condition, writer in sinks.items():
        query = writer.outputMode("update").option("checkpointLocation", str(tmp_path / condition))
        with pytest.raises(Exception, match=rf"STREAMING_REAL_TIME_MODE\.{condition}"):
            query.trigger(realTime="5 seconds").start().awaitTermination(240)
