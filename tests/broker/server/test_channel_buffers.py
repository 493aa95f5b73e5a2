"""Responses in parts: bytes and file parts leave in order, after partial writes too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.server.channel import MAX_FILE_BYTES, PendingSend
from pykafka2.errors import IllegalState
from pykafka2.network.transport import READABLE, Buffer
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.gathered_part import GatheredPart
from tests.gate import examples


class BytesFile:
    """The file of a part, in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def fileno(self) -> int:
        return -1

    def read(self, position: int, size: int) -> bytes:
        return self.data[position : position + size]


class BytesTransport:
    """A transport without files that accepts these numbers of bytes in its writes, then everything."""

    peer = "narrow"

    def __init__(self, room: Sequence[int] = ()) -> None:
        self.received = b""
        self.calls: list[str] = []
        self._room = [*room]

    def _take(self, kind: str, data: bytes) -> int:
        self.calls.append(kind)
        taken = min(len(data), self._room.pop(0)) if self._room else len(data)
        self.received += data[:taken]
        return taken

    def write(self, buffers: Sequence[Buffer]) -> int:
        return self._take("bytes", b"".join(buffers))

    def establish(self) -> bool:
        return True

    def interest(self) -> int:
        return READABLE

    def read_into(self, buffer: memoryview) -> int | None:
        return None

    def close(self, *, reset: bool = False) -> None:
        pass


class NarrowTransport(BytesTransport):
    """A transport that can also send files."""

    def write_before_file(self, buffers: Sequence[Buffer]) -> int:
        return self._take("bytes before a file", b"".join(buffers))

    def write_file(self, part: FilePart, max_bytes: int) -> int:
        return self._take("file", part.read()[:max_bytes])


def file_part(data: bytes, *, before: bytes = b"before", after: bytes = b"after") -> FilePart:
    return FilePart(BytesFile(before + data + after), len(before), len(data))


def pending(*parts: bytes | FilePart, room: Sequence[int] = ()) -> tuple[NarrowTransport, PendingSend]:
    transport = NarrowTransport(room)
    send = PendingSend(transport)
    for part in parts:
        send.add(part)
    return transport, send


PARTS = st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=40)), max_size=8)


@pytest.mark.gate
@settings(max_examples=examples(200), deadline=None)
@given(PARTS, st.lists(st.integers(0, 30), max_size=30))
def test_partial_writes_keep_the_order_of_the_parts(parts: list[tuple[bool, bytes]], room: list[int]) -> None:
    transport, send = pending(*(file_part(data) if is_file else data for is_file, data in parts), room=room)
    written = 0
    for _ in range(200):
        written += send.write()
    assert not send.parts
    assert transport.received == b"".join(data for _, data in parts)
    assert written == len(transport.received)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.lists(st.binary(min_size=1, max_size=9), max_size=4), max_size=6), st.lists(st.integers(0, 9))
)
def test_gathered_buffers_are_sent_in_order_after_partial_writes(
    parts: list[list[bytes]], room: list[int]
) -> None:
    transport = BytesTransport(room)
    send = PendingSend(transport)
    for buffers in parts:
        send.add(GatheredPart([memoryview(buffer) for buffer in buffers]))
        send.add(b"|")
    while send.parts:
        send.write()
    assert transport.received == b"".join(b"".join(buffers) + b"|" for buffers in parts)


def test_bytes_before_and_after_a_file_part_are_gathered() -> None:
    transport, send = pending(b"a", b"b", file_part(b"FILE"), b"c", b"d")
    assert send.write() == 8
    assert transport.calls == ["bytes before a file", "file", "bytes"]
    assert transport.received == b"abFILEcd"


def test_write_ends_after_one_piece_of_a_file_so_that_others_get_their_turn() -> None:
    _, send = pending(file_part(bytes(MAX_FILE_BYTES + 10)))
    assert [send.write(), send.write(), send.write()] == [MAX_FILE_BYTES, 10, 0]


def test_write_ends_after_one_of_several_files() -> None:
    transport, send = pending(b"a", file_part(b"ONE"), b"b", file_part(b"TWO"), b"c")
    assert [send.write(), send.write(), send.write()] == [4, 5, 0]
    assert transport.received == b"aONEbTWOc"


def test_empty_part_behind_sent_bytes_is_not_left_unsent() -> None:
    """Otherwise the connection would wait for a writable socket again and again."""
    transport, send = pending(b"abc", b"", b"de", b"", b"", room=[3, 1])
    assert send.write() == 5
    assert not send.parts
    assert transport.received == b"abcde"


def test_no_write_follows_once_the_transport_is_full() -> None:
    transport, send = pending(b"abc", file_part(b"FILE"), room=[2, 0])
    assert send.write() == 2
    assert transport.calls == ["bytes before a file"] * 2


def test_file_part_on_a_transport_without_files_is_a_bug() -> None:
    send = PendingSend(BytesTransport())
    assert not send.sends_files
    with pytest.raises(IllegalState, match="must be read for this transport"):
        send.add(file_part(b"FILE"))


def test_cleared_parts_are_not_sent() -> None:
    transport, send = pending(file_part(b"FILE"))
    send.clear()
    assert not send.file_parts
    send.add(b"bytes")
    send.write()
    assert transport.received == b"bytes"
