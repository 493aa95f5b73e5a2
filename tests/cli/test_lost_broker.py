"""Verbs that list what many brokers have, while one of them is down: the rest is printed at once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, NewTopic, TopicPartition
from pykafka2.testing import QUICK, KafkaCluster
from tests.cli.conftest import Admin

pytestmark = pytest.mark.slow
GROUPS = [f"group-{number}" for number in range(8)]
IDS = [f"task-{number}" for number in range(8)]
BOTH_LEADERS = {0: [0], 1: [1], 2: [0], 3: [1]}
LIMIT = 30.0
"""Seconds; the default of default.api.timeout.ms, for which nothing must wait, is 60."""


class Lost:
    """Two brokers with groups and transactional ids at both, of which broker 1 is down."""

    def __init__(self, cluster: KafkaCluster) -> None:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
            client.create_topics([NewTopic("orders", assignment=BOTH_LEADERS)], wait_for_metadata=True)
            for group in GROUPS:
                client.alter_group_offsets(
                    group, {TopicPartition("orders", number): 1 for number in BOTH_LEADERS}
                )
            client.fence_producers(IDS)
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(12):
                producer.send("orders", b"x", partition=number % 4)
        self.groups = [name for name in GROUPS if cluster.coordinator(name) == 0]
        self.ids = [name for name in IDS if cluster.coordinator(name, "transaction") == 0]
        assert 0 < len(self.groups) < len(GROUPS)
        assert 0 < len(self.ids) < len(IDS)
        self.is_fenced = False


@pytest.fixture(scope="module", params=["fenced", "unnoticed"])
def lost(request: pytest.FixtureRequest) -> Iterator[tuple[KafkaCluster, Lost]]:
    # With one replica per internal topic, half of the coordinators are lost.
    config = {
        **QUICK,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "broker.session.timeout.ms": 600_000,
    }
    with KafkaCluster(brokers=2, config=config) as cluster:
        found = Lost(cluster)
        found.is_fenced = request.param == "fenced"
        cluster.controls.crash_broker(1, unnoticed=not found.is_fenced)
        yield cluster, found


@pytest.fixture
def admin(
    lost: tuple[KafkaCluster, Lost], capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[Admin, Lost]]:
    cluster, found = lost
    started = time.monotonic()
    yield Admin(cluster.bootstrap_servers, capsys), found
    assert time.monotonic() - started < LIMIT


def lines(shown: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in shown.splitlines()]


def test_groups_describe_has_rows_of_all_partitions(admin: tuple[Admin, Lost]) -> None:
    run, found = admin
    group = found.groups[0]
    code, shown, errors = run("groups", "describe", group, "--json")
    (described,) = lines(shown)
    assert (code, described["lag"]) == (1, 4)
    rows = [
        (row["partition"], row["committed"], row["latest"], row["lag"]) for row in described["partitions"]
    ]  # type: ignore[attr-defined]
    assert rows == [(0, 1, 3, 2), (1, 1, None, None), (2, 1, 3, 2), (3, 1, None, None)]
    assert [line.split(": ")[:3] for line in errors.splitlines()] == [
        ["pykafka2 groups", group, f"orders-{number}"] for number in (1, 3)
    ]
    code, shown, _ = run("groups", "describe", group)
    assert [line.split()[1:5] for line in shown.splitlines()[-2:]] == [
        ["2", "1", "3", "2"],
        ["3", "1", "-", "-"],
    ]


@pytest.mark.gate
def test_groups_describe_without_a_name_has_the_reachable_groups(admin: tuple[Admin, Lost]) -> None:
    run, found = admin
    code, shown, errors = run("groups", "describe", "--json")
    assert code == 1
    assert [one["group"] for one in lines(shown)] == found.groups
    assert ("broker 1: " in errors) == (not found.is_fenced)


def test_groups_describe_without_any_reachable_group_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    with KafkaCluster(brokers=2, config={**QUICK, "broker.session.timeout.ms": 600_000}) as cluster:
        cluster.controls.crash_broker(1, unnoticed=True)
        code, shown, errors = Admin(cluster.bootstrap_servers, capsys)("groups", "describe", "--json")
    assert (code, shown) == (1, "")
    assert "broker 1: " in errors


@pytest.mark.gate
def test_groups_describe_reports_groups_of_the_lost_coordinator(admin: tuple[Admin, Lost]) -> None:
    run, found = admin
    code, shown, errors = run("groups", "describe", *GROUPS, "--json")
    assert (code, [one["group"] for one in lines(shown)]) == (1, found.groups)
    for name in set(GROUPS) - set(found.groups):
        assert f"pykafka2 groups: {name}: " in errors


@pytest.mark.gate
def test_topics_offsets_has_rows_of_all_partitions(admin: tuple[Admin, Lost]) -> None:
    run, _ = admin
    code, shown, errors = run("topics", "offsets", "orders", "--json")
    assert code == 1
    assert [row["offsets"] for row in lines(shown)] == [3, None, 3, None]
    assert [line.split(": ")[1] for line in errors.splitlines()] == ["orders-1", "orders-3"]
    code, shown, _ = run("topics", "offsets", "orders", "--at", "latest")
    assert code == 1
    assert [line.split()[2] for line in shown.splitlines()[1:]] == ["3", "-", "3", "-"]


@pytest.mark.gate
def test_lists_have_the_part_of_the_reachable_broker(admin: tuple[Admin, Lost]) -> None:
    run, found = admin
    for verb, key, names in (
        ("groups", "group", found.groups),
        ("transactions", "transactional_id", found.ids),
    ):
        code, shown, errors = run(verb, "list", "--json")
        assert [one[key] for one in lines(shown)] == names
        # A broker that is fenced is none of the cluster's brokers.
        assert (code, errors.startswith(f"pykafka2 {verb}: broker 1: ")) == (
            (0, False) if found.is_fenced else (1, True)
        )
