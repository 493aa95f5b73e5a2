"""OAUTHBEARER in Spark: a provider named by its import path, called once in each process."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pykafka2 import KafkaProducer
from pykafka2.testing import KafkaCluster, Listener
from spark_connector import connections
from tests import token_providers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES, PARTITIONS = 5, 4


@pytest.fixture
def kafka() -> Iterator[KafkaCluster]:
    listeners = {"SASL_PLAINTEXT": Listener(mechanisms=["OAUTHBEARER"])}
    with KafkaCluster(1, {"in": PARTITIONS, "out": PARTITIONS}, listeners=listeners) as cluster:
        yield cluster
    connections.close_all()


@pytest.fixture
def options(kafka: KafkaCluster) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
    }


def send(kafka: KafkaCluster, count: int) -> None:
    with KafkaProducer(**kafka.options_for("alice")) as producer:
        for number in range(count):
            producer.send("in", b"%d" % number, partition=number % PARTITIONS).result(30)


def test_stream_calls_a_provider_once_in_each_process(
    spark: SparkSession, kafka: KafkaCluster, options: dict[str, str], tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    calls.mkdir()
    send(kafka, 100)
    provider = {
        "kafka.oauth_cb": "tests.token_providers:noted",
        "kafka.sasl.oauthbearer.config": f"{calls} {kafka.token('alice')}",
    }
    source = {"subscribe": "in", "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(100 // BATCHES)}
    stream = spark.readStream.format("pykafka2").options(**options, **provider, **source).load()
    writer = stream.select("value").writeStream.format("pykafka2").options(**options, **provider, topic="out")
    query = writer.options(delivery="exactly_once", checkpointLocation=str(tmp_path / "checkpoint"))
    running = query.trigger(availableNow=True).start()
    assert running.awaitTermination(300)
    assert len([batch for batch in running.recentProgress if batch.numInputRows]) == BATCHES
    assert sum(kafka.partition("out", number).high_watermark for number in range(PARTITIONS)) >= 100
    by_process = Counter(token_providers.calls(calls))
    assert by_process
    assert {*by_process.values()} == {1}


def test_batch_read_finds_a_provider_in_a_file_that_was_added(
    spark: SparkSession, kafka: KafkaCluster, options: dict[str, str], tmp_path: Path
) -> None:
    send(kafka, 20)
    module = tmp_path / f"provider_{uuid.uuid4().hex}.py"
    module.write_text(f"def alice():\n    return {kafka.token('alice')!r}\n")
    spark.sparkContext.addPyFile(str(module))
    provider = {"kafka.sasl.oauth.token.provider": f"{module.stem}:alice"}
    frame = spark.read.format("pykafka2").options(**options, **provider, subscribe="in").load()
    assert frame.count() == 20
