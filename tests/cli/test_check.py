"""`pykafka2 check` as typed: two brokers, one of which is bad, in pipes and in a pseudo-terminal."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.admin import CheckStatus, CheckStep, ClusterCheck
from pykafka2.cli.main import main
from pykafka2.testing import KafkaCluster, Listener
from tests.cli.typed import ROOT, Terminal, in_terminal, pykafka2
from tests.gate import rest_in_gate
from tests.ports import answering_port, closed_port, http, silence


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with KafkaCluster(brokers=2, topics={"orders": 2}) as cluster:
        yield cluster.bootstrap_servers


def test_good_cluster_is_a_table_with_exit_code_0(servers: str) -> None:
    ended = pykafka2("check", "-b", servers)
    shown = ended.stdout.decode()
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert shown.splitlines()[0].split() == (
        ["ADDRESS", "BROKER", "DNS", "PORT", "API", "VERSIONS", "METADATA", "IDENTITY"]
    )
    for address in servers.split(","):
        assert address in shown
    assert "agreement    ok" in shown
    assert "clock        ok" in shown
    assert "All 2 addresses passed." in shown
    assert "cause:" not in shown


@pytest.mark.gate
def test_details_have_a_line_for_each_step(servers: str) -> None:
    shown = pykafka2("check", "-b", servers, "--details").stdout.decode()
    assert shown.count("connected to 127.0.0.1:") == 2


@pytest.mark.gate
def test_guide_names_each_field_of_the_json(servers: str) -> None:
    guide = (ROOT / "docs" / "guides" / "operating.md").read_text(encoding="utf-8")
    found = json.loads(pykafka2("check", "-b", servers, "--json").stdout)
    broker = found["brokers"][0]
    names = {
        *found,
        *broker,
        *broker["steps"][0],
        *(step["name"] for step in found["steps"] + broker["steps"]),
    }
    assert [name for name in sorted(names) if f"`{name}`" not in guide] == []


@pytest.mark.gate
def test_json_is_one_object_with_all_steps(servers: str) -> None:
    ended = pykafka2("check", "-b", servers, "--json")
    (line,) = ended.stdout.splitlines()
    found = json.loads(line)
    assert ended.returncode == 0
    assert found["passed"] is True
    assert [broker["broker"] for broker in found["brokers"]] == [0, 1]
    assert {step["name"] for step in found["steps"]} == {"agreement", "partitions", "versions", "clock"}


def test_clock_options_reach_the_check(
    servers: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    received: dict[str, object] = {}

    def check_cluster(client: KafkaAdminClient, **options: object) -> ClusterCheck:
        received.update(options)
        return ClusterCheck("id", (), (CheckStep("clock", CheckStatus.FAILED, "late", "use NTP"),))

    monkeypatch.setattr("pykafka2.admin.admin.KafkaAdminClient.check_cluster", check_cluster)
    words = ["--timeout", "0.25", "--max-clock-skew", "0.5", "--clock-topic", "timed"]
    assert main(["check", "-b", servers, *words]) == 1
    assert received == {"timeout": 0.25, "max_clock_skew": 0.5, "clock_topic": "timed"}
    shown = capsys.readouterr().out
    assert "FAILED cluster, clock" in shown
    assert "fix:   use NTP" in shown
    assert "The cluster failed." in shown
    assert main(["check", "-b", servers]) == 1
    assert received == {"timeout": 5.0, "max_clock_skew": 5.0, "clock_topic": None}


@pytest.mark.gate
def test_wrong_port_has_exit_code_1_with_cause_and_fix(servers: str) -> None:
    good, _ = servers.split(",")
    wrong = f"127.0.0.1:{closed_port()}"
    ended = pykafka2("check", "-b", f"{good},{wrong}")
    shown = ended.stdout.decode()
    assert ended.returncode == 1
    assert f"FAILED {wrong}, port" in shown
    assert "cause: " in shown
    assert "fix:   correct the port in bootstrap_servers" in shown
    assert "1 of 3 addresses failed." in shown


@pytest.mark.gate
def test_wrong_port_in_json(servers: str) -> None:
    wrong = f"127.0.0.1:{closed_port()}"
    ended = pykafka2("check", "-b", f"{servers},{wrong}", "--json")
    found = json.loads(ended.stdout)
    assert ended.returncode == 1
    assert found["passed"] is False
    (bad,) = (broker for broker in found["brokers"] if not broker["passed"])
    assert bad["address"] == wrong
    (failed,) = (step for step in bad["steps"] if step["status"] == "failed")
    assert failed["name"] == "port"
    assert failed["fix"].startswith("correct the port")


@pytest.mark.gate
def test_no_address_that_responds_is_a_table_of_failures() -> None:
    with answering_port(http) as web, answering_port(silence) as silent:
        ended = pykafka2("check", "-b", f"127.0.0.1:{web},127.0.0.1:{silent}", "--timeout", "0.5")
    shown = ended.stdout.decode()
    assert ended.returncode == 1
    assert "responds in HTTP" in shown
    assert "did not respond to ApiVersions within 0.5 s" in shown
    assert "2 of 2 addresses failed." in shown


@pytest.mark.gate
def test_wrong_password_is_not_shown(tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=ann\nsasl.password=hush\n"
    )
    listeners = {"SASL_PLAINTEXT": Listener(mechanisms=["PLAIN"])}
    with KafkaCluster(brokers=2, listeners=listeners, users={"ann": "other"}) as cluster:
        ended = pykafka2("check", "-b", cluster.bootstrap_servers, "--config", str(properties))
    assert ended.returncode == 1
    assert b"rejected the credentials" in ended.stdout
    assert b"hush" not in ended.stdout + ended.stderr


@pytest.mark.gate
def test_check_in_a_terminal(servers: str) -> None:
    code, shown = in_terminal("check", "-b", servers)
    assert code == 0
    assert "All 2 addresses passed." in shown


@pytest.mark.gate
def test_ctrl_c_ends_a_check_that_waits() -> None:
    connected = threading.Event()

    def answer(connection: socket.socket) -> None:
        connected.set()
        silence(connection)

    with answering_port(answer) as silent:
        terminal = Terminal("check", "-b", f"127.0.0.1:{silent}", "--timeout", "300")
        assert connected.wait(60)
        terminal.type("\x03")
        code, shown = terminal.end()
    assert code == 130
    assert "interrupted" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize(
    ("words", "named"),
    rest_in_gate(
        [
            (["--timeout", "0"], "--timeout"),
            (["--timeout", "1e-9"], "'1e-9' is not valid; use a number above 0"),
            (["--max-clock-skew", "soon"], "--max-clock-skew"),
            (["--detail"], "--details"),
            (["-X", "security.protocl=SSL"], "security.protocol"),
        ]
    ),
)
def test_wrong_argument_has_exit_code_2(words: list[str], named: str) -> None:
    ended = pykafka2("check", *words)
    assert ended.returncode == 2
    assert named in ended.stderr.decode()


@pytest.mark.gate
def test_missing_ca_file_has_exit_code_2() -> None:
    ended = pykafka2("check", "-X", "security.protocol=SSL", "-X", "ssl_cafile=/no/such/ca.pem")
    assert ended.returncode == 2
    assert b"/no/such/ca.pem" in ended.stderr


def test_result_of_one_broker_is_singular(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaCluster(brokers=1) as cluster:
        assert main(["check", "-b", cluster.bootstrap_servers]) == 0
    assert capsys.readouterr().out.endswith("\n1 address passed.\n")
