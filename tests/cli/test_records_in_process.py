"""`pykafka2 produce` and `consume` in this process: what is sent, printed and committed."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from pykafka2.cli.main import main
from pykafka2.cli.records import consume, produce_input
from pykafka2.cli.records.produce import Sending
from pykafka2.cli.records.produce_input import Rows
from pykafka2.errors import BufferExhausted, IncompleteSend
from pykafka2.testing import QUICK, KafkaCluster
from tests.cli.conftest import NewTopicOf
from tests.gate import rest_in_gate

TEN = [(b"k%d" % number, b"v%d" % number) for number in range(10)]
Run = Callable[..., tuple[int, str, str]]
Produce = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(servers: str, capfd: pytest.CaptureFixture[str]) -> Run:
    """A function that runs the command: the exit code, and what stdout and stderr show."""

    def call(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([*words, "-b", servers])
        shown = capfd.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.fixture
def produce(run: Run, tmp_path: Path) -> Produce:
    """A function that sends the lines of a file."""

    def call(topic: str, text: bytes, *words: str) -> tuple[int, str, str]:
        path = tmp_path / "lines"
        path.write_bytes(text)
        return run("produce", topic, str(path), *words)

    return call


def committed(servers: str, group: str, topic: str) -> int | None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        offsets = admin.list_group_offsets(group)
    found = offsets.get(TopicPartition(topic, 0))
    return None if found is None else found.offset


# ---------------------------------------------------------------------- produce


def test_headers_of_the_command_line_precede_those_of_json(
    produce: Produce, run: Run, new_topic: NewTopicOf
) -> None:
    topic = new_topic()
    lines = b'{"value": "a", "headers": {"own": "1"}}\n{"value": "b"}\n'
    assert produce(topic, lines, "--json", "-H", "source=web=2", "-H", "empty=")[0] == 0
    shown = run("consume", topic, "-e", "-f", r"%v %h\n")[1]
    assert shown == "a source=web=2,empty=,own=1\nb source=web=2,empty=\n"


def test_partition_of_the_command_line_precedes_that_of_json(
    produce: Produce, run: Run, new_topic: NewTopicOf
) -> None:
    topic = new_topic(partitions=3)
    lines = b'{"value": "a", "partition": 0}\n{"value": "b", "partition": 9}\n{"value": "c"}\n'
    assert produce(topic, lines, "--json", "-p", "2")[0] == 0
    assert run("consume", topic, "-e", "-f", "%p%v ")[1] == "2a 2b 2c "


def test_null_option_sends_null_for_empty_values_and_keys(
    produce: Produce, run: Run, new_topic: NewTopicOf
) -> None:
    topic = new_topic()
    assert produce(topic, b"k=\n=v\n", "-K", "=", "--null")[0] == 0
    assert produce(topic, b"k=\n=v\n", "-K", "=")[0] == 0
    assert run("consume", topic, "-e", "-f", "%K/%V ")[1] == "1/-1 -1/1 1/0 0/1 "


@pytest.mark.gate
def test_transaction_with_a_bad_line_is_aborted(produce: Produce, run: Run, new_topic: NewTopicOf) -> None:
    topic = new_topic()
    words = ("--json", "-X", f"transactional.id={topic}")
    code, shown, _ = produce(topic, b'{"value": "a"}\n{\n', *words)
    result = json.loads(shown)
    assert (code, result["delivered"], result["failed"], result["not_sent"]) == (1, 0, 1, 1)
    assert produce(topic, b'{"value": "b"}\n', *words)[0] == 0
    read = ("consume", topic, "-e", "--isolation-level")
    assert run(*read, "read_committed")[1] == "b\n"
    assert run(*read, "read_uncommitted")[1] == "a\nb\n"


def test_line_number_of_an_error_counts_all_reads(
    produce: Produce, new_topic: NewTopicOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_input, "READ_BYTES", 20)
    topic = new_topic()
    code, shown, errors = produce(topic, b'{"value": "a"}\n' * 5 + b"bad\n" + b'{"value": "a"}\n', "--json")
    assert (code, json.loads(shown)["delivered"]) == (1, 6)
    assert "lines:6: not JSON" in errors


def test_full_buffer_delays_records_and_loses_none(
    produce: Produce, run: Run, new_topic: NewTopicOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_many = Sending._send_many

    def send_two(sending: Sending, rows: Rows) -> Any:
        if len(rows) <= 2:
            return send_many(sending, rows)
        delivery = send_many(sending, rows.take(range(2)))
        raise IncompleteSend("full", 2, range(2, len(rows)), delivery) from BufferExhausted("full")

    monkeypatch.setattr(Sending, "_send_many", send_two)
    topic = new_topic()
    assert produce(topic, b"a\nb\nc\nd\ne\n") == (0, "", "")
    assert run("consume", topic, "-e")[1] == "a\nb\nc\nd\ne\n"


def test_many_failures_are_shown_up_to_a_limit_and_all_counted(
    produce: Produce, new_topic: NewTopicOf
) -> None:
    code, shown, errors = produce(new_topic(), b"bad\n" * 50, "--json")
    assert (code, json.loads(shown)["failed"]) == (1, 50)
    assert len(errors.splitlines()) == 21
    assert errors.endswith("more records failed; only their number is shown\n")


@pytest.mark.parametrize(("words", "acks", "codec"), [([], -1, 0), (["-a", "1", "-z", "gzip"], 1, 1)])
def test_acks_and_compression_are_those_of_the_request(
    words: list[str], acks: int, codec: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"x" * 500)
    with KafkaCluster(brokers=1, config=QUICK, topics={"t": 1}) as cluster:
        assert main(["produce", "t", str(path), "-b", cluster.bootstrap_servers, *words]) == 0
        (request,) = cluster.history.requests("Produce")
    assert request.acks == acks
    records = bytes(request.topic_data[0].partition_data[0].records)
    assert records[22] & 7 == codec  # the attributes of the batch


# ---------------------------------------------------------------------- consume


@pytest.mark.parametrize(
    ("words", "shown", "offset"),
    [
        (["--count", "4"], "v0 v1 v2 v3 ", 4),
        (["--until", "6"], "v0 v1 v2 v3 v4 v5 ", 6),
        (["--grep", "v[35]", "--count", "2"], "v3 v5 ", 6),
        (["--grep", "v3", "--until", "end"], "v3 ", 10),
        (["--until", "-8", "--count", "5"], "v0 v1 ", 2),
    ],
)
def test_group_commits_only_printed_records(
    words: list[str], shown: str, offset: int, servers: str, run: Run, new_topic: NewTopicOf
) -> None:
    topic = new_topic(TEN)
    code, out, errors = run("consume", topic, "-g", f"{topic}-group", "-f", "%v ", *words)
    assert (code, out, errors) == (0, shown, "")
    assert committed(servers, f"{topic}-group", topic) == offset


@pytest.mark.gate
def test_records_that_could_not_be_written_are_not_committed(
    servers: str, run: Run, new_topic: NewTopicOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullDevice:
        def __init__(self, interrupt: object) -> None:
            pass

        def write(self, data: bytes) -> None:
            """Accept the bytes; what cannot be written is an error of flush."""

        def flush(self) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    topic = new_topic(TEN)
    monkeypatch.setattr(consume, "WholeWriter", FullDevice)
    code, _, errors = run("consume", topic, "-g", f"{topic}-group", "-e")
    assert code == 1
    assert "No space left on device" in errors
    assert not committed(servers, f"{topic}-group", topic)


def test_records_before_the_start_are_not_printed_with_offset_latest(
    servers: str, run: Run, new_topic: NewTopicOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(TEN)
    read = consume.Reading.read

    def read_one(reading: Any, client: KafkaConsumer[Any, Any]) -> None:
        client.position(TopicPartition(topic, 0))
        with KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send(topic, b"later")
        read(reading, client)

    monkeypatch.setattr(consume.Reading, "read", read_one)
    assert run("consume", topic, "-o", "latest", "-c", "1") == (0, "later\n", "")


def test_time_after_the_last_record_starts_at_the_end(run: Run, new_topic: NewTopicOf) -> None:
    topic = new_topic(TEN)
    assert run("consume", topic, "-o", "@9999999999", "-e") == (0, "", "")
    assert run("consume", topic, "-u", "@9999999999")[1].splitlines() == [f"v{n}" for n in range(10)]


@pytest.mark.gate
@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_group_that_has_read_to_the_end_of_transactions_has_no_lag(
    isolation_level: str, servers: str, run: Run, new_topic: NewTopicOf
) -> None:
    topic = new_topic(partitions=3)
    with KafkaProducer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.init_transactions()
        for partition, is_committed in [(0, True), (1, False), (2, False), (2, True), (1, True), (1, False)]:
            producer.begin_transaction()
            producer.send(topic, b"c" if is_committed else b"a", partition=partition)
            producer.flush()
            producer.commit_transaction() if is_committed else producer.abort_transaction()
    group = f"{topic}-group"
    words = ["-g", group, "-e", "-f", "%v", "--isolation-level", isolation_level]
    code, shown, errors = run("consume", topic, *words)
    assert (code, sorted(shown), errors) == (
        0,
        ["c"] * 3 if isolation_level == "read_committed" else ["a"] * 3 + ["c"] * 3,
        "",
    )
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        lags = admin.group_lag(group)
    assert [(lag.committed, lag.lag) for lag in lags.values()] == [(2, 0), (6, 0), (4, 0)]


def test_until_an_offset_commits_this_offset_although_more_was_fetched(
    servers: str, run: Run, new_topic: NewTopicOf
) -> None:
    topic = new_topic(TEN, partitions=2)
    group = f"{topic}-group"
    assert sorted(run("consume", topic, "-g", group, "-u", "3", "-f", "%p%o ")[1].split()) == [
        "00",
        "01",
        "02",
        "10",
        "11",
        "12",
    ]
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        assert [lag.committed for lag in admin.group_lag(group).values()] == [3, 3]


def test_end_of_a_group_is_that_of_the_own_partitions(servers: str, run: Run, new_topic: NewTopicOf) -> None:
    topic = new_topic(TEN, partitions=2)
    group = f"{topic}-group"
    with KafkaConsumer(topic, bootstrap_servers=servers, group_id=group) as other:
        other.unsubscribe()
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.alter_group_offsets(group, {TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 2})
    assert run("consume", topic, "-g", group, "-e", "-f", "%p%v ")[1] == "1v5 1v7 1v9 "


def test_records_behind_the_end_of_an_empty_partition_are_neither_printed_nor_committed(
    servers: str, run: Run, new_topic: NewTopicOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(partitions=2)
    empty = TopicPartition(topic, 1)
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send(topic, b"first", partition=0)
    subscribe, finish = consume.Reading.subscribe, consume.Reading._finish

    def subscribe_and_send(reading: Any, client: KafkaConsumer[Any, Any]) -> None:
        subscribe(reading, client)
        with KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send(topic, b"later", partition=1)

    def finish_after_it(reading: Any, client: KafkaConsumer[Any, Any]) -> None:
        if empty in client.assignment() and client.position(empty) == 1:
            finish(reading, client)

    monkeypatch.setattr(consume.Reading, "subscribe", subscribe_and_send)
    monkeypatch.setattr(consume.Reading, "_finish", finish_after_it)
    assert run("consume", topic, "-g", f"{topic}-group", "-e") == (0, "first\n", "")
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        offsets = admin.list_group_offsets(f"{topic}-group")
    assert {one: offset.offset for one, offset in offsets.items()} == {TopicPartition(topic, 0): 1}


@pytest.mark.parametrize(("words", "checks"), [([], False), (["-c", "9"], True), (["-u", "+9"], True)])
def test_brokers_are_checked_only_by_a_command_with_an_end(
    words: list[str], checks: bool, run: Run, new_topic: NewTopicOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that follows a topic waits for lost brokers."""
    noted: list[str] = []

    def ends_after_ten() -> bool:
        noted.append("poll")
        return len(noted) >= 10

    monkeypatch.setattr(consume, "POLL_MS", 50)
    monkeypatch.setattr(consume.Reading, "_check_brokers", lambda reading, client: noted.append("check"))
    monkeypatch.setattr(consume, "closed_stdout", lambda: ends_after_ten)
    run("consume", new_topic(), *words)
    assert "poll" in noted
    assert ("check" in noted) == checks


