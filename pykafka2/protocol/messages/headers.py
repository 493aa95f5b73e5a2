"""Headers of requests and responses.

framing.py chooses the version; RequestHeader v0 is that of Kafka's oldest ControlledShutdown.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int16, Int32, String, field
from pykafka2.protocol.struct import Data


class RequestHeader(Data, versions="0-2", flexible="2+"):
    """API key, version and correlation id of a request, and its client id."""

    request_api_key: Int16
    request_api_version: Int16
    correlation_id: Int32
    client_id: String | None = field("1+", default="", nullable="0+", flexible=False)


class ResponseHeader(Data, versions="0-1", flexible="1+"):
    """The correlation id of the request."""

    correlation_id: Int32
