"""Transactions on real sockets and threads: what virtual time cannot show."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from pykafka2.errors import ForkedClientError, IllegalState, KafkaError, KafkaTimeoutError
from pykafka2.producer.transactions.transactions import TransactionRunner
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import QUICK, KafkaCluster, Listener
from tests.driver.interleave import at_every_line, at_line
from tests.forks import in_child

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3, topics={"orders": 1, "spread": 6}, config=QUICK) as cluster:
        yield cluster


@pytest.fixture
def producer(cluster: KafkaCluster) -> Iterator[KafkaProducer]:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        yield producer


def committed(cluster: KafkaCluster, topic: str, partitions: int) -> list[bytes]:
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed"
    ) as reader:
        reader.assign(places)
        reader.seek_to_beginning(*places)
        values: list[bytes] = []
        deadline = time.monotonic() + 60
        ends = {place: cluster.partition(*place).high_watermark for place in places}
        while any(reader.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline
            for records in reader.poll(timeout_ms=100).values():
                values += [record.value for record in records]
        return values


@pytest.mark.parametrize("what", ["records", "offsets"])
def test_one_transaction_follows_the_other_at_once(what: str) -> None:
    """On one broker, which leads everything: what comes next overtakes the markers of what was before."""
    with (
        KafkaCluster(brokers=1, topics=["orders"], config=QUICK) as cluster,
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="t") as producer,
    ):
        producer.init_transactions()
        for number in range(8):
            with producer.transaction():
                if what == "records":
                    producer.send("orders", b"%d" % number)
                else:
                    position = {TopicPartition("orders", 0): OffsetAndMetadata(number)}
                    producer.send_offsets_to_transaction(position, "billing")
        if what == "records":
            assert committed(cluster, "orders", 1) == [b"%d" % number for number in range(8)]


@pytest.mark.gate
def test_threads_send_into_one_transaction_and_none_slips_past_its_end(
    cluster: KafkaCluster, producer: KafkaProducer
) -> None:
    """Records accepted by `send` before the commit are committed; later ones were refused."""
    taken: list[bytes] = []
    is_over = threading.Event()

    def send_until_refused(thread: int) -> None:
        number = 0
        while not is_over.is_set():
            value = b"%d-%d" % (thread, number)
            try:
                producer.send("spread", value, b"%d" % thread)
            except IllegalState:
                time.sleep(0.001)
            else:
                taken.append(value)
                number += 1
                time.sleep(0.0001)  # some thousand records in all, however fast the machine is

    threads = [threading.Thread(target=send_until_refused, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        producer.begin_transaction()
        time.sleep(0.02)
        producer.commit_transaction()
    is_over.set()
    for thread in threads:
        thread.join()
    assert producer.health()["records_waiting"] == 0
    assert sorted(committed(cluster, "spread", 6)) == sorted(taken)
    assert len(taken) > 100


@pytest.mark.gate
def test_offsets_of_a_member_take_part(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as plain:
        plain.send_many("orders", [b"%d" % number for number in range(5)])
    member = KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="copiers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    try:
        copied: list[bytes] = []
        deadline = time.monotonic() + 60
        while len(copied) < 5:
            assert time.monotonic() < deadline
            for place, records in member.poll(timeout_ms=200).items():
                with producer.transaction():
                    for record in records:
                        producer.send("spread", record.value)
                    offsets = {place: OffsetAndMetadata(records[-1].offset + 1)}
                    producer.send_offsets_to_transaction(offsets, member.group_metadata())
                copied += [record.value for record in records if record.value is not None]
        cluster.wait_until(lambda: cluster.group("copiers").offsets.get(TopicPartition("orders", 0)) == 5)
    finally:
        member.close()
    assert committed(cluster, "spread", 6) == copied


@pytest.mark.gate
def test_forked_child_gets_an_error_and_the_parent_commits(
    cluster: KafkaCluster, producer: KafkaProducer
) -> None:
    producer.begin_transaction()
    producer.send("orders", b"v")

    def is_refused() -> bool:
        for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
            with pytest.raises(ForkedClientError):
                call()
        return True

    assert in_child(is_refused, seconds=20)
    producer.commit_transaction()
    assert committed(cluster, "orders", 1) == [b"v"]


def test_interrupted_commit_continues_and_the_next_call_returns_its_result(
    cluster: KafkaCluster, producer: KafkaProducer
) -> None:
    producer.begin_transaction()
    producer.send("orders", b"v").result(10)
    cluster.controls.hold("EndTxn")
    timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        producer.commit_transaction(20)
    cluster.controls.clear()
    producer.commit_transaction(20)
    assert committed(cluster, "orders", 1) == [b"v"]


def test_a_block_that_is_interrupted_at_its_beginning_leaves_no_transaction_open(
    producer: KafkaProducer,
) -> None:
    """Between any two lines of begin_transaction."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    has_begun = False

    def run() -> None:
        nonlocal has_begun
        with producer.transaction():
            has_begun = True
            producer.abort_transaction()

    def attempt(line: int) -> bool:
        with suppress(KeyboardInterrupt):
            at_line(TransactionRunner.run.__code__, line, interrupt, run)
        assert has_begun or producer.health()["transaction_state"] == "ready"
        return not has_begun

    assert len(list(at_every_line(attempt))) >= 10


