"""Idempotent producers on brokers: lost responses, new leaders, truncation."""

from __future__ import annotations

import pytest

from pykafka2 import errors
from pykafka2.protocol.messages.produce import PartitionProduceResponse, ProduceRequest
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.testing.cluster import Topic
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch, view
from tests.broker.support.data_requests import mark, produce, produce_request, producers_of
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

one_broker = pytest.mark.kafka(brokers=1, topics={"t": 1})


def send(wire: RawClient, sequence: int, *, count: int = 1, epoch: int = 0) -> PartitionProduceResponse:
    records = batch([b"x"] * count, producer_id=9, producer_epoch=epoch, base_sequence=sequence)
    return produce(wire, "t", 0, records)


@pytest.mark.kafka(brokers=1, topics={"t": Topic(configs={"message.timestamp.type": "LogAppendTime"})})
def test_retry_in_a_topic_with_log_append_time_gets_its_first_offset(live: LiveCluster) -> None:
    wire = live.leader()
    assert send(wire, 0).log_append_time_ms > 0
    again = send(wire, 0)
    assert (again.error_code, again.base_offset) == (0, 0)
    assert len(live.cluster.log("t", 0).values()) == 1


@one_broker
def test_a_retry_after_a_lost_reply_is_kept_once(live: LiveCluster) -> None:
    """The retry on another connection gets the first offset, and the log has one record."""
    live.controls.lose_reply(ProduceRequest)
    records = batch([b"once"], producer_id=9, producer_epoch=0, base_sequence=0)
    first = live.leader()
    first.send(produce_request("t", 0, records), 12)
    assert first.is_closed_by_broker()
    again = produce(live.leader(), "t", 0, records)
    assert (again.error_code, again.base_offset) == (0, 0)
    assert live.cluster.log("t", 0).values() == [b"once"]


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"transaction.partition.verification.enable": False})
def test_replicated_batches_and_markers_are_not_checked_for_sequences(live: LiveCluster) -> None:
    """A follower accepts the batches of its leader; a marker has no sequence and changes none."""
    wire = live.leader()
    assert send(wire, 4711).error_code == 0
    assert mark(wire, 9, committed=True) == 0
    assert send(wire, 4712).error_code == 0
    live.controls.crash_broker(live.leader_id())
    wire = live.leader()
    assert send(wire, 4712).base_offset == 2
    assert send(wire, 4713).base_offset == 3


@pytest.mark.kafka(brokers=3, topics={"t": 1})
def test_new_leader_rebuilds_producer_sequences_from_its_log(live: LiveCluster) -> None:
    assert send(live.leader(), 0).base_offset == 0
    live.controls.crash_broker(live.leader_id())
    assert send(live.leader(), 0).base_offset == 0
    assert send(live.leader(), 2).error_code == errors.OutOfOrderSequenceNumber.code
    assert len(live.cluster.log("t", 0).values()) == 1


@pytest.mark.kafka(brokers=2, topics={"t": Topic(replication_factor=2)})
def test_truncation_removes_sequences_of_removed_batches(live: LiveCluster) -> None:
    """The batches that only the old leader had are removed with their sequences: a retry is appended."""
    old = live.leader_id()
    wire = live.leader()
    send(wire, 0)
    live.controls.pause_followers()
    records = batch([b"lost"], producer_id=9, producer_epoch=0, base_sequence=1)
    assert produce(wire, "t", 0, records, acks=1).base_offset == 1
    live.controls.move_leader(("t", 0), 1 - old)
    live.controls.resume_followers()
    live.wait_for(lambda: live.cluster.log("t", 0, old).log_end_offset == 1)
    live.controls.move_leader(("t", 0), old)
    assert producers_of(live.leader())[9].last_sequence == 0
    assert send(live.leader(), 1).base_offset == 1


@pytest.mark.gate
def test_idle_producer_ids_expire() -> None:
    with Simulation(seed=35) as simulation:
        # An hour instead of a day, to play less idle time.
        cluster = simulation.cluster(1, {"t": 1}, config={"producer.id.expiration.ms": 3_600_000})
        log = cluster.brokers[0].replicas.log_of(("t", 0))
        now_ms = simulation.clock.wall_ms()
        records = batch([b"x"], producer_id=9, producer_epoch=0, base_sequence=5, timestamp=now_ms)
        log.append_as_leader(view(records), 0)
        simulation.run_for(3_500)
        assert log.producers.get(9) is not None
        simulation.run_for(1_200)
        assert log.producers.get(9) is None


@pytest.mark.kafka(brokers=2)
def test_producer_ids_come_in_blocks_and_never_repeat(live: LiveCluster) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    wires = [live.connect(), live.connect(1)]
    ids = [wire.call(request, 5).producer_id for wire in wires for _ in range(3)]
    assert ids == [0, 1, 2, 1000, 1001, 1002]
