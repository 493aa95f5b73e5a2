"""Offsets by timestamp in a log on disk: found by the time index, without reading whole segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykafka2.broker.handlers.offsets import NOTHING, first_at, latest
from pykafka2.broker.log.disk.real_files import RealFile
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.log.segments import RollLimits
from pykafka2.compression.steps import finish
from pykafka2.errors import InvalidRecord
from pykafka2.records.decoder import HEADERS_AT_ONCE
from pykafka2.records.encoder import BatchBuilder
from tests.broker.log.disk.on_disk import StorageOnDisk
from tests.broker.support.batches import batch, view


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all reads from files."""
    sizes: list[int] = []
    read = RealFile.read

    def counted(self: RealFile, position: int, size: int) -> bytes:
        data = read(self, position, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(RealFile, "read", counted)
    return sizes


def test_offset_by_time_reads_a_part_of_one_segment(
    disk: StorageOnDisk, log: PartitionLog, read_bytes: list[int]
) -> None:
    log.limit_segments(RollLimits(max_bytes=4 << 20))
    for number in range(1200):
        log.append_as_leader(view(batch([b"x" * 8000], timestamp=1000 + number)), 0)
    read_bytes.clear()
    for number in (0, 300, 777, 1199):
        assert finish(first_at(log, 1000 + number))[:2] == (number, 1000 + number)
    assert finish(first_at(log, 3000)) is NOTHING
    assert finish(latest(log))[:2] == (1199, 2199)
    assert sum(read_bytes) < 5 * (1 << 20) + 100_000


@pytest.mark.parametrize("interval", [1, 4096])
def test_offset_by_time_is_the_first_one_if_timestamps_are_out_of_order(
    tmp_path: Path, interval: int
) -> None:
    disk = StorageOnDisk(tmp_path, index_interval=interval)
    log = disk.log()
    log.limit_segments(RollLimits(max_bytes=2000))
    times = [50, 10, 70, 20, 60, 90, 90, 30, 5, 80, 100, 40] * 5
    for number, time in enumerate(times):
        log.append_as_leader(view(batch([b"x" * 100], timestamp=time + number // 12)), 0)
    stamps = [time + number // 12 for number, time in enumerate(times)]
    for _ in range(2):
        for wanted in range(110):
            first = next((number for number, time in enumerate(stamps) if time >= wanted), -1)
            assert finish(first_at(log, wanted)).offset == first
        assert finish(latest(log)).offset == stamps.index(max(stamps))
        log = disk.restart()


def test_latest_record_below_the_log_start_is_not_found(disk: StorageOnDisk, log: PartitionLog) -> None:
    for time in (100, 900, 300):
        log.append_as_leader(view(batch([b"x"], timestamp=time)), 0)
    log.advance_high_watermark(3)
    log.advance_log_start(2)
    assert finish(latest(log))[:2] == (2, 300)


@pytest.mark.parametrize(("wanted", "is_found"), [(1000, True), (1001, False)])
def test_lookup_fails_only_with_a_large_record_that_it_meets(
    disk: StorageOnDisk, log: PartitionLog, wanted: int, is_found: bool
) -> None:
    """The first record has so many headers that decoding it pauses."""
    builder = BatchBuilder("gzip", max_bytes=1 << 30)
    builder.append(1000, None, b"v", [("", b"")] * 3 * HEADERS_AT_ONCE)
    builder.append(1001, None, b"v" * 500_000)
    log.append_as_leader(view(builder.build()), 0)
    steps = first_at(log, wanted, 400_000)
    if is_found:
        assert finish(steps)[:2] == (0, 1000)
    else:
        with pytest.raises(InvalidRecord, match="500008 bytes decompressed"):
            finish(steps)


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_large_records_fail_a_lookup_if_they_are_compressed(
    disk: StorageOnDisk, log: PartitionLog, compression: str
) -> None:
    builder = BatchBuilder(compression, max_bytes=1 << 30)
    builder.append(1000, None, b"v" * 500)
    log.append_as_leader(view(builder.build()), 0)
    for steps in (first_at(log, 1000, 400), latest(log, 400)):
        if compression == "none":
            assert finish(steps)[:2] == (0, 1000)
        else:
            with pytest.raises(InvalidRecord, match="507 bytes decompressed"):
                finish(steps)