def test_isolation_level_and_grep_of_keys(run: Run, new_topic: NewTopicOf) -> None:
    topic = new_topic([(b"red", b"1"), (None, b"red"), (b"blue", None), (b"red", None)])
    assert run("consume", topic, "-e", "--grep", "^red$", "-f", "%o ")[1] == "0 1 3 "


def test_missing_topic_is_not_created(capfd: pytest.CaptureFixture[str]) -> None:
    with KafkaCluster(brokers=1, config=QUICK, topics={"orders": 1}) as cluster:
        assert main(["consume", "order", "-b", cluster.bootstrap_servers]) == 1
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            assert admin.list_topics() == ["orders"]
    assert "topic 'order' does not exist; did you mean 'orders'?" in capfd.readouterr().err


def test_time_of_brokers_is_named_in_json(servers: str, run: Run) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        stamped = NewTopic("stamped", 1, 1, {"message.timestamp.type": "LogAppendTime"})
        admin.create_topics([stamped], wait_for_metadata=True)
    with KafkaProducer(bootstrap_servers=servers) as producer:
        producer.send("stamped", b"v", timestamp_ms=5)
    (line,) = run("consume", "stamped", "-e", "--json")[1].splitlines()
    assert json.loads(line)["timestamp_type"] == "log_append_time"
    assert json.loads(line)["timestamp"] > 5


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["topic", "broker"])
@pytest.mark.parametrize(
    "words", rest_in_gate([["-c", "5"], ["-u", "+9"], ["-c", "5", "-g", "audit"]]), ids=" ".join
)
def test_consume_with_an_end_fails_if_its_topic_or_broker_is_lost(
    words: list[str], lost: str, capfd: pytest.CaptureFixture[str]
) -> None:
    config = {**QUICK, "auto.create.topics.enable": False}
    with KafkaCluster(brokers=1, topics={"orders": 1, "payments": 1}, config=config) as cluster:
        servers = cluster.bootstrap_servers
        with KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send("orders", b"1")

        def lose() -> None:
            cluster.wait_until(lambda: cluster.history.count("Fetch") > 0)
            if lost == "broker":
                cluster.controls.crash_broker(0)
                return
            with KafkaAdminClient(bootstrap_servers=servers) as admin:
                admin.delete_topics(["payments"])

        thread = threading.Thread(target=lose)
        thread.start()
        limits = ["-X", f"default.api.timeout.ms={1500 if lost == 'broker' else 5000}"]
        code = main(["consume", "orders", "payments", "-b", servers, *limits, *words])
        thread.join()
        error = capfd.readouterr().err
    assert code == 1
    assert ("'payments' does not exist" if lost == "topic" else "NoBrokersAvailable") in error


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("unnoticed", [True, False], ids=["unnoticed", "noticed"])
@pytest.mark.parametrize(
    "words", rest_in_gate([["-e"], ["-c", "9"], ["-u", "+2"], ["-e", "-g", "GROUP"]]), ids=" ".join
)
def test_consume_with_an_end_fails_if_one_of_two_leaders_is_lost(
    words: list[str], unnoticed: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    with KafkaCluster(brokers=2, config={**QUICK, "broker.session.timeout.ms": 600_000}) as cluster:
        servers = cluster.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("orders", assignment={0: [0], 1: [1]})], wait_for_metadata=True)
            for group in map("audit-{}".format, range(9)):
                admin.alter_group_offsets(group, {TopicPartition("orders", number): 0 for number in range(2)})
                if cluster.coordinator(group) == 0:
                    break
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for number in range(4):
                producer.send("orders", b"%d" % number, partition=number % 2)
        words = [group if word == "GROUP" else word for word in words]
        cluster.controls.rule(api="Fetch", broker=1, then="swallow")
        thread = threading.Thread(
            target=lambda: (
                cluster.wait_until(lambda: cluster.history.count("Fetch", broker=1) > 0),
                cluster.controls.crash_broker(1, unnoticed=unnoticed),
            )
        )
        thread.start()
        started = time.monotonic()
        code = main(["consume", "orders", "-b", servers, "-X", "default.api.timeout.ms=2000", *words])
        seconds = time.monotonic() - started
        thread.join()
        shown, error = capfd.readouterr()
    assert (code, shown.splitlines()) == (1, ["0", "2"])
    assert "orders-1" in error
    assert ("nothing listens there" if unnoticed else "orders-1 has no leader") in error
    assert seconds < 30


@pytest.mark.gate
@pytest.mark.slow
def test_consume_with_an_end_fails_if_its_coordinator_is_lost(capfd: pytest.CaptureFixture[str]) -> None:
    with KafkaCluster(brokers=2, config={**QUICK, "offsets.topic.replication.factor": 1}) as cluster:
        servers = cluster.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("orders", assignment={0: [0], 1: [0]})], wait_for_metadata=True)
            for group in map("audit-{}".format, range(9)):
                admin.alter_group_offsets(group, {TopicPartition("orders", number): 0 for number in range(2)})
                if cluster.coordinator(group) == 1:
                    break
        with KafkaProducer(bootstrap_servers=servers) as producer:
            producer.send("orders", b"1")
        cluster.controls.crash_broker(1)
        words = ["-g", group, "-e", "-X", "default.api.timeout.ms=2000"]
        code = main(["consume", "orders", "-b", servers, *words])
        shown, error = capfd.readouterr()
    assert (code, shown) == (1, "")
    assert "coordinator" in error
