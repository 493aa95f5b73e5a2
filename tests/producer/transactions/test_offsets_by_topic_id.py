"""TxnOffsetCommit names topics by id from Kafka 4.4 on (KIP-1319): a recreated topic gets no old offsets."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.errors import GroupIdNotFound, KafkaTimeoutError, StaleMemberEpoch, TransactionFailed
from pykafka2.protocol.messages.transaction import TxnOffsetCommitRequest
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.testing import KafkaCluster, Simulation
from pykafka2.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

ORDERS, REFUNDS = TopicPartition("orders", 0), TopicPartition("refunds", 0)
TOPICS = {"orders": 1, "refunds": 1, "copies": 1}


class Copier:
    """A consumer of two topics, and a producer in whose transactions the offsets are committed."""

    def __init__(self, simulation: Simulation, *, as_version: str = "4.4", protocol: str = "classic") -> None:
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(
            2, TOPICS, as_version=as_version, config={"auto.create.topics.enable": False}
        )
        self.producer: KafkaProducer[Any, Any] = simulation.producer(
            self.cluster, transactional_id="copier", max_block_ms=5000
        )
        self.producer.init_transactions()
        self.consumer: KafkaConsumer[Any, Any] = simulation.consumer(
            self.cluster,
            "orders",
            "refunds",
            group_id="g",
            group_protocol=protocol,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self.positions: dict[TopicPartition, OffsetAndMetadata] = {}

    def consume(self) -> None:
        """Read three records of each topic."""
        with self.simulation.producer(self.cluster) as other:
            for number in range(3):
                other.send("orders", b"%d" % number)
                other.send("refunds", b"%d" % number)
        seen: list[Any] = []
        while len(seen) < 6:
            for partition, records in self.consumer.poll(timeout_ms=1000).items():
                seen += records
                self.positions[partition] = OffsetAndMetadata(records[-1].offset + 1)

    def poll_until(self, expected: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Poll until the consumer has these positions; return them."""
        for _ in range(100):
            self.consumer.poll(timeout_ms=500)
            offsets = self.consumer.next_offsets()
            if {partition: one.offset for partition, one in offsets.items()} == expected:
                break
        return offsets

    def recreate(self, topic: str) -> None:
        self.cluster.delete_topic(topic)
        self.simulation.sleep(1)
        self.cluster.create_topic(topic, 1)
        self.simulation.sleep(1)

    def requests(self) -> list[tuple[int, list[tuple[str, bytes]]]]:
        """Return version, and names and ids of the topics, of each TxnOffsetCommit."""
        entries = self.cluster.history.entries(TxnOffsetCommitRequest)
        return [
            (entry.version, [(topic.name, topic.topic_id) for topic in entry.request.topics])
            for entry in entries
        ]

    def id_of(self, topic: str) -> bytes:
        return self.cluster.controller.image.topics[topic].id

    @property
    def committed(self) -> dict[TopicPartition, int]:
        return dict(self.cluster.group("g").offsets)


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_are_committed_by_the_ids_that_the_consumer_read(
    simulation: Simulation, protocol: str
) -> None:
    copier = Copier(simulation, protocol=protocol)
    copier.consume()
    with copier.producer.transaction():
        copier.producer.send("copies", b"v")
        copier.producer.send_offsets_to_transaction(copier.positions, copier.consumer.group_metadata())
    simulation.sleep(1)
    assert copier.committed == {ORDERS: 3, REFUNDS: 3}
    ((version, topics),) = copier.requests()
    assert version == 6
    assert sorted(topics) == sorted(("", copier.id_of(topic)) for topic in ("orders", "refunds"))


def test_brokers_before_4_4_get_names(simulation: Simulation) -> None:
    copier = Copier(simulation, as_version="4.3")
    copier.consume()
    with copier.producer.transaction():
        copier.producer.send_offsets_to_transaction(copier.positions, copier.consumer.group_metadata())
    simulation.sleep(1)
    assert copier.committed == {ORDERS: 3, REFUNDS: 3}
    ((version, topics),) = copier.requests()
    assert (version, sorted(topics)) == (5, [("orders", ZERO_UUID), ("refunds", ZERO_UUID)])


