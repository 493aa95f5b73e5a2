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
from pykafka2.producer.producer import KafkaProducer
from pykafka2.testing import QUICK, KafkaCluster
from pykafka2.testing.remote.http_port import AdminPort
from tests.gate import examples
from tests.testing.wire import Wire, batch, produce

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
def test_large_request_takes_time_linear_in_its_size(caller: socket.socket) -> None:
    """Each read once looked at, and copied, all that had come before it: 8 MiB took four seconds."""
    caller.settimeout(60)
    begin = time.process_time()
    caller.sendall(request("/topics", '{"what": "' + "x" * (8 << 20) + '"}'))
    ((status, answer),) = receive(caller)
    assert (status, answer["error"]["type"]) == (400, "ConfigurationError")
    assert time.process_time() - begin < 2.0


def test_a_head_that_does_not_end_ends_the_connection(caller: socket.socket) -> None:
    caller.sendall(b"POST /topics HTTP/1.1\r\nX: " + bytes(20 << 10) + b"\r\n\r\n")
    assert caller.recv(1) == b""


def test_help_lists_calls_and_their_arguments(caller: socket.socket) -> None:
    caller.sendall(request("/help", method="GET"))
    ((status, answer),) = receive(caller)
    assert status == 200
    told = answer["result"]
    assert told["controls/cut_link"].startswith(
        "(source: 'int', target: 'int', one_way: 'bool' = False): Drops"
    )
    assert {"topics", "connections", "controls/add_rule"} <= set(told)


def test_several_at_once_are_answered_in_order(caller: socket.socket) -> None:
    caller.sendall(request("/topics") + request("/cluster_id", method="GET") + request("/", method="GET"))
    topics, cluster_id, names = receive(caller, 3)
    assert topics[1]["result"] == ["t"]
    assert isinstance(cluster_id[1]["result"], str)
    assert "controls/cut_link" in names[1]["result"]


def test_connection_close_header_closes_the_connection(caller: socket.socket) -> None:
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
        (request("/wait", "{}"), 400, "ConfigurationError"),
        (request("/wait", '{"call": "topisc"}'), 400, "ConfigurationError"),
        (request("/wait", '{"call": "create_topic"}'), 400, "ConfigurationError"),
        (request("/wait", '{"call": "topics", "timeout": "5"}'), 400, "ConfigurationError"),
        (request("/wait", '{"call": "topics", "until": 3}'), 400, "ConfigurationError"),
        (request("/wait", '{"call": "group", "arguments": {"group": "g"}}'), 400, "ConfigurationError"),
        (request("/wait", '{"call": "topics", "until": {"count": "3"}}'), 400, "ConfigurationError"),
        (request("/wait", '{"call": "transactions", "timeout": 0}'), 400, "KafkaTimeoutError"),
        (
            request("/values", '{"topic": "t", "partition": 0, "isolation": "committed"}'),
            400,
            "ConfigurationError",
        ),
        (
            request("/controls/shrink_isr", '{"partition": ["t", 0], "brokers": 1}'),
            400,
            "ConfigurationError",
        ),
    ],
)
def test_invalid_request_gets_an_error_response(
    caller: socket.socket, what: bytes, status: int, kind: str
) -> None:
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


@pytest.mark.parametrize("fields", ["", "Authorization: Bearer guess\r\n"])
def test_large_body_without_a_token_is_not_read(caller: socket.socket, fields: str) -> None:
    """The answer comes before the body, and the connection ends with it."""
    caller.sendall(f"POST /topics HTTP/1.1\r\n{fields}Content-Length: 67108864\r\n\r\n".encode())
    ((status, answer),) = receive(caller)
    assert (status, answer["error"]["type"]) == (401, "Unauthorized")
    assert caller.recv(1) == b""


def test_admin_port_opens_once_and_closes_with_its_cluster() -> None:
    with KafkaCluster(brokers=1) as cluster:
        port = cluster.open_admin_port()
        assert len(port.token) == 32
        with pytest.raises(IllegalState, match="is already open at"):
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


@settings(max_examples=examples(60))
@given(data=st.data())
def test_no_call_with_odd_arguments_does_more_than_fail(data: st.DataObject, port: AdminPort) -> None:
    name = data.draw(st.sampled_from([one for one in port._api.names() if not one.endswith(LASTING)]))
    keys = ("partition", "broker_id", "rule", "topic", "to", "brokers", "name", "api", "then", "seconds")
    arguments = data.draw(st.dictionaries(st.sampled_from(keys), NO_NUMBERS, max_size=4))
    body = json.dumps(arguments).encode()
    answer = port.answer("POST", f"/{name}", "secret", body)
    assert isinstance(answer, tuple), (name, arguments)
    assert answer[0] in (200, 400), (name, arguments, answer)


def ask(caller: socket.socket, path: str, **arguments: Any) -> Any:
    """The result, or the error's type and message."""
    caller.sendall(request(path, json.dumps(arguments)))
    ((status, answer),) = receive(caller)
    return answer["result"] if status == 200 else (answer["error"]["type"], answer["error"]["message"])


@pytest.fixture(scope="module")
def shop() -> Iterator[KafkaCluster]:
    """A cluster whose admin port is open, with a topic of text, one of other bytes, and one to be waited
    for."""
    with KafkaCluster(brokers=1, topics={"text": 1, "bytes": 1, "late": 1}) as cluster:
        cluster.open_admin_port(token="secret")
        with Wire(cluster.brokers[0].address) as wire:
            produce(wire, "text", 0, batch(["ä".encode(), b"{}", None]))
            produce(wire, "bytes", 0, batch([b"\xff\xfe"]))
        yield cluster


