"""Parts of files on accepted TCP connections: partial writes, ends of files, errors."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator

import pytest

from pykafka2.errors import Disconnected, KafkaStorageError
from pykafka2.network.tcp import JOINED_BYTES
from pykafka2.network.transport import FileTransport
from pykafka2.protocol.file_part import FilePart
from tests.network.sockets import End, Link, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems read the file")

DATA = bytes(range(256)) * 80_000
LARGE = 1 << 30


class OpenFile:
    """A temporary file with DATA."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._file.write(DATA)
        self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self.fileno(), size, position)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


@pytest.fixture
def file() -> Iterator[OpenFile]:
    file = OpenFile()
    yield file
    file.close()


@pytest.fixture
def link() -> Iterator[Link]:
    link = Link()
    yield link
    link.close()


def sending(link: Link) -> tuple[FileTransport, End]:
    """The accepted end, and the other one."""
    near, far = link.establish()
    assert isinstance(far.transport, FileTransport)
    return far.transport, near


def test_only_accepted_connections_send_files(link: Link) -> None:
    near, _ = link.establish()
    assert not isinstance(near.transport, FileTransport)


def test_part_of_a_file_arrives_between_bytes(link: Link, file: OpenFile) -> None:
    transport, other = sending(link)
    assert transport.write_before_file([b"be", b"fore"]) == 6
    assert transport.write_file(FilePart(file, 5, 1000), LARGE) == 1000
    assert transport.write([b"after"]) == 5
    assert other.read(1011) == b"before" + DATA[5:1005] + b"after"


def test_write_file_sends_at_most_max_bytes(link: Link, file: OpenFile) -> None:
    transport, other = sending(link)
    assert transport.write_file(FilePart(file, 0, 1000), 300) == 300
    assert other.read(300) == DATA[:300]


def test_full_socket_takes_a_part_and_then_nothing(link: Link, file: OpenFile) -> None:
    transport, other = sending(link)
    part = FilePart(file, 0, len(DATA))
    sent = 0
    while taken := transport.write_file(part, LARGE):
        sent += taken
        part = part.after(taken)
    assert 0 < sent < len(DATA)
    assert transport.write_before_file([b"more"]) == 0
    assert other.read(sent) == DATA[:sent]


def test_file_that_ends_before_the_part_raises_a_storage_error(link: Link, file: OpenFile) -> None:
    transport, _ = sending(link)
    part = FilePart(file, 100, 1000)
    file.truncate(600)
    assert transport.write_file(part, LARGE) == 500
    with pytest.raises(KafkaStorageError, match="the file has become shorter"):
        transport.write_file(part.after(500), LARGE)


@pytest.mark.parametrize("code", [22, 38, 95])
def test_file_system_without_sendfile_is_read(
    code: int, link: Link, file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*arguments: int) -> int:
        raise OSError(code, os.strerror(code))

    transport, other = sending(link)
    monkeypatch.setattr(os, "sendfile", unsupported)
    sent = transport.write_file(FilePart(file, 5, len(DATA) - 5), LARGE)
    assert 0 < sent <= JOINED_BYTES
    assert other.read(sent) == DATA[5 : 5 + sent]


def test_file_that_cannot_be_read_raises_a_storage_error(
    link: Link, file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: int) -> int:
        raise OSError(5, os.strerror(5))

    transport, _ = sending(link)
    monkeypatch.setattr(os, "sendfile", broken)
    with pytest.raises(KafkaStorageError, match="Input/output error"):
        transport.write_file(FilePart(file, 0, 10), LARGE)


@pytest.mark.parametrize("method", ["write_file", "write_before_file"])
def test_closed_peer_raises_disconnected(method: str, link: Link, file: OpenFile) -> None:
    transport, other = sending(link)
    other.transport.close()

    def write() -> bool:
        if method == "write_file":
            transport.write_file(FilePart(file, 0, 1), LARGE)
        else:
            transport.write_before_file([b"x"])
        return False

    with pytest.raises(Disconnected, match=r"closed the connection|reset the connection"):
        until(write)
