"""Public keys that verify OAUTHBEARER tokens (a JWKS, RFC 7517), and RS256 (PKCS #1 v1.5, RFC 8017).

Verification with a public key needs no secret and one modular exponentiation, so the standard library
suffices.
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
    key = RsaKey(fields.get("kid"), _number(fields, "n"), _number(fields, "e"))
    bits = key.modulus.bit_length()
    if not MIN_BITS <= bits <= MAX_BITS:
        raise ConfigurationError(f"token_key: a key has {bits} bits; the range is {MIN_BITS} to {MAX_BITS}")
    if not 3 <= key.exponent <= MAX_EXPONENT or not key.exponent % 2:
        raise ConfigurationError("token_key: a key's exponent e is not valid for RSA")
    return key


def _number(fields: Mapping[str, Any], name: str) -> int:
    try:
        text = fields[name]
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")
    except (KeyError, TypeError, binascii.Error, ValueError):
        raise ConfigurationError(f"token_key: a key's {name} is not base64url") from None
