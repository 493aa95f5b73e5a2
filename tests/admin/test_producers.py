"""Producers of two topics, and transactions that hang, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import ConsumerRecord, KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.admin.cluster_values import HangingTransaction
from pykafka2.driver.pollable import ToLeader
from pykafka2.errors import (
    IllegalArgument,
    InvalidProducerEpoch,
    NotLeaderOrFollower,
    ProducerFenced,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pykafka2.testing import Simulation
from tests.admin.worlds import World
from tests.broker.support.batches import batch

ORDERS = [TopicPartition("orders", number) for number in range(3)]
TRANSACTIONAL = 0x10
LOST_PRODUCER = 4_242


@pytest.fixture
def world(simulation: Simulation) -> Iterator[World]:
    """Leaders do not verify that a coordinator knows of a transaction, as before Kafka 3.6."""
    world = World(simulation, config={"transaction.partition.verification.enable": "false"})
    yield world
    world.close()


@pytest.fixture
def producer(world: World) -> Iterator[KafkaProducer]:
    """A producer with an open transaction."""
    producer = world.producer("txn", transactional_id="t", transaction_timeout_ms=800_000)
    producer.init_transactions()
    producer.begin_transaction()
    for partition in (0, 1):
        producer.send("orders", b"v", partition=partition).result(10)
    yield producer
    producer.close()


def leave_hanging(world: World, topic: str, partition: int) -> None:
    """Write a record of a transaction that no coordinator knows."""
    records = batch(
        producer_id=LOST_PRODUCER,
        producer_epoch=3,
        base_sequence=0,
        attributes=TRANSACTIONAL,
        timestamp=world.simulation.runtime.clock.wall_ms(),
    )
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=partition, records=records)]
    )
    request = ProduceRequest(transactional_id="lost", acks=-1, timeout_ms=5000, topic_data=[data])
    response = world.admin._cluster.request(request, ToLeader(topic, partition), max_version=11)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_producers_of_partitions_are_described(world: World, producer: KafkaProducer) -> None:
    world.fill("payments", [2, 0])
    payments = TopicPartition("payments", 0)
    described = world.admin.describe_producers([*ORDERS, payments])
    (state,) = described[ORDERS[0]]
    assert (state.last_sequence, state.transaction_start_offset) == (0, 0)
    assert state.coordinator_epoch in (None, 0)
    assert described[ORDERS[2]] == ()
    assert {one.transaction_start_offset for one in described[payments]} <= {None}


def test_producers_are_described_by_a_chosen_replica(world: World, producer: KafkaProducer) -> None:
    follower = 1 - world.cluster.partition("orders", 0).leader
    (state,) = world.admin.describe_producers([ORDERS[0]], broker_id=follower)[ORDERS[0]]
    assert state.transaction_start_offset == 0
    missing = TopicPartition("none", 0)
    outcomes = world.admin.describe_producers([missing], broker_id=0, raise_errors=False)
    assert isinstance(outcomes.errors[missing], UnknownTopicOrPartition | NotLeaderOrFollower)


@pytest.mark.gate
def test_transaction_of_a_live_coordinator_does_not_hang(
    simulation: Simulation, world: World, producer: KafkaProducer
) -> None:
    assert world.admin.find_hanging_transactions(older_than=0) == []
    simulation.sleep(400)
    assert world.admin.find_hanging_transactions(older_than=0) == []


@pytest.mark.gate
def test_hanging_transaction_is_found_and_aborted(simulation: Simulation, world: World) -> None:
    world.fill("orders", [2, 0, 0])
    leave_hanging(world, "orders", 0)
    assert world.admin.find_hanging_transactions() == []
    simulation.sleep(1300)
    (found,) = world.admin.find_hanging_transactions()
    assert found == HangingTransaction(
        ORDERS[0], LOST_PRODUCER, 3, -1, 2, found.last_timestamp, transactional_id=None
    )
    assert world.admin.find_hanging_transactions(topics=["payments"]) == []
    latest = dict.fromkeys(ORDERS[:1], "latest")
    assert world.admin.list_offsets(latest, isolation_level="read_committed")[ORDERS[0]].offset == 2
    world.admin.abort_transaction(found.partition, found.producer_id, found.producer_epoch)
    assert world.admin.find_hanging_transactions() == []
    assert world.admin.list_offsets(latest, isolation_level="read_committed")[ORDERS[0]].offset == 4
    world.fill("orders", [1], first_ms=world.simulation.runtime.clock.wall_ms())
    with world.member("g", isolation_level="read_committed") as consumer:
        consumer.assign(ORDERS[:1])
        records = [record.offset for polled in (1, 2) for record in _polled(consumer)]
    assert records == [4], "not the record of the aborted transaction; retention has deleted the first ones"


def _polled(consumer: KafkaConsumer) -> list[ConsumerRecord]:
    return [record for records in consumer.poll(timeout_ms=500).values() for record in records]


def test_abort_with_a_wrong_epoch_is_rejected(world: World) -> None:
    leave_hanging(world, "orders", 0)
    with pytest.raises(InvalidProducerEpoch):
        world.admin.abort_transaction(ORDERS[0], LOST_PRODUCER, 1)
    with pytest.raises(UnknownTopicOrPartition):
        world.admin.abort_transaction(TopicPartition("none", 0), LOST_PRODUCER, 3)
    with pytest.raises(IllegalArgument, match="producer_id"):
        world.admin.abort_transaction(ORDERS[0], -1, 3)


def test_open_transaction_is_terminated(world: World, producer: KafkaProducer) -> None:
    world.admin.force_terminate_transaction("t")
    assert world.admin.describe_transactions(["t"])["t"].state in ("PrepareAbort", "CompleteAbort", "Empty")
    with pytest.raises(ProducerFenced):
        producer.commit_transaction()


def test_transactions_are_filtered_by_age_and_pattern(
    simulation: Simulation, world: World, producer: KafkaProducer
) -> None:
    simulation.sleep(20)

    def names(**filters: object) -> list[str]:
        return [one.transactional_id for one in world.admin.list_transactions(**filters)]  # type: ignore[arg-type]

    assert names(longer_than=10) == ["t"]
    assert names(longer_than=60) == []
    assert names(pattern="t.*") == ["t"]
    assert names(pattern="x.*") == []
