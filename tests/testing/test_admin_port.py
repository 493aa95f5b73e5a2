"""The admin port's HTTP: whole, byte by byte, several at once, and wrong; it costs one connection at most."""

from __future__ import annotations

import json
import math
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from inspect import isfunction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.faults.rule import Action
from pykafka2.broker.observed.history import Entry
from pykafka2.errors import ConfigurationError, IllegalState
from pykafka2.otlp import MetricPoint
from pykafka2.producer.producer import KafkaProducer
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from pykafka2.testing import QUICK, STANDARD_AUTHORIZER, KafkaCluster
from pykafka2.testing.remote import http_port
from pykafka2.testing.remote.as_data import from_data, to_data
from pykafka2.testing.remote.http_port import MAX_CONNECTIONS, AdminPort
from pykafka2.testing.remote.openapi import check_path, result_schema, schema_of
from pykafka2.testing.views.groups import GroupView, MemberView
from pykafka2.testing.views.partitions import (
    BrokerView,
    ConnectionView,
    ControllerView,
    LogView,
    PartitionView,
    ReplicaView,
)
from pykafka2.testing.views.share_groups import ShareGroupView, SharePartitionView, ShareRecordView
from pykafka2.testing.views.transactions import TransactionView
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.gate import examples

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


@pytest.mark.gate
@pytest.mark.slow
def test_large_request_takes_time_linear_in_its_size(caller: socket.socket) -> None:
    """Each read once scanned, and copied, all bytes that had come before it: 8 MiB took four seconds."""
    caller.settimeout(60)
    begin = time.process_time()
    caller.sendall(request("/topics", '{"what": "' + "x" * (8 << 20) + '"}'))
    ((status, answer),) = receive(caller)
    assert (status, answer["error"]["type"]) == (400, "ConfigurationError")
    assert time.process_time() - begin < 2.0


def test_a_head_that_does_not_end_ends_the_connection(caller: socket.socket) -> None:
    caller.sendall(b"POST /topics HTTP/1.1\r\nX: " + bytes(20 << 10) + b"\r\n\r\n")
    assert receive(caller)[0][0] == 400
    assert caller.recv(1) == b""


def test_help_lists_calls_and_their_arguments(caller: socket.socket) -> None:
    caller.sendall(request("/help", method="GET"))
    ((status, answer),) = receive(caller)
    assert status == 200
    result = answer["result"]
    assert result["controls/cut_link"].startswith(
        "(source: 'int', target: 'int', one_way: 'bool' = False): Drop"
    )
    assert {"topics", "connections", "controls/add_rule"} <= set(result)


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


def with_reply(reply: object) -> dict[str, object]:
    return {"api": "DescribeClientQuotas", "then": "replace_reply", "reply": reply}


def whole(fields: object) -> dict[str, object]:
    return with_reply({"message": "DescribeClientQuotasResponse", "fields": fields})


NO_FLOAT = {"entries": [{"values": [{"value": "abc"}]}]}
ILLEGAL_FAULTS: list[tuple[str, dict[str, object]]] = [
    ("delay", {"request": "Fetch", "seconds": "abc"}),
    ("delay", {"request": "Fetch", "seconds": float("nan")}),
    ("rule", {"api": "Fetch", "then": "delay:-1"}),
    ("rule", with_reply(NO_FLOAT)),
    ("rule", whole(NO_FLOAT)),
    ("rule", whole({"entries": 1})),
    ("rule", whole([])),
    ("add_rule", {"rule": whole({"throttle_time_ms": "soon"})}),
    ("throttle", {"client_id": "c", "request": "Fetch", "seconds": True}),
    ("delay_client", {"client_id": "c", "seconds": float("inf")}),
    ("cut_client", {"client_id": "c", "silently": "false"}),
]
"""Faults with a value that no argument or field can have."""


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
        *[
            (request(f"/controls/{call}", json.dumps(arguments)), 400, "ConfigurationError")
            for call, arguments in ILLEGAL_FAULTS
        ],
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
        b"POST /topics HTTP/1.1\r\nContent-Length: 1_0\r\n\r\n0123456789",
        b"POST /topics HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n00",
        b"POST /topics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST /topics HTTP/1.1\r\n: no name\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nContent-Length : 2\r\n\r\n{}",
        b"POST /topics HTTP/1.1\r\nX: folded\r\n  line\r\n\r\n",
        b"POST /topics HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 0\r\n\r\n{}",
        b"POST /topics HTTP/2\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"x" * 20_000,
    ],
)
def test_no_http_gets_400_and_costs_its_connection(
    port: AdminPort, caller: socket.socket, what: bytes
) -> None:
    caller.sendall(what)
    ((status, answer),) = receive(caller)
    assert (status, answer["error"]["type"]) == (400, "BadRequest")
    assert caller.recv(1) == b""
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
        with RawClient(cluster.brokers[0].address) as wire:
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
        "no argument 'broker'; did you mean 'broker_id'? its arguments are broker_id, lose_unreplicated"
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
    with RawClient(shop.brokers[0].address) as wire:
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
    assert message.startswith(
        "group did not have state='Stable' within 0.05 seconds; last: CoordinatorNotAvail"
    )
    assert len(ask(clerk, "/wait", call="topics", until={"count": 2}, timeout=0)) == 3, "the least number"
    kind, message = ask(clerk, "/wait", call="topics", until={"count": 9}, timeout=0)
    assert message == "topics did not have count=9 within 0 seconds; last: ['bytes', 'late', 'text']"


