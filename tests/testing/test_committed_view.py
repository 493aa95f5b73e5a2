"""`cluster.log(...).values(isolation="read_committed")` is what a consumer of that level is given."""

from __future__ import annotations

import json

import pytest

from pykafka2.errors import ConfigurationError
from pykafka2.testing import KafkaCluster, LogView, Simulation
from pykafka2.testing.remote.as_data import from_data, to_data
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.broker.support.transactions import ClusterTransactions, Producer


def committed(world: ClusterTransactions) -> list[bytes | None]:
    return world.cluster.log("t", 0).values(isolation="read_committed")


def test_committed_view_equals_a_read_committed_consumer_at_every_moment(simulation: Simulation) -> None:
    """Two transactions at once: one is committed, one aborted, and plain records stand between them."""
    world = ClusterTransactions(simulation, brokers=1)
    first, second = Producer(world, "one").begin(), Producer(world, "two").begin()
    seen: list[list[bytes | None]] = []

    def look() -> None:
        simulation.run_for(0.5)  # markers are written after the answer
        assert committed(world) == world.values()
        seen.append(committed(world))

    first.send(b"1a")
    look()
    second.send(b"2a")
    first.send(b"1b")
    first.end(committed=True)
    look()
    second.send(b"2b")
    first.send(b"1c")
    second.end(committed=False)
    look()
    first.end(committed=True)
    look()
    assert seen == [[], [b"1a"], [b"1a", b"1b"], [b"1a", b"1b", b"1c"]]
    view = world.cluster.log("t", 0)
    assert view.values() == [b"1a", b"2a", b"1b", b"2b", b"1c"]
    assert [record.offset for record in view.records(isolation="read_committed")] == [0, 2, 5]
    assert view.last_stable_offset == view.high_watermark == view.log_end_offset == 8


def test_committed_view_ends_at_the_first_open_transaction(simulation: Simulation) -> None:
    world = ClusterTransactions(simulation, brokers=1)
    producer = Producer(world).begin()
    producer.send(b"committed")
    producer.end()
    simulation.run_for(0.5)
    producer.send(b"open")
    view = world.cluster.log("t", 0)
    assert (view.last_stable_offset, view.high_watermark) == (2, 3)
    assert view.values(isolation="read_committed") == [b"committed"]
    assert view.keys(isolation="read_committed") == [None]


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_unreplicated_records_are_not_committed(kafka_cluster: KafkaCluster) -> None:
    with RawClient(kafka_cluster.brokers[kafka_cluster.partition("t", 0).leader].address) as wire:
        produce(wire, "t", 0, batch([b"safe"]))
        kafka_cluster.controls.pause_followers()
        for _ in range(2):  # a fetch under way may still take the first one
            produce(wire, "t", 0, batch([b"not safe"]), acks=1)
    view = kafka_cluster.log("t", 0)
    assert len(view.values()) == 3
    assert view.values(isolation="read_committed") == [b"safe", b"not safe"][: view.high_watermark]


def test_committed_view_is_the_same_in_another_process(simulation: Simulation) -> None:
    world = ClusterTransactions(simulation, brokers=1)
    producer = Producer(world).begin()
    for value, is_committed in ((b"a", True), (b"b", False), (b"c", True)):
        producer.send(value)
        producer.end(committed=is_committed)
        simulation.run_for(0.5)
    crossed: LogView = from_data(LogView, json.loads(json.dumps(to_data(world.cluster.log("t", 0)))))
    assert crossed.values(isolation="read_committed") == committed(world) == [b"a", b"c"]


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_an_isolation_that_kafka_does_not_have_is_named(kafka_cluster: KafkaCluster) -> None:
    with pytest.raises(
        ConfigurationError, match=r"isolation='read_commited' is illegal. Choose one of .*'read_committed'\?"
    ):
        kafka_cluster.log("t", 0).values(isolation="read_commited")
