"""The whole way once on Apache Kafka: written once, copied once by a stream, read by others and by Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pykafka2 import KafkaAdminClient, NewTopic
from tests.conformance.maven import jars_or_skip
from tests.conformance.real_kafka import RealKafka
from tests.spark.committed import committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS = ["orders", "copies"]
ROWS = 500
VALUES = Counter({f"value {number}": 1 for number in range(ROWS)})


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with RealKafka(jars_or_skip()).start() as kafka:
        servers = kafka.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(name, partitions=2) for name in TOPICS])
            admin.wait_for_topics(TOPICS)
        yield servers


@pytest.mark.real_kafka
def test_rows_are_written_copied_and_read_exactly_once(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    kafka = {"kafka.bootstrap.servers": servers}
    once = {**kafka, "delivery": "exactly_once"}
    rows = spark.range(ROWS).selectExpr("cast(id as string) as key", "concat('value ', id) as value")
    rows.write.format("pykafka2").mode("append").options(**once, topic="orders").save()
    assert committed(servers, "orders") == VALUES

    source = {**kafka, "subscribe": "orders", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "300"}
    query = (
        spark.readStream.format("pykafka2")
        .options(**source)
        .load()
        .select("key", "value")
        .writeStream.format("pykafka2")
        .options(**once, topic="copies", checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    assert len([one for one in query.recentProgress if one["numInputRows"]]) > 1
    assert committed(servers, "copies") == VALUES

    read = spark.read.format("pykafka2").options(**kafka, subscribe="copies").load()
    found = Counter(bytes(row.value).decode() for row in read.select("value").collect())
    assert found == VALUES