def test_a_caller_that_goes_is_waited_for_no_more(shop: KafkaCluster, clerk: socket.socket) -> None:
    assert ask(clerk, "/topics")
    port = shop._admin_port
    assert port is not None
    clerk.sendall(request("/wait", '{"call": "topics", "until": {"count": 9}, "timeout": 600}'))
    shop.wait_until(lambda: any(one._wait is not None for one in [*port._callers]))
    clerk.close()
    shop.wait_until(lambda: not any(one._wait is not None for one in [*port._callers]))


def test_health_needs_no_token(
    port: AdminPort, caller: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller.sendall(request("/health", fields="", method="GET"))
    assert receive(caller) == [(200, {"result": {"status": "ok"}})]

    def fail() -> None:
        raise IllegalState("secret of the brokers")

    monkeypatch.setattr(port._api._cluster, "check", fail)
    caller.sendall(request("/health", fields="", method="GET"))
    error = {"type": "IllegalState", "message": "the cluster does not run"}
    assert receive(caller) == [(503, {"error": error})]


def test_openapi_document_describes_every_call(port: AdminPort, caller: socket.socket) -> None:
    caller.sendall(request("/openapi.json", fields="", method="GET"))
    ((status, document),) = receive(caller)
    assert (status, document["openapi"], document["security"]) == (200, "3.1.0", [{"token": []}])
    paths = document["paths"]
    calls = {f"/{name}" for name in port._api.names()}
    assert set(paths) == calls | {"/", "/help", "/health", "/openapi.json"}
    assert len({one["post"]["operationId"] for path, one in paths.items() if path in calls}) == len(calls)

    def arguments(path: str) -> Any:
        return paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"]

    partition = arguments("/partition")
    assert (partition["properties"]["topic"], partition["required"]) == (
        {"type": "string"},
        ["topic", "partition"],
    )
    assert arguments("/controls/shrink_isr")["properties"]["brokers"]["items"] == {"type": "integer"}
    rule = arguments("/controls/rule")
    assert {"then", "api", "topic", "nth", "reply"} <= set(rule["properties"])
    assert rule["additionalProperties"] is False
    quota = arguments("/controls/set_quota")
    assert quota["additionalProperties"] == {"anyOf": [{"type": "number"}, {"type": "null"}]}
    body = paths["/group"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    group = body["properties"]["result"]["properties"]
    assert group["state"] == {"type": "string"}
    assert group["members"]["additionalProperties"]["properties"]["client_id"] == {"type": "string"}
    assert paths["/health"]["get"]["security"] == []
    assert "Infinity, -Infinity and NaN" in document["info"]["description"]
    (reference,) = set(re.findall(r'"\$ref": "#/([^"]*)"', json.dumps(document)))
    found = document
    for step in reference.split("/"):
        found = found[step]


def test_name_of_a_topic_is_the_argument_topic_in_every_call(port: AdminPort, caller: socket.socket) -> None:
    named = {name: text for name, text in port._api.help().items() if "(name:" in text or ", name:" in text}
    assert named == {}
    assert ask(caller, "/create_topic", topic="new", partitions=2) is None
    assert ask(caller, "/partition", topic="new", partition=1)["topic"] == "new"
    assert ask(caller, "/delete_topic", topic="new") is None
    assert "did you mean" in ask(caller, "/create_topic", topics="new")[1]


VIEWS_OF_PYTHON = (
    BrokerView,
    ConnectionView,
    ControllerView,
    Entry,
    GroupView,
    LogView,
    MemberView,
    PartitionView,
    ReplicaView,
    ShareGroupView,
    SharePartitionView,
    ShareRecordView,
    TransactionView,
)


def test_json_view_has_the_fields_and_properties_of_the_python_view(
    shop: KafkaCluster, clerk: socket.socket
) -> None:
    place = {"topic": "text", "partition": 0}
    view, ours = ask(clerk, "/partition", **place), shop.partition("text", 0)
    assert (view["high_watermark"], view["log_end_offset"]) == (ours.high_watermark, ours.log_end_offset)
    assert ask(clerk, "/brokers")[0]["address"] == shop.brokers[0].address
    assert ask(clerk, "/history", api="Produce")[0]["latency"] > 0
    rule = ask(clerk, "/controls/rule", api="Fetch", nth=1000, then="hold")
    assert rule["is_spent"] is False
    assert ask(clerk, "/metrics")["apis"]["Produce"]["count"] == shop.metrics().api("Produce").count
    assert ask(clerk, "/wait", call="partition", arguments=place, until={"high_watermark": 3})


NOT_IN_JSON = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def test_numbers_that_json_does_not_have_are_text_in_requests(
    shop: KafkaCluster, clerk: socket.socket
) -> None:
    ops = [OpData(key="producer_byte_rate", value=one, remove=False) for one in NOT_IN_JSON.values()]
    sent = AlterClientQuotasRequest(
        entries=[AlterClientQuotasRequestEntryData(entity=[], ops=ops)], validate_only=True
    )
    with RawClient(shop.brokers[0].address) as wire:
        wire.call(sent, 1)
    (entry,) = ask(clerk, "/history", api="AlterClientQuotas")
    assert [one["value"] for one in entry["request"]["entries"][0]["ops"]] == list(NOT_IN_JSON)
    read = from_data(Entry, entry).request.entries[0].ops
    assert [str(one.value) for one in read] == ["inf", "-inf", "nan"]


@pytest.mark.parametrize("text", ["Infinity", "-Infinity"])
def test_infinite_metric_of_a_client_is_text(text: str) -> None:
    """None means that the client had measured nothing yet, and so it stays."""
    point = MetricPoint("depth", NOT_IN_JSON[text], {})
    data = to_data([point, MetricPoint("depth", None, {}), MetricPoint("depth", 2.5, {})])
    assert [one["value"] for one in data] == [text, None, 2.5]
    assert from_data(MetricPoint, data[0]) == point


def test_schema_of_a_metric_has_the_text_of_infinite_values(port: AdminPort) -> None:
    """Clients that are generated from the schema would refuse the text otherwise."""
    push = result_schema(port._api._calls["telemetry"])["items"]["properties"]
    (choices,) = push["metrics"]["items"]["properties"]["value"].values()
    infinite = [to_data(number) for number in (math.inf, -math.inf)]
    assert choices == [{"type": "number"}, {"type": "null"}, {"enum": infinite}]


@pytest.mark.parametrize("kind", VIEWS_OF_PYTHON)
def test_schema_of_a_view_has_each_public_attribute(kind: type) -> None:
    """Apart from methods with arguments, such as `LogView.values`, which are calls of their own."""
    public = {name for name in dir(kind) if not name.startswith("_")}
    attributes = {name for name in public if not isfunction(getattr(kind, name))}
    assert attributes <= set(schema_of(kind)["properties"])


@pytest.mark.parametrize(
    ("call", "path", "hint"),
    [
        ("group", "stat", "did you mean 'state'?"),
        ("group", "members.m.clientid", "did you mean 'client_id'?"),
        ("partition", "high_water_mark", "did you mean 'high_watermark'?"),
        ("partition", "replicas.0.is_leder", "did you mean 'is_leader'?"),
        ("transactions", "0.is_opn", "did you mean 'is_open'?"),
        ("connections", "peer", "It has no fields"),
        ("topics", "orders", "It has no fields"),
        ("topics", "0.name", "It has no fields"),
        ("brokers", "0.adress", "did you mean 'address'?"),
        ("history", "0.latncy", "did you mean 'latency'?"),
        ("records", "0.vale", "did you mean 'value'?"),
        ("metrics", "byte_in", "did you mean 'bytes_in'?"),
        ("problems", "0.were", "did you mean 'where'?"),
        ("controller", "epoc", "did you mean 'epoch'?"),
        ("coordinator", "id", "It has no fields"),
    ],
)
def test_wait_for_an_unknown_field_is_refused_at_once(
    clerk: socket.socket, call: str, path: str, hint: str
) -> None:
    needed = {
        "group": {"group_id": "none yet"},
        "partition": {"topic": "none yet", "partition": 0},
        "records": {"topic": "none yet", "partition": 0},
        "coordinator": {"key": "none yet"},
    }
    arguments = needed.get(call, {})
    kind, message = ask(clerk, "/wait", call=call, arguments=arguments, until={path: 1}, timeout=600)
    assert kind == "ConfigurationError"
    assert f"the result of {call} has no field {path!r}" in message
    assert hint in message


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ("group", "members.count"),
        ("group", "members.any.assignment.0.1"),
        ("group", "offsets.t-0"),
        ("partition", "isr.0"),
        ("partition", "replicas.0.last_caught_up"),
        ("history", "0.request.topics.0.name"),
        ("events", "0.facts.broker"),
        ("transactions", "count"),
        ("metrics", "apis.Produce.count"),
    ],
)
def test_wait_accepts_every_field_that_a_result_can_have(port: AdminPort, call: str, path: str) -> None:
    check_path(result_schema(port._api._calls[call]), path, call)


