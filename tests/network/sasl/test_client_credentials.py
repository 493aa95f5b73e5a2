"""Tokens from an authority over HTTP, an authority that refuses, and one that makes no sense."""

from __future__ import annotations

import base64
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pykafka2.errors import SaslAuthenticationFailed
from pykafka2.network.sasl.client_credentials import ClientCredentials


class Authority(ThreadingHTTPServer):
    """Answers what it is told, and keeps what it was asked."""

    status = 200
    answer = b""
    asked: list[tuple[dict[str, str], dict[str, list[str]]]]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        authority = self.server
        assert isinstance(authority, Authority)
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        authority.asked.append((dict(self.headers), urllib.parse.parse_qs(form)))
        self.send_response(authority.status)
        self.send_header("Content-Length", str(len(authority.answer)))
        self.end_headers()
        self.wfile.write(authority.answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def authority() -> Iterator[Authority]:
    server = Authority(("127.0.0.1", 0), Handler)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def client_of(authority: Authority, **more: Any) -> ClientCredentials:
    url = f"http://127.0.0.1:{authority.server_address[1]}/token"
    return ClientCredentials(url, "client", "hush", lambda: 1000.0, **more)


def test_a_token_and_its_life_come_from_the_authority(authority: Authority) -> None:
    authority.answer = json.dumps({"access_token": "abc", "expires_in": 300, "token_type": "Bearer"}).encode()
    token = client_of(authority, scope="kafka", extensions={"a": "b"})()
    assert (token.value, token.expires_at, token.extensions) == ("abc", 1300.0, {"a": "b"})
    ((headers, form),) = authority.asked
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"client:hush").decode()
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


@pytest.mark.parametrize(
    ("status", "answer", "words"),
    [
        (401, b'{"error": "invalid_client"}', r"HTTP 401, invalid_client\); check client id"),
        (400, b'{"error": "<b>hush</b>"}', r"HTTP 400\)"),
        (503, b"busy", r"HTTP 503\)"),
        (200, b"", "did not answer as a token endpoint does"),
        (200, b"[]", "did not answer as a token endpoint does"),
        (200, b"{}", "without an access_token"),
        (200, b'{"access_token": 7}', "without an access_token"),
        (200, b'{"x": "' + b"y" * (1 << 20) + b'"}', "did not answer as a token endpoint does"),
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


def test_an_authority_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(SaslAuthenticationFailed, match=r"http://127.0.0.1:1/token gave no token: .*refused"):
        ClientCredentials("http://127.0.0.1:1/token", "client", "hush", lambda: 0.0)()
