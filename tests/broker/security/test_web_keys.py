"""Tokens signed by RS256 with the private key of an authority; the broker has its public keys, a JWKS.

Signed by the package `cryptography`, which comes with trustme; what is verified here is ours.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.broker.security.oauthbearer import TokenRefused, TokenRules, WebKeys
from pykafka2.errors import ConfigurationError, SaslAuthenticationFailed
from pykafka2.testing import KafkaCluster

rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
padding = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.padding")
hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")

NOW = 1_767_225_600.0


def coded(data: bytes | int) -> str:
    if isinstance(data, int):
        data = data.to_bytes((data.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Authority:
    """An authority that signs tokens."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.numbers = self._key.public_key().public_numbers()

    def jwk(self, **changed: Any) -> dict[str, Any]:
        key = {"kty": "RSA", "kid": self.name, "use": "sig", "alg": "RS256"}
        return {**key, "n": coded(self.numbers.n), "e": coded(self.numbers.e), **changed}

    def sign(self, data: bytes) -> bytes:
        signature: bytes = self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        return signature

    def token(self, now: float = NOW, header: dict[str, Any] | None = None, **claims: Any) -> str:
        said = {"alg": "RS256", "kid": self.name, **(header or {})}
        body = {"sub": "ann", "iat": now, "exp": now + 60, **claims}
        signed = ".".join(coded(json.dumps(part).encode()) for part in (said, body))
        return f"{signed}.{coded(self.sign(signed.encode()))}"


@cache
def authority(name: str) -> Authority:
    return Authority(name)  # a tenth of a second each, and not while tests are collected


def one() -> Authority:
    return authority("one")


def two() -> Authority:
    return authority("two")


@pytest.fixture(scope="module")
def rules() -> TokenRules:
    return TokenRules(WebKeys.of({"keys": [one().jwk(), two().jwk(kid=None)]}))


def test_token_signed_with_either_key_is_accepted(rules: TokenRules) -> None:
    assert rules.principal_of(one().token(), NOW) == ("ann", NOW + 60)
    assert rules.principal_of(two().token(header={"kid": None}), NOW) == ("ann", NOW + 60)


def changed(token: str, part: int, data: bytes) -> str:
    parts = token.split(".")
    parts[part] = coded(data)
    return ".".join(parts)


def with_public_key_as_secret() -> str:
    """Return a token signed by HS256 with the public key, the classic confusion of algorithms."""
    parts = ({"alg": "HS256", "kid": "one"}, {"sub": "ann", "exp": NOW + 9})
    signed = ".".join(coded(json.dumps(part).encode()) for part in parts)
    public = json.dumps(one().jwk()).encode()
    return f"{signed}.{coded(hmac.digest(public, signed.encode(), hashlib.sha256))}"


REFUSED: dict[str, Callable[[], str]] = {
    "other claims": lambda: changed(one().token(), 1, json.dumps({"sub": "root", "exp": NOW + 60}).encode()),
    "another header": lambda: changed(one().token(), 0, b'{"alg":"RS256"}'),
    "no signature": lambda: changed(one().token(), 2, b""),
    "a signature of zeros": lambda: changed(one().token(), 2, bytes(256)),
    "a signature above the modulus": lambda: changed(one().token(), 2, b"\xff" * 256),
    "a signature that is too long": lambda: changed(one().token(), 2, bytes(8) + b"\1" * 256),
    "the key of another id": lambda: two().token(header={"kid": "one"}),
    "an unknown key id": lambda: one().token(header={"kid": "three"}),
    "an id that is no text": lambda: one().token(header={"kid": ["one"]}),
    "algorithm none without a signature": lambda: changed(one().token(header={"alg": "none"}), 2, b""),
    "another algorithm's name": lambda: one().token(header={"alg": "RS512"}),
    "no algorithm's name": lambda: one().token(header={"alg": None}),
    "the public key for a secret": with_public_key_as_secret,
    "an end that is past": lambda: one().token(NOW - 100),
    "a signature that is no base64": lambda: one().token().rpartition(".")[0] + ".a",
}


@pytest.mark.parametrize("case", REFUSED)
def test_forged_or_expired_token_is_rejected(rules: TokenRules, case: str) -> None:
    with pytest.raises(TokenRefused):
        rules.principal_of(REFUSED[case](), NOW)


@pytest.mark.parametrize(
    ("jwks", "words"),
    [
        (dict, 'a dict such as {"keys"'),
        (lambda: {"keys": "abc"}, 'a dict such as {"keys"'),
        (lambda: {"keys": ["abc"]}, "each key of a JWKS is a dict"),
        (lambda: {"keys": []}, "no RSA key"),
        (lambda: {"keys": [{"kty": "EC"}, one().jwk(use="enc"), one().jwk(alg="RS512")]}, "no RSA key"),
        (lambda: {"keys": [one().jwk(n="AQAB")]}, "a key has 17 bits"),
        (lambda: {"keys": [one().jwk(n=coded(1 << 20_000))]}, "range is 2048 to 16384"),
        (lambda: {"keys": [one().jwk(e="AQ")]}, "exponent"),
        (lambda: {"keys": [one().jwk(e=None)]}, "e is not base64url"),
    ],
)
def test_invalid_jwks_is_rejected(jwks: Callable[[], dict[str, Any]], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        KafkaCluster(1, token_key=jwks())


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {
        "connection.failed.authentication.delay.ms": 1,
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    jwks = {"keys": [one().jwk()]}
    with KafkaCluster(1, {"t": 1}, listeners=["SASL_PLAINTEXT"], token_key=jwks, config=config) as cluster:
        yield cluster


def test_client_logs_in_with_a_token_signed_by_the_authority(cluster: KafkaCluster) -> None:
    options: Any = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
    }
    mine = one().token(time.time(), aud="kafka")
    with KafkaProducer(sasl_oauth_token_provider=lambda: mine, **options) as producer:
        producer.send("t", b"x").result(10)
        assert {one.principal for one in cluster.connections()} == {"User:ann"}
    for wrong in (one().token(time.time(), aud="another"), two().token(time.time(), aud="kafka")):
        with (
            KafkaProducer(sasl_oauth_token_provider=lambda token=wrong: token, **options) as producer,
            pytest.raises(SaslAuthenticationFailed),
        ):
            producer.send("t", b"x").result(10)
    with pytest.raises(ConfigurationError, match="Sign them with your private key"):
        cluster.token("ann")
