"""Each library of each codec: they read each other's output, keep the cap, and report damage alike."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import tracemalloc
from importlib import import_module
from itertools import pairwise
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2 import KafkaProducer
from pykafka2.compression import codec, libraries, lz4_frames, zstd
from pykafka2.compression.steps import STEP_BYTES
from pykafka2.errors import CodecUnavailable, ConfigurationError, CorruptData

from .using import CASES, by_each_library, using

TEXT = b"".join(b'{"order": %d, "customer": %d}\n' % (n, n * 7919 % 1000) for n in range(6000))
NOISE = random.Random(1).randbytes(100_000)
MIXED = TEXT + NOISE + TEXT[:70_000]  # the blocks in the middle do not become smaller

OTHERS = [(name, package) for name, package in CASES if package != next(iter(libraries.CANDIDATES[name]))]
"""The libraries that are not the preferred one of their codec; test_codecs.py tests that one."""

PAYLOADS = st.binary(max_size=300) | st.builds(
    lambda piece, times: piece * times, st.binary(max_size=50), st.integers(0, 5000)
)
LZ4_FRAMES = st.fixed_dictionaries(
    {
        "block_linked": st.booleans(),
        "block_checksum": st.booleans(),
        "content_checksum": st.booleans(),
        "store_size": st.booleans(),
        "block_size": st.sampled_from([4, 5, 6, 7]),
        "compression_level": st.sampled_from([-5, 0, 3, 9]),
    }
)


# ---------------------------------------------------------------------------------------------------
# Round trips
# ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), CASES)
@given(PAYLOADS)
def test_each_library_reads_the_output_of_each_library(name: str, package: str, data: bytes) -> None:
    written = by_each_library(name, data)
    with using(name, package) as found:
        for compressed in written.values():
            assert found.decompress(compressed, len(data)) == data
            assert found.decompress(memoryview(bytearray(compressed * 2))) == data * 2


@pytest.mark.parametrize(("name", "package"), CASES)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_each_library_takes_any_buffer(name: str, package: str, kind: type[bytes]) -> None:
    with using(name, package) as found:
        compressed = found.compress(kind(TEXT))
        assert type(compressed) is bytes
        decompressed = found.decompress(kind(compressed))
        assert type(decompressed) is bytes
        assert decompressed == TEXT


@pytest.mark.parametrize(("name", "package"), CASES)
def test_each_library_reads_large_and_incompressible_data(name: str, package: str) -> None:
    for compressed in by_each_library(name, MIXED).values():
        with using(name, package) as found:
            assert found.decompress(compressed) == MIXED


@pytest.mark.parametrize(("name", "package"), [case for case in CASES if case[0] != "snappy"])
def test_each_library_honours_the_level(name: str, package: str) -> None:
    low, high = {"gzip": (1, 9), "lz4": (9, 12), "zstd": (-50, 12)}[name]
    with using(name, package) as found:
        assert len(found.compress(TEXT, high)) < len(found.compress(TEXT, low))
        with pytest.raises(ConfigurationError):
            found.compress(TEXT, 1000)


@pytest.mark.gate
@pytest.mark.parametrize("level", [None, 1, 9, 10, 12, 17])
def test_both_lz4_libraries_write_the_same_size_at_each_level(lz4: Any, level: int | None) -> None:
    """The same LZ4 inside, so sizes differ only if one of them lags behind the other's version."""
    ours, theirs = (len(by_each_library("lz4", MIXED, level)[package]) for package in ("cramjam", "lz4"))
    assert ours == pytest.approx(theirs, rel=0.05)


@pytest.mark.gate
@pytest.mark.parametrize("package", libraries.CANDIDATES["lz4"])
def test_lz4_levels_are_kafkas(package: str) -> None:
    """Kafka's default 9 is the fast compressor; 1 to 3 and 12 to 17 do not differ."""
    data = TEXT * 2
    with using("lz4", package) as found:
        made = {level: found.compress(data, level) for level in (None, 1, 3, 8, 9, 10, 11, 12, 17)}
    assert made[9] == made[None]
    assert made[1] == made[3]
    assert made[17] == made[12] != made[11] != made[10]
    assert all(len(made[level]) < len(made[9]) for level in (1, 8, 10, 12))


