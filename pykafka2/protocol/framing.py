"""Frames: length, header and body of requests and responses.

Stateless; called by the client's connection and the broker's processor on their own threads. An encoded frame
is a list of parts: buffers for one gathered write, with small pieces joined and record batches uncopied, and
in responses to fetches also parts of files. Frames to decode come without their four length bytes.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final, TypeVar

from pykafka2.errors import CorruptData, UnsupportedVersion
from pykafka2.protocol import registry
from pykafka2.protocol.file_part import FilePart
from pykafka2.protocol.gathered_part import GatheredPart
from pykafka2.protocol.messages.headers import RequestHeader, ResponseHeader
from pykafka2.protocol.primitives import MIN_UNCOPIED_BYTES, Buffer, FramePart
from pykafka2.protocol.struct import Request, Response

ResponseT = TypeVar("ResponseT", bound=Response)

_LENGTH: Final = struct.Struct(">i")
_CORRELATION_ID: Final = struct.Struct(">i")
_KEY_AND_VERSION: Final = struct.Struct(">hh")
_START: Final = struct.Struct(">hhi")
"""The start of a request header: key, version, correlation id."""
_USUAL_START: Final = struct.Struct(">hhih")
"""The same, and the length of the client id."""


def encode_request(
    request: Request[Any], version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    """Return the frame of a request with its length bytes. Raise the errors of Message.encode."""
    start = _START.pack(request.API_KEY, version, correlation_id)
    parts: list[Buffer] = [b"", start, _rest_of_header(client_id, version >= request.FLEXIBLE_FROM)]
    request.encode_into(version, parts)
    return _framed(parts)


@lru_cache(maxsize=64)
def _rest_of_header(client_id: str | None, is_flexible: bool) -> bytes:
    """Encode a request header after the correlation id: the same for all requests of a client."""
    header = RequestHeader(request_api_key=0, request_api_version=0, correlation_id=0, client_id=client_id)
    parts: list[Buffer] = []
    header.encode_into(2 if is_flexible else 1, parts)
    return b"".join(parts)[_START.size :]


def encode_response(
    response: Response, version: int, correlation_id: int, body: bytes | None = None
) -> list[FramePart]:
    """Return the frame of a response with its length bytes, in parts.

    `body` is the result of `response.encode(version)`, if known. Raise the errors of Message.encode.
    """
    header = _CORRELATION_ID.pack(correlation_id)
    if response_header_version(type(response), version):
        header += b"\0"  # brokers have no tagged fields for a response header, only their number
    parts: list[FramePart] = [b"", header]
    if body is None:
        response.encode_into(version, parts)
    else:
        parts.append(body)
    return _framed(parts)


def response_header_version(response: type[Response], version: int) -> int:
    """Return 1 for flexible versions; 0 for ApiVersions, as clients can lack the version (KIP-511)."""
    return int(response.is_flexible(version) and response.API_KEY != registry.ApiKey.API_VERSIONS)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return the header of a request, and the position of its body.

    Versions newer than the supported ones are read with the newest header, for a response to ApiVersions.

    Raises:
        UnsupportedVersion: the API key is not supported.
        CorruptData: the frame does not begin with a header.
    """
    if len(frame) < 4:
        raise CorruptData(f"RequestHeader: a request of {len(frame)} bytes has no room for one")
    api_key, version = _KEY_AND_VERSION.unpack_from(frame)
    flexible = registry.api(api_key).is_flexible(version)
    return RequestHeader.decode_from(frame, 0, 2 if flexible else 1)


def decode_request_start(frame: Buffer) -> tuple[int, int, int, str | None, int]:
    """Return API key, version, correlation id and client id of a request, and the position of its body.

    Like `decode_request_header`, without its object; a broker calls this for every request.
    """
    if len(frame) > _USUAL_START.size:
        api_key, version, correlation_id, length = _USUAL_START.unpack_from(frame)
        info = registry.API_KEYS.get(api_key)
        end = _USUAL_START.size + length
        if info is not None and _USUAL_START.size <= end < len(frame):
            is_flexible = info.flexible_from is not None and version >= info.flexible_from
            if not (is_flexible and frame[end]):  # no tagged fields
                try:
                    client_id = str(frame[_USUAL_START.size : end], "utf-8")
                except UnicodeDecodeError:
                    pass
                else:
                    return api_key, version, correlation_id, client_id, end + is_flexible
    header, position = decode_request_header(frame)
    api_key, version = header.request_api_key, header.request_api_version
    return api_key, version, header.correlation_id, header.client_id, position


