"""`pykafka2 reassign` and `pykafka2 elect` as typed, on two brokers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykafka2 import KafkaProducer
from pykafka2.cli.admin import reassign
from pykafka2.testing import QUICK, KafkaCluster
from tests.cli.conftest import Admin
from tests.cli.typed import Terminal


def new_topic(admin: Admin, assignment: str) -> str:
    name = admin.name()
    code, _, errors = admin("topics", "create", name, "--assignment", assignment)
    assert code == 0, errors
    return name


def replicas(admin: Admin, topic: str) -> list[list[int]]:
    (described,) = admin.rows("topics", "describe", topic)
    return [one["replicas"] for one in described["partitions"]]


def leaders(admin: Admin, topic: str) -> list[int]:
    (described,) = admin.rows("topics", "describe", topic)
    return [one["leader"] for one in described["partitions"]]


def test_partitions_of_two_topics_are_moved(admin: Admin) -> None:
    orders, billing = new_topic(admin, "0,0,0"), new_topic(admin, "0,1")
    words = ("reassign", "start", f"{orders}:0,2=1", f"{billing}=1,0")
    rows = admin.rows(*words, "--wait")
    assert rows[0] == {"topic": orders, "partition": 0, "brokers": [1], "result": "started", "error": None}
    assert [(row["topic"], row["partition"]) for row in rows[1:]] == [
        (orders, 2),
        (billing, 0),
        (billing, 1),
    ]
    assert replicas(admin, orders) == [[1], [0], [1]]
    assert replicas(admin, billing) == [[1, 0], [1, 0]]
    code, shown, errors = admin("reassign", "list", orders)
    assert (code, shown.split(), errors) == (
        0,
        ["TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"],
        "No partition is moving.\n",
    )


@pytest.mark.gate
def test_partitions_are_moved_by_a_plan_of_kafka(admin: Admin, tmp_path: Path) -> None:
    topic, plan = new_topic(admin, "0,0"), tmp_path / "plan.json"
    entries = [
        {"topic": topic, "partition": number, "replicas": [1], "log_dirs": ["any"]} for number in (0, 1)
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    code, shown, errors = admin("reassign", "start", "--plan", str(plan), "--wait")
    assert (code, shown) == (0, f"{topic}-0: started\n{topic}-1: started\n"), errors
    assert errors == "All replicas are moved.\n"
    assert replicas(admin, topic) == [[1], [1]]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{", "JSONDecodeError"),
        ("[]", "TypeError"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "KeyError: 'replicas'"),
        ('{"partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}', "is not valid"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/data"]}]}',
            "log_dirs of t-0 must be 'any'",
        ),
    ],
)
def test_malformed_plan_has_exit_code_2(admin: Admin, tmp_path: Path, text: str, shown: str) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    code, out, errors = admin("reassign", "start", "--plan", str(plan))
    assert (code, out) == (2, "")
    assert shown in errors
    assert '"replicas": [2, 0, 1]' in errors


def test_rejected_reassignment_is_a_failure_and_the_others_start(admin: Admin) -> None:
    topic = new_topic(admin, "0,0,0")
    code, shown, errors = admin("reassign", "start", f"{topic}:0=1", f"{topic}:1=7", "--json")
    assert code == 1
    assert [json.loads(line)["result"] for line in shown.splitlines()] == ["started", "failed"]
    assert f"{topic}-1: InvalidReplicaAssignment" in errors
    code, _, errors = admin("reassign", "start", f"{topic}:2=0,1", "--keep-replication-factor")
    assert code == 1
    assert f"{topic}-2: InvalidReplicationFactor" in errors
    code, _, errors = admin("reassign", "cancel", f"{topic}:2")
    assert code == 1
    assert f"{topic}-2: NoReassignmentInProgress" in errors


def test_waiting_covers_only_the_reassignments_that_started(admin: Admin) -> None:
    topic = new_topic(admin, "0,0")
    code, _, errors = admin("reassign", "start", f"{topic}:0=1", f"{topic}:1=7", "--wait")
    assert code == 1
    assert errors.endswith("\n1 partition moved.\n")
    code, _, errors = admin("reassign", "start", f"{topic}:1=7", "--wait")
    assert code == 1
    assert "moved" not in errors


@pytest.mark.parametrize("partitions", ["[]", "{}"])
def test_plan_without_partitions_has_exit_code_2(admin: Admin, tmp_path: Path, partitions: str) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(f'{{"partitions": {partitions}}}')
    code, out, errors = admin("reassign", "start", "--plan", str(plan))
    assert (code, out) == (2, "")
    assert "the file names no partition" in errors


def test_plan_with_a_byte_order_mark_is_read(admin: Admin, tmp_path: Path) -> None:
    topic, plan = new_topic(admin, "0"), tmp_path / "plan.json"
    plan.write_text(
        json.dumps({"partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}), "utf-8-sig"
    )
    code, shown, errors = admin("reassign", "start", "--plan", str(plan))
    assert (code, shown) == (0, f"{topic}-0: started\n"), errors


def test_missing_topic_moves_nothing_of_the_others(admin: Admin) -> None:
    topic = new_topic(admin, "0")
    code, shown, errors = admin("reassign", "start", f"{topic}=1", "no-such-topic=1")
    assert (code, shown) == (1, "")
    assert errors.endswith("nothing was moved\n")
    assert replicas(admin, topic) == [[0]]


def test_list_of_a_missing_topic_is_a_failure(admin: Admin) -> None:
    code, shown, errors = admin("reassign", "list", "no-such-topic", new_topic(admin, "0"))
    assert (code, len(shown.splitlines())) == (1, 1)
    assert "no-such-topic: UnknownTopicOrPartition" in errors


def test_cancelling_in_a_terminal_needs_a_yes(admin: Admin, terminal_input: Callable[[str], None]) -> None:
    topic = new_topic(admin, "0")
    terminal_input("n\n")
    code, _, errors = admin("reassign", "cancel", f"{topic}:0")
    assert (code, "not confirmed; nothing was changed" in errors) == (1, True)
    terminal_input("y\n")
    _, _, errors = admin("reassign", "cancel", f"{topic}:0")
    assert "NoReassignmentInProgress" in errors


@pytest.fixture
def own(capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[KafkaCluster, Admin]]:
    """Three brokers of the test alone, which can stop them and pause their followers."""
    with KafkaCluster(brokers=3, config=QUICK) as cluster:
        yield cluster, Admin(cluster.bootstrap_servers, capsys)


@pytest.mark.slow
def test_wait_ends_when_the_replicas_are_moved(
    own: tuple[KafkaCluster, Admin], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, admin = own
    topic = new_topic(admin, "0")
    with KafkaProducer(bootstrap_servers=admin.servers) as producer:
        producer.send(topic, b"x", partition=0).result(30)
    cluster.controls.pause_followers()
    sleep, waited = time.sleep, []

    def resume(seconds: float) -> None:
        if seconds == reassign.POLL_SECONDS:
            waited.append(seconds)
            cluster.controls.resume_followers()
        sleep(seconds)

    monkeypatch.setattr(reassign, "POLL_SECONDS", 0.0123)
    monkeypatch.setattr(time, "sleep", resume)
    code, _, errors = admin("reassign", "start", f"{topic}=2", "--wait")
    assert (code, errors) == (0, "All replicas are moved.\n")
    assert waited
    assert replicas(admin, topic) == [[2]]


@pytest.mark.gate
@pytest.mark.slow
def test_moving_partitions_are_listed_and_cancelled(own: tuple[KafkaCluster, Admin]) -> None:
    cluster, admin = own
    topic = new_topic(admin, "0,0")
    with KafkaProducer(bootstrap_servers=admin.servers) as producer:
        for partition in (0, 1):
            producer.send(topic, b"x", partition=partition).result(30)
    cluster.controls.pause_followers()
    assert admin("reassign", "start", f"{topic}=2")[0] == 0
    rows = admin.rows("reassign", "list")
    assert rows == [
        {"topic": topic, "partition": number, "replicas": [2, 0], "adding": [2], "removing": [0]}
        for number in (0, 1)
    ]
    assert admin.rows("reassign", "list", f"{topic}:1") == rows[1:]
    assert admin.rows("reassign", "cancel", f"{topic}:1") == [
        {"topic": topic, "partition": 1, "result": "cancelled", "error": None}
    ]
    code, shown, errors = admin("reassign", "cancel", "--all")
    assert (code, shown, errors) == (0, f"{topic}-0: cancelled\n", "")
    assert admin("reassign", "cancel", "--all") == (0, "", "No partition is moving.\n")
    assert replicas(admin, topic) == [[0], [0]]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("reassign start", "use --plan FILE"),
        ("reassign start orders:0=1 --plan plan.json", "use --plan FILE"),
        ("reassign start orders:0", "write orders:0=2,0,1"),
        ("reassign start orders:0=a", "use numbers"),
        ("reassign start orders:0=1 orders:0-1=1", "orders-0 has two targets"),
        ("reassign cancel", "use --all"),
        ("reassign cancel orders --all", "use --all"),
        ("reassign strt", "did you mean start?"),
        ("elect preferred", "use --all"),
        ("elect unclean orders:0 --all", "use --all"),
        ("elect prefered --all", "did you mean preferred?"),
    ],
)
def test_wrong_argument_of_reassign_and_elect_has_exit_code_2(admin: Admin, line: str, shown: str) -> None:
    code, out, errors = admin(*line.split())
    assert (code, out) == (2, "")
    assert shown in errors


# ---------------------------------------------------------------------------------------------------
# elect
# ---------------------------------------------------------------------------------------------------


@pytest.mark.gate
@pytest.mark.slow
def test_preferred_leaders_are_elected(own: tuple[KafkaCluster, Admin]) -> None:
    cluster, admin = own
    first, second = new_topic(admin, "1:0,0:1"), new_topic(admin, "1:2")
    cluster.controls.restart_broker(1)
    cluster.wait_until(lambda: all(len(cluster.partition(first, n).isr) == 2 for n in (0, 1)))
    cluster.wait_until(lambda: len(cluster.partition(second, 0).isr) == 2)
    assert leaders(admin, first) == [0, 0]
    code, shown, errors = admin("elect", "preferred", first)
    assert (code, shown, errors) == (0, f"{first}-0: elected\n{first}-1: not needed\n", "")
    assert leaders(admin, first) == [1, 0]
    assert admin.rows("elect", "preferred", "--all") == [
        {"topic": second, "partition": 0, "result": "elected", "error": None}
    ]
    assert admin("elect", "preferred", "--all") == (0, "", "No election was needed.\n")
    assert admin("elect", "preferred", f"{second}:7")[0] == 1


@pytest.mark.gate
@pytest.mark.slow
def test_unclean_election_asks_in_a_terminal(admin: Admin) -> None:
    topic = new_topic(admin, "0")
    code, shown, errors = admin("elect", "unclean", topic)
    assert (code, shown, errors) == (0, f"{topic}-0: not needed\n", "")
    terminal = Terminal("elect", "unclean", f"{topic}:0", "-b", admin.servers)
    terminal.wait_for(f"elect a leader of: {topic}-0? [y/N]")
    terminal.type("\n")
    assert terminal.end()[0] == 1


def test_missing_topic_elects_no_leader_of_the_others(admin: Admin) -> None:
    topic = new_topic(admin, "0")
    code, shown, errors = admin("elect", "preferred", topic, "no-such-topic")
    assert (code, shown) == (1, "")
    assert errors.endswith("no leader was elected\n")


@pytest.mark.slow
def test_unclean_election_of_one_topic_and_of_all(own: tuple[KafkaCluster, Admin]) -> None:
    cluster, admin = own
    first, second = new_topic(admin, "1:0"), new_topic(admin, "1:0")
    cluster.controls.crash_broker(0)
    cluster.wait_until(lambda: all(cluster.partition(one, 0).isr == (1,) for one in (first, second)))
    cluster.controls.crash_broker(1)
    cluster.controls.restart_broker(0)
    cluster.wait_until(lambda: not cluster.controller.image.brokers[0].is_fenced)
    assert cluster.partition(first, 0).leader == -1
    assert admin("elect", "preferred", first)[0] == 1
    assert admin("elect", "unclean", first) == (0, f"{first}-0: elected\n", "")
    assert admin("elect", "unclean", "--all", "--yes") == (0, f"{second}-0: elected\n", "")
    assert [cluster.partition(one, 0).leader for one in (first, second)] == [0, 0]
