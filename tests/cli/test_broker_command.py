"""`pykafka2 broker`, as a process."""

from __future__ import annotations

import gc
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pykafka2.cli.broker.broker import SAME_SIGNAL_SECONDS, _Signals, frozen_objects
from pykafka2.cli.main import main
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.fork_server import Command
from tests.gate import rest_in_gate
from tests.ports import free_ports

COMMAND = [sys.executable, "-m", "pykafka2.cli", "broker"]


@contextmanager
def broker(
    *options: str, environment: dict[str, str] | None = None, is_forked: bool = True
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """The running command and the addresses that it printed."""
    how: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    how["env"] = environment
    process = (
        Command("broker", *options, **how) if is_forked else subprocess.Popen([*COMMAND, *options], **how)
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("bootstrap.servers="), line + (process.stderr.read() if process.stderr else "")
        yield process, line.strip().removeprefix("bootstrap.servers=").split(",")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", rest_in_gate([signal.SIGTERM, signal.SIGINT]))
def test_broker_command_serves_and_exits_cleanly(number: signal.Signals) -> None:
    with broker("--port", "0", "--topic", "orders:2", "--topic", "audit:1:1") as (process, addresses):
        assert len(addresses) == 3
        with RawClient(addresses[1]) as wire:
            topics = {topic.name: topic for topic in wire.call(MetadataRequest(topics=None), 12).topics}
            assert {name: len(topic.partitions) for name, topic in topics.items()} == {
                "orders": 2,
                "audit": 1,
            }
            leading = topics["orders"].partitions[0].leader_id
        with RawClient(addresses[leading]) as wire:
            assert produce(wire, "orders", 0, batch()).error_code == 0
            # Ends although a connection is open.
            process.send_signal(number)
            out, err = process.communicate(timeout=20)
        assert process.returncode == 0
        assert out == ""
        assert number.name in err
        assert "Traceback" not in err


SLOW_STOP = """
import sys, time
from pykafka2.broker.broker import Broker
from pykafka2.cli.main import main
def flush(self):
    print("stopping", flush=True)
    time.sleep(120)
Broker._flush = flush
main(["broker", "--port", "0"])
"""


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    rest_in_gate(
        [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGINT)]
    ),
)
def test_second_signal_ends_a_slow_stop_at_once(first: signal.Signals, second: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_STOP], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("bootstrap.servers=")
        process.send_signal(first)
        assert process.stdout.readline() == "stopping\n"
        time.sleep(1.5 * SAME_SIGNAL_SECONDS)
        process.send_signal(second)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -second
    assert f"ended at once by a second signal ({second.name})" in err
    assert "Traceback" not in err


def test_signal_that_a_parent_sends_twice_at_once_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """`timeout` signals its child and then its process group."""
    monkeypatch.setattr("pykafka2.cli.broker.broker.SAME_SIGNAL_SECONDS", 60.0)
    received: list[int] = []
    with _Signals(received.append):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert received == [signal.SIGTERM]


@pytest.mark.gate
@pytest.mark.slow
def test_consecutive_ports_options_and_no_auto_creation() -> None:
    first, _ = free_ports(2)
    with broker(
        "--port",
        str(first),
        "--brokers",
        "2",
        "--no-auto-create",
        "--serial",
        "--quick",
        "-c",
        "num.partitions=7",
    ) as (
        _,
        addresses,
    ):
        assert addresses == [f"127.0.0.1:{first}", f"127.0.0.1:{first + 1}"]
        with RawClient(addresses[0]) as wire:
            response = wire.call(MetadataRequest(topics=None), 12)
            assert [node.port for node in response.brokers] == [first, first + 1]


@pytest.mark.gate
@pytest.mark.slow
def test_racks_are_assigned_to_the_brokers_in_turn() -> None:
    with broker("--port", "0", "--racks", "east, west") as (_, addresses), RawClient(addresses[0]) as wire:
        brokers = wire.call(MetadataRequest(topics=None), 12).brokers
        assert {broker.node_id: broker.rack for broker in brokers} == {0: "east", 1: "west", 2: "east"}


@pytest.mark.gate
def test_option_data_dir_keeps_topics_when_the_broker_is_killed(tmp_path: Path) -> None:
    options = ("--port", "0", "--brokers", "1", "--data-dir", str(tmp_path))
    with broker(*options, "--topic", "orders:2") as (process, addresses), RawClient(addresses[0]):
        process.kill()
        process.communicate(timeout=20)
    with broker(*options) as (_, addresses), RawClient(addresses[0]) as wire:
        [topic] = wire.call(MetadataRequest(topics=None), 12).topics
        assert (topic.name, len(topic.partitions)) == ("orders", 2)


@pytest.mark.gate
def test_option_as_version_lowers_the_advertised_ranges() -> None:
    with broker("--port", "0", "--brokers", "1", "--as-version", "2.8") as (_, addresses):
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        with RawClient(addresses[0]) as wire:
            served = {one.api_key: one.max_version for one in wire.call(request, 3).api_keys}
    assert served[MetadataRequest.API_KEY] == 11


def test_unknown_release_exits_with_status_2_and_lists_the_valid_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["broker", "--port", "0", "--as-version", "2.7"])
    assert ended.value.code == 2
    assert "'2.7' is not a known release; use one of '2.8', '3.0', '3.1', " in capsys.readouterr().err


