"""Batches that are committed in part, and split into other tasks of equal counts after a restart.

The protocol's tests play this for each delivery (test_replayed_batches.py); here Spark itself splits.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from pykafka2.testing import ClusterApi
from tests.spark.copies import Change, Copy, checkpoints_in, finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 3
SIZES = (100, 50, 50)
"""Records by partition, of batches that the source splits."""


@attrs.frozen
class Split:
    """How a batch is split before and after a restart: settings of Spark, or options of the source.

    by_hash: values by their hash modulo 6, of batches that a shuffle splits; empty if the source does.
    """

    before: Mapping[str, str]
    after: Mapping[str, str]
    by_hash: tuple[int, ...] = ()
    sees_offsets: bool = True


FIXED = {"spark.sql.adaptive.enabled": "false"}
ADAPTIVE = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "7000b",  # of some 145 for each row
}
SPLITS = {
    "minPartitions": Split({}, {"minPartitions": "4"}),
    "minPartitions, unknown offsets": Split({}, {"minPartitions": "4"}, sees_offsets=False),
    "maxRecordsPerPartition": Split({}, {"maxRecordsPerPartition": "50"}),
    "spark.sql.shuffle.partitions": Split(
        {**FIXED, "spark.sql.shuffle.partitions": "3"},
        {**FIXED, "spark.sql.shuffle.partitions": "2"},
        by_hash=(20, 20, 20, 10, 20, 10),
    ),
    "adaptive execution": Split(
        {**FIXED, "spark.sql.shuffle.partitions": "6"},
        {**ADAPTIVE, "spark.sql.shuffle.partitions": "6"},
        by_hash=(20, 20, 20, 60, 60, 60),  # of them 0 and 1 go into one task
    ),
}
"""By option.  Task 1 has as many rows after the restart as before, but other ones."""
CASES = [
    pytest.param(split, id=name, marks=[pytest.mark.long] if name == "minPartitions" else [])
    for name, split in SPLITS.items()
]
"""With unknown offsets, minPartitions stays in the gate."""


def send_by_hash(copy: Copy, counts: tuple[int, ...]) -> list[bytes]:
    """Send values of one size, so many of each hash; return them."""
    values = copy.spark.range(3000).selectExpr("cast(sha2(cast(id as string), 512) as binary) as value")
    by_hash: dict[int, list[bytes]] = defaultdict(list)
    for row in values.selectExpr("value", f"pmod(hash(value), {len(counts)}) as hash").collect():
        by_hash[row.hash].append(bytes(row.value))
    chosen = [value for hash_, count in enumerate(counts) for value in by_hash[hash_][:count]]
    copy.send_values(chosen, [number % PARTITIONS for number in range(len(chosen))])
    return chosen


def send_by_partition(copy: Copy) -> list[bytes]:
    rows = [(number, b"%d/%d" % (number, row)) for number, size in enumerate(SIZES) for row in range(size)]
    copy.send_values([value for _, value in rows], [number for number, _ in rows])
    return [value for _, value in rows]


def shuffled(rows: DataFrame) -> DataFrame:
    return rows.repartition("value")


def only_task_1(rows: DataFrame, servers: str, output: str, shuffles: bool) -> DataFrame:
    """Let all tasks fail but task 1, after that one has committed."""
    from pyspark.sql.functions import udf

    def apply(value: bytes) -> bytes:
        from pyspark import TaskContext

        from pykafka2 import KafkaConsumer, TopicPartition

        context = TaskContext.get()
        if context is not None and context.partitionId() == 1:
            return value
        places = [TopicPartition(output, number) for number in range(PARTITIONS)]
        with KafkaConsumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
            until = time.monotonic() + 120
            while not sum(consumer.end_offsets(places).values()) and time.monotonic() < until:
                time.sleep(0.05)
        raise ValueError("this task fails")

    if shuffles:
        rows = shuffled(rows)
    return rows.withColumn("value", udf(apply, "binary", useArrow=False)("value"))


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    with checkpoints_in(spark, tmp_path):
        yield tmp_path


@pytest.mark.parametrize("split", CASES)
def test_batch_committed_in_part_and_split_into_equal_counts_loses_and_repeats_nothing(
    spark: SparkSession, spark_kafka: ClusterApi, folder: Path, split: Split
) -> None:
    copy = Copy(
        spark, spark_kafka, folder, "exactly_once_per_task", split.sees_offsets, partitions=PARTITIONS
    )
    shuffles = bool(split.by_hash)
    values = send_by_hash(copy, split.by_hash) if shuffles else send_by_partition(copy)
    fails = partial(only_task_1, servers=spark_kafka.bootstrap_servers, output=copy.output, shuffles=shuffles)

    def run(options: Mapping[str, str], change: Change | None) -> str:
        conf = {name: value for name, value in options.items() if name.startswith("spark.")}
        more = {name: value for name, value in options.items() if name not in conf}
        (error,) = finish(copy.start(change, conf, **more))
        return error

    again: Change | None = shuffled if shuffles else None
    assert "this task fails" in run(split.before, fails)
    of_task_1 = copy.written()
    assert 0 < of_task_1.total() < len(values)
    error = run(split.after, again)
    assert "CheckpointBehind" in error
    assert re.search(r"task 1 has \d+ rows as before, with other keys or values", error)
    assert copy.written(waits=False) == of_task_1
    assert run(split.before, again) == ""
    assert copy.written() == Counter(value.decode() for value in values)