@pytest.mark.parametrize("package", libraries.CANDIDATES["zstd"])
def test_zstd_default_level_is_kafkas(package: str) -> None:
    with using("zstd", package) as found:
        assert found.compress(TEXT) == found.compress(TEXT, 3) != found.compress(TEXT, 1)


@pytest.mark.parametrize("package", [one for one in libraries.CANDIDATES["zstd"] if one != "cramjam"])
def test_zstd_context_is_kept_for_its_package_and_level_up_to_9(package: str) -> None:
    with using("zstd", package):
        module = libraries.library("zstd").module
    kept = zstd._compressor(package, module, 9)
    assert zstd._compressor(package, module, 9) is kept
    assert zstd._compressor("another", module, 9) is not kept
    assert zstd._compressor("another", module, 3) is not zstd._compressor("another", module, 9)
    assert zstd._compressor(package, module, 10) is not zstd._compressor(package, module, 10)


# ---------------------------------------------------------------------------------------------------
# LZ4 frames with cramjam
# ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lz4() -> Any:
    """The package lz4; a test of cramjam against it is skipped without it."""
    return pytest.importorskip("lz4.frame")


@pytest.mark.parametrize("data", [b"", b"a", TEXT, MIXED])
@pytest.mark.parametrize("level", [None, 1, 12])
def test_cramjams_lz4_frames_are_as_java_writes_them(lz4: Any, data: bytes, level: int | None) -> None:
    with using("lz4", "cramjam") as found:
        frame = found.compress(data, level)
    assert frame[:7] == b"\x04\x22\x4d\x18\x60\x40\x82"  # independent blocks of 64 KiB, no checksums, no size
    assert frame[-4:] == bytes(4)
    position, blocks = 7, []
    while size := int.from_bytes(frame[position : position + 4], "little"):
        blocks.append(bool(size & 0x80000000))
        position += 4 + (size & 0x7FFFFFFF)
    assert position + 4 == len(frame)
    assert len(blocks) == -(-len(data) // (64 << 10))
    assert any(blocks) == (data in (b"a", MIXED))  # an uncompressed block where compression does not help
    assert lz4.decompress(frame) == data


@pytest.mark.slow
@given(LZ4_FRAMES, PAYLOADS, st.integers(0, 2000))
def test_cramjam_reads_lz4_frames_of_every_kind(
    lz4: Any, settings: dict[str, Any], data: bytes, noise: int
) -> None:
    data = data * 3 + NOISE[:noise] + data
    user_data = b"\x5e\x2a\x4d\x18\x03\0\0\0abc"  # a skippable frame
    frame = lz4.compress(data, **settings)
    with using("lz4", "cramjam") as found:
        assert found.decompress(frame, len(data)) == data
        assert found.decompress(frame + user_data + frame) == data * 2


@pytest.mark.parametrize("block_size", [4, 7])
def test_cramjam_reads_linked_blocks(lz4: Any, block_size: int) -> None:
    data = MIXED * 30  # more than one block of 4 MiB
    frame = lz4.compress(data, block_linked=True, block_size=block_size)
    with using("lz4", "cramjam") as found:
        assert found.decompress(frame) == data


def test_cramjam_reads_a_linked_block_that_repeats_an_uncompressed_one(lz4: Any) -> None:
    data = NOISE[: 64 << 10] + NOISE[1000:41_000]
    frame = lz4.compress(data, block_linked=True, block_size=4, store_size=False)
    assert frame[7:11] == b"\0\0\1\x80"  # the first block is not compressed
    assert len(frame) < 80_000  # the second one consists of matches in the first
    with using("lz4", "cramjam") as found:
        assert found.decompress(frame) == data


def test_cramjam_reports_a_linked_block_that_reaches_into_the_frame_before(lz4: Any) -> None:
    block = b"\x10a\5\0\x50bcdef"  # a literal, 4 bytes from 5 bytes back, 5 literals
    frame = b"\x04\x22\x4d\x18\x40\x40\xc0" + len(block).to_bytes(4, "little") + block + bytes(4)
    before = lz4.compress(TEXT)
    with pytest.raises(RuntimeError):
        lz4.decompress(frame)
    with using("lz4", "cramjam") as found, pytest.raises(CorruptData):
        found.decompress(before + frame)


@pytest.mark.parametrize("missing", range(1, 5))
@pytest.mark.parametrize("kept", ["block_checksum", "content_checksum"])
def test_cramjam_reports_a_checksum_that_is_cut_short(lz4: Any, kept: str, missing: int) -> None:
    frame = lz4.compress(TEXT[:1000], **{kept: True})
    end = len(frame) - (4 if kept == "block_checksum" else 0)  # without the end mark
    with using("lz4", "cramjam") as found, pytest.raises(CorruptData, match="middle of a frame"):
        found.decompress(frame[: end - missing])


@pytest.mark.parametrize("literals", [0, 1, 14, 15, 16, 269, 270, 271, 600])
@pytest.mark.parametrize("known", [1, 13, 14, 15, 255, 300])
def test_history_before_a_block_of_any_number_of_literals(literals: int, known: int) -> None:
    data = NOISE[:literals] + b"x" * 40
    block = by_each_library("lz4", data)["cramjam"][11:-4]
    made = lz4_frames.with_history(codec("lz4"), memoryview(block), b"h" * known)
    expected = b"h" * known + data
    assert bytes(cramjam.lz4.decompress_block(made, output_len=2000))[: len(expected)] == expected


@pytest.mark.parametrize("header_end", range(2, 15))
def test_the_headers_checksum_is_xxh32s_second_byte(header_end: int) -> None:
    # From the package xxhash 3.
    expected = [0xE7, 0x9A, 0x1E, 0xB7, 0x31, 0x36, 0x90, 0xB5, 0xA2, 0x13, 0x34, 0x9D, 0x96]
    assert lz4_frames.header_checksum(bytes(range(header_end))) == expected[header_end - 2]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda frame: b"\0" + frame[1:], "starts with"),
        (lambda frame: frame[:4] + b"\x20" + frame[5:], "flags 0x20"),
        (lambda frame: frame[:4] + b"\x61" + frame[5:], "flags 0x61"),
        (lambda frame: frame[:4] + b"\x62" + frame[5:], "flags 0x62"),
        (lambda frame: frame[:5] + b"\x30" + frame[6:], "block size 0x30"),
        (lambda frame: frame[:5] + b"\x48" + frame[6:], "block size 0x48"),
        (lambda frame: frame[:5] + b"\xc0" + frame[6:], "block size 0xc0"),
        (lambda frame: frame[:6] + b"\x83" + frame[7:], "checksum of a frame's header"),
        (lambda frame: frame[:7] + b"\x01\0\x01\x80" + bytes(0x10001) + frame[7:], "larger than the header"),
        (lambda frame: frame[:7] + b"\xff\xff\xff\x7f" + frame[11:], "middle of a frame"),
        (lambda frame: frame[:7] + b"\x01\0\0\0\xf0" + frame[7:], "cannot be decompressed"),
        (lambda frame: b"\x50\x2a\x4d\x18\xff\0\0\0", "middle of a frame"),
    ],
)
def test_cramjam_reports_damaged_lz4_frames(change: Any, why: str) -> None:
    with using("lz4", "cramjam") as found, pytest.raises(CorruptData, match=why):
        found.decompress(change(found.compress(b"data" * 100)))


