"""Responses to a client that authenticates by hand, written down: the same on Apache Kafka and here.

Each scenario talks over connections of its own and notes every answer, field by field; what is random
(nonces, salts, signatures) is noted by its shape, and mechanisms without their order, which a hash makes.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable
from typing import Any

from pykafka2.broker.base.as_json import to_plain
from pykafka2.protocol.framing import encode_request
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from pykafka2.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from pykafka2.protocol.messages.users import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from pykafka2.protocol.struct import Request
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import final_message
from tests.web_tokens import unsigned

from .real_kafka import SASL_PASSWORD, SASL_USER

Scenario = Callable[["Talk"], None]
SCENARIOS: dict[str, Scenario] = {}
CLOSED = "closes the connection"
LIMIT = 524_288


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


class Talk:
    """A client of one cluster; `notes` is what it was answered."""

    def __init__(self, sasl_address: str, plaintext_address: str) -> None:
        self.notes: list[Any] = []
        self._addresses = {"SASL_PLAINTEXT": sasl_address, "PLAINTEXT": plaintext_address}
        self._wire: RawClient | None = None

    def connect(self, listener: str = "SASL_PLAINTEXT") -> None:
        self.hang_up()
        self._wire = RawClient(self._addresses[listener])
        self._wire.socket.settimeout(5)

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    @property
    def wire(self) -> RawClient:
        if self._wire is None:
            self.connect()
        assert self._wire is not None
        return self._wire

    def ask(self, label: str, request: Request[Any], version: int) -> Any:
        """Ask on the open connection; None where it ends."""
        try:
            answer = self.wire.call(request, version)
        except ConnectionError:
            self.notes.append((label, CLOSED))
            self.hang_up()
            return None
        shown = (
            {"error_code": answer.error_code} if isinstance(request, ApiVersionsRequest) else to_plain(answer)
        )
        if "mechanisms" in shown:
            shown["mechanisms"].sort()
        if "auth_bytes" in shown:
            shown["auth_bytes"] = shape_of(bytes(answer.auth_bytes))
            # What is left of a session depends on the moment.
            shown["session_lifetime_ms"] = round(answer.session_lifetime_ms, -3)
        self.notes.append((label, shown))
        return answer

    def send(self, label: str, data: bytes) -> None:
        """Send bytes; note the answer's first bytes, or the end."""
        try:
            self.wire.socket.sendall(data)
            answer: Any = shape_of(self.wire.receive_frame())
        except ConnectionError:
            answer = CLOSED
            self.hang_up()
        self.notes.append((label, answer))

    def ends(self, label: str) -> None:
        """Note whether the broker has closed the connection."""
        self.notes.append((label, CLOSED if self.wire.is_closed_by_broker() else "stays open"))
        self.hang_up()

    def handshake(self, mechanism: str, version: int = 1) -> None:
        self.connect()
        self.ask(f"choose {mechanism!r} v{version}", SaslHandshakeRequest(mechanism=mechanism), version)

    def token(self, label: str, token: bytes, version: int = 2) -> Any:
        return self.ask(label, SaslAuthenticateRequest(auth_bytes=token), version)

    def is_let_in(self) -> None:
        answer = self.wire.call(MetadataRequest(topics=[]), 12)
        self.notes.append(("may ask for metadata", bool(answer.brokers)))


def shape_of(data: bytes) -> str:
    """Random parts of SCRAM by their kinds; other bytes as they are."""
    text = data.decode("latin-1")
    if re.match(r"r=[^,]+,s=[^,]+,i=\d+$", text):
        return re.sub(r"r=([^,]{3})[^,]*,s=[^,]+", r"r=\1..., s=...", text)
    return "v=..." if re.match(r"v=[A-Za-z0-9+/]+=*$", text) else text


def plain(user: str = SASL_USER, password: str = SASL_PASSWORD, on_behalf_of: str = "") -> bytes:
    return f"{on_behalf_of}\0{user}\0{password}".encode()


def bearer(token: str, on_behalf_of: str = "") -> bytes:
    who = f"a={on_behalf_of}" if on_behalf_of else ""
    return f"n,{who},\x01auth=Bearer {token}\x01\x01".encode()


def good_token(**claims: object) -> str:
    now = time.time()
    return unsigned(**{"sub": SASL_USER, "iat": now - 1, "exp": now + 3600, **claims})


def frame(request: Request[Any], version: int) -> bytes:
    return b"".join(encode_request(request, version, 1, "raw"))


def raw(token: bytes) -> bytes:
    return struct.pack(">i", len(token)) + token


