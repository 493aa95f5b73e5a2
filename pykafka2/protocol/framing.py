"""Frames: length, header and body of requests and responses.

The client's connection and the broker's processor call these on their own threads; nothing is kept.  A frame
is handed out as a list of buffers for one gathered write, small pieces joined and record batches uncopied;
frames are taken in without their four length bytes.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final, TypeVar

from pykafka2.errors import CorruptData, UnsupportedVersion
from pykafka2.protocol import registry
from pykafka2.protocol.messages.headers import RequestHeader, ResponseHeader
from pykafka2.protocol.primitives import Buffer
from pykafka2.protocol.struct import Request, Response

ResponseT = TypeVar("ResponseT", bound=Response)

MIN_UNCOPIED_BYTES: Final = 8192
"""Pieces from this size on are handed out as they are; smaller ones are cheaper to join."""

_LENGTH: Final = struct.Struct(">i")
_KEY_AND_VERSION: Final = struct.Struct(">hh")
_START: Final = struct.Struct(">hhi")
"""Of a request's header: key, version, correlation id."""


def encode_request(
    request: Request[Any], version: int, correlation_id: int, client_id: str | None
) -> list[Buffer]:
    """The frame of a request, its four length bytes first.  Raises what Message.encode raises."""
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
) -> list[Buffer]:
    """The frame of a response, its four length bytes first; `body` is what `response.encode(version)` gives,
    where that is known.  Raises what Message.encode raises.
    """
    header = ResponseHeader(correlation_id=correlation_id)
    parts: list[Buffer] = [b""]
    header.encode_into(response_header_version(type(response), version), parts)
    if body is None:
        response.encode_into(version, parts)
    else:
        parts.append(body)
    return _framed(parts)


def response_header_version(response: type[Response], version: int) -> int:
    """1 for flexible versions; always 0 for ApiVersions, whose asker may not know the version (KIP-511)."""
    return int(response.is_flexible(version) and response.API_KEY != registry.ApiKey.API_VERSIONS)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request, and where its body begins.

    Versions above those we speak are read with the header of the newest, so that ApiVersions can be answered.

    Raises:
        UnsupportedVersion: the API key is not one we speak.
        CorruptData: the frame does not begin with a header.
    """
    if len(frame) < 4:
        raise CorruptData(f"RequestHeader: a request of {len(frame)} bytes has no room for one")
    api_key, version = _KEY_AND_VERSION.unpack_from(frame)
    flexible = registry.api(api_key).is_flexible(version)
    return RequestHeader.decode_from(frame, 0, 2 if flexible else 1)


def decode_request(frame: Buffer) -> tuple[RequestHeader, Request[Any]]:
    """A request with its header.

    Raises:
        UnsupportedVersion: we do not speak this API, or not this version of it.
        CorruptData: the bytes are no such request.
    """
    header, offset = decode_request_header(frame)
    return header, decode_request_body(header, frame, offset)


def decode_request_body(header: RequestHeader, frame: Buffer, offset: int) -> Request[Any]:
    """The request that follows a header; raises what decode_request raises."""
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
    """The correlation id and the response to a request of this class and version.

    Raises:
        CorruptData: the bytes are no such response.
    """
    response = decode_response_body(frame, request, version)  # which refuses a frame without an id
    return int.from_bytes(frame[:4], "big", signed=True), response


def decode_response_body(frame: Buffer, request: type[Request[ResponseT]], version: int) -> ResponseT:
    """Decode a response after the correlation id.  Raises the errors of `decode_response`."""
    response_class: Any = request.RESPONSE
    offset = 4
    if version >= response_class.FLEXIBLE_FROM and request.API_KEY != registry.ApiKey.API_VERSIONS:
        # Without tagged fields in its header, as good as always: nothing but their number.
        offset = 5 if frame[4:5] == b"\0" else ResponseHeader.decode_from(frame, 0, 1)[1]
    response, end = response_class.decode_from(frame, offset, version)
    if end != len(frame):
        _check_end(response, version, frame, end)
    return response  # type: ignore[no-any-return]


def _check_end(message: Request[Any] | Response, version: int, frame: Buffer, end: int) -> None:
    if end != len(frame):
        raise CorruptData(f"{message.NAME} v{version}: {len(frame) - end} bytes follow its last field")


def _framed(parts: list[Buffer]) -> list[Buffer]:
    """`parts`, of which the first is kept free for the length, with small neighbours joined."""
    size = sum(map(len, parts))
    parts[0] = _LENGTH.pack(size)
    if size < MIN_UNCOPIED_BYTES:
        return [b"".join(parts)]
    sizes = [*map(len, parts)]
    largest_bytes = max(sizes)
    if size - largest_bytes < MIN_UNCOPIED_BYTES <= largest_bytes:
        # One long part among short ones, as in a request with one batch: no step for each of them.
        at = sizes.index(largest_bytes)
        framed = [b"".join(parts[:at]), parts[at]]
        return framed if at + 1 == len(parts) else [*framed, b"".join(parts[at + 1 :])]
    joined: list[Buffer] = []
    small: list[Buffer] = []
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
