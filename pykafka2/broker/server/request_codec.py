"""Decodes frames into requests, and encodes responses, including bare SASL tokens.

The connection's SASL state decides which requests are allowed (security/authentication.py): before
authentication, only the header of a disallowed request is decoded. The processor's thread decodes, the
handler's thread encodes.
"""

from __future__ import annotations

from typing import Any, Protocol

from pykafka2.broker.security.authentication import Authentication
from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.request_context import ReceivedRequest, RequestContext
from pykafka2.errors import SerializationError, UnsupportedVersion
from pykafka2.network.transport import Buffer
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.framing import decode_request_start, encode_response, in_memory
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse
from pykafka2.protocol.primitives import FramePart
from pykafka2.protocol.registry import ApiKey, request_class
from pykafka2.protocol.struct import Request, Response, Struct


class ApiTable(Protocol):
    """The APIs and versions that clients can request."""

    def is_served(self, api_key: int, version: int) -> bool:
        """Return whether clients can send this request."""
        ...

    def why_not_served(self, api_key: int, version: int) -> str:
        """Return the reason for the log if a request is not served."""
        ...


class RequestDecoder:
    """Decodes the requests of all connections of a processor."""

    def __init__(self, apis: ApiTable, max_frame_bytes: int) -> None:
        self._apis = apis
        self.max_frame_bytes = max_frame_bytes
        """socket.request.max.bytes"""

    def limit_frames(self, connection: Connection, authentication: Authentication | None) -> None:
        """Set the frame limit, which is lower before authentication."""
        limit = None if authentication is None else authentication.max_frame_bytes
        if limit is None:
            connection.frames.limit(self.max_frame_bytes, "socket.request.max.bytes")
        else:
            connection.frames.limit(limit, "sasl.server.max.receive.size")

    def decode(
        self, frame: Buffer, connection: Connection, authentication: Authentication | None, now: float
    ) -> ReceivedRequest:
        """Return the request in a frame.

        Raise `NotAdmitted`, `UnsupportedVersion` or `CorruptData`; the connection must then be closed.
        """
        if authentication is not None and authentication.takes_raw_token:
            return _raw_token(frame, connection.client_id, now)
        key, version, correlation_id, client_id, offset = decode_request_start(frame)
        if authentication is not None:
            authentication.admit(key, now)
        connection.client_id = client_id
        is_unsupported = False
        request: Request[Any]
        if self._apis.is_served(key, version):
            # Bytes after the last field are ignored, as in Kafka: librdkafka's Metadata for all topics has
            # three of them (confluentinc/librdkafka#5049).
            request, _ = request_class(key).decode_from(frame, offset, version)
        elif key == ApiKey.API_VERSIONS:
            # The body can have an unknown version, and is not needed.
            request, is_unsupported = ApiVersionsRequest(), True
        else:
            raise UnsupportedVersion(self._apis.why_not_served(key, version))
        if isinstance(request, ApiVersionsRequest):
            connection.software = f"{request.client_software_name} {request.client_software_version}".strip()
        return ReceivedRequest(
            request,
            version,
            correlation_id,
            client_id,
            len(frame),
            now,
            is_unsupported=is_unsupported,
        )


def _raw_token(token: Buffer, client_id: str | None, now: float) -> ReceivedRequest:
    """Return a bare token, as after SaslHandshake version 0, as a SaslAuthenticate request."""
    request = SaslAuthenticateRequest(auth_bytes=bytes(token))
    return ReceivedRequest(request, 0, 0, client_id, len(token), now, is_raw_token=True)


LENGTH_BYTES = 4
MESSAGE_FIELDS = ("error_message", "batch_index_error_message")
# A character has at most four bytes, and Kafka's longest string 32,767.
MAX_MESSAGE_LENGTH = 8_000


def encode_response_parts(
    context: RequestContext, response: Response, *, sends_files: bool = False
) -> list[FramePart]:
    """Encode a response in parts; only its first half if the connection is to close that way.

    File parts remain if the connection `sends_files`; otherwise they are read here, since no file is read on
    a network thread.
    """
    received, delivery = context.received, context.delivery
    if received.is_raw_token and isinstance(response, SaslAuthenticateResponse):
        payload = _raw_response(response)
    else:
        version = 0 if received.is_unsupported else received.version
        body = None if delivery.throttle else delivery.known_body
        payload = response_parts(response, version, received.correlation_id, body)
    if not sends_files:
        payload = [*in_memory(payload)]
    if delivery.closing is not None and delivery.closing.sends_half:
        whole = b"".join(in_memory(payload))
        payload = [whole[: len(whole) // 2]]
    delivery.response_bytes = sum(map(len, payload))
    return payload


def response_parts(
    response: Response, version: int, correlation_id: int, body: bytes | None = None
) -> list[FramePart]:
    """Encode a response with its length; use `body` if it is already encoded.

    Error messages that do not fit are cut: they quote names from clients, which can have 32 KiB.
    """
    try:
        return encode_response(response, version, correlation_id, body)
    except SerializationError:
        if not _cut_messages(response):
            raise
        return encode_response(response, version, correlation_id, body)


def _cut_messages(struct: Struct) -> bool:
    """Shorten long error messages of a response. Return whether there were any."""
    has_cut = False
    for field in resolved_fields(type(struct)):
        value = getattr(struct, field.name)
        if field.name in MESSAGE_FIELDS and value is not None and len(value) > MAX_MESSAGE_LENGTH:
            setattr(struct, field.name, f"{value[:MAX_MESSAGE_LENGTH]}...")
            has_cut = True
        elif field.struct is not None and value is not None:
            for inner in value if field.array else (value,):
                has_cut |= _cut_messages(inner)
    return has_cut


def _raw_response(response: SaslAuthenticateResponse) -> list[FramePart]:
    """Return the broker's token with its length; an error only closes the connection."""
    if response.error_code:
        return []
    token = bytes(response.auth_bytes)
    return [len(token).to_bytes(LENGTH_BYTES, "big") + token]