def test_cramjam_reports_a_wrong_content_size(lz4: Any) -> None:
    frame = bytearray(lz4.compress(TEXT, store_size=True))
    frame[6] ^= 1
    frame[14] = lz4_frames.header_checksum(bytes(frame[4:14]))
    with using("lz4", "cramjam") as found, pytest.raises(CorruptData, match=f"contains {len(TEXT)}"):
        found.decompress(frame)


# ---------------------------------------------------------------------------------------------------
# Limits and damage
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "package"), OTHERS)
def test_the_cap_is_exact_with_each_library(name: str, package: str) -> None:
    with using(name, package) as found:
        compressed = found.compress(TEXT)
        assert found.decompress(compressed, len(TEXT)) == TEXT
        with pytest.raises(CorruptData, match=f"more than {len(TEXT) - 1} bytes"):
            found.decompress(compressed, len(TEXT) - 1)
        with pytest.raises(CorruptData):
            found.decompress(compressed, 0)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("block_size", [4, 7])
@pytest.mark.parametrize("block_linked", [True, False])
def test_an_lz4_bomb_costs_cramjam_no_more_memory_than_the_cap(
    lz4: Any, block_size: int, block_linked: bool
) -> None:
    bomb, cap = lz4.compress(bytes(64 << 20), block_size=block_size, block_linked=block_linked), 1 << 20
    with using("lz4", "cramjam") as found:
        tracemalloc.start()
        try:
            with pytest.raises(CorruptData, match=f"more than {cap} bytes"):
                found.decompress(bomb, cap)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 3 * cap + 2 * len(bomb)


