"""Spark with a checkpoint that was rolled back, or whose ledger is lost: the query ends with an error."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pykafka2.testing import ClusterApi
from tests.spark.copies import Copy, all_of, checkpoints_in, finish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    with checkpoints_in(spark, tmp_path):
        yield tmp_path


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
