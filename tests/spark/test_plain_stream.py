"""A stream as every version of Spark has it: without limits, by processing time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pykafka2.testing import ClusterApi
from tests.spark.committed import committed
from tests.spark.kafka_data import send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long


def test_stream_continues_where_it_stopped(
    spark: SparkSession, spark_kafka: ClusterApi, options: dict[str, str], topic: str, tmp_path: Path
) -> None:
    servers = {"kafka.bootstrap.servers": options["kafka.bootstrap.servers"]}
    copy = f"{topic}-copy"
    spark_kafka.create_topic(copy, partitions=2)
    for _ in range(2):
        send(spark_kafka, topic, [30, 20])
        stream = spark.readStream.format("pykafka2").options(**options, startingOffsets="earliest").load()
        writer = stream.select("value").writeStream.format("pykafka2")
        query = writer.options(
            **servers, topic=copy, delivery="exactly_once", checkpointLocation=str(tmp_path)
        ).start()
        query.processAllAvailable()
        query.stop()
    # Of each number there are four or two: two partitions, sent twice.
    expected = {f"{number:010}": 4 if number < 20 else 2 for number in range(30)}
    assert committed(servers["kafka.bootstrap.servers"], copy) == expected