def lz4_frame(flags: int, block_code: int, *blocks: bytes) -> bytes:
    """Forge a frame of compressed blocks."""
    descriptor = bytes((flags, block_code << 4))
    sized = (len(block).to_bytes(4, "little") + block for block in blocks)
    checksum = bytes((lz4_frames.header_checksum(descriptor),))
    return b"\x04\x22\x4d\x18" + descriptor + checksum + b"".join(sized) + bytes(4)


@pytest.mark.parametrize("flags", [0x60, 0x40], ids=["independent", "linked"])
def test_tiny_lz4_block_in_a_frame_of_large_blocks_needs_a_small_buffer(flags: int) -> None:
    """Clearing 4 MiB for each block of 6 bytes would take a minute for a batch of 1 MB."""
    with using("lz4", "cramjam") as found:
        tracemalloc.start()
        try:
            assert found.decompress(lz4_frame(flags, 7, *[b"\x10a"] * 10)) == b"a" * 10
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 100_000


@pytest.mark.parametrize("size", [1, 13, 300, 4 << 20])
def test_the_best_compressed_lz4_block_fits_into_the_buffer(lz4: Any, size: int) -> None:
    frame = lz4.compress(bytes(size), block_size=7, compression_level=12)
    with using("lz4", "cramjam") as found:
        assert found.decompress(frame) == bytes(size)


def test_a_forged_number_of_literals_in_a_linked_lz4_block_is_refused_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers, read = [0], lz4_frames._number
    monkeypatch.setattr(lz4_frames, "_number", lambda *words: numbers.append(words[2]) or read(*words))
    forged = b"\xf0" + b"\xff" * (1 << 20)
    with using("lz4", "cramjam") as found, pytest.raises(CorruptData, match="more literals"):
        found.decompress(lz4_frame(0x40, 7, b"\x10a", forged))
    assert len(numbers) < 10_000


def test_linked_lz4_blocks_are_read_in_steps_that_count_their_history() -> None:
    """Each block of 6 bytes has the 64 KiB before it decompressed again."""
    large = by_each_library("lz4", bytes(64 << 10))["cramjam"][11:-4]
    with using("lz4", "cramjam") as found:
        steps = [*found.decompress_in_steps(lz4_frame(0x40, 4, large, *[b"\x10a"] * 1000))]
    assert len(steps) >= 1000 * (64 << 10) // STEP_BYTES


@pytest.mark.parametrize("block_linked", [True, False])
def test_a_tiny_block_in_a_frame_of_large_blocks_costs_cramjam_little_memory(
    lz4: Any, block_linked: bool
) -> None:
    """Otherwise 5 bytes cost 4 MiB of zeros, and a batch of 1 MB takes a minute."""
    frame = lz4.compress(b"", block_size=7, block_linked=block_linked)
    empty_block = b"\x01\0\0\0\0"
    frame = frame[:7] + b"\x01\0\0\x80a" + empty_block * 100 + frame[7:]
    with using("lz4", "cramjam") as found:
        tracemalloc.start()
        try:
            assert found.decompress(frame) == b"a"
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 64 << 10


