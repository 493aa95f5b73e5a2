"""The administrative verbs of `pykafka2` as typed, on the bundled broker and on Apache Kafka."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.cli.main import main
from tests.cli.typed import Terminal, in_terminal, pykafka2

from .brokers import Cluster, eventually
from .real_kafka import SASL_PASSWORD, SASL_USER
from .secured_clusters import Secured

NUMBERS = count(1)
Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs a command with --json and returns the printed objects."""

    def run(servers: str, *words: str, code: int = 0) -> list[dict[str, Any]]:
        capsys.readouterr()
        ended = main([*words, "-b", servers, "--json"])
        shown = capsys.readouterr()
        assert ended == code, shown.err
        return [json.loads(line) for line in shown.out.splitlines()]

    return run


def a_name(kind: str) -> str:
    """Return a name of its own."""
    return f"command-{kind}-{next(NUMBERS)}"


def test_topics(cluster: Cluster, run: Run) -> None:
    servers, name = cluster.bootstrap_servers, a_name("topic")
    (created,) = run(servers, "topics", "create", name, "-p", "2", "-r", "3", "-c", "retention.ms=5000")
    assert (created["result"], created["error"]) == ("created", None)
    (again,) = run(servers, "topics", "create", name, code=1)
    assert again["error"].startswith("TopicAlreadyExists: ")
    (listed,) = run(servers, "topics", "list", name)
    assert listed == {"topic": name, "partition_count": 2, "replication_factor": 3, "internal": False}
    (altered,) = run(servers, "topics", "alter", name, "--append", "cleanup.policy=compact")
    assert altered["result"] == "altered"
    (added,) = run(servers, "topics", "add-partitions", name, "--count", "1")
    assert (added["result"], added["partition_count"]) == ("partitions added", 3)

    def described() -> Any:
        (found,) = run(servers, "topics", "describe", name)
        return len(found["partitions"]), found["configs"]

    eventually(lambda: described() == (3, {"retention.ms": "5000", "cleanup.policy": "delete,compact"}), name)
    (deleted,) = run(servers, "topics", "delete", name)
    assert deleted == {"topic": name, "result": "deleted", "error": None}


def test_offsets_and_truncation(cluster: Cluster, run: Run) -> None:
    servers, name = (
        cluster.bootstrap_servers,
        cluster.new_topic(2, cleanup_policy="delete", retention_ms="-1"),
    )
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(20):
            producer.send(name, b"x", partition=number % 2, timestamp_ms=1000 + number)
    rows = run(servers, "topics", "offsets", name)
    assert [(row["earliest"], row["latest"], row["offsets"]) for row in rows] == [(0, 10, 10)] * 2
    (at,) = run(servers, "topics", "offsets", f"{name}:1", "--at", "@1010")
    assert (at["offset"], at["timestamp"]) == (5, 1011)
    (cut,) = run(servers, "topics", "truncate", f"{name}:1", "--before", "-3")
    assert (cut["result"], cut["earliest"]) == ("truncated", 7)
    (failed,) = run(servers, "topics", "truncate", f"{name}:0", "--before", "99", code=1)
    assert failed["error"].startswith("OffsetOutOfRange: ")


def test_groups(cluster: Cluster, run: Run) -> None:
    servers, group, name = cluster.bootstrap_servers, a_name("group"), cluster.new_topic(2)
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for number in range(20):
            producer.send(name, b"x", partition=number % 2)
    ended = pykafka2("consume", name, "-b", servers, "--group", group, "--count", "20")
    assert ended.returncode == 0, ended.stderr
    (listed,) = run(servers, "groups", "list", group)
    assert (listed["state"], listed["type"]) == ("Empty", "Classic")
    (found,) = run(servers, "groups", "describe", group)
    assert (found["lag"], found["member_count"]) == (0, 0)
    rows = run(servers, "groups", "reset", group, "--shift-by", "-4")
    assert [(row["before"], row["after"]) for row in rows] == [(10, 6)] * 2
    assert run(servers, "groups", "describe", group)[0]["lag"] == 0
    run(servers, "groups", "reset", group, "--shift-by", "-4", "--execute")
    (found,) = run(servers, "groups", "describe", group, "--lag-time")
    assert found["lag"] == 8
    (deleted,) = run(servers, "groups", "delete-offsets", group, "--topic", f"{name}:0")
    assert deleted["result"] == "deleted"
    (deleted,) = run(servers, "groups", "delete", group)
    assert deleted == {"group": group, "result": "deleted", "error": None}
    (failed,) = run(servers, "groups", "delete", group, code=1)
    assert failed["error"].startswith("GroupIdNotFound: ")


