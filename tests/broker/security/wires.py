"""Logins over raw connections."""

from __future__ import annotations

import struct
from typing import Any

from pykafka2.errors import SaslAuthenticationFailed
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from pykafka2.testing import KafkaCluster
from tests.broker.support.raw_client import RawClient

from .exchanges import final_message

USERS = {"ann": "ann-secret", "bob": "bob-secret"}
"""The users of the clusters in these tests, with their passwords."""

LIMIT = 524_288
FAILED = SaslAuthenticationFailed.code
BEFORE = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")


def address_of(cluster: KafkaCluster, listener: str, broker: int = 0) -> str:
    return cluster.bootstrap_servers_of(listener).split(",")[broker]


def plain_token(user: str, password: str | None = None) -> bytes:
    return f"\0{user}\0{USERS.get(user, '') if password is None else password}".encode()


def authenticate(wire: RawClient, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    return wire.call(SaslAuthenticateRequest(auth_bytes=token), version)


def log_in(
    wire: RawClient, user: str = "ann", mechanism: str = "PLAIN", **secrets: Any
) -> SaslAuthenticateResponse:
    """Send the handshake and the tokens, and return the last response."""
    assert wire.call(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    if mechanism == "PLAIN":
        return authenticate(wire, plain_token(user, secrets.get("password")))
    if mechanism == "OAUTHBEARER":
        return authenticate(wire, f"n,,\x01auth=Bearer {secrets['token']}\x01\x01".encode())
    first = authenticate(wire, f"n,,n={user},r=abc".encode())
    if first.error_code:
        return first
    password = secrets.get("password") or USERS[user]
    algorithm = f"sha{mechanism[-3:]}"
    final = final_message(bytes(first.auth_bytes), f"n={user},r=abc", password=password, algorithm=algorithm)
    return authenticate(wire, final)


def raw_frame(token: bytes) -> bytes:
    return len(token).to_bytes(4, "big") + token


def processed(cluster: KafkaCluster) -> set[str]:
    """Return the APIs that the brokers have handled, except those of the well-behaved user."""
    return {entry.api for entry in cluster.history if entry.client_id != "well-behaved"}


def frame_of(key: int, version: int, body: bytes = b"") -> bytes:
    return struct.pack(">hhi", key, version, 7) + b"\0\4evil" + body


def request_bytes(request: object, version: int) -> bytes:
    return b"".join(encode_request(request, version, 1, "evil"))  # type: ignore[arg-type]
