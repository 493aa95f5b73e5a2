"""`pykafka2 cluster` as typed, on two brokers: in this process, in pipes and in a pseudo-terminal."""

from __future__ import annotations

import json

import pytest

from pykafka2 import KafkaProducer
from pykafka2.testing import QUICK, KafkaCluster
from tests.cli.conftest import Admin
from tests.cli.typed import Terminal, in_terminal, pykafka2


def test_describe_has_the_id_and_numbers(admin: Admin, two_brokers: KafkaCluster) -> None:
    (found,) = admin.rows("cluster", "describe")
    assert found["broker_count"] == 2
    assert found["cluster_id"]
    assert "ALTER" in found["authorized_operations"]
    (quorum,) = admin.rows("cluster", "quorum")
    assert found["controller"] == quorum["leader"]
    assert found["cluster_id"] in admin("cluster", "describe")[1]


def test_brokers_are_rows(admin: Admin) -> None:
    rows = admin.rows("cluster", "brokers")
    assert [row["broker"] for row in rows] == [0, 1]
    assert ",".join(f"{row['host']}:{row['port']}" for row in rows) == admin.servers
    (quorum,) = admin.rows("cluster", "quorum")
    assert [row["broker"] for row in rows if row["controller"]] == [quorum["leader"]]
    assert [row["fenced"] for row in rows] == [False, False]


@pytest.mark.gate
def test_features_are_listed_and_changed(admin: Admin) -> None:
    rows = {row["feature"]: row for row in admin.rows("cluster", "features")}
    version = rows["metadata.version"]
    assert version["supported_min"] <= version["level"] <= version["supported_max"]
    code, shown, errors = admin(
        "cluster", "features", "--set", "transaction.version=1", "--downgrade", "--dry-run"
    )
    assert (code, shown, errors) == (0, "transaction.version: valid\n", "")
    assert list(rows.values()) == admin.rows("cluster", "features"), "a dry run changes nothing"
    code, _, errors = admin("cluster", "features", "--set", "metadata.version=7", "--downgrade")
    assert code == 1
    assert "metadata.version: InvalidUpdateVersion" in errors
    code, _, errors = admin("cluster", "features", "--set", "metadata.version=9999")
    assert code == 1
    assert "metadata.version: " in errors
    assert admin.rows("cluster", "features")[0].keys() == version.keys()


@pytest.mark.slow
def test_stopped_broker_is_fenced_and_an_unsafe_downgrade_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaCluster(brokers=2, config=QUICK) as own:
        admin = Admin(own.bootstrap_servers, capsys)
        admin("cluster", "features", "--set", "transaction.version=1", "--downgrade", "unsafe", "--dry-run")
        (request,) = own.history.requests("UpdateFeatures")
        assert [one.upgrade_type for one in request.feature_updates] == [3]
        own.controls.stop_broker(1)
        assert [row["fenced"] for row in admin.rows("cluster", "brokers")] == [False, True]


def test_quorum_has_a_leader(admin: Admin) -> None:
    (found,) = admin.rows("cluster", "quorum")
    (leader,) = [one for one in found["replicas"] if one["role"] == "leader"]
    assert leader["replica"] == found["leader"]
    for one in found["replicas"]:
        assert one["lag"] == leader["log_end_offset"] - one["log_end_offset"]
    assert "HIGH" not in admin("cluster", "quorum")[1]


@pytest.mark.gate
def test_log_dirs_have_sizes_and_replicas(admin: Admin) -> None:
    name = admin.name()
    assert admin("topics", "create", name, "-p", "2", "-r", "2")[0] == 0
    rows = admin.rows("cluster", "log-dirs", "--topic", name)
    assert [(row["broker"], row["replica_count"]) for row in rows] == [(0, 2), (1, 2)]
    with KafkaProducer(bootstrap_servers=admin.servers) as producer:
        producer.send(name, bytes(1000), partition=1)
    assert all(row["size_bytes"] > 1000 for row in admin.rows("cluster", "log-dirs", "--topic", name))
    assert "TOTAL BYTES" not in admin("cluster", "log-dirs")[1]  # the bundled broker sends none
    rows = admin.rows("cluster", "log-dirs", "--broker", "1", "--topic", name, "--replicas")
    assert [(row["broker"], row["topic"], row["partition"]) for row in rows] == [(1, name, 0), (1, name, 1)]


def test_api_versions_of_one_broker(admin: Admin) -> None:
    rows = admin.rows("cluster", "api-versions", "--broker", "1")
    assert {row["broker"] for row in rows} == {1}
    (produce,) = [row for row in rows if row["api"] == "Produce"]
    assert (produce["api_key"], produce["min_version"] <= produce["max_version"]) == (0, True)


def test_missing_broker_is_one_line(admin: Admin) -> None:
    missing = "7: BrokerNotAvailable: Broker 7 does not exist or is not running. Running brokers: 0, 1.\n"
    for action in ("log-dirs", "api-versions"):
        code, _, errors = admin("cluster", action, "--broker", "7")
        assert code == 1
        assert errors == f"pykafka2 cluster: {missing}"
    code, _, errors = admin("cluster", "unregister", "7")
    assert code == 1
    assert "7: BrokerIdNotRegistered" in errors


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["broker"], "did you mean brokers?"),
        (["features", "--set", "metadata.version"], "write FEATURE=LEVEL"),
        (["features", "--dry-run"], "need --set"),
        (["features", "--set", "f=1", "--downgrade", "always"], "unsafe"),
        (["log-dirs", "--broker", "one"], "--broker"),
        (["unregister"], "ID"),
        (["unregister", "99999999999"], "broker_id=99999999999 must be an int"),
    ],
)
def test_wrong_argument_has_exit_code_2(admin: Admin, words: list[str], shown: str) -> None:
    code, out, errors = admin("cluster", *words)
    assert (code, out) == (2, "")
    assert shown in errors


@pytest.mark.gate
def test_typed_in_a_pipe_and_in_a_terminal(admin: Admin) -> None:
    ended = pykafka2("cluster", "brokers", "-b", admin.servers, "--json")
    assert ended.returncode == 0
    assert [json.loads(line)["broker"] for line in ended.stdout.splitlines()] == [0, 1]
    code, shown = in_terminal("cluster", "describe", "-b", admin.servers)
    assert code == 0
    assert "cluster id" in shown
    terminal = Terminal("cluster", "unregister", "1", "-b", admin.servers)
    terminal.wait_for("broker 1? [y/N]")
    terminal.type("\n")
    assert terminal.end()[0] == 1