def test_configs(cluster: Cluster, run: Run) -> None:
    servers, name = cluster.bootstrap_servers, cluster.new_topic()

    def values() -> dict[str, str]:
        return {row["setting"]: row["value"] for row in run(servers, "configs", "describe", "topic", name)}

    run(servers, "configs", "set", "topic", name, "retention.ms=5000", "cleanup.policy+=compact")
    eventually(lambda: values() == {"retention.ms": "5000", "cleanup.policy": "delete,compact"})
    (failed,) = run(servers, "configs", "set", "topic", name, "retention.ms=soon", code=1)
    assert failed["error"].startswith("InvalidConfig: ")
    run(servers, "configs", "reset", "topic", name, "--all")
    eventually(lambda: values() == {})
    (row,) = run(servers, "configs", "describe", "topic", name, "--setting", "retention.ms", "--docs")
    assert row["source"] == "DEFAULT_CONFIG"
    run(servers, "configs", "set", "group", "command-group", "consumer.session.timeout.ms=50000")
    eventually(lambda: {"type": "group", "name": "command-group"} in run(servers, "configs", "list", "group"))
    run(servers, "configs", "reset", "group", "command-group", "--all")


def test_transactions(cluster: Cluster, run: Run) -> None:
    servers, name, topic = cluster.bootstrap_servers, a_name("txn"), cluster.new_topic()
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"x").result(10)
    (listed,) = [
        row
        for row in run(servers, "transactions", "list", "--state", "ongoing")
        if row["transactional_id"] == name
    ]
    (found,) = run(servers, "transactions", "describe", name)
    assert (found["producer_id"], found["partitions"]) == (listed["producer_id"], [f"{topic}-0"])
    (aborted,) = run(servers, "transactions", "abort", name)
    assert aborted == {"transactional_id": name, "result": "aborted", "error": None}
    producer.close(timeout=0)
    eventually(lambda: run(servers, "transactions", "describe", name)[0]["partitions"] == [])
    assert run(servers, "transactions", "find-hanging", "--topic", topic) == []
    (failed,) = run(servers, "transactions", "abort", "no-such-id", code=1)
    assert failed["error"].startswith("TransactionalIdNotFound: ")


def test_cluster(cluster: Cluster, run: Run) -> None:
    servers = cluster.bootstrap_servers
    (described,) = run(servers, "cluster", "describe")
    assert described["broker_count"] == 3
    assert "DESCRIBE" in described["authorized_operations"]
    rows = run(servers, "cluster", "brokers")
    assert {f"{row['host']}:{row['port']}".replace("localhost", "127.0.0.1") for row in rows} == {
        address.replace("localhost", "127.0.0.1") for address in servers.split(",")
    }
    features = {row["feature"]: row["level"] for row in run(servers, "cluster", "features")}
    assert features["transaction.version"] == 2
    (quorum,) = run(servers, "cluster", "quorum")
    assert [one["replica"] for one in quorum["replicas"] if one["role"] == "leader"] == [quorum["leader"]]
    name = cluster.new_topic(2)
    replicas = run(servers, "cluster", "log-dirs", "--topic", name, "--replicas")
    assert len(replicas) == 2 * 3
    versions = run(servers, "cluster", "api-versions")
    assert {row["broker"] for row in versions} == {row["broker"] for row in rows}


