"""`pykafka2 groups` and `pykafka2 consume --share` with share groups, as typed, on two brokers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, KafkaShareConsumer, NewTopic, TopicPartition
from pykafka2.admin import ConfigResource
from pykafka2.cli.admin.share_groups import share_rows
from pykafka2.errors import GroupAuthorizationFailed
from pykafka2.testing import KafkaCluster, Simulation
from tests.admin.test_share_groups import ShareWorld, taken
from tests.cli.conftest import Admin
from tests.cli.typed import pykafka2, started
from tests.share.world import QUICK

pytestmark = [pytest.mark.gate, pytest.mark.slow]


@pytest.fixture(scope="module")
def queues() -> Iterator[KafkaCluster]:
    """Locks last for longer than a test, so that a record that stays locked fails it."""
    locks = {f"group.share.{name}record.lock.duration.ms": 900_000 for name in ("", "max.")}
    with KafkaCluster(brokers=2, config={**QUICK, **locks}) as cluster:
        yield cluster


@pytest.fixture
def admin(queues: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> Admin:
    return Admin(queues.bootstrap_servers, capsys)


def new_queue(admin: Admin, values: int = 10) -> tuple[str, str]:
    """A share group, and a topic of two partitions with records "v0", "v1" ... ; both names."""
    group, topic = admin.name("share"), admin.name()
    with KafkaAdminClient(bootstrap_servers=admin.servers) as client:
        client.create_topics([NewTopic(topic, 2, 1)], wait_for_metadata=True)
        client.alter_configs({ConfigResource("GROUP", group): {"share.auto.offset.reset": "earliest"}})
    with KafkaProducer(bootstrap_servers=admin.servers) as producer:
        for number in range(values):
            producer.send(topic, b"v%d" % number, key=b"k", partition=number % 2, timestamp_ms=1000 + number)
    return group, topic


def consume(admin: Admin, group: str, topic: str, *words: str) -> list[bytes]:
    """The lines that the command has printed."""
    done = pykafka2("consume", topic, "--share", group, "-b", admin.servers, *words)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.splitlines()


def test_each_printed_record_is_accepted_and_others_stay_in_the_queue(admin: Admin) -> None:
    group, topic = new_queue(admin)
    first = consume(admin, group, topic, "--count", "6")  # of both partitions
    (described,) = admin.rows("groups", "describe", group)
    assert (described["type"], described["lag"], described["member_count"]) == ("Share", 4, 0)
    rest = [json.loads(line) for line in consume(admin, group, topic, "--json", "-c", "4")]
    assert sorted([*first, *(row["value"].encode() for row in rest)]) == [b"v%d" % n for n in range(10)]
    assert {(row["topic"], row["key"], row["timestamp_type"]) for row in rest} == {
        (topic, "k", "create_time")
    }
    assert [row["lag"] for row in admin.rows("groups", "describe", group)] == [0]


def test_ctrl_c_accepts_exactly_the_printed_records_and_leaves_nothing_locked(admin: Admin) -> None:
    group, topic = new_queue(admin, 0)
    with KafkaProducer(bootstrap_servers=admin.servers) as producer:
        # In one partition: a partition that was not fetched yet has no lag.
        producer.send_many(topic, [b"%05d%s" % (number, b"x" * 995) for number in range(2000)], partition=0)
    process = started("consume", topic, "--share", group, "-b", admin.servers)
    assert process.stdout is not None
    first = os.read(process.stdout.fileno(), 1000)  # the rest of the batch does not fit into the pipe
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, b"")
    lines = (first + rest).split(b"\n")
    assert lines.pop() == b""
    rest_count = 2000 - len(lines)
    assert rest_count > 0
    assert admin.rows("groups", "describe", group)[0]["lag"] == rest_count
    others = consume(admin, group, topic, "-c", str(rest_count))
    assert len({*lines, *others}) == 2000


def test_closed_pipe_ends_it(admin: Admin) -> None:
    group, topic = new_queue(admin)
    process = started("consume", topic, "--share", group, "-b", admin.servers)
    with process:
        assert process.stdout is not None
        printed = {process.stdout.readline() for _ in range(10)}
        process.stdout.close()
    assert process.returncode == 0
    assert len(printed) == 10
    assert admin.rows("groups", "describe", group)[0]["lag"] == 0


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--group", "g"], "--group cannot be combined with --share: a group is of one type"),
        (["--until", "end"], "a queue has no end; use --count"),
        (["--grep", "x"], "it would take the other records from the queue, too"),
        (["-X", "group.id=g"], "--share names the group"),
        (["--isolation-level", "read_committed"], "--isolation-level cannot be combined"),
    ],
)
def test_options_that_share_groups_do_not_have_are_refused(
    admin: Admin, words: list[str], shown: str
) -> None:
    code, out, errors = admin("consume", "t", "--share", "s", *words)
    assert (code, out) == (2, "")
    assert shown in errors


def test_missing_topic_is_named(admin: Admin) -> None:
    _, topic = new_queue(admin, 0)
    done = pykafka2("consume", f"{topic}x", "--share", "s", "-b", admin.servers, "-X", "max.renew.ms=1000")
    assert done.returncode == 1
    assert f"did you mean '{topic}'?" in done.stderr.decode()


def test_options_of_consumers_in_a_file_are_ignored(admin: Admin, tmp_path: object) -> None:
    group, topic = new_queue(admin, 1)
    path = f"{tmp_path}/client.properties"
    with open(path, "w") as file:
        file.write("isolation.level=read_committed\nauto.offset.reset=latest\nfetch.max.wait.ms=50\n")
    assert consume(admin, group, topic, "-c", "1", "--config", path) == [b"v0"]


def test_describe_shows_members_and_lag_of_share_groups_beside_other_groups(admin: Admin) -> None:
    group, topic = new_queue(admin)
    other = admin.name("group")
    with KafkaAdminClient(bootstrap_servers=admin.servers) as client:
        client.alter_group_offsets(other, {TopicPartition(topic, 0): 1})
    process = started("consume", topic, "--share", group, "-b", admin.servers)
    with process:
        assert process.stdout is not None
        for _ in range(10):
            process.stdout.readline()
        while True:
            (found,) = admin.rows("groups", "describe", group)
            if [row["lag"] for row in found["partitions"]] == [0, 0]:
                break
        listed = {row["group"]: row["type"] for row in admin.rows("groups", "list")}
        code, shown, _ = admin("groups", "describe", group, "--members", "--watch", "0.01", "--times", "2")
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert (listed[group], listed[other]) == ("Share", "Classic")
    assert (found["group"], found["state"], found["type"], found["assignor"]) == (
        *(group, "Stable", "Share"),
        "simple",
    )
    (member,) = found["members"]
    assert (member["client_id"], member["partitions"]) == ("pykafka2", [f"{topic}-0", f"{topic}-1"])
    assert [(row["topic"], row["partition"], row["lag"]) for row in found["partitions"]] == [
        (topic, number, 0) for number in range(2)
    ]
    assert all(0 <= row["start"] <= 5 for row in found["partitions"])
    assert code == 0
    assert f"{topic}-0,{topic}-1" in shown
    code, shown, errors = admin("groups", "describe", group, other, "no-such-group")
    assert code == 1
    assert [topic, "0", "0"] in [[*line.split()[:2], *line.split()[3:]] for line in shown.splitlines()]
    assert ["TOPIC", "PARTITION", "START", "LAG"] in [line.split() for line in shown.splitlines()]
    (line,) = errors.splitlines()
    assert line.startswith("pykafka2 groups: no-such-group: GroupIdNotFound")
    assert {group, other} <= {row["group"] for row in admin.rows("groups", "describe")}


def test_offsets_of_a_share_group_are_reset_and_deleted(admin: Admin) -> None:
    group, topic = new_queue(admin)
    consume(admin, group, topic, "-c", "10")
    words = ("groups", "reset", group, "--topic", f"{topic}:1", "--to", "2")
    (row,) = admin.rows(*words)
    assert (row["topic"], row["partition"], row["after"]) == (topic, 1, 2)
    assert row["change"] == row["after"] - row["before"]
    assert admin.rows("groups", "describe", group)[0]["lag"] == 0
    assert "Dry run: no start offset was set. Add --execute to set them.\n" in admin(*words)[2]
    assert "1 start offset set.\n" in admin(*words, "--execute")[2]
    assert sorted(consume(admin, group, topic, "-c", "3")) == [b"v5", b"v7", b"v9"]
    code, _, errors = admin("groups", "delete-offsets", group, "--topic", f"{topic}:1")
    assert code == 2
    assert f"write --topic {topic}" in errors
    code, shown, _ = admin("groups", "delete-offsets", group, "--topic", topic)
    assert (code, shown) == (0, f"{topic}: deleted\n")
    assert admin.rows("groups", "describe", group)[0]["partitions"] == []
    code, _, errors = admin("groups", "reset", group, "--to", "earliest")
    assert (code, f"group {group} has no start offsets; name the partitions with --topic" in errors) == (
        1,
        True,
    )


def test_offsets_of_a_group_with_a_member_are_not_deleted_and_no_outcome_is_unknown(admin: Admin) -> None:
    group, topic = new_queue(admin)
    other = admin.name("missing")
    with KafkaShareConsumer(topic, group_id=group, bootstrap_servers=admin.servers) as member:
        while not member.poll(100):
            pass
        code, shown, errors = admin("groups", "delete-offsets", group, "--topic", topic)
    assert (code, shown) == (1, "")
    assert errors == f"pykafka2 groups: {topic}: NonEmptyGroup: The group has members; stop them first.\n"
    code, shown, errors = admin("groups", "delete-offsets", other, "--topic", f"{topic}:1")
    assert (code, shown) == (1, "")
    assert errors.startswith(f"pykafka2 groups: {topic}-1: GroupIdNotFound: ")


def test_share_groups_and_other_groups_are_deleted_together(admin: Admin) -> None:
    group, topic = new_queue(admin)
    other = admin.name("group")
    with KafkaAdminClient(bootstrap_servers=admin.servers) as client:
        client.alter_group_offsets(other, {TopicPartition(topic, 0): 1})
        client.alter_share_group_offsets(group, {TopicPartition(topic, 0): 1})
    code, shown, errors = admin("groups", "delete", group, other, "no-such-group")
    assert (code, shown) == (1, f"{group}: deleted\n{other}: deleted\n")
    assert "no-such-group: GroupIdNotFound" in errors
    assert not {group, other} & {row["group"] for row in admin.rows("groups", "list")}


def test_rows_have_assigned_partitions_without_an_offset_and_errors_of_others(simulation: Simulation) -> None:
    world = ShareWorld(simulation)

    def partly(request: Any, response: Any) -> Any:
        partitions = response.groups[0].topics[0].partitions
        unset, unreadable, _ = sorted(partitions, key=lambda one: one.partition_index)
        unset.start_offset, unreadable.error_code = -1, GroupAuthorizationFailed.code
        return response

    with world.share_member("queue-1", "orders") as member:
        for record in taken(member, 8)[5:]:
            member.acknowledge(record)
        member.commit()
        (group,) = world.admin.describe_share_groups(["queue-1"]).values()
        world.cluster.controls.rule(api="DescribeShareGroupOffsets", then="replace_reply", reply=partly)
        rows, errors = share_rows(world.admin, group)
    world.close()
    assert [(row["partition"], row["start"], row["lag"]) for row in rows.values()] == [
        (0, None, None),
        (1, None, None),
        (2, 0, 0),
    ]
    assert {one.partition: type(error) for one, error in errors.items()} == {1: GroupAuthorizationFailed}
