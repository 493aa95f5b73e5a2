"""Every codec: round trips, framing, levels, bounds, damage, and the libraries that may be missing."""

from __future__ import annotations

import gzip
import itertools
import random
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import pairwise
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.compression import MAX_OUTPUT_BYTES, codec, libraries
from pykafka2.compression.steps import STEP_BYTES
from pykafka2.errors import CodecUnavailable, ConfigurationError, CorruptData, UnsupportedCompressionType
from tests.gate import rest_in_long

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
REAL = NAMES[1:]
TEXT = b"the quick brown fox jumps over the lazy dog; " * 3000  # several blocks of every format

PAYLOADS = st.binary(max_size=300) | st.builds(
    lambda piece, times: piece * times, st.binary(max_size=50), st.integers(0, 5000)
)


def test_codecs_are_found_by_id_and_by_name() -> None:
    assert [codec(number).name for number in range(5)] == list(NAMES)
    assert [codec(name).id for name in NAMES] == list(range(5))
    assert codec("zstd") is codec(4)


@pytest.mark.parametrize("unknown", [5, 7, -1, "brotli", "", "codec", "fallback"])
def test_an_unknown_codec_is_named(unknown: int | str) -> None:
    with pytest.raises(UnsupportedCompressionType, match=repr(unknown)):
        codec(unknown)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(PAYLOADS)
def test_compressed_data_decompresses_to_itself(name: str, data: bytes) -> None:
    compressed = codec(name).compress(data)
    assert codec(name).decompress(compressed, len(data)) == data
    assert codec(name).decompress(memoryview(bytearray(compressed))) == data


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_taken(name: str, kind: type[bytes]) -> None:
    compressed = codec(name).compress(kind(TEXT))
    assert type(compressed) is bytes
    assert codec(name).decompress(kind(compressed)) == TEXT


@pytest.mark.parametrize("name", REAL)
def test_streams_one_after_the_other_are_read_as_one(name: str) -> None:
    one, other = codec(name).compress(TEXT), codec(name).compress(b"and more")
    assert codec(name).decompress(one + other) == TEXT + b"and more"
    assert codec(name).decompress(codec(name).compress(b"") + other) == b"and more"


@pytest.mark.gate
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("count", rest_in_long([10_000, 50_000]))
def test_frames_that_hold_nothing_take_several_steps(name: str, count: int) -> None:
    """One frame or block of 5 to 20 bytes takes 1 to 10 us, and a fetch can hold millions of them."""
    empty = codec(name).compress(b"")
    frames = empty + b"\0\0\0\1\0" * count if name == "snappy" else empty * count
    assert len([*codec(name).decompress_in_steps(frames)]) >= count // 2_000
    assert codec(name).decompress(frames) == b""


