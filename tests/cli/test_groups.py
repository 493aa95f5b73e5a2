"""`pykafka2 groups` as typed, on two brokers: in this process, in pipes and in a pseudo-terminal."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from pykafka2 import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    NewTopic,
    OffsetAndMetadata,
    TopicPartition,
)
from pykafka2.admin import GroupDescription, MemberDescription, Outcomes, PartitionLag
from pykafka2.cli.admin.groups import _lag_rows, _print_group
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.watch import draw, watched
from pykafka2.errors import GroupAuthorizationFailed, KafkaError, LeaderNotAvailable, NoBrokersAvailable
from pykafka2.testing import KafkaCluster
from tests.cli.conftest import Admin
from tests.cli.typed import Terminal, in_terminal, pykafka2


def new_group(admin: Admin, committed: int = 4) -> tuple[str, str]:
    """A group with this offset in both partitions, of ten records each, of a topic; both names."""
    group, topic = admin.name("group"), admin.name()
    with KafkaAdminClient(bootstrap_servers=admin.servers) as client:
        client.create_topics([NewTopic(topic, 2, 1)], wait_for_metadata=True)
        with KafkaProducer(bootstrap_servers=admin.servers) as producer:
            for number in range(20):
                producer.send(topic, b"x", partition=number % 2, timestamp_ms=1000 + number)
        client.alter_group_offsets(group, {TopicPartition(topic, number): committed for number in range(2)})
    return group, topic


@contextmanager
def member_of(admin: Admin, group: str, topic: str) -> Iterator[None]:
    """A member that has both partitions."""
    with KafkaConsumer(
        topic, bootstrap_servers=admin.servers, group_id=group, client_id="reader", enable_auto_commit=False
    ) as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=50)
        with KafkaAdminClient(bootstrap_servers=admin.servers) as client:
            client.wait_for_group(group, members=1)
        yield


@pytest.mark.gate
def test_list_filters_by_pattern_and_state(admin: Admin) -> None:
    group, _ = new_group(admin)
    row = {"group": group, "state": "Empty", "type": "Classic", "protocol": None}
    assert admin.rows("groups", "list", group) == [row]
    assert admin.rows("groups", "list", f"{group}*", "--state", "empty", "--type", "classic") == [row]
    assert admin.rows("groups", "list", group, "--state", "Stable") == []
    assert admin.rows("groups", "list", group, "--type", "consumer") == []
    code, shown, _ = admin("groups", "list")
    assert code == 0
    assert shown.splitlines()[0].split()[:3] == ["GROUP", "STATE", "TYPE"]


@pytest.mark.gate
def test_describe_shows_the_lag_and_the_members(admin: Admin) -> None:
    group, topic = new_group(admin)
    with member_of(admin, group, topic):
        (found,) = admin.rows("groups", "describe", group, "--lag-time")
        _, shown, _ = admin("groups", "describe", group, "--members")
    assert (found["group"], found["state"], found["lag"], found["member_count"]) == (group, "Stable", 12, 1)
    (member,) = found["members"]
    assert (member["client_id"], member["partitions"]) == ("reader", [f"{topic}-0", f"{topic}-1"])
    first = found["partitions"][0]
    assert (first["committed"], first["latest"], first["lag"], first["client_id"]) == (4, 10, 6, "reader")
    assert first["lag_seconds"] > 1_000_000
    assert first["host"] == member["host"]
    assert f"{topic}-0,{topic}-1" in shown


def test_lag_of_an_open_transaction_counts_only_with_read_uncommitted(admin: Admin) -> None:
    group, topic = new_group(admin)
    with KafkaProducer(bootstrap_servers=admin.servers, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result(10)
        assert admin.rows("groups", "describe", group)[0]["lag"] == 12
        assert (
            admin.rows("groups", "describe", group, "--isolation-level", "read_uncommitted")[0]["lag"] == 13
        )
        producer.abort_transaction()


@pytest.mark.gate
def test_lag_that_cannot_be_listed_is_a_failure_of_that_partition(
    admin: Admin, two_brokers: KafkaCluster
) -> None:
    bad, _ = new_group(admin)
    good, _ = new_group(admin)
    two_brokers.controls.rule(api="ListOffsets", nth=1, then="error:TOPIC_AUTHORIZATION_FAILED")
    code, shown, errors = admin("groups", "describe", bad, good, "--json")
    groups = [json.loads(line) for line in shown.splitlines()]
    assert (code, [one["group"] for one in groups]) == (1, [bad, good])
    assert [one["lag"] for one in groups] == [6, 12], "of the known partitions"
    (row,) = [one for one in groups[0]["partitions"] if one["lag"] is None]
    assert (row["committed"], row["earliest"], row["latest"]) == (4, None, None)
    assert errors.startswith(f"pykafka2 groups: {bad}: {row['topic']}-{row['partition']}: TopicAuthorization")
    two_brokers.controls.rule(api="ListOffsets", nth=1, then="error:TOPIC_AUTHORIZATION_FAILED")
    code, _, _ = admin("groups", "describe", bad, "--watch", "0.01", "--times", "1")
    assert code == 1


@pytest.mark.gate
def test_partition_without_a_commit_has_none_and_its_whole_log_is_the_lag(admin: Admin) -> None:
    group, topic = new_group(admin)
    assert admin("groups", "delete-offsets", group, "--topic", f"{topic}:1")[0] == 0
    with member_of(admin, group, topic):
        (found,) = admin.rows("groups", "describe", group)
    assert [(one["committed"], one["earliest"], one["lag"]) for one in found["partitions"]] == [
        (4, 0, 6),
        (None, 0, 10),
    ]


def test_describe_prints_a_table_and_one_line_for_a_missing_group(admin: Admin) -> None:
    group, topic = new_group(admin)
    code, shown, errors = admin("groups", "describe", group, "no-such-group")
    assert code == 1
    assert "lag           12" in shown
    assert [topic, "0", "4", "10", "6"] in [line.split() for line in shown.splitlines()]
    (line,) = errors.splitlines()
    assert line.startswith("pykafka2 groups: no-such-group: GroupIdNotFound")


@pytest.mark.gate
def test_describe_without_a_name_describes_every_group(admin: Admin) -> None:
    group, _ = new_group(admin)
    other, _ = new_group(admin, committed=10)
    lags = {row["group"]: row["lag"] for row in admin.rows("groups", "describe")}
    assert (lags[group], lags[other]) == (12, 0)


def test_watch_prints_again(admin: Admin) -> None:
    group, _ = new_group(admin)
    rows = admin.rows("groups", "describe", group, "--watch", "0.01", "--times", "3")
    assert [row["lag"] for row in rows] == [12, 12, 12]


def test_word_after_watch_that_is_not_a_number_is_a_group(admin: Admin) -> None:
    group, _ = new_group(admin)
    new_group(admin)
    rows = admin.rows("groups", "describe", "--times", "1", "--watch", group)
    assert [row["group"] for row in rows] == [group]
    rows = admin.rows("groups", "list", "--times", "1", "--watch", group)
    assert [row["group"] for row in rows] == [group]


def test_watch_prints_the_time_and_the_change_of_each_lag(admin: Admin) -> None:
    group, topic = new_group(admin)
    code, shown, errors = admin("groups", "describe", group, "--watch", "0.01", "--times", "2")
    assert (code, errors) == (0, "")
    first, second = re.split(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d, every 0.01 s$", shown, flags=re.MULTILINE)[1:]
    assert "change        -\n" in first
    assert "change        0\n" in second
    for frame, change in ((first, "-"), (second, "0")):
        rows = [line.split() for line in frame.splitlines()]
        assert ["TOPIC", "PARTITION", "COMMITTED", "LATEST", "LAG", "CHANGE"] in rows
        assert [topic, "0", "4", "10", "6", change] in rows


def screen(written: str, columns: int) -> list[str]:
    """Return the rows of a terminal that wraps long lines."""
    rows, at, left = [[" "] * columns for _ in range(40)], 0, 0
    for word in re.findall(r"\x1b\[\d*[A-Z]|.|\n", re.sub(r"\x1b\[\d+m", "", written)):
        if word == "\x1b[H":
            at = left = 0
        elif word == "\x1b[J":
            rows[at:] = [[" "] * columns for _ in rows[at:]]
        elif word == "\x1b[K":
            rows[at][left:] = [" "] * (columns - left)
        elif word.startswith("\x1b["):
            assert word.endswith("A")
            at -= int(word[2:-1])
        elif word == "\n":
            at, left = at + 1, 0
        else:
            if left == columns:
                at, left = at + 1, 0
            rows[at][left] = word
            left += 1
    return ["".join(row).rstrip() for row in rows]


def test_frame_with_lines_beyond_the_edge_leaves_nothing_of_the_last_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("LINES", "8")
    draw(["x" * 10, "y" * 30, "zzz"])
    draw(["a", "\x1b[1mbbbbb\x1b[0m " * 4, "", "c" * 10, "d", "e" * 11, "f"])
    shown = screen(capsys.readouterr().out, 10)
    assert [row for row in shown if row] == [
        "a",
        "bbbbb bbbb",
        "b bbbbb bb",
        "bbb",
        "cccccccccc",
        "... 3 more lines"[:10],
        " lines",
    ]
    draw(["only"])
    assert [row for row in screen(capsys.readouterr().out, 10) if row] == ["only"]


def test_watch_survives_errors_that_can_pass_but_not_in_its_first_frame(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = argparse.Namespace(watch=0.001, times=3)
    results: list[int | KafkaError] = [0, NoBrokersAvailable("no broker could be reached"), 0]

    def show() -> int:
        found = results.pop(0)
        if isinstance(found, KafkaError):
            raise found
        return found

    assert watched(arguments, Output("groups"), show) == 0
    assert "NoBrokersAvailable: no broker could be reached" in capsys.readouterr().err
    for first in (NoBrokersAvailable("none"), GroupAuthorizationFailed("not yours")):
        results[:] = [first]
        with pytest.raises(type(first)):
            watched(arguments, Output("groups"), show)
    results[:] = [0, GroupAuthorizationFailed("not yours")]
    with pytest.raises(GroupAuthorizationFailed):
        watched(arguments, Output("groups"), show)


def test_frame_has_the_time_at_which_its_figures_arrived(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = ["12:00:00"]
    monkeypatch.setattr("time.strftime", lambda _: now[0])
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    def show() -> int:
        now[0] = "12:01:00"  # as if all brokers were down for a minute
        return 0

    assert watched(argparse.Namespace(watch=2.0, times=1), Output("groups"), show) == 0
    assert "12:01:00, every 2 s" in capsys.readouterr().out


def test_watch_shows_the_change_since_the_last_frame(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    group, topic = new_group(admin)
    sleep, interval, counts = time.sleep, 0.0123, iter([3, 1])
    with KafkaProducer(bootstrap_servers=admin.servers) as producer:

        def produce(seconds: float) -> None:
            for _ in range(next(counts) if seconds == interval else 0):
                producer.send(topic, b"x", partition=0).result(30)
            sleep(seconds)

        monkeypatch.setattr(time, "sleep", produce)
        _, shown, _ = admin("groups", "describe", group, "--watch", str(interval), "--times", "3")
    assert re.findall(r"^change +(\S+)$", shown, re.MULTILINE) == ["-", "+3", "+1"]
    rows = [line.split() for line in shown.splitlines()]
    assert [row[4:6] for row in rows if row[:2] == [topic, "0"]] == [["6", "-"], ["9", "+3"], ["10", "+1"]]


def test_errors_are_part_of_a_frame_in_a_terminal(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    code, shown, errors = admin("groups", "describe", "no-such-group", "--watch", "--times", "1")
    assert (code, "no-such-group: GroupIdNotFound" in shown, errors) == (1, True, "")


@pytest.mark.parametrize(
    ("lines", "drawn"),
    [
        ([*"abcd"], [*"abcd"]),
        ([*"abcde"], ["a", "b", "c", "... 2 more lines"]),
        (["a", "b", "c", "x" * 15], ["a", "b", "c", "... 1 more line"]),
    ],
)
def test_frame_ends_above_the_last_row_of_the_terminal(
    lines: list[str], drawn: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("LINES", "5")
    draw(lines)
    shown = capsys.readouterr().out
    assert shown.endswith("\n\x1b[J")
    assert [line for line in re.sub(r"\x1b\[\d*[A-Z]", "", shown).splitlines() if line] == drawn


@pytest.mark.gate
def test_watch_in_a_terminal_draws_over_the_last_frame(admin: Admin) -> None:
    group, topic = new_group(admin)
    terminal = Terminal("groups", "describe", group, "-b", admin.servers, "--watch", "0.2")
    terminal.wait_for("\x1b[J")
    with KafkaProducer(bootstrap_servers=admin.servers) as producer:
        for _ in range(3):
            producer.send(topic, b"x", partition=0)
    terminal.wait_for("+3")
    terminal.type("\x03")
    code, shown = terminal.end()
    assert code == 0
    assert "\x1b[2J" not in shown, "the screen is never blank"
    assert all(group in frame for frame in shown.split("\x1b[H")[1:])


@pytest.mark.gate
def test_watch_in_a_terminal_ends_with_ctrl_c(admin: Admin) -> None:
    group, _ = new_group(admin)
    terminal = Terminal("groups", "describe", group, "-b", admin.servers, "--watch", "60")
    terminal.wait_for("PARTITION")
    terminal.type("\x03")
    code, shown = terminal.end()
    assert code == 0
    assert "Traceback" not in shown


@pytest.mark.gate
def test_reset_is_a_dry_run_unless_executed(admin: Admin) -> None:
    group, topic = new_group(admin)
    code, shown, errors = admin("groups", "reset", group, "--to", "earliest")
    assert code == 0
    assert errors == "Dry run: no offset was committed. Add --execute to commit them.\n"
    assert [topic, "0", "4", "0", "-4"] in [line.split() for line in shown.splitlines()]
    (found,) = admin.rows("groups", "describe", group)
    assert found["lag"] == 12
    code, _, errors = admin("groups", "reset", group, "--to", "earliest", "--execute")
    assert (code, errors) == (0, "2 offsets committed.\n")
    assert admin.rows("groups", "describe", group)[0]["lag"] == 20


@pytest.mark.gate
@pytest.mark.parametrize(
    ("target", "after"),
    [
        (["--to", "latest"], [10, 10]),
        (["--to", "end"], [10, 10]),
        (["--to", "beginning"], [0, 0]),
        (["--to", "7"], [7, 7]),
        (["--to", "@1010"], [5, 5]),
        (["--to", "current"], [4, 4]),
        (["--shift-by", "-3"], [1, 1]),
        (["--shift-by", "100"], [10, 10]),
    ],
)
def test_reset_to_each_kind_of_position(admin: Admin, target: list[str], after: list[int]) -> None:
    group, topic = new_group(admin)
    rows = admin.rows("groups", "reset", group, *target, "--topic", topic, "--execute")
    assert [(row["before"], row["after"], row["change"]) for row in rows] == [(4, at, at - 4) for at in after]
    (found,) = admin.rows("groups", "describe", group)
    assert [one["committed"] for one in found["partitions"]] == after


def test_reset_of_some_partitions_leaves_the_others(admin: Admin) -> None:
    group, topic = new_group(admin)
    rows = admin.rows("groups", "reset", group, "--to", "latest", "--topic", f"{topic}:1", "--execute")
    assert [row["partition"] for row in rows] == [1]
    (found,) = admin.rows("groups", "describe", group)
    assert [one["committed"] for one in found["partitions"]] == [4, 10]


def test_reset_of_a_missing_partition_is_a_failure(admin: Admin) -> None:
    group, topic = new_group(admin)
    words = ("groups", "reset", group, "--to", "latest", "--topic", f"{topic}:0,7", "--execute")
    code, _, errors = admin(*words)
    assert code == 1
    assert f"{topic}-7: UnknownTopicOrPartition" in errors


@pytest.mark.gate
def test_reset_with_members_or_without_offsets_changes_nothing(admin: Admin) -> None:
    group, topic = new_group(admin)
    with member_of(admin, group, topic):
        code, _, errors = admin("groups", "reset", group, "--to", "latest", "--execute")
        assert code == 1
        assert "NonEmptyGroup" in errors
        assert admin("groups", "delete", group)[0] == 1
    code, shown, errors = admin("groups", "reset", "no-such-group", "--to", "latest")
    assert shown == ""
    assert code == 1
    assert "no committed offsets" in errors
    code, _, errors = admin("groups", "reset", group, "--to", "latest", "--topic", "no-such-topic")
    assert code == 1
    assert "no-such-topic: UnknownTopicOrPartition" in errors
    assert "nothing was changed" in errors


def test_delete_prints_an_outcome_for_each_group(admin: Admin) -> None:
    group, _ = new_group(admin)
    code, shown, errors = admin("groups", "delete", group, "no-such-group")
    assert (code, shown) == (1, f"{group}: deleted\n")
    assert "no-such-group: GroupIdNotFound" in errors


def test_delete_offsets_of_a_topic(admin: Admin) -> None:
    group, topic = new_group(admin)
    code, shown, _ = admin("groups", "delete-offsets", group, "--topic", f"{topic}:0")
    assert (code, shown) == (0, f"{topic}-0: deleted\n")
    (found,) = admin.rows("groups", "describe", group)
    assert [one["partition"] for one in found["partitions"]] == [1]


def test_delete_offsets_of_a_missing_topic_deletes_nothing_of_the_others(admin: Admin) -> None:
    group, topic = new_group(admin)
    code, shown, errors = admin(
        "groups", "delete-offsets", group, "--topic", topic, "--topic", "no-such-topic"
    )
    assert (code, shown) == (1, "")
    assert errors.endswith("nothing was deleted\n")
    assert len(admin.rows("groups", "describe", group)[0]["partitions"]) == 2


@pytest.mark.gate
def test_all_members_are_removed_with_the_reason(admin: Admin, two_brokers: KafkaCluster) -> None:
    group, topic = new_group(admin)
    with ExitStack() as members:
        joined: list[KafkaConsumer] = []
        for number in range(2):
            member = KafkaConsumer(
                topic,
                bootstrap_servers=admin.servers,
                group_id=group,
                group_instance_id=f"host-{number}",
                heartbeat_interval_ms=100,  # by which the first member notices the second one
                enable_auto_commit=False,
            )
            joined.append(members.enter_context(member))
        while not all(member.assignment() for member in joined):
            for member in joined:
                member.poll(timeout_ms=20)
        rows = admin.rows("groups", "remove-members", group, "--all", "--reason", "moved away")
        assert [row["result"] for row in rows] == ["removed", "removed"]
    request = two_brokers.history.requests("LeaveGroup", client_id="pykafka2")[-1]
    assert [one.reason for one in request.members] == ["member was removed by an admin: moved away"] * 2


@pytest.mark.gate
def test_remove_members_by_id_or_all(admin: Admin) -> None:
    group, topic = new_group(admin)
    with member_of(admin, group, topic):
        (found,) = admin.rows("groups", "describe", group)
        code, shown, _ = admin("groups", "remove-members", group, "--all", "--reason", "test")
    assert (code, shown) == (0, f"{found['members'][0]['member_id']}: removed\n")
    code, _, errors = admin("groups", "remove-members", group, "no-such-member")
    assert code == 1
    assert "no-such-member: UnknownMemberId" in errors


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["reset", "g", "--to", "earlyest"], "did you mean earliest?"),
        (["reset", "g"], "--to"),
        (["reset", "g", "--to", "1", "--shift-by", "2"], "not allowed with"),
        (["reset", "g", "--shift-by", "x"], "use a number"),
        (["reset", "g", "--to", "1", "--execute", "--dry-run"], "--execute cannot be combined"),
        (["list", "--times", "2"], "--times needs --watch"),
        (["list", "--watch", "0"], "--watch"),
        (["list", "--state", "Sleeping"], "Stable"),
        (["list", "--type", "Sleeping"], "Classic"),
        (["remove-members", "g"], "--all"),
        (["delete-offsets", "g"], "--topic"),
    ],
)
def test_wrong_argument_has_exit_code_2(admin: Admin, words: list[str], shown: str) -> None:
    code, out, errors = admin("groups", *words)
    assert (code, out) == (2, "")
    assert shown in errors


@pytest.mark.gate
def test_typed_in_a_pipe_and_in_a_terminal(admin: Admin) -> None:
    group, topic = new_group(admin)
    ended = pykafka2("groups", "describe", group, "-b", admin.servers, "--json")
    assert (ended.returncode, json.loads(ended.stdout)["lag"]) == (0, 12)
    code, shown = in_terminal("groups", "describe", group, "-b", admin.servers)
    assert code == 0
    assert topic in shown


@pytest.mark.gate
def test_deletion_is_confirmed_in_a_terminal(admin: Admin) -> None:
    group, _ = new_group(admin)
    terminal = Terminal("groups", "delete", group, "-b", admin.servers)
    terminal.wait_for(f"Delete 1 group with all offsets: {group}? [y/N]")
    terminal.type("yes\n")
    code, shown = terminal.end()
    assert code == 0
    assert f"{group}: deleted" in shown


def test_partition_without_a_leader_has_its_committed_offset_and_owner(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost, kept = TopicPartition("orders", 1), TopicPartition("orders", 0)
    member = MemberDescription("m-1", None, "billing", "10.0.0.7", (lost, kept))
    group = GroupDescription("g", "Stable", "Classic", "range", None, (member,), "consumer")

    class Client:
        """A client of a cluster that has lost the leader of a partition."""

        def group_lag(self, name: str, **_: object) -> Outcomes[TopicPartition, PartitionLag]:
            return Outcomes({kept: PartitionLag(2, 5, 3)}, {lost: LeaderNotAvailable("no leader")})

        def list_group_offsets(self, name: str, _: object) -> dict[TopicPartition, OffsetAndMetadata]:
            return {lost: OffsetAndMetadata(4)}

    client: Any = Client()
    arguments = argparse.Namespace(watch=None, lag_time=False, members=False, isolation_level=None)
    partitions, _ = _lag_rows(client, arguments, group)
    _print_group(arguments, Output("groups", is_json=True), group, partitions, {})
    rows = json.loads(capsys.readouterr().out)["partitions"]
    names = ("partition", "committed", "lag", "member_id", "client_id", "host")
    assert [[row[name] for name in names] for row in rows] == [
        [0, 2, 3, "m-1", "billing", "10.0.0.7"],
        [1, 4, None, "m-1", "billing", "10.0.0.7"],
    ]