def test_close_names_its_timeout(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    producer.begin_transaction()
    cluster.controls.hold(ProduceRequest)
    producer.send("orders", b"v")
    with pytest.raises(KafkaTimeoutError):
        producer.commit_transaction(0.1)
    with pytest.raises(KafkaTimeoutError, match=r"close: 1 record remains after 0\.2 s"):
        producer.close(0.2)


@pytest.mark.gate
def test_send_many_is_part_of_the_transaction(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    with pytest.raises(IllegalState):
        producer.send_many("orders", [b"too early"])
    with producer.transaction():
        producer.send_many("orders", [b"%0100d" % number for number in range(1000)])
    producer.begin_transaction()
    producer.send_many("orders", [b"aborted" * 20] * 1000).result(10)
    producer.abort_transaction()
    assert committed(cluster, "orders", 1) == [b"%0100d" % number for number in range(1000)]


@pytest.mark.gate
def test_an_interpreter_that_ends_leaves_nothing_open(cluster: KafkaCluster) -> None:
    program = (
        "import sys; from pykafka2 import KafkaProducer\n"
        "producer = KafkaProducer(bootstrap_servers=sys.argv[1], transactional_id='left')\n"
        "producer.init_transactions(); producer.begin_transaction()\n"
        "producer.send('orders', b'v').result(10)\n"
    )
    subprocess.run([sys.executable, "-c", program, cluster.bootstrap_servers], check=True, timeout=30)
    assert not cluster.transaction("left").is_open


@pytest.mark.gate
def test_offsets_wait_for_their_coordinator_no_longer_than_they_may(
    cluster: KafkaCluster, producer: KafkaProducer
) -> None:
    producer.begin_transaction()
    cluster.controls.hold("TxnOffsetCommit")
    began = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match=r"commit_transaction\(\) waits for it"):
        producer.send_offsets_to_transaction({TopicPartition("orders", 0): OffsetAndMetadata(1)}, "g", 0.5)
    assert time.monotonic() - began < 20
    cluster.controls.clear()
    producer.commit_transaction(20)
    cluster.wait_until(lambda: cluster.group("g").offsets == {TopicPartition("orders", 0): 1})


@pytest.mark.parametrize("api", ["producer", "admin"])
def test_wrong_password_fails_all_calls_to_a_coordinator_at_once(api: str) -> None:
    """Its lookup fails while the requests that wait for it are polled."""
    listeners = {"SASL_PLAINTEXT": Listener(mechanisms=["PLAIN"])}
    with KafkaCluster(1, listeners=listeners, users={"ann": "secret"}) as cluster:
        options: dict[str, Any] = {**cluster.options_for("ann"), "sasl_password": "wrong"}
        with (
            KafkaProducer(**options, transactional_id="t", max_block_ms=60_000) as producer,
            KafkaAdminClient(**options, default_api_timeout_ms=60_000) as admin,
        ):
            began = time.monotonic()
            call = producer.init_transactions if api == "producer" else partial(admin.list_group_offsets, "g")
            for _ in range(2):
                with pytest.raises(KafkaError, match="check sasl_username") as raised:
                    call()
                assert not isinstance(raised.value, KafkaTimeoutError)
            assert time.monotonic() - began < 50