@pytest.mark.parametrize("name", REAL)
def test_a_stream_that_ends_early_is_corrupt(name: str) -> None:
    compressed = codec(name).compress(TEXT)
    for length in (1, 10, len(compressed) // 2, len(compressed) - 1):
        with pytest.raises(CorruptData, match=name):
            codec(name).decompress(compressed[:length])


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd", "snappy"])
def test_empty_input_is_corrupt(name: str) -> None:
    with pytest.raises(CorruptData, match=name):
        codec(name).decompress(b"")


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
@given(st.binary(max_size=200), st.data())
def test_damage_ends_in_bytes_within_the_cap_or_corrupt_data(
    name: str, data: bytes, choice: st.DataObject
) -> None:
    damaged = bytearray(codec(name).compress(data * 20))
    for _ in range(choice.draw(st.integers(1, 3))):
        damaged[choice.draw(st.integers(0, len(damaged) - 1))] = choice.draw(st.integers(0, 255))
    for junk in (bytes(damaged), data):
        try:
            assert len(codec(name).decompress(junk, 5000)) <= 5000
        except CorruptData:
            pass


# ---------------------------------------------------------------------------------------------------
# Bombs
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_cap_is_exact(name: str) -> None:
    compressed = codec(name).compress(TEXT)
    assert codec(name).decompress(compressed, len(TEXT)) == TEXT
    with pytest.raises(CorruptData, match=f"more than {len(TEXT) - 1} bytes"):
        codec(name).decompress(compressed, len(TEXT) - 1)
    with pytest.raises(CorruptData):
        codec(name).decompress(compressed, 0)


BOMB_BYTES = 64 << 20
CAP = 1 << 20


def zstd_without_size(data: bytes) -> bytes:
    stream = cramjam.zstd.Compressor()
    stream.compress(data)
    return bytes(stream.finish())


def bombs() -> dict[str, bytes]:
    return {
        "gzip": gzip.compress(bytes(BOMB_BYTES)),
        "snappy": codec("snappy").compress(bytes(BOMB_BYTES)),
        "snappy raw": cramjam.snappy.compress_raw(bytes(BOMB_BYTES)).read(),
        "lz4": cramjam.lz4.compress(bytes(BOMB_BYTES)).read(),
        "zstd": cramjam.zstd.compress(bytes(BOMB_BYTES)).read(),
        "zstd without size": zstd_without_size(bytes(BOMB_BYTES)),
        "zstd frames": cramjam.zstd.compress(bytes(CAP // 2)).read() * 100,
        "gzip members": gzip.compress(bytes(CAP // 2)) * 100,
    }


@pytest.mark.gate
@pytest.mark.slow
def test_a_bomb_costs_no_more_memory_than_the_cap() -> None:
    for name, bomb in bombs().items():
        found = codec(name.split()[0])
        tracemalloc.start()
        try:
            with pytest.raises(CorruptData, match=f"more than {CAP} bytes"):
                found.decompress(bomb, CAP)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 3 * CAP + 2 * len(bomb), name


@pytest.mark.parametrize("name", REAL)
def test_large_data_is_decompressed_in_a_step_for_every_few_bytes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step_bytes = 1 << 17
    for module in ("codec", "gzip", "snappy", "zstd", "lz4_frames"):
        monkeypatch.setattr(import_module(f"pykafka2.compression.{module}"), "STEP_BYTES", step_bytes)
    data = random.Random(1).randbytes(10 * step_bytes)
    results: list[bytes] = []

    def steps() -> Iterator[int]:
        results.append((yield from codec(name).decompress_in_steps(codec(name).compress(data))))

    sizes = [0, *steps()]
    assert results == [data]
    assert len(sizes) > 5
    assert all(step_bytes <= after - before <= 2 * step_bytes for before, after in pairwise(sizes))


def test_the_default_cap_is_that_of_the_option() -> None:
    assert MAX_OUTPUT_BYTES == 128 << 20


@pytest.mark.gate
@pytest.mark.slow
def test_very_many_tiny_members_are_read_in_time() -> None:
    """A library that hands back all the rest after each member would copy gigabytes here."""
    member = gzip.compress(b"")
    assert codec("gzip").decompress(member * 20_000) == b""


# ---------------------------------------------------------------------------------------------------
# Levels
# ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("gzip", [-1, 1, 6, 9], [0, 10, -2]),
        ("lz4", [1, 2, 9, 12, 17], [0, 18, -1]),
        ("zstd", [-131072, -5, 0, 3, 9], [-131073, 23]),
        ("snappy", [], [1, 0]),
        ("none", [], [1, 0]),
    ],
)
def test_levels_are_kafkas(name: str, allowed: list[int], refused: list[int]) -> None:
    text = TEXT[:2000]
    for level in allowed:
        assert codec(name).decompress(codec(name).compress(text, level)) == text
    for level in refused:
        with pytest.raises(ConfigurationError, match=str(level)):
            codec(name).compress(text, level)


@pytest.mark.parametrize(("name", "low", "high"), [("gzip", 1, 9), ("lz4", 9, 12), ("zstd", -50, 19)])
def test_a_higher_level_makes_fewer_bytes(name: str, low: int, high: int) -> None:
    text = b"".join(b"order %d of customer %d\n" % (n, n * 7919 % 1000) for n in range(3000))
    assert len(codec(name).compress(text, high)) < len(codec(name).compress(text, low))


@pytest.mark.gate
def test_levels_do_not_linger_and_threads_do_not_meet() -> None:
    """zstd keeps a context for each thread; what a call makes depends on its own level alone."""
    text = b"".join(b"order %d of customer %d\n" % (n, n * 7919 % 1000) for n in range(3000))
    expected = {level: codec("zstd").compress(text, level) for level in (-50, 1, 9, 12)}
    assert len({len(compressed) for compressed in expected.values()}) == 4

    def compress_all(_: int) -> bool:
        return all(codec("zstd").compress(text, level) == made for level, made in expected.items())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(compress_all, range(20)))


# ---------------------------------------------------------------------------------------------------
# Framing, against the formats' definitions
# ---------------------------------------------------------------------------------------------------


def test_gzip_has_no_time_in_it() -> None:
    compressed = codec("gzip").compress(TEXT)
    assert compressed[:2] == b"\x1f\x8b"
    assert compressed[4:8] == bytes(4)
    assert gzip.decompress(compressed) == TEXT


def test_lz4_frames_are_as_java_writes_them() -> None:
    frame = pytest.importorskip("lz4.frame")
    info = frame.get_frame_info(codec("lz4").compress(TEXT))
    assert info["block_size"] == 64 << 10
    assert not info["block_linked"]
    assert not info["content_checksum"]
    assert info["content_size"] == 0


def test_snappy_is_in_blocks_of_32_kib_behind_the_xerial_header() -> None:
    compressed = codec("snappy").compress(TEXT)
    assert compressed[:16] == b"\x82SNAPPY\0\0\0\0\1\0\0\0\1"
    position, blocks = 16, []
    while position < len(compressed):
        size = int.from_bytes(compressed[position : position + 4], "big")
        blocks.append(cramjam.snappy.decompress_raw(compressed[position + 4 : position + 4 + size]).read())
        position += 4 + size
    assert b"".join(blocks) == TEXT
    assert {len(block) for block in blocks[:-1]} == {32 << 10}


def test_snappy_without_framing_is_read_too() -> None:
    assert codec("snappy").decompress(cramjam.snappy.compress_raw(TEXT).read()) == TEXT


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x82SNAPPY\0", "ends in its header"),
        (b"\x82SNAPPY\0" + bytes(8) + b"\0\0\0", "longer than the data"),
        (b"\x82SNAPPY\0" + bytes(8) + b"\0\0\0\5abc", "longer than the data"),
        (b"\x82SNAPPY\0" + bytes(8) + b"\xff\xff\xff\xff", "longer than the data"),
        (b"\x82SNAPPY\0" + bytes(8) + b"\0\0\0\0", "longer than the data"),
        (b"\xff\xff\xff\xff\x0f", "cannot hold"),
        (b"\xff\xff\xff\xff\xff\xff\x0f", "declares no length"),
        (b"\x05\0a", "cannot be decompressed"),
    ],
)
def test_damaged_snappy_framing_is_corrupt(data: bytes, why: str) -> None:
    with pytest.raises(CorruptData, match=why):
        codec("snappy").decompress(data)