def test_count_of_a_value_that_is_one_of_several_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no field 'count'"):
        check_path(schema_of(Action), "count", "the result")


@pytest.mark.gate
@pytest.mark.parametrize("process", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_reset_ends_all_faults_and_deletes_topics(process: bool) -> None:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": True}
    with KafkaCluster(brokers=3, topics={"orders": 2}, config=config, process=process) as cluster:
        controls = cluster.controls
        for partition in (0, 1):
            leader = next(one for one in cluster.brokers if one.id == cluster.partition("orders", 0).leader)
            with RawClient(leader.address) as wire:
                produce(wire, "orders", partition, batch([b"old"]))
        cluster.create_topic("another")
        cluster.acls.allow("User:ann", "READ", topic="orders")
        controls.set_quota(client_id="app", producer_byte_rate=1)
        controls.throttle("app", "Produce", 5.0)
        controls.rule(api="Produce", then="error:NOT_LEADER_OR_FOLLOWER")
        controls.hold("Metadata")
        controls.cut_client("app")
        controls.cut_link(0, 1)
        controls.pause_followers()
        controls.refuse_mechanism("PLAIN")
        controls.slow_controller(600.0, 100)
        controls.hold_loading()
        controls.crash_broker(1, unnoticed=True)
        controls.pause_broker(2)
        cluster.reset()
        assert [broker.is_running and not broker.is_paused for broker in cluster.brokers] == [True] * 3
        if not process:
            assert not cluster.running.shared.credentials.refused_mechanisms
            assert not any(broker.coordinators.is_loading_held for broker in cluster.running.brokers)
        assert cluster.topics() == ["orders"]
        assert [cluster.log("orders", number).values() for number in (0, 1)] == [[], []]
        assert controls.rules() == controls.throttles() == controls.quotas() == controls.access_rules() == []
        assert controls.held() == len(cluster.history.entries()) == len(cluster.events.events("fault")) == 0
        leader = next(one for one in cluster.brokers if one.id == cluster.partition("orders", 1).leader)
        with RawClient(leader.address, "app") as wire:
            assert not produce(wire, "orders", 1, batch([b"new"]), acks=-1).error_code
            assert wire.call(MetadataRequest(topics=None), 12).topics


def connect(port: AdminPort) -> socket.socket:
    host, number = port.address.split(":")
    return socket.create_connection((host, int(number)), 10)


def is_closed(caller: socket.socket) -> bool:
    try:
        return caller.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.slow
def test_slow_connections_make_way_for_others(port: AdminPort, caller: socket.socket) -> None:
    """Three thousand of them held as many descriptors. One that has shown the token stays."""
    caller.sendall(request("/topics"))
    assert receive(caller)[0][0] == 200
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(port)) for _ in range(MAX_CONNECTIONS + 50)]
        for number, one in enumerate(slow):
            try:
                one.sendall(b"POST /topics HTTP/1.1\r\n" if number % 2 else b"")
            except ConnectionError:
                pass
        other = stack.enter_context(connect(port))
        other.sendall(request("/topics"))
        assert receive(other)[0][0] == 200
        assert all(is_closed(one) for one in slow[:50])
        slow[-1].sendall(b"Authorization: Bearer secret\r\nContent-Length: 0\r\n\r\n")
        assert receive(slow[-1])[0][0] == 200
        caller.sendall(request("/topics"))
        assert receive(caller)[0][0] == 200


