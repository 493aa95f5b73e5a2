"""Public keys of who signs OAUTHBEARER tokens (a JWKS, RFC 7517), and RS256 (PKCS #1 v1.5, RFC 8017).

Verifying with a public key needs no secret and one power of a number, so the standard library does.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from pykafka2.errors import ConfigurationError

RS256: Final = "RS256"

MIN_BITS: Final = 2048
MAX_BITS: Final = 16_384
MAX_EXPONENT: Final = 2**32

# What stands before a SHA-256 digest in such a signature: the ASN.1 of its algorithm and length.
_SHA256_INFO: Final = bytes.fromhex("3031300d060960864801650304020105000420")


@attrs.define(frozen=True)
class RsaKey:
    """One public key; `id` is its `kid`, None where it has none."""

    id: str | None
    modulus: int
    exponent: int

    def has_signed(self, data: bytes, signature: bytes) -> bool:
        """Whether this is RS256's signature of the data by this key's owner."""
        size = (self.modulus.bit_length() + 7) // 8
        number = int.from_bytes(signature, "big")
        if len(signature) != size or number >= self.modulus:
            return False
        told = _SHA256_INFO + hashlib.sha256(data).digest()
        # The whole block is compared: what is laxer lets in who forges (CVE-2006-4339).
        padded = b"\0\1" + b"\xff" * (size - len(told) - 3) + b"\0" + told
        return hmac.compare_digest(pow(number, self.exponent, self.modulus).to_bytes(size, "big"), padded)


@attrs.define(frozen=True)
class WebKeys:
    """The keys of an authority that signs tokens."""

    keys: Sequence[RsaKey]

    @classmethod
    def of(cls, jwks: Mapping[str, Any]) -> WebKeys:
        """The RSA keys of a JWKS, as {"keys": [{"kty": "RSA", "kid": ..., "n": ..., "e": ...}]}; those of
        other kinds and uses are passed over.  Raises `ConfigurationError` for what is none, or has none.
        """
        listed = jwks.get("keys")
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            raise ConfigurationError('token_key: a JWKS is a dict such as {"keys": [...]}')
        if not all(isinstance(one, Mapping) for one in listed):
            raise ConfigurationError("token_key: each key of a JWKS is a dict")
        keys = [
            _rsa_key(one)
            for one in listed
            if one.get("kty") == "RSA" and one.get("use", "sig") == "sig" and one.get("alg", RS256) == RS256
        ]
        if not keys:
            raise ConfigurationError("token_key: the JWKS has no RSA key for RS256 signatures")
        return cls(tuple(keys))

    def have_signed(self, key_id: object, data: bytes, signature: bytes) -> bool:
        """Whether one of them has; only the one that a token names, if it names one."""
        return any(one.has_signed(data, signature) for one in self.keys if key_id is None or one.id == key_id)


def _rsa_key(one: Mapping[str, Any]) -> RsaKey:
    key = RsaKey(one.get("kid"), _number(one, "n"), _number(one, "e"))
    bits = key.modulus.bit_length()
    if not MIN_BITS <= bits <= MAX_BITS:
        raise ConfigurationError(f"token_key: a key has {bits} bits; {MIN_BITS} to {MAX_BITS} may be")
    if not 3 <= key.exponent <= MAX_EXPONENT or not key.exponent % 2:
        raise ConfigurationError("token_key: a key's exponent e is none of RSA's")
    return key


def _number(one: Mapping[str, Any], name: str) -> int:
    try:
        text = one[name]
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")
    except (KeyError, TypeError, binascii.Error, ValueError):
        raise ConfigurationError(f"token_key: a key's {name} is not base64url") from None