@pytest.mark.parametrize("cut", [0, 1])
def test_small_damaged_zstd_data_costs_cramjam_less_memory_than_the_cap(cut: int) -> None:
    with using("zstd", "cramjam") as found:
        data = found.compress(b"abc" * 1000)
        damaged = data[:-1] if cut else b"junk" * 5
        tracemalloc.start()
        try:
            with pytest.raises(CorruptData, match="zstd"):
                found.decompress(damaged)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 2 << 20


def test_cramjam_reads_zstd_data_of_the_best_ratio() -> None:
    """A frame of blocks that repeat one byte 128 KiB times."""
    repeated = (128 << 10 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    last = (128 << 10 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"x"
    frame = b"\x28\xb5\x2f\xfd\0\x38" + repeated * 99 + last  # a window of 128 KiB
    with using("zstd", "cramjam") as found:
        assert found.decompress(frame) == b"x" * (100 * 128 << 10)


def test_a_zstd_bomb_costs_cramjam_no_more_memory_than_the_cap() -> None:
    cap = 300_000  # between two sizes of its buffer
    with using("zstd", "cramjam") as found:
        bomb = found.compress(bytes(8 << 20))
        tracemalloc.start()
        try:
            with pytest.raises(CorruptData, match=f"more than {cap} bytes"):
                found.decompress(bomb, cap)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 3 * cap


@pytest.mark.parametrize(("name", "package"), OTHERS)
def test_each_library_reports_data_that_ends_early(name: str, package: str) -> None:
    with using(name, package) as found:
        compressed = found.compress(TEXT)
        for length in (0, 1, 10, len(compressed) // 2, len(compressed) - 1):
            with pytest.raises(CorruptData, match=name):
                found.decompress(compressed[:length], 1 << 20)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), OTHERS)
@given(st.binary(max_size=200), st.data())
def test_damage_ends_in_bytes_within_the_cap_or_corrupt_data_with_each_library(
    name: str, package: str, data: bytes, choice: st.DataObject
) -> None:
    with using(name, package) as found:
        damaged = bytearray(found.compress(data * 20))
        for _ in range(choice.draw(st.integers(1, 3))):
            damaged[choice.draw(st.integers(0, len(damaged) - 1))] = choice.draw(st.integers(0, 255))
        for junk in (bytes(damaged), data):
            try:
                assert len(found.decompress(junk, 5000)) <= 5000
            except CorruptData:
                pass


# cramjam has no stream for zstd: each of its steps is a whole buffer.
STREAMS = [case for case in OTHERS if case != ("zstd", "cramjam")]


@pytest.mark.parametrize(("name", "package"), STREAMS)
def test_each_library_decompresses_large_data_in_steps(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_bytes = 1 << 17
    for module in ("codec", "gzip", "snappy", "zstd", "lz4_frames"):
        monkeypatch.setattr(import_module(f"pykafka2.compression.{module}"), "STEP_BYTES", step_bytes)
    data = random.Random(1).randbytes(10 * step_bytes)
    with using(name, package) as found:
        sizes = [0, *found.decompress_in_steps(found.compress(data))]
    assert len(sizes) > 5
    assert all(step_bytes <= after - before <= 2 * step_bytes for before, after in pairwise(sizes))


@pytest.mark.parametrize(("name", "package"), STREAMS)
def test_each_library_decompresses_a_bomb_in_steps(name: str, package: str) -> None:
    size = 16 << 20
    with using(name, package) as found:
        sizes = [0, *found.decompress_in_steps(found.compress(bytes(size)))]
    assert max(after - before for before, after in pairwise(sizes)) <= 2 * STEP_BYTES
    assert sizes[-1] > size / 2


@pytest.mark.parametrize(("name", "package"), STREAMS)
def test_each_library_reads_empty_frames_in_several_steps(name: str, package: str) -> None:
    with using(name, package) as found:
        empty, count = found.compress(b""), 10_000
        frames = empty + b"\0\0\0\1\0" * count if name == "snappy" else empty * count
        assert len([*found.decompress_in_steps(frames)]) >= count // 2_000


# ---------------------------------------------------------------------------------------------------
# The choice
# ---------------------------------------------------------------------------------------------------


@pytest.fixture
def unchosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "chosen", {})


@pytest.mark.usefixtures("unchosen")
@pytest.mark.parametrize("name", libraries.CANDIDATES)
def test_the_first_library_that_can_be_imported_is_chosen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remaining = dict(libraries.CANDIDATES[name])
    while remaining:
        package, module = next(iter(remaining.items()))
        libraries.chosen.clear()
        try:
            import_module(module)
        except ImportError:
            pass  # compression.zstd may be missing from a build of Python
        else:
            assert libraries.library(name).package == package
            assert libraries.packages_in_use()[name] == package
        monkeypatch.setitem(sys.modules, module, None)
        del remaining[package]
    libraries.chosen.clear()
    assert libraries.packages_in_use()[name] is None
    with pytest.raises(CodecUnavailable, match=f"compression {name} needs the package"):
        libraries.library(name)


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("gzip", ["zlib"]),
        ("snappy", ["python-snappy", "cramjam"]),
        ("lz4", ["lz4", "cramjam"]),
        ("zstd", ["zstandard", "compression.zstd", "backports.zstd", "cramjam"]),
    ],
)
def test_packages_of_a_codec_are_in_the_documented_order(name: str, packages: list[str]) -> None:
    if sys.version_info < (3, 14) and "compression.zstd" in packages:
        packages.remove("compression.zstd")
    assert [*libraries.CANDIDATES[name]] == packages


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the package is not required there")
def test_required_backport_of_zstd_can_be_imported_or_is_not_installed() -> None:
    if importlib.util.find_spec("backports") is None:
        pytest.skip("backports.zstd is not installed")
    assert hasattr(libraries.load("zstd", "backports.zstd").module, "ZstdCompressor")


