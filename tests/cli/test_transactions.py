"""`pykafka2 transactions` as typed, on two brokers: in this process, in pipes and in a pseudo-terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer
from pykafka2.driver.pollable import ToLeader
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka2.testing import KafkaCluster
from tests.broker.support.batches import batch
from tests.cli.conftest import Admin
from tests.cli.typed import Terminal, in_terminal, pykafka2

TRANSACTIONAL = 0x10
"""The attribute of a batch in a transaction."""


@contextmanager
def open_transaction(admin: Admin) -> Iterator[tuple[str, str]]:
    """A transactional id whose transaction has a record, and the topic."""
    name, topic = admin.name("txn"), admin.name()
    assert admin("topics", "create", topic, "-p", "1", "-r", "1")[0] == 0
    producer = KafkaProducer(bootstrap_servers=admin.servers, transactional_id=name)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"x", timestamp_ms=1000).result(10)
    try:
        yield name, topic
    finally:
        try:
            producer.abort_transaction()
        except KafkaError:
            pass  # the test has fenced it
        producer.close()


@pytest.mark.gate
def test_list_and_describe_an_open_transaction(admin: Admin) -> None:
    with open_transaction(admin) as (name, topic):
        rows = admin.rows("transactions", "list", "--state", "Ongoing")
        (row,) = [row for row in rows if row["transactional_id"] == name]
        assert row["state"] == "Ongoing"
        (found,) = admin.rows("transactions", "describe", name)
        assert found["producer_id"] == row["producer_id"]
        assert found["partitions"] == [f"{topic}-0"]
        assert found["start_time"] > 0
        assert row not in admin.rows("transactions", "list", "--state", "Empty")
        assert row in admin.rows("transactions", "list", "--producer-id", str(row["producer_id"]))
        assert row not in admin.rows("transactions", "list", "--producer-id", "987654")
        assert admin.rows("transactions", "list", "--pattern", f"{name}") == [row]
        assert row not in admin.rows("transactions", "list", "--longer-than", "1e9")
        words = ("transactions", "list", "--producer-id", str(row["producer_id"]), "--pattern", f"{name}")
        assert admin.rows(*words) == [row]
        assert admin.rows(*words, "--longer-than", "3600") == []
        code, shown, errors = admin("transactions", "describe", name, "no-such-id")
    assert code == 1
    assert name in shown
    assert "no-such-id: TransactionalIdNotFound" in errors


def test_abort_ends_the_transaction_and_fences_the_producer(admin: Admin) -> None:
    with open_transaction(admin) as (name, _):
        code, shown, errors = admin("transactions", "abort", name, "no-such-id")
        assert (code, shown) == (1, f"{name}: aborted\n")
        assert "no-such-id: TransactionalIdNotFound" in errors
        (found,) = admin.rows("transactions", "describe", name)
        assert found["state"] in ("Empty", "CompleteAbort", "PrepareAbort")


@pytest.mark.gate
def test_abort_in_one_partition_writes_its_marker(admin: Admin) -> None:
    with open_transaction(admin) as (name, topic):
        (found,) = admin.rows("transactions", "describe", name)
        words = ("transactions", "abort", "--producer-id", str(found["producer_id"]), "--partition")
        epoch = ("--producer-epoch", str(found["producer_epoch"]))
        code, _, errors = admin(*words, f"{topic}:9", *epoch)
        assert code == 1
        assert f"{topic}-9: UnknownTopicOrPartition" in errors
        code, shown, errors = admin(*words, f"{topic}:0", *epoch)
        assert (code, shown, errors) == (0, f"{topic}-0: aborted\n", "")
        (row,) = admin.rows("topics", "offsets", topic, "--isolation-level", "read_committed")
        assert row["latest"] == 2


def leave_hanging(admin: Admin, topic: str, timestamp: int = 1000) -> None:
    """Write a record of a transaction that no coordinator knows, by default of 1970."""
    records = batch(
        producer_id=7001, producer_epoch=3, base_sequence=0, attributes=TRANSACTIONAL, timestamp=timestamp
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])
    request = ProduceRequest(transactional_id="lost", acks=-1, timeout_ms=5000, topic_data=[data])
    with KafkaAdminClient(bootstrap_servers=admin.servers) as client:
        response = client._cluster.request(request, ToLeader(topic, 0), max_version=11)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_hanging_transaction_is_found_and_aborted(admin: Admin) -> None:
    topic = admin.name()
    assert admin("topics", "create", topic, "-p", "1", "-r", "1")[0] == 0
    leave_hanging(admin, topic)
    (found,) = admin.rows("transactions", "find-hanging", "--topic", topic)
    assert found == {
        "topic": topic,
        "partition": 0,
        "producer_id": 7001,
        "producer_epoch": 3,
        "coordinator_epoch": -1,
        "start_offset": 0,
        "last_timestamp": 1000,
        "transactional_id": None,
    }
    code, shown, errors = admin(
        *("transactions", "abort", "--partition", f"{topic}:0", "--producer-id", "7001"),
        *("--producer-epoch", "3"),
    )
    assert (code, shown, errors) == (0, f"{topic}-0: aborted\n", "")
    assert admin.rows("transactions", "find-hanging", "--topic", topic) == []


def test_transaction_hangs_only_if_it_is_older_than_typed(admin: Admin, two_brokers: KafkaCluster) -> None:
    topic = admin.name()
    assert admin("topics", "create", topic, "-p", "1", "-r", "1")[0] == 0
    leave_hanging(admin, topic, round((time.time() - 3600) * 1000))
    words = ("transactions", "find-hanging", "--topic", topic, "--older-than")
    assert admin.rows(*words, "86400") == []
    assert len(admin.rows(*words, "60")) == 1
    words = ("transactions", "abort", "--partition", f"{topic}:0", "--producer-id", "7001")
    code, _, errors = admin(*words, "--producer-epoch", "3", "--coordinator-epoch", "5")
    assert (code, errors) == (0, "")
    request = two_brokers.history.requests("WriteTxnMarkers")[-1]
    assert [one.coordinator_epoch for one in request.markers] == [5]


@pytest.mark.gate
def test_find_hanging_finds_none(admin: Admin) -> None:
    with open_transaction(admin) as (_, topic):
        code, shown, errors = admin("transactions", "find-hanging", "--topic", topic, "--older-than", "1")
    assert code == 0
    assert shown.split()[:3] == ["TOPIC", "PARTITION", "PRODUCER"]
    assert errors == "No transaction hangs.\n"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["abort"], "--producer-epoch"),
        (["abort", "--partition", "t:0", "--producer-id", "1"], "--producer-epoch"),
        (["abort", "id", "--producer-id", "1"], "TRANSACTIONAL_ID cannot be combined"),
        (["abort", "--partition", "t"], "such as orders:0"),
        (["list", "--longer-than", "0"], "--longer-than"),
        (["list", "--state", "Sleeping"], "'Sleeping' is not valid; use Empty, Ongoing"),
        (["list", "--state", "ongonig"], "did you mean Ongoing?"),
        (["find-hanging", "--older-than", "soon"], "--older-than"),
        (["describe"], "TRANSACTIONAL_ID"),
        (
            ["list", "--producer-id", "99999999999999999999"],
            "--producer-id: '99999999999999999999' is not",
        ),
        (
            ["abort", "--partition", "t:0", "--producer-id", "1", "--producer-epoch", "99999"],
            "producer_epoch=99999 must be",
        ),
    ],
)
def test_wrong_argument_has_exit_code_2(admin: Admin, words: list[str], shown: str) -> None:
    code, out, errors = admin("transactions", *words)
    assert (code, out) == (2, "")
    assert shown in errors


@pytest.mark.gate
def test_typed_in_a_pipe_and_in_a_terminal(admin: Admin) -> None:
    with open_transaction(admin) as (name, _):
        ended = pykafka2("transactions", "describe", name, "-b", admin.servers, "--json")
        assert (ended.returncode, json.loads(ended.stdout)["state"]) == (0, "Ongoing")
        code, shown = in_terminal("transactions", "list", "-b", admin.servers)
        assert code == 0
        assert name in shown
        terminal = Terminal("transactions", "abort", name, "-b", admin.servers)
        terminal.wait_for(f"Abort the transactions of 1 transactional id: {name}? [y/N]")
        terminal.type("n\n")
        assert terminal.end()[0] == 1
        (found,) = admin.rows("transactions", "describe", name)
        assert found["state"] == "Ongoing"