def decode_request(frame: Buffer) -> tuple[RequestHeader, Request[Any]]:
    """Return a request and its header.

    Raises:
        UnsupportedVersion: the API, or this version of it, is not supported.
        CorruptData: the bytes cannot be decoded.
    """
    header, offset = decode_request_header(frame)
    return header, decode_request_body(header, frame, offset)


def decode_request_body(header: RequestHeader, frame: Buffer, offset: int) -> Request[Any]:
    """Return the request after a header. Raise the errors of decode_request."""
    info = registry.api(header.request_api_key)
    version = header.request_api_version
    if not info.min_version <= version <= info.max_version:
        raise UnsupportedVersion(
            f"{info.name} version {version} is not between {info.min_version} and {info.max_version}"
        )
    request, end = registry.request_class(info.key).decode_from(frame, offset, version)
    _check_end(request, version, frame, end)
    return request


def decode_response(frame: Buffer, request: type[Request[ResponseT]], version: int) -> tuple[int, ResponseT]:
    """Return the correlation id and the response to a request of this class and version.

    Raises:
        CorruptData: the bytes cannot be decoded.
    """
    response = decode_response_body(frame, request, version)  # which rejects a frame without an id
    return int.from_bytes(frame[:4], "big", signed=True), response


def decode_response_body(frame: Buffer, request: type[Request[ResponseT]], version: int) -> ResponseT:
    """Decode a response after the correlation id.  Raise the errors of `decode_response`."""
    response_class: Any = request.RESPONSE
    offset = 4
    if version >= response_class.FLEXIBLE_FROM and request.API_KEY != registry.ApiKey.API_VERSIONS:
        # Its header almost never has tagged fields, only their number.
        offset = 5 if frame[4:5] == b"\0" else ResponseHeader.decode_from(frame, 0, 1)[1]
    response, end = response_class.decode_from(frame, offset, version)
    if end != len(frame):
        _check_end(response, version, frame, end)
    return response  # type: ignore[no-any-return]


def _check_end(message: Request[Any] | Response, version: int, frame: Buffer, end: int) -> None:
    if end != len(frame):
        raise CorruptData(f"{message.NAME} v{version}: {len(frame) - end} bytes follow its last field")


def in_memory(parts: list[FramePart]) -> list[Buffer]:
    """Return the parts of a frame as buffers; file parts are read. Raise `KafkaStorageError`."""
    buffers: list[Buffer] = []
    for part in parts:
        if isinstance(part, GatheredPart):
            buffers += part.buffers
        else:
            buffers.append(part.read() if isinstance(part, FilePart) else part)
    return buffers


def _framed(parts: list[Any]) -> list[Any]:
    """Return `parts` with small neighbours joined; the first is reserved for the length.

    File parts have at least MIN_UNCOPIED_BYTES, so they are never joined.
    """
    size = sum(map(len, parts))
    parts[0] = _LENGTH.pack(size)
    if size < MIN_UNCOPIED_BYTES:
        return [b"".join(parts)]
    sizes = [*map(len, parts)]
    largest_bytes = max(sizes)
    if size - largest_bytes < MIN_UNCOPIED_BYTES <= largest_bytes:
        # Fast path: one long part among short ones, as in a request with one batch.
        at = sizes.index(largest_bytes)
        framed = [b"".join(parts[:at]), parts[at]]
        return framed if at + 1 == len(parts) else [*framed, b"".join(parts[at + 1 :])]
    joined: list[Any] = []
    small: list[Any] = []
    for part in parts:
        if len(part) < MIN_UNCOPIED_BYTES:
            small.append(part)
            continue
        joined.append(b"".join(small))
        joined.append(part)
        small = []
    if small:
        joined.append(b"".join(small))
    return joined