@pytest.mark.usefixtures("unchosen")
def test_next_library_is_used_if_an_extension_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a system whose libc is too old for the wheel: an ImportError, not a ModuleNotFoundError."""
    load = libraries.load

    def load_without_lz4(name: str, package: str) -> libraries.Library:
        if package == "lz4":
            raise ImportError("GLIBC_2.28 not found")
        return load(name, package)

    monkeypatch.setattr(libraries, "load", load_without_lz4)
    assert libraries.library("lz4").package == "cramjam"


@pytest.mark.usefixtures("unchosen")
def test_missing_library_is_reported_with_the_error_of_the_preferred_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in libraries.CANDIDATES["snappy"].values():
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(CodecUnavailable, match="none can be imported: import of snappy halted") as raised:
        libraries.library("snappy")
    assert isinstance(raised.value.__cause__, ImportError)


@pytest.mark.usefixtures("unchosen")
@pytest.mark.parametrize("name", libraries.CANDIDATES)
def test_library_is_chosen_once(name: str) -> None:
    first = libraries.library(name)
    assert libraries.library(name) is first


def test_a_library_is_imported_for_its_own_codec_alone() -> None:
    program = """
import sys
from pykafka2.compression import codec, libraries
names = {"snappy", "cramjam", "lz4", "zstandard", "backports.zstd", "compression.zstd"}
for package, module in list(libraries.CANDIDATES["zstd"].items())[:-1]:
    sys.modules[module] = None
codec("zstd").compress(b"")
assert {name for name in names if sys.modules.get(name)} == {"cramjam"}
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("name", ["snappy", "lz4", "zstd"])
def test_producer_without_a_codec_library_raises_from_the_constructor(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in libraries.CANDIDATES[name].values():
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(libraries, "chosen", {})
    with pytest.raises(CodecUnavailable, match=f"compression {name} needs the package"):
        KafkaProducer(bootstrap_servers="127.0.0.1:9", compression_type=name).close()
