"""A plain socket that speaks any version of any API, where a client would negotiate one."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self

from pykafka2.protocol.framing import decode_response, encode_request
from pykafka2.protocol.struct import Request

TIMEOUT = 15.0


class Wire:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), TIMEOUT)
        self._file = self._socket.makefile("rb")
        self._correlation_id = 0

    def ask(self, request: Request[Any], version: int) -> Any:
        """The response in the same version; AssertionError where the broker hangs up instead."""
        self._correlation_id += 1
        self._socket.sendall(b"".join(encode_request(request, version, self._correlation_id, "wire")))
        size = self._file.read(4)
        assert len(size) == 4, f"the broker closed the connection on {request.NAME} version {version}"
        frame = self._file.read(int.from_bytes(size, "big"))
        correlation_id, response = decode_response(frame, type(request), version)
        assert correlation_id == self._correlation_id
        return response

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._socket.close()