def test_acls(secured: Secured, run: Run) -> None:
    servers, user = secured.addresses["PLAINTEXT"], f"User:{a_name('user')}"
    rows = run(
        *(servers, "acls", "add", "--principal", user, "--operation", "READ,WRITE"),
        *("--topic", "command-", "--prefixed"),
    )
    assert [row["result"] for row in rows] == ["added", "added"]
    eventually(lambda: len(run(servers, "acls", "list", "--principal", user)) == 2)
    (row,) = run(
        *(servers, "acls", "list", "--topic", "command-7", "--pattern-type", "match"),
        *("--operation", "read", "--principal", user),
    )
    assert (row["pattern_type"], row["permission"]) == ("PREFIXED", "ALLOW")
    assert len(run(servers, "acls", "delete", "--principal", user)) == 2
    eventually(lambda: run(servers, "acls", "list", "--principal", user) == [])


def test_users(secured: Secured, run: Run, tmp_path: Path) -> None:
    servers, user, secret = secured.addresses["PLAINTEXT"], a_name("user"), tmp_path / "secret"
    secret.write_text("hush-hush\n")
    words = ("users", "add", user, "--password-file", str(secret), "--mechanism", "SCRAM-SHA-256")
    (added,) = run(servers, *words)
    assert (added["result"], added["mechanism"]) == ("added", "SCRAM-SHA-256")
    eventually(lambda: user in [row["user"] for row in run(servers, "users", "list")])
    assert run(servers, *words, code=1) == []
    assert SASL_USER in [row["user"] for row in run(servers, "users", "list")]
    ended = pykafka2(
        *("users", "alter", user, "-b", servers, "--password-stdin", "--mechanism", "SCRAM-SHA-256", "-vv"),
        stdin=b"new-hush\n",
    )
    assert ended.returncode == 0, ended.stderr
    assert b"hush" not in ended.stdout + ended.stderr
    (deleted,) = run(servers, "users", "delete", user)
    assert deleted["result"] == "deleted"
    eventually(lambda: user not in [row["user"] for row in run(servers, "users", "list")])
    (failed,) = run(servers, "users", "delete", user, code=1)
    assert failed["error"].startswith("ResourceNotFound: ")


def test_quotas(cluster: Cluster, run: Run) -> None:
    servers, user = cluster.bootstrap_servers, a_name("user")

    def quotas() -> dict[str, float]:
        return {row["quota"]: row["value"] for row in run(servers, "quotas", "list", "--user", user)}

    rates = ("producer_byte_rate=1000000", "request_percentage=12.5")
    (altered,) = run(servers, "quotas", "set", "--user", user, *rates)
    assert (altered["user"], altered["result"], altered["client_id"]) == (user, "set", None)
    eventually(lambda: quotas() == {"producer_byte_rate": 1000000, "request_percentage": 12.5})
    words = ("quotas", "set", "--user", user, "--client-defaults", "controller_mutation_rate=5")
    (checked,) = run(servers, *words, "--dry-run")
    assert checked["result"] == "valid"
    run(servers, *words)
    both = ("quotas", "list", "--user", user, "--client-defaults")
    eventually(lambda: [row["value"] for row in run(servers, *both)] == [5])
    run(servers, "quotas", "reset", "--user", user, "request_percentage")
    strict = ("quotas", "list", "--user", user, "--strict")
    eventually(lambda: [row["quota"] for row in run(servers, *strict)] == ["producer_byte_rate"])
    run(servers, "quotas", "reset", "--user", user, "--all")
    run(servers, "quotas", "reset", "--user", user, "--client-defaults", "--all")
    eventually(lambda: quotas() == {})
    words = ("quotas", "set", "--ip", "no-address", "connection_creation_rate=5")
    (failed,) = run(servers, *words, code=1)
    assert failed["error"].startswith("InvalidRequest: ")


