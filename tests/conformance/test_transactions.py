"""Our transactions on Apache Kafka, and, by the same tests, on the bundled broker.

Each test runs twice on each: with what the cluster finalised (transaction.version 2), and as a client that
speaks version 1, which the same brokers serve, too.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from pykafka2 import (
    ConsumerGroupMetadata,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
    end_transaction,
)
from pykafka2.cluster.nodes import Nodes
from pykafka2.errors import InvalidTxnState, ProducerFenced, TransactionFailed

from .brokers import Cluster
from .peers import TIMEOUT, Peer

NAMES = count(1)

END_IT = """
import pickle, sys
from pykafka2 import end_transaction
handle = pickle.loads(bytes.fromhex(sys.argv[2]))
end_transaction(handle, commit=True, bootstrap_servers=sys.argv[1])
"""


@pytest.fixture(params=[2, 1], ids=["version 2", "version 1"], autouse=True)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The transaction.version that our clients speak."""
    level: int = request.param
    known = Nodes.finalized_feature
    monkeypatch.setattr(Nodes, "finalized_feature", lambda nodes, name: min(level, known(nodes, name)))
    return level


@pytest.fixture
def transactional_id() -> str:
    return f"ours-{next(NAMES)}"


@pytest.fixture
def begun(cluster: Cluster, transactional_id: str) -> Iterator[Callable[[], KafkaProducer]]:
    """Make producers of the same transactional id; each has begun."""
    made: list[KafkaProducer] = []

    def begin() -> KafkaProducer:
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id=transactional_id
        )
        made.append(producer)
        producer.init_transactions(TIMEOUT)
        return producer

    yield begin
    for producer in made:
        producer.close(5)


def committed(cluster: Cluster, topic: str) -> list[bytes | None]:
    """Records for a read_committed reader, once no transaction is open."""
    place = TopicPartition(topic, 0)
    with (
        KafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed"
        ) as reader,
        KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers) as dirty,
    ):
        reader.assign([place])
        reader.seek(place, 0)
        end = dirty.end_offsets([place])[place]
        values: list[bytes | None] = []
        deadline = time.monotonic() + TIMEOUT
        while reader.position(place) < end:
            assert time.monotonic() < deadline, f"read {values} up to {reader.position(place)} of {end}"
            for records in reader.poll(timeout_ms=200).values():
                values += [record.value for record in records]
        return values


def test_commits_are_seen_and_aborts_are_not(cluster: Cluster, begun: Callable[[], KafkaProducer]) -> None:
    topic, producer = cluster.new_topic(), begun()
    expected: list[bytes | None] = []
    for number in range(6):
        producer.begin_transaction()
        values: list[bytes | None] = [b"%d-%d" % (number, index) for index in range(20)]
        for value in values:
            producer.send(topic, value)
        if number % 2:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            expected += values
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        end()
    assert committed(cluster, topic) == expected


def test_other_clients_read_committed_records(
    cluster: Cluster, begun: Callable[[], KafkaProducer], peer_of: Callable[[str], Peer]
) -> None:
    topic, producer = cluster.new_topic(), begun()
    with producer.transaction():
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=0)
    rows = peer_of("confluent").consume(cluster.bootstrap_servers, topic, 10)
    assert [row[2] for row in rows] == [b"%d" % number for number in range(10)]


def test_a_newer_producer_fences(cluster: Cluster, begun: Callable[[], KafkaProducer]) -> None:
    topic, older = cluster.new_topic(), begun()
    older.begin_transaction()
    older.send(topic, b"zombie").result(TIMEOUT)
    newer = begun()
    with pytest.raises(ProducerFenced):
        older.commit_transaction()
    with newer.transaction():
        newer.send(topic, b"new")
    assert committed(cluster, topic) == [b"new"]


def test_offsets_move_with_the_records(cluster: Cluster, begun: Callable[[], KafkaProducer]) -> None:
    source, target, producer = cluster.new_topic(), cluster.new_topic(), begun()
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as plain:
        for number in range(9):
            plain.send(source, b"%d" % number)
    place = TopicPartition(source, 0)
    attempts = 0
    with KafkaConsumer(
        source,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=f"copiers-of-{source}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=3,
    ) as consumer:
        deadline = time.monotonic() + TIMEOUT
        while consumer.committed(place) != 9:
            assert time.monotonic() < deadline
            records = consumer.poll(timeout_ms=200).get(place, [])
            if not records:
                continue
            attempts += 1
            producer.begin_transaction()
            for record in records:
                producer.send(target, record.value)
            offsets = {place: OffsetAndMetadata(records[-1].offset + 1)}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if attempts % 2:
                producer.abort_transaction()
                consumer.seek(place, consumer.committed(place) or 0)
            else:
                producer.commit_transaction()
    assert attempts == 6
    assert committed(cluster, target) == [b"%d" % number for number in range(9)]


def test_unknown_member_cannot_commit_offsets_in_a_transaction(
    cluster: Cluster, begun: Callable[[], KafkaProducer]
) -> None:
    topic, producer = cluster.new_topic(), begun()
    producer.begin_transaction()
    producer.send(topic, b"v")
    stranger = ConsumerGroupMetadata(f"strangers-{topic}", 7, "nobody")
    with pytest.raises(TransactionFailed):
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(1)}, stranger)
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"next")
    assert committed(cluster, topic) == [b"next"]


def test_a_detached_transaction_is_ended_by_another_process(
    cluster: Cluster, begun: Callable[[], KafkaProducer]
) -> None:
    topic, producer = cluster.new_topic(), begun()
    producer.begin_transaction()
    producer.send(topic, b"handed over")
    handle = producer.detach_transaction()
    producer.close()
    program = [sys.executable, "-c", END_IT, cluster.bootstrap_servers, pickle.dumps(handle).hex()]
    if handle.transaction_version == 2:
        subprocess.run(program, check=True, timeout=TIMEOUT)
    end_transaction(handle, commit=True, bootstrap_servers=cluster.bootstrap_servers)
    end_transaction(handle, commit=True, bootstrap_servers=cluster.bootstrap_servers)
    assert committed(cluster, topic) == [b"handed over"]
    with pytest.raises(InvalidTxnState, match="CompleteCommit"):
        end_transaction(handle, commit=False, bootstrap_servers=cluster.bootstrap_servers)


def test_transaction_handle_is_void_when_another_producer_initializes(
    cluster: Cluster, begun: Callable[[], KafkaProducer]
) -> None:
    topic, producer = cluster.new_topic(), begun()
    producer.begin_transaction()
    producer.send(topic, b"aborted")
    handle: TransactionHandle = producer.detach_transaction()
    newer = begun()
    taken_over = f"of producer {newer.health()['producer_id']} with epoch {newer.health()['producer_epoch']}"
    with pytest.raises(ProducerFenced, match=taken_over):
        end_transaction(handle, commit=True, bootstrap_servers=cluster.bootstrap_servers)
    with newer.transaction():
        newer.send(topic, b"new")
    assert committed(cluster, topic) == [b"new"]
