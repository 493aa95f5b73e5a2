"""The messages and computations of SCRAM (RFC 5802, RFC 7677; Kafka: KIP-84), for both sides.

Pure functions over bytes and text. As in Kafka, names and passwords are UTF-8 without normalisation.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

import attrs

from pykafka2.errors import SaslAuthenticationFailed

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4_096
"""Fewer would make it cheap to guess the password of a stolen hash (RFC 7677)."""
MAX_ITERATIONS = 1_000_000
"""More would let a fake broker use minutes of the client's CPU."""
MAX_MESSAGE_BYTES = 4_096
NO_CHANNEL_BINDING = b"n,,"
LONGEST_SHOWN = 200
"""Characters of a server's error that are shown."""

_PRINTABLE = re.compile(r"[!-+\--~]+")
"""The characters of a nonce: printable ASCII except the comma."""
_MAX_ITERATION_DIGITS = 10


@attrs.define(frozen=True)
class ServerFirst:
    """The server's response to the client's first message."""

    nonce: str
    salt: bytes
    iterations: int
    text: str
    """The whole message, which both sides sign."""


@attrs.define(frozen=True)
class Keys:
    """The keys of a salted password, which a server stores instead of the password."""

    stored_key: bytes
    server_key: bytes
    client_key: bytes = b""
    """Only clients have it."""


def escaped(name: str) -> str:
    """Return a user name with the escapes of a message."""
    return name.replace("=", "=3D").replace(",", "=2C")


def client_first_bare(username: str, nonce: str, extensions: str = "") -> str:
    """Return the part of the client's first message that both sides sign."""
    return f"n={escaped(username)},r={nonce}" + (f",{extensions}" if extensions else "")


def client_final_without_proof(nonce: str) -> str:
    binding = base64.b64encode(NO_CHANNEL_BINDING).decode()
    return f"c={binding},r={nonce}"


def parse_server_first(message: bytes, client_nonce: str) -> ServerFirst:
    """Parse the server's first message. Raise SaslAuthenticationFailed if it is malformed."""
    text = _text(message)
    fields = text.split(",")
    if fields[0].startswith("m="):
        raise SaslAuthenticationFailed("the broker requires a SCRAM extension that pykafka2 does not support")
    if len(fields) < 3 or not all(map(str.startswith, fields, ("r=", "s=", "i="))):
        raise SaslAuthenticationFailed("the broker's first SCRAM message is malformed")
    nonce = fields[0][2:]
    if not nonce.startswith(client_nonce) or len(nonce) == len(client_nonce):
        raise SaslAuthenticationFailed("the broker's SCRAM nonce does not begin with the client's nonce")
    if not _PRINTABLE.fullmatch(nonce):
        raise SaslAuthenticationFailed("the broker's SCRAM nonce has illegal characters")
    return ServerFirst(nonce, _decoded(fields[1][2:], "salt"), _iterations(fields[2][2:]), text)


def verify_server_final(message: bytes, server_signature: bytes) -> None:
    """Verify that the server's last message proves it has the password, or raise SaslAuthenticationFailed."""
    first = _text(message).split(",")[0]
    if first.startswith("e="):
        raise SaslAuthenticationFailed(f"the broker rejected the credentials: {first[2:LONGEST_SHOWN]!r}")
    if not first.startswith("v="):
        raise SaslAuthenticationFailed("the broker's last SCRAM message is malformed")
    if not hmac.compare_digest(_decoded(first[2:], "signature"), server_signature):
        raise SaslAuthenticationFailed(
            "the broker's SCRAM signature is wrong: it does not have the password and can be an impostor"
        )


def derive_keys(mechanism: str, password: str, salt: bytes, iterations: int) -> Keys:
    """Return the keys of a password, hashed `iterations` times."""
    return keys_of_salted(mechanism, salted_password(mechanism, password, salt, iterations))


def salted_password(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Hash the password `iterations` times: up to a second of work, which releases the GIL."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, iterations)


def keys_of_salted(mechanism: str, salted: bytes) -> Keys:
    """Return the keys of a hashed password."""
    algorithm = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    return Keys(stored_key, hmac.digest(salted, b"Server Key", algorithm), client_key)


def client_proof(mechanism: str, keys: Keys, auth_message: str) -> bytes:
    signature = hmac.digest(keys.stored_key, auth_message.encode(), HASHES[mechanism])
    return bytes(a ^ b for a, b in zip(keys.client_key, signature, strict=True))


def proves(mechanism: str, stored_key: bytes, proof: bytes, auth_message: str) -> bool:
    """Return True if the client's proof is valid for the stored key (server side)."""
    algorithm = HASHES[mechanism]
    signature = hmac.digest(stored_key, auth_message.encode(), algorithm)
    if len(proof) != len(signature):
        return False
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    return hmac.compare_digest(hashlib.new(algorithm, client_key).digest(), stored_key)


def server_signature(mechanism: str, keys: Keys, auth_message: str) -> bytes:
    return hmac.digest(keys.server_key, auth_message.encode(), HASHES[mechanism])


def _text(message: bytes) -> str:
    if len(message) > MAX_MESSAGE_BYTES:
        raise SaslAuthenticationFailed(
            f"the broker's SCRAM message has {len(message)} bytes; at most {MAX_MESSAGE_BYTES} are accepted"
        )
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("the broker's SCRAM message is not UTF-8") from None


def _decoded(value: str, what: str) -> bytes:
    try:
        decoded = base64.b64decode(value, validate=True)
    except ValueError:
        decoded = b""
    if not decoded:
        raise SaslAuthenticationFailed(f"the broker's SCRAM {what} is not base64")
    return decoded


def _iterations(value: str) -> int:
    is_number = value.isascii() and value.isdigit() and len(value) <= _MAX_ITERATION_DIGITS
    if is_number and MIN_ITERATIONS <= int(value) <= MAX_ITERATIONS:
        return int(value)
    raise SaslAuthenticationFailed(
        f"the broker requires {value[:_MAX_ITERATION_DIGITS]!r} SCRAM iterations; "
        f"{MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
    )
