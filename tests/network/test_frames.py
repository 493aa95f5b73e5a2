"""Frames: the same stream, cut as you like, gives the same frames; and bad lengths are refused early."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.errors import CorruptData, KafkaError, TlsError
from pykafka2.network.frames import MAX_READ_BYTES, SHRINK_AFTER_READS, SMALL_BUFFER_BYTES, FrameReader
from tests.gate import examples


def framed(bodies: Iterable[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def body(size: int, seed: int) -> bytes:
    """Recognisable content, cheap to make."""
    pattern = bytes((seed + position) & 255 for position in range(min(size, 251)))
    return (pattern * (size // len(pattern) + 1))[:size] if size else b""


def feed(reader: FrameReader, stream: bytes, cuts: Iterable[int]) -> list[bytes]:
    """Feed the stream in reads of these sizes (as far as the reader's buffer takes them), then the rest."""
    frames: list[bytes] = []
    views = []
    position = 0
    cut = iter(cuts)
    while position < len(stream):
        buffer = reader.buffer()
        assert 0 < len(buffer) <= MAX_READ_BYTES
        count = min(next(cut, len(stream)), len(buffer), len(stream) - position)
        buffer[:count] = stream[position : position + count]
        position += count
        views += reader.received(count)
    # Compared only now: no write may have changed a frame that was handed out.
    frames.extend(bytes(view) for view in views)
    return frames


SIZES = st.one_of(
    st.integers(0, 300),
    st.integers(SMALL_BUFFER_BYTES - 20, SMALL_BUFFER_BYTES + 20),
    st.integers(SMALL_BUFFER_BYTES // 2 - 20, SMALL_BUFFER_BYTES // 2 + 20),
    st.integers(100_000, 400_000),
)


@pytest.mark.gate
@given(
    sizes=st.lists(SIZES, max_size=8),
    cuts=st.lists(st.one_of(st.integers(1, 9), st.integers(1, 200_000)), max_size=60),
)
@settings(max_examples=examples(150), deadline=None)
def test_stream_gives_the_same_frames_for_any_cuts(sizes: list[int], cuts: list[int]) -> None:
    bodies = [body(size, seed) for seed, size in enumerate(sizes)]
    reader = FrameReader("broker:9092")
    assert feed(reader, framed(bodies), cuts) == bodies
    assert reader.is_between_frames


@given(sizes=st.lists(st.integers(0, 300), max_size=8))
@settings(max_examples=examples(25), deadline=None)
def test_whole_and_byte_by_byte_are_the_same(sizes: list[int]) -> None:
    bodies = [body(size, seed) for seed, size in enumerate(sizes)]
    stream = framed(bodies)
    assert feed(FrameReader("a"), stream, []) == feed(FrameReader("a"), stream, [1] * len(stream)) == bodies


def test_a_half_frame_is_not_the_place_for_a_stream_to_end() -> None:
    reader = FrameReader("broker:9092")
    stream = framed([b"0123456789"])
    reader.buffer()[:9] = stream[:9]
    assert reader.received(9) == []
    assert not reader.is_between_frames


def test_a_stream_of_large_frames_costs_one_read_each_and_no_copy() -> None:
    large = framed([bytes(1 << 20)])
    reader = FrameReader("broker:9092")
    feed(reader, large, [])
    for _ in range(10):
        buffer = reader.buffer()
        assert len(buffer) >= len(large)
        buffer[: len(large)] = large
        (frame,) = reader.received(len(large))
        assert isinstance(frame, memoryview)
        assert frame.obj is buffer.obj


def test_small_frames_release_a_grown_buffer() -> None:
    reader = FrameReader("broker:9092")
    feed(reader, framed([bytes(1 << 20)]), [])
    assert len(reader.buffer()) > SMALL_BUFFER_BYTES
    for _ in range(SHRINK_AFTER_READS):
        buffer = reader.buffer()
        buffer[:9] = framed([b"small"])
        (frame,) = reader.received(9)
        assert isinstance(frame, bytes)
    assert len(reader.buffer()) == SMALL_BUFFER_BYTES


@pytest.mark.parametrize("size", [-1, -(1 << 31), 1001, 0x7FFFFFFF])
def test_a_bad_length_is_refused_before_anything_is_allocated(size: int) -> None:
    reader = FrameReader("broker:9092", max_frame_bytes=1000)
    reader.buffer()[:4] = struct.pack(">i", size)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptData, match=rf"broker:9092.* {size} .*1000"):
            reader.received(4)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("first", "kind", "hint"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x46", TlsError, "security_protocol=SSL"),
        (b"\x16\x03\x03\x00\x7a", TlsError, "security_protocol=SSL"),
        (b"HTTP/1.1 400 Bad Request", CorruptData, "HTTP"),
        (b"GET / HTTP/1.1", CorruptData, "HTTP"),
        (b"SSH-2.0-OpenSSH", CorruptData, "SSH"),
    ],
)
def test_another_protocol_is_named(first: bytes, kind: type[KafkaError], hint: str) -> None:
    with pytest.raises(kind, match=f"broker:9092.*{hint}"):
        feed(FrameReader("broker:9092"), first, [])