def test_reassignments(cluster: Cluster, run: Run, tmp_path: Path) -> None:
    servers, name = cluster.bootstrap_servers, cluster.new_topic(2)

    def replicas() -> list[list[int]]:
        (found,) = run(servers, "topics", "describe", name)
        return [one["replicas"] for one in found["partitions"]]

    brokers = sorted(replicas()[0])
    target = brokers[1:]
    (started,) = run(servers, "reassign", "start", f"{name}:0={','.join(map(str, target))}", "--wait")
    assert (started["brokers"], started["result"]) == (target, "started")
    eventually(lambda: replicas()[0] == target)
    plan = tmp_path / "plan.json"
    entries = [{"topic": name, "partition": n, "replicas": brokers[:1], "log_dirs": ["any"]} for n in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    run(servers, "reassign", "start", "--plan", str(plan), "--wait")
    eventually(lambda: replicas() == [brokers[:1]] * 2)
    assert run(servers, "reassign", "list", name) == []
    words = ("reassign", "start", f"{name}:0={brokers[0]},{brokers[1]}", "--keep-replication-factor")
    (failed,) = run(servers, *words, code=1)
    assert failed["error"].startswith("InvalidReplicationFactor: ")
    (failed,) = run(servers, "reassign", "start", f"{name}:0=99", code=1)
    assert failed["error"].startswith("InvalidReplicaAssignment: ")
    (failed,) = run(servers, "reassign", "cancel", f"{name}:1", code=1)
    assert failed["error"].startswith("NoReassignmentInProgress: ")


def test_elections(cluster: Cluster, run: Run) -> None:
    servers, name = cluster.bootstrap_servers, cluster.new_topic(2)

    def partition() -> Any:
        (found,) = run(servers, "topics", "describe", name)
        return found["partitions"][0]

    leader, *others = partition()["replicas"]
    assert partition()["leader"] == leader
    run(servers, "reassign", "start", f"{name}:0={','.join(map(str, [*others, leader]))}", "--wait")
    eventually(lambda: partition()["replicas"] == [*others, leader])
    rows = run(servers, "elect", "preferred", name)
    assert [(row["partition"], row["result"]) for row in rows] == [(0, "elected"), (1, "not needed")]
    eventually(lambda: partition()["leader"] == others[0])
    (row,) = run(servers, "elect", "unclean", f"{name}:0")
    assert row["result"] == "not needed"
    assert all(row["topic"] != name for row in run(servers, "elect", "preferred", "--all"))
    (failed,) = run(servers, "elect", "preferred", f"{name}:7", code=1)
    assert failed["error"].startswith("UnknownTopicOrPartition: ")


def test_tokens(secured: Secured, run: Run, tmp_path: Path) -> None:
    servers, config, hmac = secured.addresses["SASL_PLAINTEXT"], tmp_path / "client", tmp_path / "hmac"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f"sasl.username={SASL_USER}\nsasl.password={SASL_PASSWORD}\n"
    )

    def tokens(*words: str, code: int = 0) -> list[dict[str, Any]]:
        return run(servers, "tokens", *words, "--config", str(config), code=code)

    def known() -> list[str]:
        return [row["token_id"] for row in tokens("list", f"User:{SASL_USER}")]

    (first,) = tokens("create", "--max-lifetime", "2h", "--renewer", "User:scheduler")
    assert first["max_time"] == first["issue_time"] + 7_200_000
    (second,) = tokens("create", "--hmac-file", str(hmac))
    ids = [first["token_id"], second["token_id"]]
    eventually(lambda: set(ids) <= set(known()))
    login = tmp_path / "token"
    login.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.delegation.token=true\n"
        f"sasl.username={ids[1]}\nsasl.password={hmac.read_text().strip()}\n"
    )
    assert run(servers, "cluster", "describe", "--config", str(login))
    (renewed,) = tokens("renew", ids[0], "--period", "1h")
    assert renewed["result"] == "renewed"
    assert renewed["expiry_time"] <= first["max_time"]
    assert [row["result"] for row in tokens("expire", *ids)] == ["expired", "expired"]
    eventually(lambda: not set(ids) & set(known()))
    (failed,) = tokens("renew", ids[0], code=1)
    assert failed["error"].startswith("DelegationTokenNotFound: ")


def test_table_and_confirmation_in_a_terminal(cluster: Cluster) -> None:
    name = cluster.new_topic()
    code, shown = in_terminal("topics", "list", name, "-b", cluster.bootstrap_servers)
    assert code == 0
    assert name in shown
    terminal = Terminal("topics", "delete", name, "-b", cluster.bootstrap_servers)
    terminal.wait_for("[y/N]")
    terminal.type("y\n")
    code, shown = terminal.end()
    assert code == 0
    assert f"{name}: deleted" in shown