@pytest.mark.slow
def test_connection_beyond_the_limit_is_closed_if_all_others_have_shown_the_token(
    port: AdminPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_port, "MAX_CONNECTIONS", 2)
    with ExitStack() as stack:
        known = [stack.enter_context(connect(port)) for _ in range(2)]
        for one in known:
            one.sendall(request("/topics"))
            assert receive(one)[0][0] == 200
        assert is_closed(stack.enter_context(connect(port)))
        for one in known:
            one.sendall(request("/topics"))
            assert receive(one)[0][0] == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"POST /topics HTTP/1.1\r\n",
        request("/topics", "{}")[:-1],
        request("/topics") + b"P",
        request("/topics", fields=""),
    ],
)
def test_request_that_is_not_complete_in_time_ends_its_connection(
    port: AdminPort, caller: socket.socket, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_port, "REQUEST_TIMEOUT", 0.2)
    with connect(port) as slow:
        slow.sendall(sent)
        while slow.recv(65_536):
            pass


@pytest.mark.gate
@pytest.mark.slow
def test_request_that_comes_byte_by_byte_must_be_complete_in_time(
    port: AdminPort, caller: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_port, "REQUEST_TIMEOUT", 0.5)
    limit = time.monotonic() + 60
    with connect(port) as slow:
        slow.settimeout(0.02)
        for byte in request("/topics", fields=f"X: {'x' * 10_000}\r\n"):
            assert time.monotonic() < limit
            try:
                slow.sendall(bytes([byte]))
                if not slow.recv(1):
                    return
            except TimeoutError:
                pass
            except ConnectionError:
                return


