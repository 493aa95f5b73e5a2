"""SASL OAUTHBEARER (RFC 7628, KIP-255), the broker's side: JSON web tokens, and the keys that verify them.

Without a key every unsigned token is accepted, as by Kafka's validator for tests
(OAuthBearerUnsecuredValidatorCallbackHandler). With a key only tokens signed with it are accepted: by HS256
if the key is a secret, by RS256 if it is an authority's public keys, and never by another algorithm. An
invalid token gets the challenge {"status": ...}, and the exchange ends when the client has acknowledged it.
Verification with a public key needs no secret and one modular exponentiation, so the standard library
suffices.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from pykafka2.broker.security.sasl import Accepted, Exchange, SaslInvalid, SaslRefused
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.primitives import MAX_STRING_BYTES

RS256: Final = "RS256"

MIN_BITS: Final = 2048
MAX_BITS: Final = 16_384
MAX_EXPONENT: Final = 2**32

# Prefix of a SHA-256 digest in such a signature: the ASN.1 of its algorithm and length.
_SHA256_INFO: Final = bytes.fromhex("3031300d060960864801650304020105000420")


@attrs.define(frozen=True)
class RsaKey:
    """One public key; `id` is its `kid`, None if it has none."""

    id: str | None
    modulus: int
    exponent: int

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        """Return whether the signature is a valid RS256 signature of the data by this key."""
        size = (self.modulus.bit_length() + 7) // 8
        number = int.from_bytes(signature, "big")
        if len(signature) != size or number >= self.modulus:
            return False
        digest_info = _SHA256_INFO + hashlib.sha256(data).digest()
        # The whole block is compared: a laxer check accepts forged signatures (CVE-2006-4339).
        padded = b"\0\1" + b"\xff" * (size - len(digest_info) - 3) + b"\0" + digest_info
        return hmac.compare_digest(pow(number, self.exponent, self.modulus).to_bytes(size, "big"), padded)


@attrs.define(frozen=True)
class WebKeys:
    """The public keys of an authority that signs tokens."""

    keys: Sequence[RsaKey]

    @classmethod
    def of(cls, jwks: Mapping[str, Any]) -> WebKeys:
        """Return the RSA keys of a JWKS, {"keys": [{"kty": "RSA", "kid": ..., "n": ..., "e": ...}]}.

        Keys of other types and uses are ignored. Raise `ConfigurationError` if it is not a JWKS, or has no
        RSA key.
        """
        listed = jwks.get("keys")
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            raise ConfigurationError('token_key: a JWKS is a dict such as {"keys": [...]}')
        if not all(isinstance(key, Mapping) for key in listed):
            raise ConfigurationError("token_key: each key of a JWKS is a dict")
        keys = [
            _rsa_key(key)
            for key in listed
            if key.get("kty") == "RSA" and key.get("use", "sig") == "sig" and key.get("alg", RS256) == RS256
        ]
        if not keys:
            raise ConfigurationError("token_key: the JWKS has no RSA key for RS256 signatures")
        return cls(tuple(keys))

    def have_signed(self, key_id: object, data: bytes, signature: bytes) -> bool:
        """Return whether one of the keys signed the data; if the token names a key, only that one counts."""
        return any(key.has_signed(data, signature) for key in self.keys if key_id is None or key.id == key_id)


def _rsa_key(fields: Mapping[str, Any]) -> RsaKey:
    key = RsaKey(fields.get("kid"), _key_number(fields, "n"), _key_number(fields, "e"))
    bits = key.modulus.bit_length()
    if not MIN_BITS <= bits <= MAX_BITS:
        raise ConfigurationError(f"token_key: a key has {bits} bits; the range is {MIN_BITS} to {MAX_BITS}")
    if not 3 <= key.exponent <= MAX_EXPONENT or not key.exponent % 2:
        raise ConfigurationError("token_key: a key's exponent e is not valid for RSA")
    return key


def _key_number(fields: Mapping[str, Any], name: str) -> int:
    try:
        text = fields[name]
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")
    except (KeyError, TypeError, binascii.Error, ValueError):
        raise ConfigurationError(f"token_key: a key's {name} is not base64url") from None


UNDERSTOOD = b"\x01"
INVALID_TOKEN, INSUFFICIENT_SCOPE = "invalid_token", "insufficient_scope"
DEFAULT_LIFETIME_S = 3600.0
HS256 = "HS256"

_SASL_NAME = r"(?:[^=,\x00\x01]|=2C|=3D)+"
_FIRST = re.compile(
    rf"n,(?:a=(?P<on_behalf_of>{_SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x20-\x7e\r\n\t]*\x01)*)\x01"
)
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_.a-zA-Z0-9]+)")


class TokenRefused(Exception):
    """An invalid token. Its owner receives only `status`; the message is for the broker's log."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