@pytest.mark.parametrize("is_known", [True, False])
def test_group_without_a_consumer_uses_the_ids_that_the_producer_knows(
    simulation: Simulation, is_known: bool
) -> None:
    copier = Copier(simulation)
    if is_known:
        copier.producer.partitions_for("orders")
    with copier.producer.transaction():
        copier.producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(7)}, "g")
    simulation.sleep(1)
    assert copier.committed == {ORDERS: 7}
    ((version, topics),) = copier.requests()
    expected = ("", copier.id_of("orders")) if is_known else ("orders", ZERO_UUID)
    assert (version, topics) == (6 if is_known else 5, [expected])


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_topic_recreated_after_the_read_never_gets_its_old_offsets(
    simulation: Simulation, protocol: str
) -> None:
    copier = Copier(simulation, protocol=protocol)
    copier.consume()
    copier.producer.begin_transaction()
    copier.producer.send("copies", b"v")
    copier.recreate("orders")
    copier.producer.partitions_for("orders")  # so that the producer knows the new id
    with pytest.raises(KafkaTimeoutError, match=r"orders-0.*UNKNOWN_TOPIC_ID|UnknownTopicId"):
        copier.producer.send_offsets_to_transaction(copier.positions, copier.consumer.group_metadata())
    assert len(copier.requests()) > 2, "it is retriable, as the brokers may not know a new topic yet"
    copier.producer.abort_transaction()
    simulation.sleep(1)
    assert copier.committed == {}


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_next_offsets_are_of_the_recreated_topic_once_it_was_polled(
    simulation: Simulation, protocol: str
) -> None:
    copier = Copier(simulation, protocol=protocol)
    copier.consume()
    copier.producer.begin_transaction()
    copier.recreate("orders")
    expected = {ORDERS: 0, REFUNDS: 3}
    offsets = copier.poll_until(expected)
    copier.producer.send_offsets_to_transaction(offsets, copier.consumer.group_metadata())
    copier.producer.commit_transaction()
    simulation.sleep(1)
    assert copier.committed == expected
    assert copier.requests()[-1][0] == 6


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_kept_over_several_polls_never_reach_the_recreated_topic(
    simulation: Simulation, protocol: str
) -> None:
    copier = Copier(simulation, protocol=protocol)
    copier.consume()
    copier.producer.begin_transaction()
    copier.recreate("orders")
    copier.poll_until({ORDERS: 0, REFUNDS: 3})
    for _ in range(2):  # a call again is not a transaction of its own
        metadata = copier.consumer.group_metadata()
    with pytest.raises(KafkaTimeoutError, match=r"orders-0.*UNKNOWN_TOPIC_ID|UnknownTopicId"):
        copier.producer.send_offsets_to_transaction(copier.positions, metadata)
    copier.producer.abort_transaction()
    assert copier.committed == {}

    copier.consumer.seek(ORDERS, 0)
    copier.consumer.seek(REFUNDS, 3)
    copier.positions = {}
    copier.consume()
    with copier.producer.transaction():
        copier.producer.send_offsets_to_transaction(copier.positions, copier.consumer.group_metadata())
    simulation.sleep(1)
    assert copier.committed == {ORDERS: 3, REFUNDS: 6}


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_that_commits_each_poll_continues_in_the_recreated_topic(
    simulation: Simulation, protocol: str
) -> None:
    copier = Copier(simulation, protocol=protocol)
    for topic_was_recreated in (False, True):
        if topic_was_recreated:
            copier.recreate("orders")
        copier.consume()
        with copier.producer.transaction():
            copier.producer.send_offsets_to_transaction(copier.positions, copier.consumer.group_metadata())
        simulation.sleep(1)
    assert copier.committed == {ORDERS: 3, REFUNDS: 6}


@pytest.mark.gate
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_next_offsets_of_the_old_topic_never_reach_the_recreated_one(
    simulation: Simulation, protocol: str
) -> None:
    copier = Copier(simulation, protocol=protocol)
    copier.consume()
    offsets = copier.consumer.next_offsets()
    copier.consumer.group_metadata()
    copier.recreate("orders")
    copier.consume()
    copier.producer.begin_transaction()
    with pytest.raises(KafkaTimeoutError, match=r"orders-0.*UNKNOWN_TOPIC_ID|UnknownTopicId"):
        copier.producer.send_offsets_to_transaction(offsets, copier.consumer.group_metadata())
    copier.producer.abort_transaction()
    assert copier.committed == {}


@pytest.mark.gate
def test_topic_recreated_before_the_commit_never_gets_its_old_offsets(simulation: Simulation) -> None:
    copier = Copier(simulation)
    copier.consume()
    with copier.producer.transaction():
        copier.producer.send_offsets_to_transaction(copier.positions, copier.consumer.group_metadata())
        copier.recreate("orders")
    simulation.sleep(1)
    assert copier.committed == {REFUNDS: 3}


@pytest.mark.gate
@pytest.mark.parametrize(
    ("generation", "group", "error"), [(4, "none", GroupIdNotFound), (9, "g", StaleMemberEpoch)]
)
def test_lost_membership_is_abortable(
    simulation: Simulation, generation: int, group: str, error: type[Exception]
) -> None:
    copier = Copier(simulation, protocol="consumer")
    copier.consume()
    own = copier.consumer.group_metadata()
    copier.producer.partitions_for("orders")
    metadata = ConsumerGroupMetadata(group, generation, own.member_id, None)
    copier.producer.begin_transaction()
    with pytest.raises(TransactionFailed, match=error.__name__):
        copier.producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(2)}, metadata)
    copier.producer.abort_transaction()
    copier.producer.begin_transaction()
    copier.producer.commit_transaction()
