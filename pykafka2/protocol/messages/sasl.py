"""Authentication: SaslHandshake, SaslAuthenticate.

The first exchange on a connection that uses SASL; what the tokens hold is the mechanism's affair.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Bytes, Int16, Int64, String, field
from pykafka2.protocol.struct import Request, Response


class SaslHandshakeRequest(Request["SaslHandshakeResponse"], api_key=17, versions="0-1"):
    """Choose a mechanism; version 1 lets tokens travel in SaslAuthenticate."""

    mechanism: String


class SaslHandshakeResponse(Response, api_key=17, versions="0-1"):
    """Whether the broker has it, and which it has."""

    error_code: Int16 = field(default=0)
    mechanisms: list[String]


class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"], api_key=36, versions="0-2", flexible="2+"):
    """One token of the mechanism's exchange."""

    auth_bytes: Bytes = field(secret=True)


class SaslAuthenticateResponse(Response, api_key=36, versions="0-2", flexible="2+"):
    """The broker's token, and how long the session lasts (KIP-368)."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field(default="", nullable="0+")
    auth_bytes: Bytes = field(secret=True)
    session_lifetime_ms: Int64 = field("1+", default=0, ignorable=True)  # 0: without end
