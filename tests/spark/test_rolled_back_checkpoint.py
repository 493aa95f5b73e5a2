"""Spark with a checkpoint that was rolled back, or whose ledger is lost: the query ends with an error."""

from __future__ import annotations

import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer
from pykafka2.testing import ClusterApi
from tests.spark.committed import committed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

Change = Callable[[int, bytes], bytes]

SIZES = {0: 100, 1: 50, 2: 50}
"""Records by partition."""
ROLLBACK_CONF = "spark.sql.streaming.checkpointLocation"


@attrs.define
class Copy:
    """A query that copies a topic to another one."""

    spark: SparkSession
    cluster: ClusterApi
    folder: Path
    delivery: str
    sees_offsets: bool
    """Whether the sink knows the checkpoint's location."""
    name: str = attrs.field(factory=lambda: f"copy{uuid.uuid4().hex[:8]}")
    sent: int = 0
    partitions: int = 2

    def __attrs_post_init__(self) -> None:
        for topic in (self.name, self.output):
            self.cluster.create_topic(topic, partitions=self.partitions)

    @property
    def output(self) -> str:
        return f"{self.name}-out"

    @property
    def checkpoint(self) -> Path:
        return self.folder / self.name

    def send(self, count: int) -> None:
        values = [b"%d" % number for number in range(self.sent, self.sent + count)]
        self.sent += count
        with KafkaProducer(bootstrap_servers=self.cluster.bootstrap_servers) as producer:
            producer.send_many(self.name, values, partitions=[0, 1] * (count // 2)).result(30)

    def start(self, change: Change | None = None, **more: str) -> StreamingQuery:
        """Run to the end of the topic, in one micro-batch.

        change: of partition and value, to the value.  more: options of the source.
        """
        from pyspark.sql.functions import udf
        from pyspark.sql.types import BinaryType

        servers = {"kafka.bootstrap.servers": self.cluster.bootstrap_servers}
        read = self.spark.readStream.format("pykafka2").options(**servers, subscribe=self.name, **more)
        rows = read.option("startingOffsets", "earliest").load().select("value", "partition")
        if change is not None:
            rows = rows.withColumn("value", udf(change, BinaryType(), useArrow=False)("partition", "value"))
        rows = rows.select("value")
        writer = (
            rows.writeStream.format("pykafka2").queryName(self.name).options(**servers, topic=self.output)
        )
        writer = writer.option("delivery", self.delivery).option("ledgerTopic", f"{self.name}-ledger")
        if self.sees_offsets:
            writer = writer.option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(availableNow=True).start()

    def roll_back(self, batches: int, of: Path) -> None:
        """Put back a copy of the checkpoint, without the last batches."""
        shutil.rmtree(self.checkpoint)
        shutil.copytree(of, self.checkpoint)
        numbers = sorted(int(one.name) for one in (of / "offsets").iterdir() if one.name.isdecimal())
        for number in numbers[-batches:]:
            for log in ("offsets", "commits"):
                (self.checkpoint / log / str(number)).unlink(missing_ok=True)
                (self.checkpoint / log / f".{number}.crc").unlink(missing_ok=True)

    def forget_commit(self) -> None:
        """Leave what a kill leaves just before Spark notes the last batch."""
        commits = self.checkpoint / "commits"
        last = max(int(one.name) for one in commits.iterdir() if one.name.isdecimal())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)

    def lose_ledger(self) -> None:
        with KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
            admin.delete_topics([f"{self.name}-ledger"])

    def written(self) -> Counter[str]:
        return committed(self.cluster.bootstrap_servers, self.output)


def all_of(count: int) -> Counter[str]:
    return Counter(str(number) for number in range(count))


def finish(*queries: StreamingQuery) -> list[str]:
    """Wait for the queries; their errors."""
    errors = []
    for query in queries:
        try:
            assert query.awaitTermination(120)
            errors.append("")
        except Exception as error:
            errors.append(str(error))
    return errors


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """Location of the checkpoints; from the session's configuration, for sinks that do not get it."""
    before = spark.conf.get(ROLLBACK_CONF, None)
    spark.conf.set(ROLLBACK_CONF, str(tmp_path))
    yield tmp_path
    if before is None:
        spark.conf.unset(ROLLBACK_CONF)
    else:
        spark.conf.set(ROLLBACK_CONF, before)


def two_copies(spark: SparkSession, cluster: ClusterApi, folder: Path) -> list[Copy]:
    return [
        Copy(spark, cluster, folder, "exactly_once", sees_offsets=True),
        Copy(spark, cluster, folder, "exactly_once_per_task", sees_offsets=False),
    ]


def test_checkpoint_rolled_back_by_one_or_two_batches_ends_the_query_and_loses_nothing(
    spark: SparkSession, spark_kafka: ClusterApi, folder: Path
) -> None:
    copies = two_copies(spark, spark_kafka, folder)
    for count in (20, 10):
        for copy in copies:
            copy.send(count)
        assert finish(*[copy.start() for copy in copies]) == ["", ""]
    good = [Path(shutil.copytree(copy.checkpoint, folder / f"good-{copy.name}")) for copy in copies]
    for copy in copies:
        copy.send(14)
    for batches, words in {
        1: ["other source offsets", "task 0 had 5 rows and has 12 rows now"],
        2: ["is older than batch", "is older than batch"],
    }.items():
        for copy, backup in zip(copies, good, strict=True):
            copy.roll_back(batches, backup)
        errors = finish(*[copy.start() for copy in copies])
        for error, word in zip(errors, words, strict=True):
            assert "CheckpointBehind" in error
            assert word in error
        assert [copy.written() for copy in copies] == [all_of(30), all_of(30)]

    for copy, backup in zip(copies, good, strict=True):  # as the errors say
        shutil.rmtree(copy.checkpoint)
        shutil.copytree(backup, copy.checkpoint)
    copies[1].lose_ledger()
    fine, lost = finish(*[copy.start() for copy in copies])
    assert fine == ""
    assert "LedgerBehind" in lost
    assert [copy.written() for copy in copies] == [all_of(44), all_of(30)]


@pytest.mark.long
def test_batch_that_spark_did_not_note_is_replayed_in_other_tasks_without_an_error(
    spark: SparkSession, spark_kafka: ClusterApi, folder: Path
) -> None:
    copies = two_copies(spark, spark_kafka, folder)
    for count, more in ((20, {}), (10, {"minPartitions": "6"}), (4, {"minPartitions": "3"})):
        for copy in copies:
            copy.send(count)
            if more:
                copy.forget_commit()
        assert finish(*[copy.start(**more) for copy in copies]) == ["", ""]
    assert [copy.written() for copy in copies] == [all_of(34), all_of(34)]


def only_partition_1(servers: str, output: str) -> Change:
    """Return a function that fails in other tasks, once that of partition 1 has committed."""

    def apply(partition: int, value: bytes) -> bytes:
        from pykafka2 import KafkaConsumer, TopicPartition

        if partition == 1:
            return value
        places = [TopicPartition(output, number) for number in range(3)]
        with KafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
            until = time.monotonic() + 120
            while sum(consumer.end_offsets(places).values()) < SIZES[1] and time.monotonic() < until:
                time.sleep(0.05)
        raise ValueError("this task fails")

    return apply


@pytest.mark.parametrize("sees_offsets", [True, False], ids=["known offsets", "unknown offsets"])
def test_batch_committed_in_part_and_split_by_min_partitions_loses_and_repeats_nothing(
    spark: SparkSession, spark_kafka: ClusterApi, folder: Path, sees_offsets: bool
) -> None:
    copy = Copy(spark, spark_kafka, folder, "exactly_once_per_task", sees_offsets, partitions=3)
    values = {number: [b"%d/%d" % (number, row) for row in range(count)] for number, count in SIZES.items()}
    with KafkaProducer(bootstrap_servers=spark_kafka.bootstrap_servers) as producer:
        for number, own in values.items():
            producer.send_many(copy.name, own, partitions=[number] * len(own)).result(30)
    of_1 = Counter(value.decode() for value in values[1])
    (error,) = finish(copy.start(change=only_partition_1(spark_kafka.bootstrap_servers, copy.output)))
    assert "this task fails" in error
    assert copy.written() == of_1
    (error,) = finish(copy.start(minPartitions="4"))
    assert "CheckpointBehind" in error
    assert copy.written() == of_1
    assert finish(copy.start()) == [""]
    assert copy.written() == Counter(value.decode() for own in values.values() for value in own)
