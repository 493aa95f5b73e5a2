"""Helpers for tests of mechanisms: exchanges driven by hand, and an independent SCRAM client."""

from __future__ import annotations

import base64
import hashlib
import hmac

from pykafka2.broker.security.sasl import Accepted, Exchange
from pykafka2.broker.security.scram import KINDS, ScramCredential, ScramMechanism, ScramUser, scram

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
