"""Spark with a torn entry in its log of offsets, or of commits: the steps of the guide repair it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest

from pykafka2.testing import ClusterApi
from tests.spark.copies import Copy, all_of, finish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@attrs.frozen
class Tear:
    """An entry of which only a part was written.  answer: of Spark.

    is_first: it is that of batch 0.  log: that has it.
    """

    part: Callable[[bytes], bytes]
    answer: str
    delivery: str
    is_first: bool = False
    log: str = "offsets"


def two_lines(entry: bytes) -> bytes:
    return b"\n".join(entry.split(b"\n")[:2])


TEARS = [
    Tear(lambda entry: b"", "Incomplete log file", "at_least_once"),
    Tear(lambda entry: entry[:40], "Unexpected end-of-input", "exactly_once"),
    Tear(two_lines, "[0] sources in the checkpoint", "exactly_once_per_task"),
    Tear(lambda entry: entry[:-9], "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR", "exactly_once"),
    Tear(lambda entry: b"", "Incomplete log file", "exactly_once", is_first=True),
    Tear(lambda entry: entry[:-9], "PYTHON_STREAMING_DATA", "at_least_once", is_first=True),
    Tear(lambda entry: b"", "Incomplete log file in the offset commit log", "exactly_once", log="commits"),
]


def run(copies: list[Copy]) -> list[str]:
    return finish(*[copy.start() for copy in copies])


def tear(copy: Copy, how: Tear) -> int:
    """Leave a torn entry of the next batch, of the first, or of a commit; return its number."""
    last = copy.entries(how.log)[-1]
    entry = (copy.checkpoint / how.log / str(last)).read_bytes()
    if how.is_first:
        assert last == 0
        copy.remove("offsets", 0)
        copy.remove("commits", 0)
    number = last if how.is_first or how.log == "commits" else last + 1
    copy.remove(how.log, number)
    (copy.checkpoint / how.log / str(number)).write_bytes(how.part(entry))
    return number


def test_query_with_a_torn_entry_continues_without_it_and_loses_and_repeats_nothing(
    spark: SparkSession, spark_kafka: ClusterApi, tmp_path: Path
) -> None:
    copies = [Copy(spark, spark_kafka, tmp_path, one.delivery) for one in TEARS]
    for copy, how in zip(copies, TEARS, strict=True):
        if not how.is_first:
            copy.send(20)
    assert run(copies) == [""] * len(copies)
    torn = [tear(copy, how) for copy, how in zip(copies, TEARS, strict=True)]
    for copy in copies:
        copy.send(10)
    for error, how in zip(run(copies), TEARS, strict=True):
        assert how.answer in error
    for copy, how, number in zip(copies, TEARS, torn, strict=True):
        copy.remove(how.log, number)
    assert run(copies) == [""] * len(copies)
    assert [copy.written() for copy in copies] == [all_of(copy.sent) for copy in copies]


@pytest.mark.long
def test_lost_entry_of_a_batch_that_ran_needs_a_copy_of_it(
    spark: SparkSession, spark_kafka: ClusterApi, tmp_path: Path
) -> None:
    """Play a power failure: Kafka has more than the file system kept."""
    deliveries = ("at_least_once", "exactly_once", "exactly_once_per_task")
    copies = [Copy(spark, spark_kafka, tmp_path, delivery) for delivery in deliveries]
    for copy in copies:
        copy.send(20)
    assert run(copies) == [""] * 3
    entries = [copy.checkpoint / "offsets" / str(copy.entries("offsets")[-1]) for copy in copies]
    for copy, entry in zip(copies, entries, strict=True):
        shutil.copy(entry, tmp_path / f"{copy.name}-entry")
        copy.remove("offsets", int(entry.name))
        copy.remove("commits", int(entry.name))
        copy.send(10)
    repeated, *behind = run(copies)
    assert repeated == ""
    assert copies[0].written() == all_of(30) + all_of(20)
    assert ["CheckpointBehind" in error for error in behind] == [True, True]
    assert [copy.written(waits=False) for copy in copies[1:]] == [all_of(20)] * 2
    for copy, entry in zip(copies[1:], entries[1:], strict=True):
        shutil.copy(tmp_path / f"{copy.name}-entry", entry)
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
    assert run(copies[1:]) == ["", ""]
    assert [copy.written() for copy in copies[1:]] == [all_of(30)] * 2