@attrs.define(frozen=True)
class TokenRules:
    """Rules for valid tokens. Times are in seconds since 1970."""

    key: str | WebKeys | None = attrs.field(default=None, repr=False)
    """The key that must have signed tokens; None accepts unsigned tokens only."""
    audience: Sequence[str] = ()
    """A signed token must name one of these audiences; if empty, it must name none, as in Kafka."""
    issuer: str | None = None
    """The required issuer of a signed token."""
    principal_claim: str = "sub"
    clock_skew: float = 0.0

    def principal_of(self, token: str, now: float) -> tuple[str, float]:
        """Return a token's principal and expiry time. Raise `TokenRefused`."""
        claims = self._claims(token)
        name = claims.get(self.principal_claim)
        if not isinstance(name, str) or not name:
            raise TokenRefused(INVALID_TOKEN, f"the token has no claim {self.principal_claim!r}")
        if not _fits_messages(name):
            raise TokenRefused(
                INVALID_TOKEN, f"the token's claim {self.principal_claim!r} does not fit into a message"
            )
        expires_at, issued_at = _number(claims, "exp"), _number(claims, "iat")
        if expires_at is None or now - self.clock_skew >= expires_at:
            raise TokenRefused(INVALID_TOKEN, "the token has expired, or has no expiry time")
        if issued_at is not None and (issued_at > now + self.clock_skew or issued_at >= expires_at):
            raise TokenRefused(INVALID_TOKEN, "the token was issued in the future, or after its expiry")
        if self.key is not None:
            self._check_beginning(claims, issued_at, expires_at, now)
            self._check_addressee(claims)
        return name, expires_at

    def _claims(self, token: str) -> Mapping[str, Any]:
        parts = token.split(".")
        if len(parts) != 3:
            raise TokenRefused(INVALID_TOKEN, f"a token must have three parts, not {len(parts)}")
        header, claims = _object(parts[0]), _object(parts[1])
        if self.key is None:
            if header.get("alg") != "none" or parts[2]:
                raise TokenRefused(INVALID_TOKEN, "the token is signed, but there is no key to verify it")
        elif not _is_signed(self.key, header, parts):
            raise TokenRefused(INVALID_TOKEN, "the token is not signed with the key")
        return claims

    def _check_beginning(
        self, claims: Mapping[str, Any], issued_at: float | None, expires_at: float, now: float
    ) -> None:
        """Check the times of a signed token, like Kafka's BrokerJwtValidator."""
        if issued_at is None:
            raise TokenRefused(INVALID_TOKEN, "the token has no issue time")
        not_before = _number(claims, "nbf")
        if not_before is not None and (not_before > now + self.clock_skew or not_before > expires_at):
            raise TokenRefused(INVALID_TOKEN, "the token is not valid yet, or starts after its expiry")

    def _check_addressee(self, claims: Mapping[str, Any]) -> None:
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise TokenRefused(INVALID_TOKEN, "the token has another issuer")
        claim = claims.get("aud")
        audience = claim if isinstance(claim, list) else [claim]
        has_audience = bool(self.audience) or claim is not None
        if has_audience and not any(name in self.audience for name in audience):
            raise TokenRefused(INVALID_TOKEN, "the token is for another audience")


def oauthbearer(rules: TokenRules, wall_seconds: Callable[[], float]) -> Exchange:
    """Run one exchange: a token and, if it is invalid, an error that the client acknowledges."""
    on_behalf_of, token = _first_message(bytes((yield b"")))
    try:
        name, expires_at = rules.principal_of(token, wall_seconds())
    except TokenRefused as error:
        challenge = json.dumps({"status": error.status}, separators=(",", ":"))
        if (yield challenge.encode()) != UNDERSTOOD:
            raise SaslInvalid("the client did not acknowledge the error about its invalid token") from None
        raise SaslRefused(challenge) from None
    if on_behalf_of not in ("", name):
        raise SaslRefused(
            f"Authentication failed: Client requested an authorization id ({on_behalf_of}) that is different "
            f"from the token's principal name ({name})"
        )
    return Accepted(name, b"", int(expires_at * 1000))


def _first_message(token: bytes) -> tuple[str, str]:
    try:
        found = _FIRST.fullmatch(token.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslInvalid("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None or auth["scheme"].lower() != "bearer":
        raise SaslInvalid("Invalid OAUTHBEARER client first message: no bearer token")
    name = (found["on_behalf_of"] or "").replace("=2C", ",").replace("=3D", "=")
    return name, auth["token"]


def _object(part: str) -> Mapping[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenRefused(INVALID_TOKEN, "a part of the token is not a JSON object")
    return found


def _fits_messages(name: str) -> bool:
    """Return whether a name fits into messages between brokers.

    JSON strings can be longer, and hold lone surrogates.
    """
    try:
        return len(name.encode()) <= MAX_STRING_BYTES
    except UnicodeEncodeError:
        return False


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise TokenRefused(INVALID_TOKEN, f"the token's claim {name!r} is not a time")
    return float(value)


def _is_signed(key: str | WebKeys, header: Mapping[str, Any], parts: Sequence[str]) -> bool:
    algorithm = header.get("alg")
    if isinstance(key, str):
        return algorithm == HS256 and hmac.compare_digest(_signature(key, parts), parts[2])
    try:
        signature = base64.urlsafe_b64decode(parts[2] + "=" * (-len(parts[2]) % 4))
    except ValueError:
        return False
    signed = f"{parts[0]}.{parts[1]}".encode()
    return algorithm == RS256 and key.have_signed(header.get("kid"), signed, signature)


def _signature(key: str, parts: Sequence[str]) -> str:
    made = hmac.digest(key.encode(), f"{parts[0]}.{parts[1]}".encode(), hashlib.sha256)
    return _base64url(made)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def make_token(
    user: str, now: float, *, key: str | None = None, lifetime: float = DEFAULT_LIFETIME_S, **claims: object
) -> str:
    """Return a token for this user, valid for `lifetime` seconds from `now`; signed if a key is passed."""
    header = {"alg": "none" if key is None else HS256, "typ": "JWT"}
    body = {"sub": user, "iat": now, "exp": now + lifetime, **claims}
    parts = [_base64url(json.dumps(part).encode()) for part in (header, body)]
    return f"{parts[0]}.{parts[1]}.{'' if key is None else _signature(key, parts)}"