# ---------------------------------------------------------------------- scenarios


@scenario
def mechanisms(talk: Talk) -> None:
    for name in (
        "PLAIN",
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
        "OAUTHBEARER",
        "GSSAPI",
        "plain",
        "",
        "\u00fc" * 100,
    ):
        for version in (0, 1):
            talk.handshake(name, version)
    talk.ends("after a mechanism that there is not")


@scenario
def plain_passwords(talk: Talk) -> None:
    for version in (0, 1, 2):
        talk.handshake("PLAIN")
        talk.token(f"good, v{version}", plain(), version)
        talk.is_let_in()
    cases = {
        "for itself": plain(on_behalf_of=SASL_USER),
        "wrong": plain(password="wrong"),
        "unknown": plain("eve"),
        "no user": plain(""),
        "no password": plain(password=""),
        "in another's name": plain(on_behalf_of="eve"),
        "in another's name with a wrong password": plain(password="wrong", on_behalf_of="eve"),
        "two parts": b"ann\0secret",
        "four parts": plain() + b"\0more",
        "five parts": plain() + b"\0more\0more",
        "empty": b"",
    }
    for label, token in cases.items():
        talk.handshake("PLAIN")
        answer = talk.token(label, token)
        if answer is not None and answer.error_code:
            talk.ends(f"after {label}")


@scenario
def scram_logins(talk: Talk) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        talk.handshake(mechanism)
        challenge = talk.token("first", f"n,,n={SASL_USER},r=abc".encode())
        final = final_message(
            bytes(challenge.auth_bytes),
            f"n={SASL_USER},r=abc",
            password=SASL_PASSWORD,
            algorithm=f"sha{mechanism[-3:]}",
        )
        talk.token("last", final)
        talk.is_let_in()


@scenario
def scram_first_messages(talk: Talk) -> None:
    cases = {
        "unknown": b"n,,n=eve,r=abc",
        "an extension": b"n,,n=ann,r=abc,other=x",
        "an extension that must be known": b"n,,m=x,n=ann,r=abc",
        "for itself": b"n,a=ann,n=ann,r=abc",
        "in another's name": b"n,a=eve,n=ann,r=abc",
        "in another's name, unknown": b"n,a=ann,n=eve,r=abc",
        "channel binding": b"p=tls-unique,,n=ann,r=abc",
        "could bind": b"y,,n=ann,r=abc",
        "no nonce": b"n,,n=ann",
        "an empty nonce": b"n,,n=ann,r=",
        "an empty name": b"n,,n=,r=abc",
        "a bare = in the name": b"n,,n=a=n,r=abc",
        "escapes in the name": b"n,,n=a=2Cn=3D,r=abc",
        "a token that does not exist": b"n,,n=nobody,r=abc,tokenauth=true",
        "empty": b"",
        "nonsense": b"nonsense",
        "a last message": b"c=biws,r=abc,p=AAAA",
    }
    for label, token in cases.items():
        talk.handshake("SCRAM-SHA-256")
        talk.token(label, token)


@scenario
def scram_last_messages(talk: Talk) -> None:
    first = f"n={SASL_USER},r=abc"
    cases: dict[str, dict[str, str]] = {
        "wrong": {"password": "wrong"},
        "another nonce": {"nonce": "abc"},
        "a nonce of which ours is the end": {"nonce": "prefix"},
        "another hash": {"algorithm": "sha512"},
    }
    for label, change in cases.items():
        talk.handshake("SCRAM-SHA-256")
        challenge = bytes(talk.token("first", f"n,,{first}".encode()).auth_bytes)
        if change.get("nonce") == "prefix":
            change = {"nonce": "x" + challenge.decode().split(",")[0][2:]}
        talk.token(label, final_message(challenge, first, **{"password": SASL_PASSWORD, **change}))
    for label, token in {
        "empty": b"",
        "first again": f"n,,{first}".encode(),
        "no proof": b"c=biws,r=abc",
    }.items():
        talk.handshake("SCRAM-SHA-256")
        talk.token("first", f"n,,{first}".encode())
        talk.token(label, token)