@pytest.mark.gate
@pytest.mark.slow
def test_responses_that_are_not_taken_in_time_end_their_connection(
    port: AdminPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(port) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        size = 100
        slow.sendall(request("/openapi.json") * size)
        wait_until(lambda: any(one.is_known and one._unsent for one in [*port._callers]))
        monkeypatch.setattr(http_port, "REQUEST_TIMEOUT", 0.2)
        with connect(port):  # has the port calculate the time that is left again
            wait_until(lambda: not port._callers)
        with pytest.raises((ConnectionError, AssertionError)):
            receive(slow, size)


def wait_until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.gate
@pytest.mark.slow
def test_idle_connection_and_a_call_that_waits_stay_open(
    port: AdminPort, caller: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_port, "REQUEST_TIMEOUT", 0.2)
    with connect(port) as waiting:
        waiting.sendall(request("/wait", '{"call": "transactions", "timeout": 1.0}'))
        caller.sendall(request("/topics"))
        assert receive(caller)[0][0] == 200
        assert receive(waiting)[0][1]["error"]["type"] == "KafkaTimeoutError"
        caller.sendall(request("/topics"))
        assert receive(caller)[0][0] == 200


def test_response_to_head_has_no_body(caller: socket.socket) -> None:
    """A caller would take it for the next response."""
    caller.sendall(request("/health", fields="", method="HEAD"))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += caller.recv(1)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    caller.sendall(request("/health", fields="", method="GET"))
    assert receive(caller) == [(200, {"result": {"status": "ok"}})]


@pytest.mark.slow
def test_a_thousand_requests_at_once_are_all_answered(caller: socket.socket) -> None:
    """The system rejected a write of the 2,000 parts of their responses, which ended the connection."""
    caller.sendall(request("/health", fields="", method="GET") * 1000)
    assert {status for status, _ in receive(caller, 1000)} == {200}


@pytest.mark.gate
@pytest.mark.slow
def test_requests_of_a_caller_that_takes_no_responses_wait(port: AdminPort, caller: socket.socket) -> None:
    """Without the token, 1,500 of them held up all others for 20 seconds, and 200 MB of memory."""
    caller.sendall(request("/openapi.json", fields="", method="GET") * 3000)
    with connect(port) as other:
        other.sendall(request("/health", fields="", method="GET"))
        assert receive(other)[0][0] == 200
    peer = "{}:{}".format(*caller.getsockname())
    (held,) = [one for one in port._callers if one.transport.peer == peer]
    assert len(held._unsent) <= 2
    assert len(held._received) < 256 << 10
    assert receive(caller, 100)[99][0] == 200
