"""Tokens from an authority over HTTP, an authority that refuses, and one that makes no sense."""

from __future__ import annotations

import base64
import errno
import json
import socket
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.clock import SeededEntropy, SystemClock
from pykafka2.errors import KafkaError, SaslAuthenticationFailed, TokenEndpointUnavailable
from pykafka2.network.sasl.chosen import sasl_mechanism
from pykafka2.network.sasl.client_credentials import ClientCredentials
from pykafka2.network.sasl.oauthbearer import OAuthBearer
from pykafka2.options import ClientOptions, OptionTable
from pykafka2.testing import KafkaCluster, Listener
from tests.web_tokens import unsigned


class Authority(ThreadingHTTPServer):
    """Returns the responses that the test sets, and records its requests."""

    status = 200
    answer = b""
    location = ""
    raw = b""
    seconds_apart = 0.0
    requests: list[tuple[dict[str, str], dict[str, list[str]]]]
    has_answered: threading.Event


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        authority = self.server
        assert isinstance(authority, Authority)
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        authority.requests.append((dict(self.headers), urllib.parse.parse_qs(form)))
        if authority.raw:
            self._drip(authority.raw, authority.seconds_apart)
            return
        self.send_response(authority.status)
        if authority.location:
            self.send_header("Location", authority.location)
        self.send_header("Content-Length", str(len(authority.answer)))
        self.end_headers()
        self._drip(authority.answer, authority.seconds_apart)
        authority.has_answered.set()

    def _drip(self, data: bytes, seconds_apart: float) -> None:
        size = 1 if seconds_apart else len(data) or 1
        try:
            for at in range(0, len(data), size):
                self.wfile.write(data[at : at + size])
                time.sleep(seconds_apart)
        except OSError:
            self.close_connection = True  # the client has closed the connection

    def do_GET(self) -> None:
        """Target of a redirection."""
        authority = self.server
        assert isinstance(authority, Authority)
        authority.requests.append((dict(self.headers), {}))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"access_token": "of another"}')

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def authority() -> Iterator[Authority]:
    server = Authority(("127.0.0.1", 0), Handler)
    server.requests = []
    server.has_answered = threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def client_of(authority: Authority, **more: Any) -> ClientCredentials:
    url = f"http://127.0.0.1:{authority.server_address[1]}/token"
    return ClientCredentials(url, "client", "hush", lambda: 1000.0, time.monotonic, **more)


def test_a_token_and_its_life_come_from_the_authority(authority: Authority) -> None:
    authority.answer = json.dumps({"access_token": "abc", "expires_in": 300, "token_type": "Bearer"}).encode()
    token = client_of(authority, scope="kafka", extensions={"a": "b"})()
    assert (token.value, token.expires_at, token.extensions) == ("abc", 1300.0, {"a": "b"})
    ((headers, form),) = authority.requests
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"client:hush").decode()
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


@pytest.mark.parametrize("life", [{}, {"expires_in": "3599"}, {"expires_in": None}])
def test_a_web_tokens_own_end_counts_where_the_authority_gives_no_number(
    authority: Authority, life: dict[str, Any]
) -> None:
    """expires_in may be left out; some authorities write it as text."""
    authority.answer = json.dumps({"access_token": unsigned(exp=1234), **life}).encode()
    assert client_of(authority)().expires_at == 1234.0
    authority.answer = json.dumps({"access_token": "opaque", **life}).encode()
    assert client_of(authority)().expires_at is None


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (401, b'{"error": "invalid_client"}', r"HTTP 401, invalid_client\); check client id"),
        (400, b'{"error": "<b>hush</b>"}', r"HTTP 400\)"),
        (200, b"", "did not respond like a token endpoint"),
        (200, b"[]", "did not respond like a token endpoint"),
        (200, b"{}", "without an access_token"),
        (200, b'{"access_token": 7}', "without an access_token"),
        (200, b"[" * 100_000, "did not respond like a token endpoint"),
        (200, b'{"x": "' + b"y" * (1 << 20) + b'"}', "did not respond like a token endpoint"),
    ],
)
def test_anything_else_names_the_address_and_no_secret(
    authority: Authority, status: int, answer: bytes, words: str
) -> None:
    authority.status, authority.answer = status, answer
    with pytest.raises(SaslAuthenticationFailed, match=words) as refused:
        client_of(authority)()
    assert f":{authority.server_address[1]}/token" in str(refused.value)
    assert "hush" not in str(refused.value)
    assert "hush" not in repr(client_of(authority))


@pytest.mark.parametrize("status", [500, 502, 503, 504, 408, 425, 429])
def test_endpoint_that_is_unavailable_raises_a_retriable_error(authority: Authority, status: int) -> None:
    authority.status, authority.answer = status, b'{"error": "hush"}'
    with pytest.raises(
        TokenEndpointUnavailable, match=rf"/token is unavailable \(HTTP {status}\)$"
    ) as raised:
        client_of(authority)()
    assert raised.value.retriable
    assert not raised.value.fatal


