"""`read_range` where leaders change: a log that was cut, a leader that does not know it was replaced."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.errors import LogTruncated, OffsetOutOfRange
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import QUICK, KafkaCluster, Simulation
from pykafka2.types import TopicPartition
from tests.consumer.fetch.test_truncation import ORDERS_0, EpochCluster


@pytest.fixture
def scripted() -> EpochCluster:
    """Three batches of two, the last two of the second leader."""
    cluster = EpochCluster()
    cluster.write(b"0", b"1")
    cluster.epoch = 2
    cluster.write(b"2", b"3")
    cluster.write(b"4", b"5")
    return cluster


def test_a_log_cut_between_two_pieces_is_raised_with_its_place(scripted: EpochCluster) -> None:
    with scripted.consumer() as consumer:
        pieces = consumer.read_range(ORDERS_0, 0, 8, max_bytes=1)
        assert [next(pieces).values for _ in range(3)] == [[b"0", b"1"], [b"2", b"3"], [b"4", b"5"]]
        scripted.runtime.run_for(0.1)
        scripted.elect(4)
        scripted.write(b"new 4", b"new 5")
        scripted.write(b"new 6", b"new 7")
        with pytest.raises(
            LogTruncated, match=r"orders-0.*truncated to offset 4 after records up to 6"
        ) as caught:
            list(pieces)
        assert (caught.value.offset, caught.value.leader_epoch) == (4, 2)


def test_broker_without_epoch_history_is_read_by_offset(scripted: EpochCluster) -> None:
    with scripted.consumer() as consumer:
        pieces = consumer.read_range(ORDERS_0, 0, 6, max_bytes=1)
        next(pieces)
        scripted.runtime.run_for(0.1)
        scripted.knows_epochs = False
        assert [value for piece in pieces for value in piece.values] == [b"2", b"3", b"4", b"5"]


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=12) as simulation:
        yield simulation


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    """Ten of twenty records are a new leader's; the old leader does not know it, and the metadata come from
    it.
    """
    cluster = simulation.cluster(brokers=3, topics={"orders": 1}, config=dict(QUICK))
    write(simulation, cluster)
    old = cluster.partition(*ORDERS_0).leader
    cluster.controls.hold_metadata(old)
    cluster.controls.move_leader(ORDERS_0, next(one for one in range(3) if one != old))
    cluster.controls.disconnect_next(MetadataRequest, times=10_000, broker=old)
    write(simulation, cluster)
    cluster.controls.clear()
    for other in range(3):
        if other != old:
            cluster.controls.disconnect_next(MetadataRequest, times=10_000, broker=other)
    return cluster


def write(simulation: Simulation, cluster: KafkaCluster) -> None:
    with simulation.producer(cluster) as producer:
        for value in range(10):
            producer.send("orders", b"%d" % value, partition=0)


def test_replaced_leader_does_not_end_a_range_beyond_its_log(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    def hear_of_it() -> None:
        simulation.sleep(4)
        cluster.controls.release_metadata()

    simulation.spawn(hear_of_it)
    with simulation.consumer(cluster) as consumer:
        pieces = list(consumer.read_range(TopicPartition("orders", 0), 15, 20))
        assert [offset for piece in pieces for offset in piece.offsets] == [15, 16, 17, 18, 19]


@pytest.mark.gate
def test_offset_out_of_range_is_raised_after_five_seconds_without_a_newer_leader(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    with simulation.consumer(cluster) as consumer:
        began = simulation.now
        with pytest.raises(OffsetOutOfRange, match="orders-0 at offset 15"):
            list(consumer.read_range(TopicPartition("orders", 0), 15, 20))
        assert 5 <= simulation.now - began <= 6