@pytest.fixture
def clerk(shop: KafkaCluster) -> Iterator[socket.socket]:
    host, number = shop._admin_port.address.split(":")  # type: ignore[union-attr]
    with socket.create_connection((host, int(number)), 10) as made:
        yield made


def test_values_come_as_text(clerk: socket.socket) -> None:
    assert ask(clerk, "/values", topic="text", partition=0) == ["ä", "{}", None]
    assert ask(clerk, "/values", topic="text", partition=0, isolation="read_committed") == ["ä", "{}", None]
    assert ask(clerk, "/values", topic="bytes", partition=0, encoding="base64") == ["//4="]
    kind, message = ask(clerk, "/values", topic="bytes", partition=0)
    assert (kind, message) == ("ConfigurationError", "b'\\xff\\xfe' is not UTF-8. Set encoding='base64'.")
    assert "'utf-8'" in ask(clerk, "/values", topic="text", partition=0, encoding="utf8")[1]


@pytest.mark.slow
def test_values_and_records_are_those_that_the_isolation_shows() -> None:
    place = {"topic": "orders", "partition": 0}
    with (
        KafkaCluster(1, {"orders": 1}, config=QUICK) as cluster,
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="shop") as producer,
    ):
        host, number = cluster.open_admin_port(token="secret").address.split(":")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"not committed").result(10)
        with socket.create_connection((host, int(number)), 10) as clerk:
            for path in ("/values", "/records"):
                assert len(ask(clerk, path, **place)) == 1
                assert ask(clerk, path, isolation="read_committed", **place) == []
        producer.abort_transaction()


def test_records_have_offsets_keys_and_headers(clerk: socket.socket) -> None:
    first, *_ = ask(clerk, "/records", topic="text", partition=0)
    assert {**first, "timestamp": 0} == {
        "offset": 0,
        "timestamp": 0,
        "key": None,
        "value": "ä",
        "headers": [],
    }


def test_compact_takes_a_topic_or_a_partition(clerk: socket.socket) -> None:
    for topic in ("text", ["text", 0]):
        kind, message = ask(clerk, "/controls/compact", topic=topic)
        assert (kind, "cleanup.policy" in message) == ("PolicyViolation", True)
    assert ask(clerk, "/controls/compact", topic=["text"]) == (
        "ConfigurationError",
        """['text'] is not a topic or partition: use "topic" or ("topic", number)""",
    )


def test_wrong_argument_name_recommends_the_right_ones(clerk: socket.socket) -> None:
    kind, message = ask(clerk, "/controls/crash_broker", broker=0)
    assert kind == "ConfigurationError"
    assert (
        "no argument 'broker'; did you mean 'broker_id'?; its arguments are broker_id, lose_unreplicated"
        in message
    )
    assert "no argument 'id'; its arguments are topic, partition, broker" in ask(clerk, "/log", id=3)[1]
    assert "no argument 'id'; it takes none" in ask(clerk, "/topics", id=3)[1]


def test_admin_call_waits_until_the_view_matches(shop: KafkaCluster, clerk: socket.socket) -> None:
    """Calls behind it on its connection wait, too; those of others are served meanwhile."""
    place = {"topic": "late", "partition": 0}
    clerk.sendall(
        request("/wait", json.dumps({"call": "values", "arguments": place, "until": {"count": 2}}))
        + request("/topics")
    )
    host, number = shop._admin_port.address.split(":")  # type: ignore[union-attr]
    with socket.create_connection((host, int(number)), 10) as other:
        assert ask(other, "/values", **place) == []
        assert ask(other, "/wait", call="partition", arguments=place, until={"replicas.0.is_leader": True})
        assert ask(other, "/wait", call="topics") == ["bytes", "late", "text"], "not empty is enough"
    with Wire(shop.brokers[0].address) as wire:
        for value in (b"one", b"two"):
            produce(wire, "late", 0, batch([value]))
    waited, topics = receive(clerk, 2)
    assert waited == (200, {"result": ["one", "two"]})
    assert topics == (200, {"result": ["bytes", "late", "text"]})


def test_wait_returns_when_the_condition_holds_and_times_out_with_the_last_value(
    clerk: socket.socket,
) -> None:
    kind, message = ask(
        clerk, "/wait", call="group", arguments={"group_id": "g"}, until={"state": "Stable"}, timeout=0.05
    )
    assert kind == "KafkaTimeoutError"
    assert message.startswith("group had not state='Stable' within 0.05 seconds; last: CoordinatorNotAvail")
    assert len(ask(clerk, "/wait", call="topics", until={"count": 2}, timeout=0)) == 3, "the least number"
    kind, message = ask(clerk, "/wait", call="topics", until={"count": 9}, timeout=0)
    assert message == "topics had not count=9 within 0 seconds; last: ['bytes', 'late', 'text']"


def test_a_caller_that_goes_is_waited_for_no_more(shop: KafkaCluster, clerk: socket.socket) -> None:
    assert ask(clerk, "/topics")
    port = shop._admin_port
    assert port is not None
    clerk.sendall(request("/wait", '{"call": "topics", "until": {"count": 9}, "timeout": 600}'))
    shop.wait_until(lambda: any(one._wait is not None for one in [*port._callers]))
    clerk.close()
    shop.wait_until(lambda: not any(one._wait is not None for one in [*port._callers]))