@pytest.mark.parametrize(
    "error",
    [
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        ssl.SSLCertVerificationError("certificate verify failed"),
    ],
    ids=["wrong name", "wrong certificate"],
)
def test_endpoint_that_never_becomes_available_raises_an_error_that_is_not_retriable(
    error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    client = ClientCredentials(
        "http://login.example.org/token", "client", "hush", lambda: 0.0, time.monotonic
    )
    with pytest.raises(SaslAuthenticationFailed, match="/token returned no token") as raised:
        client()
    assert not raised.value.retriable


def test_wrong_credentials_raise_an_error_that_is_not_retriable(authority: Authority) -> None:
    for authority.status in (400, 401, 403):
        with pytest.raises(SaslAuthenticationFailed, match="check client id") as raised:
            client_of(authority)()
        assert not raised.value.retriable


def test_timeout_of_the_endpoint_raises_a_retriable_error(authority: Authority) -> None:
    authority.answer, authority.seconds_apart = b" " * 50, 0.05
    with pytest.raises(TokenEndpointUnavailable, match="timed out"):
        client_of(authority, timeout=0.1)()


def test_token_request_ends_after_the_login_timeout_of_its_cache(authority: Authority) -> None:
    """A busy IO thread can notice late that the login timeout is over, and both have errors of their own."""
    authority.answer = json.dumps({"access_token": "abc"}).encode()

    class LateClock:
        wall_ns, wall_ms = SystemClock.wall_ns, SystemClock().wall_ms

        def monotonic(self) -> float:
            if not authority.requests:
                return 0.0
            authority.has_answered.wait()
            return 10.1

    url = f"http://127.0.0.1:{authority.server_address[1]}/token"
    settings = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": url,
        "sasl_oauthbearer_client_id": "client",
        "sasl_oauthbearer_client_secret": "hush",
        "sasl_login_read_timeout_ms": 10_000,
    }
    options = OptionTable(ClientOptions).parse(settings, {})
    mechanism = sasl_mechanism(options, "tester", LateClock(), SeededEntropy(1))
    assert isinstance(mechanism, OAuthBearer)
    assert mechanism.tokens.seconds == 10.0
    assert mechanism.tokens.current().value == "abc"


@pytest.mark.parametrize(
    "raw",
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"access_token": "a',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{"access_token": "a',
    ],
    ids=["by length", "by chunks"],
)
def test_token_response_that_breaks_off_raises_a_retriable_error(authority: Authority, raw: bytes) -> None:
    """An endpoint that restarts does this."""
    authority.raw = raw
    with pytest.raises(TokenEndpointUnavailable, match=r"/token returned no token: .*IncompleteRead"):
        client_of(authority)()