@pytest.mark.parametrize("racks", ["", "east,,west"])
def test_rack_without_a_name_is_refused(racks: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--port", "0", "--racks", racks]) == 2
    assert f"--racks {racks!r}: a rack has no name" in capsys.readouterr().err


@pytest.mark.gate
def test_package_runs_as_the_command() -> None:
    for module in ("pykafka2", "pykafka2.cli"):
        done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("usage: pykafka2 ")


@pytest.mark.gate
@pytest.mark.slow
def test_first_broker_id_and_advertised_addresses_are_used() -> None:
    options = ["--port", "0", "--brokers", "2", "--first-broker-id", "5"]
    with broker(*options, "--advertised-host", "kafka-{id}.test", "--advertised-port", "19092") as (
        _,
        addresses,
    ):
        assert all(address.startswith("127.0.0.1:") for address in addresses)
        with RawClient(addresses[0]) as wire:
            shown = wire.call(MetadataRequest(topics=None), 12).brokers
    assert [(node.node_id, node.host, node.port) for node in shown] == [
        (5, "kafka-5.test", 19092),
        (6, "kafka-6.test", 19093),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--port", "99999"], "--port 99999"),
        (["--port", "0", "--topic", "a:b"], "name:partitions"),
        (["--port", "0", "-c", "nosuch"], "name=value"),
        (["--port", "0", "-c", "num.partitons=1"], "did you mean 'num.partitions'"),
        (["--port", "0", "--brokers", "0"], "from 1"),
        (["--port", "0", "--host", "0.0.0.0"], "0.0.0.0.*--advertised-host"),
        (["--listener", "PLAINTEXT://[::]:0"], "::.*--advertised-listener"),
        (["--port", "0", "--admin-host", "0.0.0.0"], "--admin-host needs --admin-port"),
        (["--port", "0", "--admin-token", "t"], "--admin-token needs --admin-port"),
        (["--port", "0", "--admin-token-file", "f"], "--admin-token-file needs --admin-port"),
        (["--port", "0", "--topic", "a:1", "--topic", "a:2"], "a is set twice"),
    ],
)
def test_invalid_option_ends_with_a_message(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["broker", *options]) == 2
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert re.search(words, shown), shown


@pytest.mark.slow
def test_topic_that_cannot_be_created_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker", "--port", "0", "--topic", "a:1:9"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" not in shown
    assert re.search("Replication factor|Unable to replicate", shown), shown


@pytest.mark.parametrize(
    ("line", "nearest"),
    [
        ("brokr", "broker"),
        ("broker --brokrs 3", "--brokers"),
        ("broker --port 0 --admin-prt=5", "--admin-port"),
        ("demo --sabotage loose", "lose"),
    ],
)
def test_a_misspelt_option_names_the_nearest(
    line: str, nearest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    assert f"did you mean {nearest}?" in capsys.readouterr().err


def test_an_invalid_value_suggests_no_other_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["broker", "--port", "abc"])
    assert "argument --port: invalid int value: 'abc'\n" in capsys.readouterr().err


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["broker", "--port", str(port), "--brokers", "1"]) == 1
    assert str(port) in capsys.readouterr().err


@pytest.mark.gate
@pytest.mark.slow
def test_help_teaches() -> None:
    done = subprocess.run([*COMMAND, "--help"], capture_output=True, text=True, check=True, timeout=30)
    for words in ("pykafka2 broker --brokers 1 --port 0", "--topic orders:6", "Ctrl-C"):
        assert words in done.stdout


@pytest.mark.gate
@pytest.mark.slow
def test_the_admin_port_steers_it() -> None:
    """Use only HTTP, JSON and the printed token, like a test in another language."""
    options = (
        "--port",
        "0",
        "--brokers",
        "1",
        "--topic",
        "t:1",
        "--admin-port",
        "0",
        "--admin-token",
        "secret",
    )
    with broker(*options) as (process, addresses):
        assert process.stdout is not None
        url, token = process.stdout.readline().split()
        assert token == "token=secret"
        address = url.removeprefix("admin=http://")

        def call(path: str, body: bytes, token: str = "secret") -> tuple[int, dict[str, Any]]:
            connection = http.client.HTTPConnection(address, timeout=10)
            try:
                connection.request("POST", path, body, {"Authorization": f"Bearer {token}"})
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())
            finally:
                connection.close()

        rule = b'{"rule": {"api": "Produce", "nth": 2, "then": "error:NOT_LEADER_OR_FOLLOWER"}}'
        status, answer = call("/controls/add_rule", rule)
        assert (status, answer["result"]["id"]) == (200, 1)
        with RawClient(addresses[0]) as wire:
            assert [produce(wire, "t", 0, batch()).error_code for _ in range(3)] == [0, 6, 0]
        assert call("/controls/rules", b"")[1]["result"][0]["fired"] == 1
        assert len(call("/history", b'{"api": "Produce"}')[1]["result"]) == 3
        assert "Produce v12" in call("/timeline", b"{}")[1]["result"]["text"]
        assert call("/topics", b"", token="wrong")[0] == 401
        status, answer = call("/topisc", b"")
        assert (status, answer["error"]["message"]) == (
            404,
            "The admin port has no call 'topisc'; did you mean 'topics'?",
        )
        status, answer = call("/controls/cut_link", b'{"sauce": 0}')
        assert (status, answer["error"]["type"]) == (400, "ConfigurationError")
        assert "did you mean 'source'" in answer["error"]["message"]


def test_garbage_collector_skips_the_objects_of_a_started_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: calls.append("unfreeze"))
    with frozen_objects():
        assert calls == ["freeze"]
    assert calls == ["freeze", "unfreeze"]


def test_broker_starts_if_the_garbage_collector_has_no_freeze(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(gc, "freeze")  # as on PyPy
    monkeypatch.delattr(gc, "unfreeze")
    with frozen_objects():
        pass
