"""SCRAM, driven by hand: the published example, any user and password, and brokers that lie."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.errors import SaslAuthenticationFailed
from pykafka2.network.sasl import scram_messages as messages
from pykafka2.network.sasl.mechanism import Exchange
from pykafka2.network.sasl.scram import Scram
from pykafka2.network.script import Offload
from tests.gate import rest_in_gate

SALT = b"salt of a test"
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


def scram(name: str = "SCRAM-SHA-256", username: str = "ann", password: str = "secret") -> Scram:
    return Scram(name, username, password, lambda count: b"\x07" * count)


class Server:
    """The other side of one exchange, with the keys of one user."""

    def __init__(self, name: str, password: str, iterations: int = 4096) -> None:
        self.name = name
        self.keys = messages.derive_keys(name, password, SALT, iterations)
        self.iterations = iterations
        self.said = ""
        self.bare = ""

    def first(self, client_first: bytes) -> bytes:
        assert client_first.startswith(messages.NO_CHANNEL_BINDING)
        self.bare = client_first[len(messages.NO_CHANNEL_BINDING) :].decode()
        nonce = self.bare.split(",r=")[1].split(",")[0]
        salt = base64.b64encode(SALT).decode()
        self.said = f"r={nonce}+server,s={salt},i={self.iterations}"
        return self.said.encode()

    def final(self, client_final: bytes) -> bytes:
        without_proof, _, proof = client_final.decode().partition(",p=")
        auth_message = f"{self.bare},{self.said},{without_proof}"
        knows_it = messages.proves(self.name, self.keys.stored_key, base64.b64decode(proof), auth_message)
        if not knows_it:
            return b"e=invalid-proof"
        return b"v=" + base64.b64encode(messages.server_signature(self.name, self.keys, auth_message))


def hashed(exchange: Exchange, answer: bytes) -> bytes:
    """Go on after an answer, doing the work that the exchange wants done elsewhere."""
    step = exchange.send(answer)
    while isinstance(step, Offload):
        step = exchange.send(step.work())
    return step


def authenticate(client: Scram, server: Server) -> None:
    exchange = client.exchange()
    first = next(exchange)
    assert isinstance(first, bytes)
    final = hashed(exchange, server.first(first))
    with pytest.raises(StopIteration):
        exchange.send(server.final(final))


def test_the_example_of_the_rfc() -> None:
    """RFC 7677 section 3, whose user is `user` with the password `pencil`."""
    client_nonce = "rOprNGfwEbeRWgbNEkqO"
    first = messages.parse_server_first(
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        client_nonce,
    )
    keys = messages.derive_keys("SCRAM-SHA-256", "pencil", first.salt, first.iterations)
    final = messages.client_final_without_proof(first.nonce)
    auth_message = f"{messages.client_first_bare('user', client_nonce)},{first.text},{final}"
    proof = messages.client_proof("SCRAM-SHA-256", keys, auth_message)
    assert base64.b64encode(proof) == b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    messages.verify_server_final(
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        messages.server_signature("SCRAM-SHA-256", keys, auth_message),
    )


@pytest.mark.gate
@pytest.mark.parametrize("name", rest_in_gate(list(messages.HASHES)))
@given(username=NAMES, password=NAMES)
def test_any_user_and_password_agree_with_a_server_that_knows_them(
    name: str, username: str, password: str
) -> None:
    authenticate(scram(name, username, password), Server(name, password))


def test_commas_and_equal_signs_of_a_name_are_escaped() -> None:
    first = next(scram(username="a=b,c").exchange())
    assert isinstance(first, bytes)
    assert first.startswith(b"n,,n=a=3Db=2Cc,r=")


def test_a_password_is_hashed_once_for_each_salt() -> None:
    client = scram()
    authenticate(client, Server("SCRAM-SHA-256", "secret"))
    exchange = client.exchange()
    first = next(exchange)
    assert isinstance(first, bytes)
    assert isinstance(exchange.send(Server("SCRAM-SHA-256", "secret").first(first)), bytes)
    exchange = client.exchange()
    assert isinstance(next(exchange), bytes)
    other = Server("SCRAM-SHA-256", "secret", iterations=8192).first(first)
    assert isinstance(exchange.send(other), Offload)


def test_scram_with_a_delegation_token_sends_tokenauth() -> None:
    client = Scram("SCRAM-SHA-512", "id", "hmac", bytes, is_delegation_token=True)
    first = next(client.exchange())
    assert isinstance(first, bytes)
    assert first.endswith(b",tokenauth=true")


def test_a_wrong_password_ends_with_the_servers_word() -> None:
    exchange = scram(password="wrong").exchange()
    first = next(exchange)
    assert isinstance(first, bytes)
    server = Server("SCRAM-SHA-256", "secret")
    final = hashed(exchange, server.first(first))
    with pytest.raises(SaslAuthenticationFailed, match="rejected the credentials: 'invalid-proof'"):
        exchange.send(server.final(final))


def test_server_without_the_password_fails_scram_verification() -> None:
    """An impostor in the broker's place can make the client hash, and learns nothing."""
    exchange = scram().exchange()
    first = next(exchange)
    assert isinstance(first, bytes)
    impostor = Server("SCRAM-SHA-256", "guessed")
    hashed(exchange, impostor.first(first))
    with pytest.raises(SaslAuthenticationFailed, match="does not have the password"):
        exchange.send(b"v=" + base64.b64encode(b"\0" * 32))


