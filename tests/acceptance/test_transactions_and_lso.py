"""A read_committed reader sees none of an aborted and all of a committed transaction; the LSO stops
at the open one.  The reader is our consumer; the writers are raw producers of transaction.version 1 and 2,
and ours.
"""

from __future__ import annotations

import pytest

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.testing.simulation import Simulation
from pykafka2.types import TopicPartition
from tests.broker.support.transactions import TOPICS, ClusterTransactions, Producer
from tests.gate import rest_in_gate

PLACES = [TopicPartition(topic, number) for topic, count in TOPICS.items() for number in range(count)]


def consumer_of(world: ClusterTransactions, isolation_level: str) -> KafkaConsumer:
    consumer = world.simulation.consumer(world.cluster, isolation_level=isolation_level)
    consumer.assign(PLACES)
    for place in PLACES:
        consumer.seek(place, 0)
    return consumer


def read_for(consumer: KafkaConsumer, world: ClusterTransactions, seconds: float = 2.0) -> list[bytes]:
    """Records received within this many virtual seconds, sorted."""
    values: list[bytes] = []
    deadline = world.simulation.now + seconds
    while world.simulation.now < deadline:
        for records in consumer.poll(timeout_ms=200).values():
            values += [record.value for record in records]
    return sorted(values)


@pytest.mark.gate
@pytest.mark.parametrize("version", [1, 2])
def test_read_committed_returns_committed_transactions_only(version: int) -> None:
    with Simulation(seed=18) as simulation:
        world = ClusterTransactions(simulation, transaction_version=version)
        committed, uncommitted = (
            consumer_of(world, level) for level in ("read_committed", "read_uncommitted")
        )
        producer = Producer(world).begin()
        for name, is_committed in (("first", True), ("gone", False), ("last", True)):
            for number, place in enumerate(PLACES):
                producer.send(f"{name}-{number}".encode(), *place)
            assert producer.end(committed=is_committed) == 0
            world.until("CompleteCommit" if is_committed else "CompleteAbort")
        wanted = sorted(f"{name}-{number}".encode() for name in ("first", "last") for number in range(4))
        assert read_for(committed, world) == wanted
        gone = [f"gone-{number}".encode() for number in range(4)]
        assert read_for(uncommitted, world) == sorted([*wanted, *gone])


@pytest.mark.gate
@pytest.mark.parametrize("version", [1, 2])
def test_the_last_stable_offset_stops_at_the_open_transaction(version: int) -> None:
    """One producer is open, another commits behind it: nothing from there is shown until the first ends."""
    with Simulation(seed=18) as simulation:
        world = ClusterTransactions(simulation, transaction_version=version)
        reader = consumer_of(world, "read_committed")
        early, open_one, later = (Producer(world, name).begin() for name in ("early", "open", "later"))
        early.send(b"1 before")
        assert early.end() == 0
        world.until("CompleteCommit", "early")
        open_one.send(b"2 open")
        later.send(b"3 committed behind it")
        assert later.end() == 0
        world.until("CompleteCommit", "later")
        data = world.read()
        assert (data.last_stable_offset, data.high_watermark) == (2, 5)
        assert read_for(reader, world) == [b"1 before"]
        assert open_one.end() == 0
        world.until("CompleteCommit", "open")
        assert world.read().last_stable_offset == 6
        assert read_for(reader, world) == [b"2 open", b"3 committed behind it"]


@pytest.mark.parametrize("version", rest_in_gate([2, 1]))
def test_our_producers_are_seen_whole_or_not_at_all_and_stop_the_reader_while_open(version: int) -> None:
    with Simulation(seed=18) as simulation:
        world = ClusterTransactions(simulation, transaction_version=version)
        reader = consumer_of(world, "read_committed")
        producers = [
            simulation.producer(world.cluster, transactional_id=name) for name in ("open", "later", "gone")
        ]
        for producer in producers:
            producer.init_transactions()
            producer.begin_transaction()
            for place in PLACES:
                producer.send(
                    place.topic, producer.health()["transaction_state"].encode(), partition=place[1]
                )
            producer.flush()
        open_one, later, gone = producers
        later.commit_transaction()
        gone.abort_transaction()
        assert read_for(reader, world) == []
        open_one.commit_transaction()
        assert read_for(reader, world) == [b"in transaction"] * 2 * len(PLACES)
