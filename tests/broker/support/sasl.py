"""Logins over raw connections, exchanges of SASL step by step, and an independent SCRAM client."""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct
from typing import Any

from pykafka2.broker.security.sasl import Accepted, Exchange
from pykafka2.broker.security.scram import KINDS, ScramCredential, ScramMechanism, ScramUser, scram
from pykafka2.errors import SaslAuthenticationFailed
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from pykafka2.testing import KafkaCluster
from tests.broker.support.raw_client import RawClient

PASSWORD = "pencil"
SALT = b"0123456789abcdef"
SERVER_NONCE = "3rfcNHYJY1ZVvWVs7j"


def scram_exchange(mechanism: str = "SCRAM-SHA-256", user: str = "ann", iterations: int = 4096) -> Exchange:
    """Return the broker's side of an exchange, started, with one user."""
    kept = ScramCredential.of_password(mechanism, PASSWORD, SALT, iterations)

    def users(kind: ScramMechanism, name: str, is_token: bool) -> ScramUser | None:
        return ScramUser(name, kept) if name == user and not is_token else None

    exchange = scram(
        mechanism, lambda name, is_token: users(KINDS[mechanism], name, is_token), lambda: SERVER_NONCE
    )
    next(exchange)
    return exchange


def accepted(exchange: Exchange, token: bytes) -> Accepted:
    """Return how the exchange ends with this token."""
    try:
        response = exchange.send(token)
    except StopIteration as end:
        result: Accepted = end.value
        return result
    raise AssertionError(f"the exchange continues with {response!r}")


def final_message(
    challenge: bytes,
    first_bare: str = "n=ann,r=abc",
    *,
    password: str = PASSWORD,
    algorithm: str = "sha256",
    nonce: str | None = None,
    binding: str = "biws",
) -> bytes:
    """Return a client's last message, computed without the package's code."""
    fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
    salted = hashlib.pbkdf2_hmac(
        algorithm, password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
    )
    client_key = hmac.new(salted, b"Client Key", algorithm).digest()
    stored_key = hashlib.new(algorithm, client_key).digest()
    without_proof = f"c={binding},r={fields['r'] if nonce is None else nonce}"
    message = f"{first_bare},{challenge.decode()},{without_proof}".encode()
    signature = hmac.new(stored_key, message, algorithm).digest()
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


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