@scenario
def bearer_tokens(talk: Talk) -> None:
    talk.handshake("OAUTHBEARER")
    talk.token("good", bearer(good_token()))
    talk.is_let_in()
    talk.handshake("OAUTHBEARER")
    talk.token("good, for itself", bearer(good_token(), SASL_USER))
    now = time.time()
    refused = {
        "opaque": "opaque",
        "no name": unsigned(exp=now + 60),
        "a name that is a number": unsigned(sub=7, exp=now + 60),
        "no end": unsigned(sub=SASL_USER),
        "an end that is text": unsigned(sub=SASL_USER, exp="never"),
        "expired": unsigned(sub=SASL_USER, exp=now - 60),
        "issued later": unsigned(sub=SASL_USER, iat=now + 30, exp=now + 60),
        "with a signature": good_token() + "c2ln",
    }
    for label, token in refused.items():
        talk.handshake("OAUTHBEARER")
        if talk.token(label, bearer(token)) is not None:
            talk.token("understood", b"\x01")
    talk.handshake("OAUTHBEARER")
    talk.token("refused", bearer("opaque"))
    talk.token("another after the refusal", b"nonsense")
    for label, message in {
        "in another's name": bearer(good_token(), "eve"),
        "no scheme": b"n,,\x01auth=abc\x01\x01",
        "another scheme": b"n,,\x01auth=Basic abc\x01\x01",
        "nothing": b"n,,\x01\x01",
        "empty": b"",
        "could bind": b"y,,\x01auth=Bearer abc\x01\x01",
    }.items():
        talk.handshake("OAUTHBEARER")
        talk.token(label, message)


@scenario
def what_comes_before(talk: Talk) -> None:
    versions = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
    talk.connect()
    talk.ask("versions", versions, 3)
    talk.ask("versions again", versions, 3)
    talk.connect()
    talk.send("versions of a version that there is not", raw(struct.pack(">hhih", 18, 99, 1, -1) + b"\0"))
    talk.ask("versions then", versions, 3)
    talk.connect()
    bad_name = ApiVersionsRequest(client_software_name="-raw-", client_software_version="1")
    talk.ask("versions of a client with a bad name", bad_name, 3)
    talk.ask("versions then", versions, 3)
    talk.ask("and the handshake", SaslHandshakeRequest(mechanism="PLAIN"), 1)
    talk.ask("and another", SaslHandshakeRequest(mechanism="PLAIN"), 1)
    talk.connect()
    talk.ask("metadata", MetadataRequest(topics=[]), 12)
    talk.connect()
    talk.token("a token", plain())
    for label, data in {
        "a frame above the limit": struct.pack(">i", LIMIT + 1),
        "a frame of negative length": struct.pack(">i", -1),
        "a key that there is not": raw(struct.pack(">hhih", 1000, 0, 1, -1)),
        "a handshake of a version that there is not": raw(struct.pack(">hhih", 17, 2, 1, -1) + b"\0\5PLAIN"),
        "a handshake that is cut": raw(struct.pack(">hhih", 17, 1, 1, -1) + b"\0\5PL"),
        "a bare token": raw(plain()),
    }.items():
        talk.connect()
        talk.send(label, data)


@scenario
def what_comes_in_between(talk: Talk) -> None:
    talk.handshake("PLAIN")
    talk.send("a frame above the limit", struct.pack(">i", LIMIT + 1))
    talk.handshake("PLAIN")
    talk.send("a bare token", raw(plain()))
    talk.handshake("PLAIN")
    talk.send(
        "a token of a version that there is not", raw(struct.pack(">hhih", 36, 9, 1, -1) + b"\0\0\0\0\0")
    )


@scenario
def bare_tokens(talk: Talk) -> None:
    talk.handshake("PLAIN", 0)
    talk.send("good", raw(plain()))
    talk.is_let_in()
    talk.handshake("PLAIN", 0)
    talk.send("wrong", raw(plain(password="wrong")))
    talk.handshake("PLAIN", 0)
    talk.send("a request", frame(SaslAuthenticateRequest(auth_bytes=plain()), 1))
    talk.handshake("SCRAM-SHA-256", 0)
    talk.send("first", raw(f"n,,n={SASL_USER},r=abc".encode()))


