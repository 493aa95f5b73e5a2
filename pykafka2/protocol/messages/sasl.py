"""Authentication: SaslHandshake, SaslAuthenticate.

The first exchange on a connection with SASL; the mechanism defines the content of the tokens.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bytes, Int16, Int64, String, field
from pykafka2.protocol.struct import Request, Response


class SaslHandshakeRequest(Request["SaslHandshakeResponse"], api_key=17, versions="0-1"):
    """Choose a mechanism; from version 1 on, SaslAuthenticate carries the tokens."""

    mechanism: String


class SaslHandshakeResponse(Response, api_key=17, versions="0-1"):
    """The error, if the broker does not support it, and the mechanisms it supports."""

    error_code: Int16 = field(default=0)
    mechanisms: list[String]


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], api_key=36, versions="0-2", flexible="2+"):
    """A token of the mechanism's exchange."""

    auth_bytes: Bytes = field(secret=True)


class SaslAuthenticateResponse(Response, api_key=36, versions="0-2", flexible="2+"):
    """The broker's token and the session's lifetime (KIP-368)."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    auth_bytes: Bytes = field(secret=True)
    session_lifetime_ms: Int64 = field("1+", default=0, ignorable=True)  # 0: unlimited