LONG = base64.b64encode(b"s" * 3072)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "is malformed"),
        (b"r=NONCE", "is malformed"),
        (b"s=c2FsdA==,r=NONCE+,i=4096", "is malformed"),
        (b"e=other-error", "is malformed"),
        (b"m=ext,r=NONCE+,s=c2FsdA==,i=4096", "extension that pykafka2 does not support"),
        (b"r=other,s=c2FsdA==,i=4096", "nonce does not begin with"),
        (b"r=NONCE,s=c2FsdA==,i=4096", "nonce does not begin with"),
        (b"r=NONCE\x7f,s=c2FsdA==,i=4096", "illegal characters"),
        (b"r=NONCE+,s=,i=4096", "salt is not base64"),
        (b"r=NONCE+,s=c2F*sdA==,i=4096", "salt is not base64"),
        (b"r=NONCE+,s=c2FsdA==,i=", "requires '' SCRAM iterations"),
        (b"r=NONCE+,s=c2FsdA==,i=4095", "requires '4095' SCRAM iterations"),
        (b"r=NONCE+,s=c2FsdA==,i=1000001", "requires '1000001' SCRAM iterations"),
        (b"r=NONCE+,s=c2FsdA==,i=-1", "requires '-1' SCRAM iterations"),
        (b"r=NONCE+,s=c2FsdA==,i=" + b"9" * 1000, "requires '9999999999' SCRAM iterations"),
        ("r=NONCE+,s=c2FsdA==,i=٤٠٩٦".encode(), "iterations"),
        (b"r=NONCE+,s=" + LONG + b",i=4096", "has 41.. bytes; at most 4096 are accepted"),
        (b"r=NONCE\xff,s=c2FsdA==,i=4096", "is not UTF-8"),
    ],
)
def test_a_first_answer_that_no_server_may_give_is_refused(answer: bytes, words: str) -> None:
    exchange = scram().exchange()
    first = next(exchange)
    assert isinstance(first, bytes)
    nonce = first.split(b",r=")[1]
    with pytest.raises(SaslAuthenticationFailed, match=words):
        exchange.send(answer.replace(b"NONCE", nonce))


@pytest.mark.parametrize("answer", [b"", b"v=", b"v=*", b"x=1", b"v=AAAA", b"\xff", b"v=" + b"A" * 5000])
def test_a_last_answer_that_proves_nothing_is_refused(answer: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        messages.verify_server_final(answer, b"\1" * 32)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_way(answer: bytes) -> None:
    exchange = scram().exchange()
    next(exchange)
    with pytest.raises(SaslAuthenticationFailed):
        exchange.send(answer)


def test_the_password_is_in_no_repr() -> None:
    assert "secret" not in repr(scram())
