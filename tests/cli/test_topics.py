"""`pykafka2 topics` as typed, on two brokers: in this process, in pipes and in a pseudo-terminal."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from pykafka2 import KafkaProducer, TopicPartition
from pykafka2.admin import Outcomes
from pykafka2.admin.admin import KafkaAdminClient
from pykafka2.cli.admin import topic_changes
from pykafka2.cli.common.output import Output
from pykafka2.errors import KafkaTimeoutError, LeaderNotAvailable
from pykafka2.testing import QUICK, KafkaCluster
from tests.cli.conftest import Admin
from tests.cli.typed import Terminal, pykafka2


def new_topic(admin: Admin, *words: str, records: int = 0, replicas: str = "1") -> str:
    """Create a topic with two partitions and so many records, round robin; return its name."""
    name = admin.name()
    code, _, errors = admin("topics", "create", name, "-p", "2", "-r", replicas, *words)
    assert code == 0, errors
    with KafkaProducer(bootstrap_servers=admin.servers) as producer:
        for number in range(records):
            producer.send(name, b"x", partition=number % 2, timestamp_ms=1000 + number)
    return name


@pytest.mark.gate
def test_list_has_a_row_for_each_topic_that_matches(admin: Admin) -> None:
    name = new_topic(admin, replicas="2")
    code, shown, errors = admin("topics", "list")
    assert (code, errors) == (0, "")
    assert shown.splitlines()[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert [name, "2", "2"] in [line.split() for line in shown.splitlines()]
    shown = admin("topics", "list", "--internal")[1]
    assert ("INTERNAL" in shown) == ("__" in shown)
    assert admin.rows("topics", "list", f"{name}*") == [
        {"topic": name, "partition_count": 2, "replication_factor": 2, "internal": False}
    ]
    assert admin("topics", "list", "--names", name)[1] == f"{name}\n"
    assert admin.rows("topics", "list", "no-such-*") == []


def test_describe_shows_partitions_and_changed_settings(admin: Admin) -> None:
    name = new_topic(admin, "-c", "retention.ms=5000", replicas="2")
    code, shown, errors = admin("topics", "describe", name)
    assert (code, errors) == (0, "")
    assert "retention.ms=5000" in shown
    (described,) = admin.rows("topics", "describe", name)
    topic_id = base64.urlsafe_b64decode(described["topic_id"] + "==")  # as Kafka's tools print it
    with KafkaAdminClient(bootstrap_servers=admin.servers) as client:
        assert client.describe_topics([name])[name].topic_id == topic_id
    assert described["configs"] == {"retention.ms": "5000"}
    assert described["partition_count"] == len(described["partitions"]) == 2
    for partition in described["partitions"]:
        assert sorted(partition["replicas"]) == sorted(partition["isr"]) == [0, 1]
        assert partition["leader"] in (0, 1)


def test_describe_of_partitions_with_problems_omits_healthy_topics(admin: Admin) -> None:
    new_topic(admin, replicas="2")
    assert admin("topics", "describe", "--under-replicated", "--without-leader") == (0, "", "")


@pytest.mark.gate
def test_internal_topics_are_listed_and_described_only_on_request(admin: Admin) -> None:
    with KafkaAdminClient(bootstrap_servers=admin.servers) as client:
        client.alter_group_offsets("any", {})
        client.alter_group_offsets("any", {TopicPartition(new_topic(admin), 0): 0})
    internal = "__consumer_offsets"
    for action in ("list", "describe"):
        assert internal not in [row["topic"] for row in admin.rows("topics", action)]
        (row,) = [row for row in admin.rows("topics", action, "--internal") if row["topic"] == internal]
        assert row["internal"] is True


@pytest.mark.gate
@pytest.mark.slow
def test_describe_of_partitions_with_problems_shows_only_those(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with KafkaCluster(brokers=2, config=QUICK) as own:
        admin = Admin(own.bootstrap_servers, capsys)
        for name, assignment in [("mixed", "0,1"), ("good", "0"), ("late", "0:1,1:0")]:
            assert admin("topics", "create", name, "--assignment", assignment)[0] == 0
        own.controls.stop_broker(1)
        found = {
            option: [
                (row["topic"], [(one["partition"], one["leader"]) for one in row["partitions"]])
                for row in admin.rows("topics", "describe", option)
            ]
            for option in ("--under-replicated", "--without-leader")
        }
        (described,) = admin.rows("topics", "describe", "mixed")
    assert found["--without-leader"] == [("mixed", [(1, None)])]
    assert found["--under-replicated"] == [("late", [(0, 0), (1, 0)]), ("mixed", [(1, None)])]
    assert [one["offline_replicas"] for one in described["partitions"]] == [[], [1]]
    assert [one["isr"] for one in described["partitions"]] == [[0], []]


def test_describe_of_a_missing_topic_is_one_line_and_the_others_are_shown(admin: Admin) -> None:
    name = new_topic(admin)
    code, shown, errors = admin("topics", "describe", name, "no-such-topic", "--json")
    assert code == 1
    assert [json.loads(line)["topic"] for line in shown.splitlines()] == [name]
    (line,) = errors.splitlines()
    assert line.startswith("pykafka2 topics: no-such-topic: UnknownTopicOrPartition: ")


def test_create_prints_an_outcome_for_each_topic(admin: Admin) -> None:
    old, new = new_topic(admin), admin.name()
    code, shown, errors = admin("topics", "create", old, new)
    assert (code, shown) == (1, f"{new}: created\n")
    assert errors == f"pykafka2 topics: {old}: TopicAlreadyExists: Topic '{old}' already exists.\n"
    code, shown, _ = admin("topics", "create", old, "--json")
    (outcome,) = map(json.loads, shown.splitlines())
    assert code == 1
    assert (outcome["topic"], outcome["result"]) == (old, "failed")
    assert outcome["error"].startswith("TopicAlreadyExists: ")
    assert admin("topics", "create", old, "--if-not-exists")[0] == 0


def test_create_with_an_assignment_uses_these_brokers(admin: Admin) -> None:
    name = admin.name()
    assert admin("topics", "create", name, "--assignment", "1:0,0:1")[0] == 0
    (described,) = admin.rows("topics", "describe", name)
    assert [one["replicas"] for one in described["partitions"]] == [[1, 0], [0, 1]]


def test_create_if_not_exists_reports_every_other_error(admin: Admin) -> None:
    old, new = new_topic(admin), admin.name()
    code, shown, errors = admin("topics", "create", old, new, "--if-not-exists", "-r", "3", "--json")
    assert code == 1
    assert [json.loads(line)["result"] for line in shown.splitlines()] == ["created", "failed"]
    assert f"{new}: InvalidReplicationFactor" in errors
    rows = admin.rows("topics", "create", old, new, "--if-not-exists")
    assert [(row["result"], row["existing"]) for row in rows] == [("created", True), ("created", False)]


def test_dry_run_creates_nothing(admin: Admin) -> None:
    name = admin.name()
    assert admin("topics", "create", name, "--dry-run") == (0, f"{name}: valid\n", "")
    assert admin("topics", "create", name, "--dry-run", "-r", "3")[0] == 1
    assert admin.rows("topics", "list", name) == []


def test_alter_sets_appends_and_resets(admin: Admin) -> None:
    name = new_topic(admin, "-c", "retention.ms=5000", "-c", "cleanup.policy=delete")
    code, shown, errors = admin(
        "topics", "alter", name, "--reset", "retention.ms", "--append", "cleanup.policy=compact"
    )
    assert (code, errors) == (0, "")
    assert shown == f"{name}: altered, settings cleanup.policy, retention.ms\n"
    (described,) = admin.rows("topics", "describe", name)
    assert described["configs"] == {"cleanup.policy": "delete,compact"}


def test_dry_run_alters_nothing_and_has_the_error_of_a_bad_value(admin: Admin) -> None:
    name = new_topic(admin)
    code, shown, _ = admin("topics", "alter", name, "--set", "retention.ms=5", "--dry-run")
    assert (code, shown) == (0, f"{name}: valid, setting retention.ms\n")
    assert admin("topics", "alter", name, "--set", "retention.ms=soon", "--dry-run")[0] == 1
    assert admin.rows("topics", "describe", name)[0]["configs"] == {}


def test_alter_subtracts_items_of_a_list(admin: Admin) -> None:
    name = new_topic(admin, "-c", "cleanup.policy=compact,delete")
    assert admin("topics", "alter", name, "--subtract", "cleanup.policy=delete")[0] == 0
    assert admin.rows("topics", "describe", name)[0]["configs"] == {"cleanup.policy": "compact"}


def test_alter_with_a_bad_value_is_a_failure_and_leaves_the_setting(admin: Admin) -> None:
    name = new_topic(admin)
    code, shown, errors = admin("topics", "alter", name, "--set", "retention.ms=soon")
    assert (code, shown) == (1, "")
    assert "InvalidConfig" in errors
    assert admin.rows("topics", "describe", name)[0]["configs"] == {}


@pytest.mark.parametrize(("option", "total"), [("--count", 5), ("--total", 3)])
def test_add_partitions_by_count_or_total(admin: Admin, option: str, total: int) -> None:
    name = new_topic(admin)
    code, shown, _ = admin("topics", "add-partitions", name, option, "3", "--dry-run")
    assert (code, shown) == (0, f"{name}: valid, partition count {total}\n")
    code, shown, _ = admin("topics", "add-partitions", name, option, "3")
    assert (code, shown) == (0, f"{name}: partitions added, partition count {total}\n")
    assert admin("topics", "add-partitions", name, "--total", "2")[0] == 1


def test_delete_of_a_missing_topic_fails_unless_if_exists(admin: Admin) -> None:
    name = new_topic(admin)
    code, shown, errors = admin("topics", "delete", name, "no-such-topic")
    assert (code, shown) == (1, f"{name}: deleted\n")
    assert "no-such-topic: UnknownTopicOrPartition" in errors
    code, shown, errors = admin("topics", "delete", name, "--if-exists")
    assert (code, errors) == (0, "")


def test_delete_if_exists_reports_whether_the_topic_existed_and_every_other_error(
    admin: Admin, two_brokers: KafkaCluster
) -> None:
    first, second = new_topic(admin), new_topic(admin)
    rows = admin.rows("topics", "delete", first, "no-such-topic", "--if-exists")
    assert [(row["result"], row["existed"]) for row in rows] == [("deleted", True), ("deleted", False)]
    two_brokers.controls.rule(api="DeleteTopics", nth=1, then="error:TOPIC_AUTHORIZATION_FAILED")
    code, _, errors = admin("topics", "delete", second, "--if-exists")
    assert code == 1
    assert f"{second}: TopicAuthorizationFailed" in errors
    assert len(admin.rows("topics", "list", second)) == 1


@pytest.mark.gate
def test_truncate_of_a_missing_topic_deletes_nothing_of_the_others(admin: Admin) -> None:
    name = new_topic(admin, records=2)
    code, shown, errors = admin("topics", "truncate", name, "no-such-topic")
    assert (code, shown) == (1, "")
    assert errors.endswith("nothing was deleted\n")
    assert [row["earliest"] for row in admin.rows("topics", "offsets", name)] == [0, 0]


@pytest.mark.gate
def test_truncate_by_a_number_of_records_stays_within_the_log(admin: Admin) -> None:
    name = new_topic(admin, records=20)
    assert admin("topics", "truncate", f"{name}:0", "--before", "4")[0] == 0
    for before, earliest in [("+3", 7), ("-20", 7), ("+99", 10)]:
        assert admin("topics", "truncate", f"{name}:0", "--before", before)[0] == 0
        assert admin.rows("topics", "offsets", f"{name}:0")[0]["earliest"] == earliest


@pytest.mark.gate
def test_truncate_deletes_before_a_position(admin: Admin) -> None:
    name = new_topic(admin, records=20)
    assert admin("topics", "truncate", f"{name}:0", "--before", "3")[0] == 0
    assert admin("topics", "truncate", f"{name}:1", "--before", "-2")[0] == 0
    rows = admin.rows("topics", "offsets", name)
    assert [(row["earliest"], row["latest"], row["offsets"]) for row in rows] == [(3, 10, 7), (8, 10, 2)]
    assert admin.rows("topics", "truncate", f"{name}:0", "--before", "@1010") == [
        {
            "topic": name,
            "partition": 0,
            "result": "truncated",
            "error": None,
            "earliest": 5,
        }
    ]
    assert admin("topics", "truncate", name)[1] == (
        f"{name}-0: truncated, earliest 10\n{name}-1: truncated, earliest 10\n"
    )
    code, _, errors = admin("topics", "truncate", f"{name}:0", "--before", "99")
    assert code == 1
    assert f"{name}-0: OffsetOutOfRange" in errors


@pytest.mark.gate
def test_truncate_of_a_missing_partition_is_one_line(admin: Admin) -> None:
    name = new_topic(admin)
    code, shown, errors = admin("topics", "truncate", f"{name}:7")
    assert (code, shown) == (1, "")
    assert errors == f"pykafka2 topics: {name}-7: UnknownTopicOrPartition: {name}-7 does not exist\n"


@pytest.mark.gate
@pytest.mark.parametrize("before", ["@9999999999999", "latest"])
def test_truncate_keeps_records_that_arrive_after_the_question(
    before: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_topic(admin, records=2)

    def answer(*question: object) -> bool:
        with KafkaProducer(bootstrap_servers=admin.servers) as producer:
            producer.send(name, b"new", partition=0)
        return True

    monkeypatch.setattr(topic_changes, "is_confirmed", answer)
    assert admin("topics", "truncate", f"{name}:0", "--before", before)[0] == 0
    rows = admin.rows("topics", "offsets", f"{name}:0")
    assert [(row["earliest"], row["latest"]) for row in rows] == [(1, 2)]


def test_offsets_reports_a_partition_with_an_unknown_first_offset(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_topic(admin)
    real = KafkaAdminClient.list_offsets

    def list_offsets(client: KafkaAdminClient, specs: Any, **options: Any) -> Outcomes[Any, Any]:
        outcomes = real(client, specs, **options)
        failed = [one for one, spec in specs.items() if spec == "earliest" and one.partition == 1]
        return Outcomes(outcomes.succeeded, {one: LeaderNotAvailable("no leader") for one in failed})

    monkeypatch.setattr(KafkaAdminClient, "list_offsets", list_offsets)
    code, shown, errors = admin("topics", "offsets", name)
    assert (code, errors) == (1, f"pykafka2 topics: {name}-1: LeaderNotAvailable: no leader\n")
    assert [line.split()[1:] for line in shown.splitlines()[1:]] == [
        ["0", "0", "0", "0"],
        ["1", "-", "-", "-"],
    ]


@pytest.mark.gate
def test_offsets_of_a_missing_partition_are_a_failure_and_the_others_are_shown(
    admin: Admin, two_brokers: KafkaCluster
) -> None:
    name = new_topic(admin, records=2)
    for words in ([], ["--at", "latest"]):
        code, shown, errors = admin("topics", "offsets", f"{name}:0,7", *words, "--json")
        assert code == 1
        assert [json.loads(line)["partition"] for line in shown.splitlines()] == [0]
        (line,) = errors.splitlines()
        assert f"{name}-7: UnknownTopicOrPartition" in line
    two_brokers.controls.rule(api="ListOffsets", nth=1, then="error:TOPIC_AUTHORIZATION_FAILED")
    code, shown, errors = admin("topics", "offsets", f"{name}:0", "--json")
    row = {"topic": name, "partition": 0, "earliest": None, "latest": None, "offsets": None}
    assert (code, json.loads(shown)) == (1, row)
    assert f"{name}-0: TopicAuthorizationFailed" in errors


@pytest.mark.gate
def test_end_is_the_last_stable_offset_with_read_committed(admin: Admin) -> None:
    name = new_topic(admin)
    with KafkaProducer(bootstrap_servers=admin.servers, transactional_id=name) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(name, b"open", partition=0).result(10)
        for words, latest in [([], 1), (["--isolation-level", "read_committed"], 0)]:
            assert admin.rows("topics", "offsets", f"{name}:0", *words)[0]["latest"] == latest
            (row,) = admin.rows("topics", "offsets", f"{name}:0", "--at", "latest", *words)
            assert row["offset"] == latest
        producer.abort_transaction()


@pytest.mark.gate
def test_offsets_at_a_time_and_at_the_greatest_timestamp(admin: Admin) -> None:
    name = new_topic(admin, records=4)
    rows = admin.rows("topics", "offsets", f"{name}:0", "--at", "@1001")
    assert rows == [{"topic": name, "partition": 0, "offset": 1, "timestamp": 1002}]
    rows = admin.rows("topics", "offsets", name, "--at", "max-timestamp")
    assert [row["timestamp"] for row in rows] == [1002, 1003]
    assert [row["offset"] for row in admin.rows("topics", "offsets", name, "--at", "end")] == [2, 2]
    rows = admin.rows("topics", "offsets", name, "--at", "@9999999999999")
    assert [row["offset"] for row in rows] == [None, None]


def test_offsets_of_a_missing_topic_print_no_table(admin: Admin) -> None:
    code, shown, errors = admin("topics", "offsets", "no-such-topic")
    assert (code, shown) == (1, "")
    assert "no-such-topic" in errors


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["lst"], "did you mean list?"),
        (["offsets", "t", "--at", "earlyest"], "did you mean earliest?"),
        (["offsets", "t:one"], "use partition numbers"),
        (["create", "t", "-p", "0"], "at least 1"),
        (["create", "t", "--partition", "3"], "--partitions"),
        (["create", "t", "-c", "retention.ms"], "write NAME=VALUE"),
        (["create", "t", "--assignment", "a"], "use numbers"),
        (["create", "t", "--assignment", "0", "-p", "1"], "--assignment cannot be combined"),
        (["alter", "t"], "--set, --append, --subtract or --reset"),
        (["alter", "t", "--set", "a=1", "--reset", "a"], "setting a is changed twice"),
        (["add-partitions", "t"], "--count"),
        (["truncate", "t", "--before", "soon"], "@TIME"),
        (["delete"], "TOPIC"),
        (["offsets", "t:3-1"], "'3-1' is not valid"),
        (["create", "t", "-p", "99999999999"], "99999999999"),
        (["create", "t", "-r", "99999"], "99999"),
        (["create", "t", "--assignment", "0:99999999999"], "99999999999"),
    ],
)
def test_wrong_argument_has_exit_code_2(admin: Admin, words: list[str], shown: str) -> None:
    code, out, errors = admin("topics", *words)
    assert (code, out) == (2, "")
    assert shown in errors


def test_failed_call_of_a_change_reports_the_items_of_each_state(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(client: KafkaAdminClient, names: list[str], **options: object) -> Outcomes[str, None]:
        if "t50" in names:
            raise KafkaTimeoutError("no broker responds")
        return Outcomes(dict.fromkeys(names))

    monkeypatch.setattr(KafkaAdminClient, "delete_topics", failing)
    code, shown, errors = admin("topics", "delete", *(f"t{number}" for number in range(101)))
    assert code == 1
    assert shown.splitlines() == [f"t{number}: deleted" for number in range(50)]
    assert "50 of 101 requested before this; the outcome is unknown of t50, t51, " in errors
    assert "nothing was sent for t100\n" in errors
    assert errors.endswith("pykafka2 topics: KafkaTimeoutError: no broker responds\n")


def test_interrupted_change_reports_the_items_of_each_state(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []

    def interrupted(client: KafkaAdminClient, names: list[str], **options: object) -> Outcomes[str, None]:
        calls.append(names)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return Outcomes(dict.fromkeys(names))

    monkeypatch.setattr(KafkaAdminClient, "delete_topics", interrupted)
    names = [f"t{number}" for number in range(120)]
    code, shown, errors = admin("topics", "delete", *names)
    assert code == 130
    assert shown.splitlines() == [f"t{number}: deleted" for number in range(50)]
    assert "50 of 120 requested before this; the outcome is unknown of t50, t51, " in errors
    assert "nothing was sent for t100, " in errors
    assert errors.endswith("pykafka2 topics: interrupted\n")


def test_closed_pipe_is_a_failure_that_reports_the_items_without_a_result(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(client: KafkaAdminClient, names: list[str], **options: object) -> Outcomes[str, None]:
        return Outcomes(dict.fromkeys(names))

    def line(output: Output, text: str) -> None:
        if text.startswith("t2:"):
            raise BrokenPipeError

    monkeypatch.setattr(KafkaAdminClient, "delete_topics", delete)
    monkeypatch.setattr(Output, "line", line)
    names = [f"t{number}" for number in range(51)]
    code, _, errors = admin("topics", "delete", *names)
    assert code == 1
    assert "stdout was closed before the results of t2, t3, " in errors
    assert errors.endswith("; nothing was sent for t50\n")
    assert admin("topics", "delete", *names[:3])[0] == 0


@pytest.mark.gate
def test_typed_in_a_pipe(admin: Admin) -> None:
    name = new_topic(admin)
    ended = pykafka2("topics", "list", name, "-b", admin.servers, "--json")
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert json.loads(ended.stdout)["topic"] == name
    ended = pykafka2("topics", "delete", name, "-b", admin.servers)
    assert (ended.returncode, ended.stdout.decode()) == (0, f"{name}: deleted\n")


@pytest.mark.gate
@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1), ("\x04", 1)])
def test_deletion_is_confirmed_in_a_terminal(admin: Admin, answer: str, code: int) -> None:
    name = new_topic(admin)
    terminal = Terminal("topics", "delete", name, "-b", admin.servers)
    terminal.wait_for(f"Delete 1 topic with all records: {name}? [y/N]")
    terminal.type(answer)
    ended, shown = terminal.end()
    assert ended == code
    assert ("deleted" in shown) == ("nothing was changed" not in shown) == (code == 0)
    assert bool(admin.rows("topics", "list", name)) == (code == 1)


@pytest.mark.gate
def test_yes_deletes_without_a_question_in_a_terminal(admin: Admin) -> None:
    name = new_topic(admin)
    code, shown = Terminal("topics", "delete", name, "--yes", "-b", admin.servers).end()
    assert (code, shown) == (0, f"{name}: deleted\r\n")
