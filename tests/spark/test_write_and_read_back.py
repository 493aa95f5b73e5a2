"""Rows go into a topic and come out again, in batches and as a stream, with no registration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The pipeline of examples/ goes the same way in the gate.
pytestmark = pytest.mark.long


def test_a_batch_is_written_and_read(spark: SparkSession, options: dict[str, str], topic: str) -> None:
    rows = spark.range(1000).selectExpr(
        "cast(id % 7 as string) as key", "cast(concat('value ', id) as binary) as value"
    )
    to = {"kafka.bootstrap.servers": options["kafka.bootstrap.servers"], "topic": topic}
    rows.write.format("pykafka2").mode("append").options(**to).save()
    read = spark.read.format("pykafka2").options(**options).load()
    assert read.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    found = read.collect()
    assert {bytes(row.value) for row in found} == {b"value %d" % number for number in range(1000)}
    assert {row.topic for row in found} == {topic}
    assert {row.partition for row in found} == {0, 1}


@pytest.mark.smoke
def test_a_stream_copies_a_topic(
    spark: SparkSession, options: dict[str, str], topic: str, tmp_path: Path
) -> None:
    rows = spark.range(500).selectExpr("cast(id as string) as value")
    to = {"kafka.bootstrap.servers": options["kafka.bootstrap.servers"], "topic": topic}
    rows.write.format("pykafka2").mode("append").options(**to).save()
    source = spark.readStream.format("pykafka2").options(**options, startingOffsets="earliest").load()
    query = (
        source.select("value")
        .writeStream.format("memory")
        .queryName(topic)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(240)
    found = spark.table(topic).collect()
    assert sorted(int(row.value) for row in found) == list(range(500))
