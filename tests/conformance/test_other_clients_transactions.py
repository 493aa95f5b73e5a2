"""Other people's transactional producers and read_committed consumers, on the bundled broker and on Apache's.

librdkafka, aiokafka and kafka-python speak transaction.version 1 (partitions are added before they are
written to), Java's producer speaks version 2 (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from .brokers import Cluster
from .transactional_peers import (
    AiokafkaTransactions,
    ConfluentTransactions,
    Fenced,
    JavaTransactions,
    KafkaPythonTransactions,
    TransactionalPeer,
    aiokafka_reads,
    confluent_reads,
    java_reads,
)

JAVA = pytest.param("java", marks=pytest.mark.real_kafka)
WRITERS = ["confluent", "aiokafka", "kafka-python", JAVA]
NewProducer = Callable[[str], TransactionalPeer]


@pytest.fixture
def new_producer(request: pytest.FixtureRequest, cluster: Cluster, writer: str) -> Iterator[NewProducer]:
    """`new_producer(transactional_id)` of the library `writer`; all are closed after the test."""
    made: list[TransactionalPeer] = []

    def new(transactional_id: str) -> TransactionalPeer:
        servers = cluster.bootstrap_servers
        if writer == "java":
            made.append(JavaTransactions(request.getfixturevalue("java"), servers, transactional_id))
        elif writer == "kafka-python":
            made.append(KafkaPythonTransactions(servers, transactional_id))
        elif writer == "aiokafka":
            made.append(AiokafkaTransactions(servers, transactional_id))
        else:
            made.append(ConfluentTransactions(servers, transactional_id))
        return made[-1]

    yield new
    for producer in made:
        producer.close()


def write_three(producer: TransactionalPeer, topic: str) -> None:
    """Committed, aborted, committed."""
    for name, is_committed in ((b"first", True), (b"gone", False), (b"last", True)):
        producer.begin()
        producer.send(topic, 0, name)
        producer.send(topic, 1, name)
        if is_committed:
            producer.commit()
        else:
            producer.abort()


@pytest.mark.parametrize("writer", WRITERS)
def test_committed_data_is_read_and_aborted_data_is_not(
    request: pytest.FixtureRequest, cluster: Cluster, new_producer: NewProducer, writer: str
) -> None:
    topic = cluster.new_topic(2)
    write_three(new_producer(f"{topic}-writer"), topic)
    assert confluent_reads(cluster.bootstrap_servers, topic, b"last") == [b"first", b"last"]
    assert aiokafka_reads(cluster.bootstrap_servers, topic, b"last") == [b"first", b"last"]
    if writer == "java":
        bridge = request.getfixturevalue("java")
        assert java_reads(bridge, cluster.bootstrap_servers, topic, 2) == [b"first", b"last"]


def send_and_commit(producer: TransactionalPeer, topic: str) -> None:
    """Libraries learn in one step or the other that they are fenced."""
    producer.send(topic, 0, b"too late")
    producer.commit()


@pytest.mark.parametrize("writer", WRITERS)
def test_a_new_producer_fences_the_old_one_and_aborts_its_transaction(
    cluster: Cluster, new_producer: NewProducer, writer: str
) -> None:
    topic = cluster.new_topic(2)
    old = new_producer(topic)
    old.begin()
    old.send(topic, 0, b"of the old one")
    new = new_producer(topic)
    with pytest.raises(Fenced):
        send_and_commit(old, topic)
    new.begin()
    new.send(topic, 0, b"of the new one")
    new.commit()
    assert confluent_reads(cluster.bootstrap_servers, topic, b"of the new one") == [b"of the new one"]


@pytest.mark.parametrize("writer", WRITERS)
def test_offsets_take_effect_with_the_transaction(
    cluster: Cluster, new_producer: NewProducer, writer: str
) -> None:
    topic = cluster.new_topic(2)
    group = f"{topic}-group"
    producer = new_producer(topic)
    producer.begin()
    producer.send(topic, 0, b"x")
    producer.offset(group, topic, 0, 5)
    producer.commit()
    assert committed(cluster, group, topic) == 5
    producer.begin()
    producer.offset(group, topic, 0, 9)
    producer.abort()
    assert committed(cluster, group, topic) == 5


def committed(cluster: Cluster, group: str, topic: str) -> int:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group,
            "isolation.level": "read_committed",
        }
    )
    try:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    finally:
        consumer.close()
    offset: int = found.offset
    return offset
