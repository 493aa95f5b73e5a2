"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84), the broker's side.

The metadata stores a `ScramCredential` instead of the password; it cannot be used to log in. The arithmetic
is shared with the client (network/sasl/scram_messages.py). Messages are parsed here, slightly more strictly
than by Kafka's ScramSaslServer, and the final nonce must equal the broker's own (CVE-2024-56128). An exchange
costs a few hashes: the client does the iterations.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from enum import IntEnum

import attrs

from pykafka2.broker.security.sasl import Accepted, Exchange, SaslInvalid, SaslRefused
from pykafka2.clock import Entropy
from pykafka2.network.sasl import scram_messages as messages


class ScramMechanism(IntEnum):
    """Mechanisms, as numbered in requests."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The SASL name, such as "SCRAM-SHA-256"."""
        return self.name.replace("_", "-")


KINDS = {kind.sasl_name: kind for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)}
"""Mechanisms by SASL name."""

MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 16_384
"""Bounds of the iterations in AlterUserScramCredentials (KIP-554)."""


@attrs.define(frozen=True)
class ScramCredential:
    """The stored form of a user's password for one mechanism."""

    salt: bytes = attrs.field(repr=False)
    stored_key: bytes = attrs.field(repr=False)
    server_key: bytes = attrs.field(repr=False)
    iterations: int

    @classmethod
    def of_password(cls, mechanism: str, password: str, salt: bytes, iterations: int) -> ScramCredential:
        """Hash a password `iterations` times."""
        keys = messages.derive_keys(mechanism, password, salt, iterations)
        return cls(salt, keys.stored_key, keys.server_key, iterations)

    @classmethod
    def of_salted_password(
        cls, mechanism: str, salted: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Return the credential for a password that the client has already hashed."""
        keys = messages.keys_of_salted(mechanism, salted)
        return cls(salt, keys.stored_key, keys.server_key, iterations)


SALT_BYTES = 24


def scram_credentials(
    password: str, mechanisms: Iterable[str], entropy: Entropy, iterations: int = MIN_ITERATIONS
) -> dict[ScramMechanism, ScramCredential]:
    """Return the credential of a password for each mechanism, each with its own salt. Takes milliseconds."""
    return {
        KINDS[name]: ScramCredential.of_password(name, password, entropy.token_bytes(SALT_BYTES), iterations)
        for name in mechanisms
    }


@attrs.define(frozen=True)
class ScramUser:
    """The user for a name in a SCRAM message."""

    principal: str
    credential: ScramCredential
    is_from_token: bool = False
    expires_at_ms: int | None = None


Lookup = Callable[[str, bool], "ScramUser | None"]
"""Callback: (name, whether it is the id of a delegation token) -> the user, or None if it is unknown."""

_SASL_NAME = r"(?:[^=,\x00]|=2C|=3D)+"
_PRINTABLE = r"[!-+\--~]+"
_CLIENT_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<on_behalf_of>{_SASL_NAME}))?,)"
    rf"(?P<bare>n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>(?:,[A-Za-z]+=[^,\x00]+)*))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<unproved>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_PRINTABLE})(?:,[A-Za-z]+=[^,\x00]+)*?)"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)
_DELEGATION = ",tokenauth=true"


def scram(mechanism: str, users: Lookup, new_nonce: Callable[[], str]) -> Exchange:
    """Run one exchange: names and nonces, then the proofs of both sides."""
    first = _matched(_CLIENT_FIRST, (yield b""), "first")
    name = _unescaped(first["name"])
    is_token = _DELEGATION in first["extensions"].lower()
    user = users(name, is_token)
    if user is None:
        raise SaslInvalid("Authentication failed: Invalid user credentials")
    if _unescaped(first["on_behalf_of"] or "") not in ("", name):
        raise SaslRefused(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    nonce = first["nonce"] + new_nonce()
    credential = user.credential
    salt = base64.b64encode(credential.salt).decode()
    challenge = f"r={nonce},s={salt},i={credential.iterations}"
    final = _matched(_CLIENT_FINAL, (yield challenge.encode()), "last")
    if final["nonce"] != nonce:
        raise SaslInvalid("Invalid client nonce in the final client message.")
    if _decoded(final["binding"]) != first["gs2"].encode():
        raise SaslInvalid("the client's channel binding differs from that of its first message")
    signed = f"{first['bare']},{challenge},{final['unproved']}"
    if not messages.proves(mechanism, credential.stored_key, _decoded(final["proof"]), signed):
        raise SaslInvalid("Invalid client credentials")
    signature = messages.server_signature(
        mechanism, messages.Keys(credential.stored_key, credential.server_key), signed
    )
    last = b"v=" + base64.b64encode(signature)
    return Accepted(user.principal, last, user.expires_at_ms, user.is_from_token)


def _matched(pattern: re.Pattern[str], token: bytes, which: str) -> re.Match[str]:
    if len(token) <= messages.MAX_MESSAGE_BYTES:
        try:
            found = pattern.fullmatch(bytes(token).decode())
        except UnicodeDecodeError:
            found = None
        if found is not None:
            return found
    raise SaslInvalid(f"Invalid SCRAM {which} client message format")


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