# ---------------------------------------------------------------------------------------------------
# Libraries
# ---------------------------------------------------------------------------------------------------


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make imports of the named modules fail, as on a machine without their wheels."""

    monkeypatch.setattr(libraries, "chosen", {})

    def forbid(*modules: str) -> None:
        libraries.chosen.clear()
        for module in modules:
            monkeypatch.setitem(sys.modules, module, None)

    return forbid


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("lz4", ["lz4", "lz4.frame"]),
        ("zstd", ["zstandard", "compression", "backports.zstd", "compression.zstd"]),
    ],
)
def test_cramjam_serves_where_a_wheel_is_missing(name: str, modules: list[str], without: Any) -> None:
    found = codec(name)
    theirs = {data: found.compress(data) for data in (b"", b"a", TEXT)}
    bomb = found.compress(bytes(BOMB_BYTES))
    without(*modules)
    for data, compressed in theirs.items():
        assert found.decompress(compressed) == data
        assert found.decompress(found.compress(data)) == data
    assert found.decompress(theirs[TEXT] + theirs[b"a"]) == TEXT + b"a"
    with pytest.raises(CorruptData):
        found.decompress(bomb, CAP)
    with pytest.raises(CorruptData):
        found.decompress(theirs[TEXT][:-5], CAP)
    with pytest.raises(CorruptData):
        found.decompress(theirs[TEXT], len(TEXT) - 1)
    with pytest.raises(ConfigurationError):
        found.compress(TEXT, 1000)


@pytest.mark.parametrize(
    ("name", "modules", "package"),
    [
        ("lz4", ["lz4", "lz4.frame", "cramjam"], "lz4"),
        ("zstd", ["zstandard", "compression", "compression.zstd", "backports.zstd", "cramjam"], "zstandard"),
        ("snappy", ["snappy", "cramjam"], "python-snappy"),
    ],
)
def test_a_missing_library_is_named_by_its_package(
    name: str, modules: list[str], package: str, without: Any
) -> None:
    found = codec(name)
    without(*modules)
    with pytest.raises(CodecUnavailable, match=f"package {package}"):
        found.compress(b"data")
    with pytest.raises(CodecUnavailable, match=f"package {package}"):
        found.decompress(b"data")


@pytest.mark.gate
def test_codecs_load_their_libraries_at_first_use() -> None:
    program = """
import sys
from pykafka2.compression import codec, libraries
from pykafka2.records import batch, decoder, encoder
heavy = {"snappy", "cramjam", "lz4", "zstandard", "compression.zstd", "backports.zstd", "crc32c"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
codec("lz4").compress(b"")
package = libraries.library("lz4").package
assert package in ("lz4", "cramjam")
assert heavy & set(sys.modules) == {package}
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_gzip_is_decompressed_by_zlib() -> None:
    """Also what other writers put into the header: a file name here."""
    header = b"\x1f\x8b\x08\x08" + bytes(4) + b"\0\x03name\0"
    raw = zlib.compressobj(wbits=-15)
    body = raw.compress(TEXT) + raw.flush()
    trailer = zlib.crc32(TEXT).to_bytes(4, "little") + len(TEXT).to_bytes(4, "little")
    assert codec("gzip").decompress(header + body + trailer) == TEXT
    with pytest.raises(CorruptData, match="gzip"):
        codec("gzip").decompress(header + body + bytes(8))


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
def test_data_that_decompresses_to_very_much_takes_many_steps(name: str) -> None:
    size = 16 << 20
    steps = codec(name).decompress_in_steps(codec(name).compress(bytes(size)))
    sizes = [0, *steps]
    assert max(after - before for before, after in itertools.pairwise(sizes)) <= 2 * STEP_BYTES
    assert sizes[-1] > size / 2
