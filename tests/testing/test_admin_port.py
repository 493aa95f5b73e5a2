"""The admin port's HTTP: whole, byte by byte, several at once, and wrong; it costs one connection at most."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.errors import IllegalState
from pykafka2.testing import KafkaCluster
from pykafka2.testing.remote.http_port import AdminPort

AUTHORIZED = "Authorization: Bearer secret\r\n"


@pytest.fixture(scope="module")
def port() -> Iterator[AdminPort]:
    with KafkaCluster(brokers=1, topics={"t": 1}) as cluster:
        yield cluster.open_admin_port(token="secret")


@pytest.fixture
def caller(port: AdminPort) -> Iterator[socket.socket]:
    host, number = port.address.split(":")
    with socket.create_connection((host, int(number)), 10) as made:
        yield made


def request(path: str, body: str = "", *, fields: str = AUTHORIZED, method: str = "POST") -> bytes:
    return f"{method} {path} HTTP/1.1\r\n{fields}Content-Length: {len(body)}\r\n\r\n{body}".encode()


def receive(caller: socket.socket, count: int = 1) -> list[tuple[int, Any]]:
    """The next answers."""
    data = b""
    answers: list[tuple[int, Any]] = []
    while len(answers) < count:
        head, separator, rest = data.partition(b"\r\n\r\n")
        if separator:
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            if len(rest) >= length:
                answers.append((int(head.split(b" ")[1]), json.loads(rest[:length])))
                data = rest[length:]
                continue
        more = caller.recv(65536)
        assert more, data
        data += more
    return answers


def test_a_call_whole_and_byte_by_byte(caller: socket.socket) -> None:
    caller.sendall(request("/topics"))
    assert receive(caller) == [(200, {"result": ["t"]})]
    for byte in request("/partition", '{"topic": "t", "partition": 0}'):
        caller.sendall(bytes([byte]))
    ((status, answer),) = receive(caller)
    assert status == 200
    assert answer["result"]["leader"] == 0


@pytest.mark.slow
def test_what_a_request_costs_grows_with_its_size(caller: socket.socket) -> None:
    """Each read once looked at, and copied, all that had come before it: 32 MiB took a minute."""
    caller.settimeout(60)
    begin = time.process_time()
    caller.sendall(request("/topics", '{"what": "' + "x" * (32 << 20) + '"}'))
    ((status, answer),) = receive(caller)
    assert (status, answer["error"]["type"]) == (400, "ConfigurationError")
    assert time.process_time() - begin < 2.0


def test_a_head_that_does_not_end_ends_the_connection(caller: socket.socket) -> None:
    caller.sendall(b"POST /topics HTTP/1.1\r\nX: " + bytes(20 << 10) + b"\r\n\r\n")
    assert caller.recv(1) == b""


def test_it_says_what_there_is_and_what_that_takes(caller: socket.socket) -> None:
    caller.sendall(request("/help", method="GET"))
    ((status, answer),) = receive(caller)
    assert status == 200
    told = answer["result"]
    assert told["controls/cut_link"].startswith(
        "(source: 'int', target: 'int', one_way: 'bool' = False): Lose"
    )
    assert {"topics", "connections", "controls/add_rule"} <= set(told)


def test_several_at_once_are_answered_in_order(caller: socket.socket) -> None:
    caller.sendall(request("/topics") + request("/cluster_id", method="GET") + request("/", method="GET"))
    topics, cluster_id, names = receive(caller, 3)
    assert topics[1]["result"] == ["t"]
    assert isinstance(cluster_id[1]["result"], str)
    assert "controls/cut_link" in names[1]["result"]


def test_the_connection_ends_when_asked_to(caller: socket.socket) -> None:
    caller.sendall(request("/topics", fields=AUTHORIZED + "Connection: close\r\n"))
    assert receive(caller)[0][0] == 200
    assert caller.recv(1) == b""


@pytest.mark.parametrize(
    ("what", "status", "kind"),
    [
        (request("/topics", fields=""), 401, "Unauthorized"),
        (request("/topics", fields="Authorization: Bearer guess\r\n"), 401, "Unauthorized"),
        (request("/topics", fields="Authorization: Basic secret\r\n"), 401, "Unauthorized"),
        (request("/topisc"), 404, "UnknownCall"),
        (request("/controls/__init__"), 404, "UnknownCall"),
        (request("/controls/_plant"), 404, "UnknownCall"),
        (request("/topics", "[]"), 400, "BadRequest"),
        (request("/topics", "{"), 400, "JSONDecodeError"),
        (request("/topics", method="DELETE"), 400, "BadRequest"),
        (request("/partition", '{"topic": "t"}'), 400, "ConfigurationError"),
        (request("/partition", '{"topic": "t", "partition": 5}'), 400, "UnknownTopicOrPartition"),
        (request("/partition", '{"topic": [], "partition": 0}'), 400, "TypeError"),
        (request("/controls/rule", '{"then": "hold", "api": "Prodduce"}'), 400, "ConfigurationError"),
        (
            request("/controls/shrink_isr", '{"partition": ["t", 0], "brokers": [7]}'),
            400,
            "ConfigurationError",
        ),
        (request("/controls/shrink_isr", '{"brokers": [1]}'), 400, "ConfigurationError"),
        (
            request("/controls/shrink_isr", '{"partition": ["t", 0], "brokers": 1}'),
            400,
            "ConfigurationError",
        ),
    ],
)
def test_what_is_wrong_is_said(caller: socket.socket, what: bytes, status: int, kind: str) -> None:
    caller.sendall(what)
    ((found, answer),) = receive(caller)
    assert (found, answer["error"]["type"]) == (status, kind)
    caller.sendall(request("/topics"))
    assert receive(caller)[0][0] == 200


@pytest.mark.parametrize(
    "what",
    [
        b"\x00\x00\x00\x10 no HTTP at all\r\n\r\n",
        b"POST /topics\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"x" * 20_000,
    ],
)
def test_no_http_costs_its_connection(port: AdminPort, caller: socket.socket, what: bytes) -> None:
    caller.sendall(what)
    try:
        assert caller.recv(1) == b""
    except ConnectionError:
        pass
    host, number = port.address.split(":")
    with socket.create_connection((host, int(number)), 10) as other:
        other.sendall(request("/topics"))
        assert receive(other)[0][0] == 200


def test_it_opens_once_and_closes_with_its_cluster() -> None:
    with KafkaCluster(brokers=1) as cluster:
        port = cluster.open_admin_port()
        assert len(port.token) == 32
        with pytest.raises(IllegalState, match="is open at"):
            cluster.open_admin_port()
        host, number = port.address.split(":")
        left = socket.create_connection((host, int(number)), 10)
        left.sendall(request("/topics"))
        receive(left)
    with left:
        assert left.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(number)), 1)


NO_NUMBERS = st.one_of(
    st.none(), st.text(max_size=5), st.just([]), st.just({}), st.just(["t", None]), st.just([["t"]])
)
# Those that need no argument, and would wait or change the cluster for good.
LASTING = ("hold_elections", "hold_loading", "pause_followers")


@settings(max_examples=60)
@given(data=st.data())
def test_no_call_with_odd_arguments_does_more_than_fail(data: st.DataObject, port: AdminPort) -> None:
    name = data.draw(st.sampled_from([one for one in port._api.names() if not one.endswith(LASTING)]))
    keys = ("partition", "broker_id", "rule", "topic", "to", "brokers", "name", "api", "then", "seconds")
    arguments = data.draw(st.dictionaries(st.sampled_from(keys), NO_NUMBERS, max_size=4))
    body = json.dumps(arguments).encode()
    status, answer = port.answer("POST", f"/{name}", "secret", body)
    assert status in (200, 400), (name, arguments, answer)
