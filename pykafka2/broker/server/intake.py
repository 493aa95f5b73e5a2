"""Decodes frames into requests.

The connection's SASL state decides which requests are allowed (security/authentication.py): before
authentication, only the header of a disallowed request is decoded. Called on the processor's thread.
"""

from __future__ import annotations

from typing import Any

from pykafka2.broker.security.authentication import Authentication
from pykafka2.broker.server.api_table import ApiTable
from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.context_parts import ReceivedRequest
from pykafka2.errors import UnsupportedVersion
from pykafka2.network.transport import Buffer
from pykafka2.protocol.framing import decode_request_start
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.sasl import SaslAuthenticateRequest
from pykafka2.protocol.registry import ApiKey, request_class
from pykafka2.protocol.struct import Request


class Intake:
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

    def request_in(
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