@pytest.mark.parametrize(
    ("error", "is_retriable"),
    [
        (OSError(errno.EHOSTUNREACH, "No route to host"), True),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), True),
        (OSError(errno.ENETDOWN, "Network is down"), True),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), True),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), False),
        (ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "EOF occurred in violation of protocol"), True),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), False),
        (PermissionError(errno.EACCES, "Permission denied"), False),
    ],
    ids=lambda value: str(value),
)
def test_failure_of_the_network_is_retriable_if_it_can_pass(
    monkeypatch: pytest.MonkeyPatch, error: OSError, is_retriable: bool
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(socket, "create_connection", fail)
    with pytest.raises(SaslAuthenticationFailed, match=f"{error.strerror}") as raised:
        ClientCredentials("http://sso/token", "client", "hush", lambda: 0.0, time.monotonic)()
    assert raised.value.retriable == is_retriable


@pytest.mark.parametrize("lifetime", ["NaN", "-Infinity", "-" + "9" * 400])
def test_lifetime_without_a_meaning_counts_as_unknown(authority: Authority, lifetime: str) -> None:
    authority.answer = b'{"access_token": "abc", "expires_in": %s}' % lifetime.encode()
    assert client_of(authority)().expires_at is None


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_client_secret_is_not_sent_to_a_redirect_target(authority: Authority, status: int) -> None:
    """urllib takes the credentials along wherever it is sent, over plain HTTP as well."""
    authority.status = status
    authority.location = f"http://localhost:{authority.server_address[1]}/elsewhere"
    with pytest.raises(
        SaslAuthenticationFailed, match=rf"HTTP {status}.*; set the URL to which it redirects"
    ):
        client_of(authority)()
    assert len(authority.requests) == 1


def test_non_http_response_of_the_token_endpoint_is_quoted(authority: Authority) -> None:
    authority.raw = b"SSH-2.0-OpenSSH_9.6\r\n"
    with pytest.raises(SaslAuthenticationFailed, match=r"/token returned no token: .*SSH-2.0"):
        client_of(authority)()


@pytest.mark.parametrize(
    ("status", "raw", "answer", "words"),
    [
        (200, b"", b" " * 300, "returned no token: timed out"),
        (401, b"", b" " * 300, r"HTTP 401\); check client id"),
        (200, b"HTTP/1.1 200 OK\r\nX-" + b"x" * 300, b"", "returned no token: timed out"),
        (200, b"HTTP/1.1 " + b"2" * 300, b"", "returned no token: timed out"),
    ],
    ids=["body", "body of a refusal", "headers", "status"],
)
def test_slowly_dripping_token_response_times_out(
    authority: Authority, status: int, raw: bytes, answer: bytes, words: str
) -> None:
    """Each wait is short, all together would last for many seconds; the time of day tells nothing."""
    authority.status, authority.raw, authority.answer = status, raw, answer
    authority.seconds_apart = 0.02
    url = f"http://127.0.0.1:{authority.server_address[1]}/token"
    began = time.monotonic()
    # Of a refusal the head has to come in time, also on a machine that has other things to do.
    timeout = 0.06 if status == 200 else 1.0
    with pytest.raises(SaslAuthenticationFailed, match=words):
        ClientCredentials(url, "client", "hush", lambda: 1000.0, time.monotonic, timeout=timeout)()
    assert time.monotonic() - began < 5  # all the bytes take six


@pytest.mark.parametrize("seconds_apart", [0.0, 0.02], ids=["at once", "by drops"])
def test_an_authority_with_a_certificate(authority: Authority, tmp_path: Path, seconds_apart: float) -> None:
    ca = trustme.CA(key_type=trustme.KeyType.ECDSA)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost", key_type=trustme.KeyType.ECDSA).configure_cert(tls)
    authority.socket = tls.wrap_socket(authority.socket, server_side=True)
    authority.answer, authority.seconds_apart = b'{"access_token": "abc"}' + b" " * 100, seconds_apart
    url = f"https://localhost:{authority.server_address[1]}/token"
    timeout = 0.1 if seconds_apart else 10.0
    client = ClientCredentials(
        url, "client", "hush", time.time, time.monotonic, ca_file=str(tmp_path / "ca.pem"), timeout=timeout
    )
    if seconds_apart:
        with pytest.raises(SaslAuthenticationFailed, match="timed out"):
            client()
    else:
        assert client().value == "abc"


def test_an_authority_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(
        TokenEndpointUnavailable, match=r"http://127.0.0.1:1/token returned no token: .*refused"
    ):
        ClientCredentials("http://127.0.0.1:1/token", "client", "hush", lambda: 0.0, time.monotonic)()


@pytest.fixture
def kafka() -> Iterator[KafkaCluster]:
    listeners = {"SASL_PLAINTEXT": Listener(mechanisms=["OAUTHBEARER"])}
    with KafkaCluster(1, {"orders": 1}, listeners=listeners) as cluster:
        yield cluster


def options_of(kafka: KafkaCluster, authority: Authority, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": kafka.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": f"http://127.0.0.1:{authority.server_address[1]}/token",
        "sasl_oauthbearer_client_id": "client",
        "sasl_oauthbearer_client_secret": "hush",
        **more,
    }


def token_answer(kafka: KafkaCluster) -> bytes:
    return json.dumps({"access_token": kafka.token("alice"), "expires_in": 3600}).encode()


@pytest.mark.gate
@pytest.mark.slow
def test_outage_of_the_endpoint_is_retried_and_the_token_is_shared(
    authority: Authority, kafka: KafkaCluster
) -> None:
    options = options_of(kafka, authority)
    authority.status = 503
    with KafkaProducer(**options) as producer:
        sent = threading.Thread(target=lambda: producer.send("orders", b"1").result(60))
        sent.start()
        until = time.monotonic() + 60
        while len(authority.requests) < 3 and time.monotonic() < until:
            time.sleep(0.01)
        authority.answer, authority.status = token_answer(kafka), 200
        sent.join(60)
        assert not sent.is_alive()
        failures = len(authority.requests) - 1
        assert failures >= 3
        for _ in range(3):
            with KafkaProducer(**options) as other, KafkaAdminClient(**options) as admin:
                other.send("orders", b"2").result(60)
                assert admin.list_topics() == ["orders"]
    assert len(authority.requests) == failures + 1
    with KafkaConsumer("orders", **options, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in (next(consumer) for _ in range(4))] == [b"1", b"2", b"2", b"2"]
    assert len(authority.requests) == failures + 1


@pytest.mark.slow
def test_outage_that_lasts_ends_with_max_block_ms_and_names_the_endpoint(
    authority: Authority, kafka: KafkaCluster
) -> None:
    authority.status = 502
    named, until = "/token is unavailable (HTTP 502)", time.monotonic() + 60
    with KafkaProducer(**options_of(kafka, authority, max_block_ms=300)) as producer:
        while True:  # a busy machine may need more than 300 ms for the first response of the authority
            with pytest.raises(KafkaError) as raised:
                producer.send("orders", b"1")
            if named in str(raised.value) or time.monotonic() > until:
                break
    assert named in str(raised.value)
    assert not isinstance(raised.value, SaslAuthenticationFailed)
    assert "client secret" not in str(raised.value)