@scenario
def sessions(talk: Talk) -> None:
    talk.handshake("PLAIN")
    talk.token("good", plain())
    talk.token("another", plain())
    talk.ask("renewed", SaslHandshakeRequest(mechanism="PLAIN"), 1)
    talk.token("good again", plain())
    talk.ask("renewed too soon", SaslHandshakeRequest(mechanism="PLAIN"), 1)
    talk.is_let_in()
    talk.handshake("PLAIN")
    talk.token("good", plain())
    talk.ask("renewed by another mechanism", SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    talk.token("its token", bearer(good_token()))
    talk.handshake("PLAIN")
    talk.token("good", plain())
    talk.ask("renewed by one that there is not", SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    talk.handshake("OAUTHBEARER")
    talk.token("good", bearer(good_token()))
    talk.ask("renewed", SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    talk.token("as another", bearer(good_token(sub="eve")))
    talk.ends("after it")
    talk.handshake("PLAIN")
    talk.token("good", plain())
    talk.ask("renewed", SaslHandshakeRequest(mechanism="PLAIN"), 1)
    talk.token("wrong", plain(password="wrong"))
    talk.handshake("PLAIN")
    talk.token("good", plain())
    talk.ask("renewed", SaslHandshakeRequest(mechanism="PLAIN"), 1)
    talk.token("nonsense", b"nonsense")
    talk.handshake("OAUTHBEARER")
    talk.token("of three seconds", bearer(good_token(exp=time.time() + 3.4)))


@scenario
def a_session_that_is_over(talk: Talk) -> None:
    talk.handshake("OAUTHBEARER")
    now = time.time()
    answer = talk.wire.call(SaslAuthenticateRequest(auth_bytes=bearer(good_token(exp=now + 0.5))), 2)
    talk.notes.append(("lives no longer than its token", 0 < answer.session_lifetime_ms <= 500))
    talk.is_let_in()
    time.sleep(0.6)
    talk.ask("metadata", MetadataRequest(topics=[]), 12)


@scenario
def a_listener_without_sasl(talk: Talk) -> None:
    talk.connect("PLAINTEXT")
    for version in (0, 1):
        talk.ask(f"handshake v{version}", SaslHandshakeRequest(mechanism="PLAIN"), version)
    for version in (0, 1, 2):
        talk.token(f"token v{version}", plain(), version)
    talk.is_let_in()


@scenario
def scram_users(talk: Talk) -> None:
    def new(user: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
        return ScramCredentialUpsertion(
            name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=bytes(32)
        )

    def alter(label: str, upsertions: Any = (), deletions: Any = ()) -> None:
        gone = [ScramCredentialDeletion(name=user, mechanism=number) for user, number in deletions]
        request = AlterUserScramCredentialsRequest(deletions=gone, upsertions=list(upsertions))
        answer = talk.wire.call(request, 0)
        found = sorted(to_plain(answer)["results"], key=lambda one: str(one["user"]))
        talk.notes.append((label, found))

    def describe(label: str, *users: str) -> None:
        names = [UserName(name=user) for user in users]
        answer = talk.wire.call(DescribeUserScramCredentialsRequest(users=names), 0)
        plain_answer = to_plain(answer)
        plain_answer["results"].sort(key=lambda one: str(one["user"]))
        talk.notes.append((label, plain_answer))

    talk.connect("PLAINTEXT")
    alter("made", [new("carl"), new("dora", 2, 8192)])
    time.sleep(0.3)
    describe("described", "carl", "dora", "eve")
    describe("described twice", "carl", "carl")
    alter("nobody")
    for label, upsertion in {
        "empty name": new(""),
        "unknown mechanism": new("x", 0),
        "mechanism 3": new("x", 3),
        "few": new("x", 1, 4095),
        "many": new("x", 1, 16385),
        "negative": new("x", 1, -1),
    }.items():
        alter(label, [upsertion])
    alter("twice", [new("x"), new("x", 2)])
    alter("three times", [new("x"), new("x", 2), new("x")])
    alter("set and gone", [new("carl")], [("carl", 1)])
    alter("gone that was not there", (), [("eve", 1)])
    alter("gone by another mechanism", (), [("carl", 2)])
    alter("gone twice", (), [("carl", 1), ("carl", 1)])
    alter("first wrong, then right", [new("x", 1, 1), new("x")])
    alter("some of both", [new("x"), new("y", 1, 1)], [("carl", 1), ("eve", 2)])
    alter("the rest", (), [("dora", 2), ("x", 1)])
    time.sleep(0.3)
    describe("gone", "carl", "dora", "x")


@scenario
def delegation_tokens_that_are_off(talk: Talk) -> None:
    def ask(where: str) -> None:
        for version in (1, 2, 3):
            owner = {"owner_principal_type": "", "owner_principal_name": ""} if version == 3 else {}
            made = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1, **owner)
            talk.ask(f"create {where} v{version}", made, version)
        talk.ask(f"renew {where}", RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), 2)
        talk.ask(f"expire {where}", ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=1), 2)
        talk.ask(f"describe {where}", DescribeDelegationTokenRequest(owners=None), 3)
        talk.ask(f"describe those of an unknown user {where}", DescribeDelegationTokenRequest(owners=[]), 3)

    talk.connect("PLAINTEXT")
    ask("over plaintext")
    talk.handshake("PLAIN")
    talk.token("logged in", plain())
    ask("by a user")
