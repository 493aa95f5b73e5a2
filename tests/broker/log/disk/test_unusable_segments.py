"""Segments that recovery does not use, of old formats or after lost offsets: none of them is deleted."""

from __future__ import annotations

import logging
import struct
from pathlib import Path
from zlib import crc32

import pytest

from pykafka2.broker.log.segments import RollLimits
from pykafka2.errors import ConfigurationError
from tests.broker.log.disk.on_disk import StorageOnDisk, append, bases, held


def message(offset: int, magic: int, value: bytes = b"old") -> bytes:
    """Return a message of Kafka before 0.11, without a key."""
    timestamp = struct.pack(">q", 1000) if magic else b""
    body = (
        struct.pack(">bb", magic, 0)
        + timestamp
        + struct.pack(">i", -1)
        + struct.pack(">i", len(value))
        + value
    )
    return struct.pack(">qiI", offset, len(body) + 4, crc32(body)) + body


def files_in(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in path.iterdir()}


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("magic", [0, 1])
def test_segment_of_an_old_format_is_refused_and_left_as_it_is(
    disk: StorageOnDisk, magic: int, is_clean: bool
) -> None:
    disk.log()
    disk.stop(is_clean=is_clean)
    segment = disk.path / "t-0/00000000000000000000.log"
    segment.write_bytes(b"".join(message(number, magic) for number in range(3)))
    before = files_in(disk.path / "t-0")
    with pytest.raises(
        ConfigurationError, match=rf"{segment} has messages of the format v{magic}.*Delete the"
    ):
        disk.start()
    assert files_in(disk.path / "t-0") == before


def test_old_message_after_a_batch_is_refused_and_not_cut_off(disk: StorageOnDisk) -> None:
    append(disk.log(), b"new")
    disk.stop(is_clean=False)
    segment = disk.path / "t-0/00000000000000000000.log"
    content = segment.read_bytes() + message(1, 1, b"x" * 100)
    segment.write_bytes(content)
    with pytest.raises(ConfigurationError, match="at position"):
        disk.start()
    assert segment.read_bytes() == content


@pytest.mark.parametrize(
    "tail",
    [
        bytes(200),
        message(1, 1)[:-1],
        message(1, 0).replace(b"old", b"odd"),
        struct.pack(">qiIb", 1, 2**31 - 1, 0, 0),
        b"\xff" * 17,
    ],
    ids=["zeros", "torn", "damaged", "long", "noise"],
)
def test_damage_unlike_an_old_message_is_cut_off(disk: StorageOnDisk, tail: bytes) -> None:
    append(disk.log(), b"new")
    disk.stop(is_clean=False)
    segment = disk.path / "t-0/00000000000000000000.log"
    content = segment.read_bytes()
    segment.write_bytes(content + tail)
    disk.start()
    assert segment.read_bytes() == content


@pytest.mark.parametrize("times", [1, 2])
def test_segments_after_lost_offsets_are_renamed_with_an_error_in_the_log(
    disk: StorageOnDisk, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    for _ in range(times):
        log = disk.log()
        log.limit_segments(RollLimits(max_bytes=300))
        while len(log.segments) < 4:
            append(log, b"x" * 20)
        starts = bases(log)
        first = next(iter(log.batches()))
        disk.stop(is_clean=False)
        (disk.path / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
        segments = [disk.path / f"t-0/{base:020d}.log" for base in starts]
        # The file ends with a whole batch, as after a crash that has lost its last pages and its size.
        segments[0].write_bytes(segments[0].read_bytes()[: first.size_bytes])
        later = [segment.read_bytes() for segment in segments[1:]]
        with caplog.at_level(logging.ERROR):
            disk.start()
        assert disk.log().log_end_offset == 1
    assert f"Offsets 1 to {starts[1] - 1} of {disk.path}/t-0 are lost" in caplog.text
    assert caplog.records[-1].getMessage().endswith(f"NNN.log.lost: {', '.join(map(str, starts[1:]))}")
    ending = ".lost" * times
    assert [Path(f"{segment}{ending}").read_bytes() for segment in segments[1:]] == later
    assert not any(segment.exists() for segment in segments[1:])
    append(disk.log(), b"next")
    assert len(held(disk.restart(is_clean=False))) == 2
