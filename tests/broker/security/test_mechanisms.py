"""The broker's side of each SASL mechanism: accepted and rejected tokens, and error messages."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.broker.security.oauthbearer import TokenRules, make_token, oauthbearer
from pykafka2.broker.security.sasl import Accepted, Exchange, Passwords, SaslInvalid, SaslRefused, plain
from pykafka2.broker.security.scram import ScramCredential
from pykafka2.network.sasl.scram import Scram
from pykafka2.network.script import Offload
from tests.broker.support.sasl import PASSWORD, SALT, SERVER_NONCE, accepted, final_message, scram_exchange
from tests.web_tokens import unsigned

NOW = 1_800_000_000.0


def plain_exchange() -> Exchange:
    passwords = Passwords()
    passwords.set("ann", "ann's,=\u00fc")
    exchange = plain(passwords)
    next(exchange)
    return exchange


def test_plain_accepts_the_right_password() -> None:
    for on_behalf_of in ("", "ann"):
        token = f"{on_behalf_of}\0ann\0ann's,=\u00fc"
        assert accepted(plain_exchange(), token.encode()) == Accepted("ann")


WRONG_PASSWORD = "Authentication failed: Invalid username or password"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (b"\0ann\0wrong", WRONG_PASSWORD),
        (b"\0eve\0wrong", WRONG_PASSWORD),
        (b"\0eve\0compared with the password of an unknown user", WRONG_PASSWORD),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0ann\0", "Authentication failed: password not specified"),
        (
            "eve\0ann\0ann's,=\u00fc".encode(),
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ],
    ids=["wrong password", "unknown user", "the dummy", "no user", "no password", "for another"],
)
def test_plain_rejects_with_kafkas_messages(token: bytes, words: str) -> None:
    with pytest.raises(SaslRefused) as refused:
        plain_exchange().send(token)
    assert str(refused.value) == words


@pytest.mark.parametrize(("token", "count"), [(b"", 1), (b"\0ann", 2), (b"\0a\0b\0c", 4), (b"\0\0\0\0", 4)])
def test_plain_rejects_a_message_with_another_number_of_parts(token: bytes, count: int) -> None:
    with pytest.raises(SaslRefused, match=f"expected 3 tokens, got {count}"):
        plain_exchange().send(token)


def test_plain_with_invalid_utf8_fails_without_a_reason() -> None:
    with pytest.raises(SaslInvalid):
        plain_exchange().send(b"\0\xff\0x")


def test_reprs_have_no_password() -> None:
    passwords = Passwords()
    passwords.set("ann", "canary")
    kept = ScramCredential.of_password("SCRAM-SHA-256", "canary", SALT, 4096)
    assert "canary" not in repr(passwords) + repr(TokenRules("canary"))
    assert repr(kept) == "ScramCredential(iterations=4096)"


# ---------------------------------------------------------------------- SCRAM


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_scram_accepts_a_valid_proof_and_returns_the_server_signature(algorithm: str) -> None:
    mechanism = f"SCRAM-SHA-{algorithm[3:]}"
    exchange = scram_exchange(mechanism)
    challenge = exchange.send(b"n,,n=ann,r=abc")
    assert challenge.startswith(f"r=abc{SERVER_NONCE},s=".encode())
    end = accepted(exchange, final_message(challenge, algorithm=algorithm))
    assert end.name == "ann"
    salted = hashlib.pbkdf2_hmac(algorithm, PASSWORD.encode(), SALT, 4096)
    server_key = hmac.new(salted, b"Server Key", algorithm).digest()
    signed = f"n=ann,r=abc,{challenge.decode()},c=biws,r=abc{SERVER_NONCE}"
    signature = hmac.new(server_key, signed.encode(), algorithm).digest()
    assert end.last_token == b"v=" + base64.b64encode(signature)


@pytest.mark.parametrize("user", ["ann", "a,b=c", "=2C", "Zo\u00eb", "user name"])
def test_scram_of_both_sides_agree_on_names(user: str) -> None:
    client = Scram("SCRAM-SHA-256", user, PASSWORD, bytes, False).exchange()
    server = scram_exchange(user=user)
    token = next(client)
    assert isinstance(token, bytes)
    step = client.send(server.send(token))
    while isinstance(step, Offload):
        step = client.send(step.work())
    end = accepted(server, step)
    assert end.name == user
    with pytest.raises(StopIteration):
        client.send(end.last_token)


FIRST_MESSAGES = {
    "empty": b"",
    "not UTF-8": b"n,,n=\xff,r=abc",
    "a channel binding": b"p=tls-unique,,n=ann,r=abc",
    "a client that could bind": b"y,,n=ann,r=abc",
    "no nonce": b"n,,n=ann",
    "an empty nonce": b"n,,n=ann,r=",
    "a nonce with a control character": b"n,,n=ann,r=a\x01c",
    "an empty name": b"n,,n=,r=abc",
    "a name with a bare =": b"n,,n=a=n,r=abc",
    "a name with NUL": b"n,,n=a\0n,r=abc",
    "a mandatory extension": b"n,,m=x,n=ann,r=abc",
    "an unknown user": b"n,,n=eve,r=abc",
    "a user's name in another case": b"n,,n=Ann,r=abc",
    "an unknown delegation token": b"n,,n=ann,r=abc,tokenauth=true",
    "more than 4 KiB": b"n,,n=ann,r=" + b"a" * 4096,
    "a final message first": b"c=biws,r=abc,p=AAAA",
}


@pytest.mark.parametrize("case", FIRST_MESSAGES)
def test_scram_rejects_an_invalid_first_message(case: str) -> None:
    with pytest.raises(SaslInvalid):
        scram_exchange().send(FIRST_MESSAGES[case])


def test_scram_rejects_another_authorization_id() -> None:
    with pytest.raises(SaslRefused, match="authorization id"):
        scram_exchange().send(b"n,a=eve,n=ann,r=abc")
    assert scram_exchange().send(b"n,a=ann,n=ann,r=abc,other=x")


FINAL_MESSAGES = {
    "a wrong password": {"password": "wrong"},
    "another nonce": {"nonce": "abc"},
    "a nonce with the server's end": {"nonce": f"xabc{SERVER_NONCE}"},
    "a nonce with the server's beginning": {"nonce": f"abc{SERVER_NONCE}x"},
    "the client's nonce twice": {"nonce": f"abcabc{SERVER_NONCE}"},
    "an empty nonce": {"nonce": ""},
    "another channel binding": {"binding": "eSws"},
    "a binding that is no base64": {"binding": "b"},
    "signed over another first message": {"first_bare": "n=eve,r=abc"},
    "another hash": {"algorithm": "sha512"},
}


@pytest.mark.parametrize("case", FINAL_MESSAGES)
def test_scram_rejects_a_final_message_with_a_wrong_proof_or_nonce(case: str) -> None:
    exchange = scram_exchange()
    challenge = exchange.send(b"n,,n=ann,r=abc")
    with pytest.raises(SaslInvalid):
        exchange.send(final_message(challenge, **FINAL_MESSAGES[case]))


@pytest.mark.parametrize(
    "change",
    [
        lambda final: b"",
        lambda final: final[:-8],
        lambda final: final + b"=",
        lambda final: final.replace(b",p=", b",m=x,p="),
        lambda final: final + b",p=AAAA",
        lambda final: final.rpartition(b",p=")[0],
        lambda final: final.rpartition(b",p=")[0] + b",p=" + base64.b64encode(bytes(32)),
        lambda final: final.rpartition(b",p=")[0] + b",p=" + base64.b64encode(bytes(31)),
        lambda final: b"n,,n=ann,r=abc",
        lambda final: b"\xff" + final,
        lambda final: b"x" * 5000,
    ],
    ids=[
        "empty",
        "cut",
        "with more padding",
        "with an extension that is not signed",
        "with two proofs",
        "without proof",
        "a proof of zeros",
        "a proof that is too short",
        "the first message again",
        "not UTF-8",
        "too long",
    ],
)
def test_scram_rejects_a_malformed_final_message(change: Callable[[bytes], bytes]) -> None:
    exchange = scram_exchange()
    challenge = exchange.send(b"n,,n=ann,r=abc")
    with pytest.raises(SaslInvalid):
        exchange.send(change(final_message(challenge)))


# ---------------------------------------------------------------------- OAUTHBEARER


def token_exchange(rules: TokenRules | None = None) -> Exchange:
    exchange = oauthbearer(rules or TokenRules(), lambda: NOW)
    next(exchange)
    return exchange


def first_message(token: str, on_behalf_of: str = "") -> bytes:
    name = f"a={on_behalf_of}" if on_behalf_of else ""
    return f"n,{name},\x01auth=Bearer {token}\x01\x01".encode()


@pytest.mark.parametrize("key", [None, "a key"], ids=["unsigned", "signed"])
def test_valid_token_authenticates_its_owner_until_it_expires(key: str | None) -> None:
    token = make_token("ann", NOW, key=key, lifetime=60)
    end = accepted(token_exchange(TokenRules(key)), first_message(token, "ann"))
    assert end == Accepted("ann", b"", int((NOW + 60) * 1000))


def test_unsigned_token_of_another_library_is_accepted() -> None:
    token = unsigned(sub="ann", iat=NOW, exp=NOW + 60)
    assert accepted(token_exchange(), first_message(token)).name == "ann"


def hs256(key: str, *, alg: object = "HS256", **claims: object) -> str:
    head, body = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": alg}, claims)
    )
    made = hmac.new(key.encode(), f"{head}.{body}".encode(), "sha256").digest()
    return f"{head}.{body}.{base64.urlsafe_b64encode(made).decode().rstrip('=')}"


GOOD: dict[str, Any] = {"sub": "ann", "iat": NOW, "exp": NOW + 60}
BAD_TOKENS = {
    "opaque": (None, "opaque"),
    "two parts": (None, "a.b"),
    "not base64": (None, "a-.b-."),
    "not JSON": (None, base64.urlsafe_b64encode(b"hello").decode().rstrip("=") + ".e30."),
    "JSON, but no object": (None, "W10.W10."),
    "deeply nested": (None, base64.urlsafe_b64encode(b"[" * 30_000).decode().rstrip("=") + ".e30."),
    "without a name": (None, unsigned(exp=NOW + 60)),
    "with an empty name": (None, unsigned(sub="", exp=NOW + 60)),
    "with a name that is a number": (None, unsigned(sub=7, exp=NOW + 60)),
    "without an end": (None, unsigned(sub="ann")),
    "expired": (None, unsigned(sub="ann", exp=NOW - 1)),
    "expiring now": (None, unsigned(sub="ann", exp=NOW)),
    "with an end that is text": (None, unsigned(sub="ann", exp="never")),
    "with an end that is true": (None, unsigned(sub="ann", exp=True)),
    "with an endless end": (None, unsigned(sub="ann", exp=float("inf"))),
    "issued in the future": (None, unsigned(sub="ann", iat=NOW + 10, exp=NOW + 60)),
    "signed although signatures are not checked": (None, hs256("a key", **GOOD)),
    "an invalid signature": (None, unsigned("c2ln", **GOOD)),
    "unsigned where it must be signed": ("a key", unsigned(**GOOD)),
    "signed with another key": ("a key", hs256("another", **GOOD)),
    "signed, with algorithm none": ("a key", hs256("a key", alg="none", **GOOD)),
    "signed with an unknown algorithm": ("a key", hs256("a key", alg="RS256", **GOOD)),
    "with an algorithm that is a list": ("a key", hs256("a key", alg=["HS256"], **GOOD)),
    "signed, and good only later": ("a key", hs256("a key", **GOOD, nbf=NOW + 10)),
    "signed, and good only after its end": ("a key", hs256("a key", **GOOD, nbf=NOW + 100)),
    "signed, with a beginning that is text": ("a key", hs256("a key", **GOOD, nbf="now")),
    "signed, without a time of issue": ("a key", hs256("a key", sub="ann", exp=NOW + 60)),
    "signed for an audience that is not configured": ("a key", hs256("a key", **GOOD, aud="orders")),
    "whose claims were changed": ("a key", ".".join([*hs256("a key", **GOOD).split(".")[:1], "e30", "x"])),
}


@pytest.mark.parametrize("case", BAD_TOKENS)
def test_invalid_token_gets_a_status_then_the_error(case: str) -> None:
    key, token = BAD_TOKENS[case]
    exchange = token_exchange(TokenRules(key))
    assert exchange.send(first_message(token)) == b'{"status":"invalid_token"}'
    with pytest.raises(SaslRefused, match="invalid_token"):
        exchange.send(b"\x01")


def test_token_for_another_audience_or_issuer_is_rejected() -> None:
    rules = TokenRules("k", audience=("orders",), issuer="https://id.test")
    good = {**GOOD, "aud": ["orders", "other"], "iss": "https://id.test"}
    assert accepted(token_exchange(rules), first_message(hs256("k", **good))).name == "ann"
    wrongs: list[dict[str, Any]] = [
        {"aud": "other"},
        {"aud": None},
        {"aud": {}},
        {"iss": "https://evil.test"},
        {"iss": 1},
    ]
    for wrong in wrongs:
        assert b"invalid_token" in token_exchange(rules).send(first_message(hs256("k", **{**good, **wrong})))


def test_second_token_after_a_rejection_is_rejected() -> None:
    exchange = token_exchange()
    exchange.send(first_message("opaque"))
    with pytest.raises(SaslInvalid):
        exchange.send(first_message(make_token("ann", NOW)))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic abc\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,auth=Bearer abc",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,\x01auth=Bearer abc\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
    ids=repr,
)
def test_invalid_first_message_fails_without_a_reason(message: bytes) -> None:
    with pytest.raises(SaslInvalid):
        token_exchange().send(message)


def test_token_with_another_authorization_id_is_rejected() -> None:
    with pytest.raises(SaslRefused, match=r"id \(eve\) .* the token's principal name \(ann\)"):
        token_exchange().send(first_message(make_token("ann", NOW), "eve"))
