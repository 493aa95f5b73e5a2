"""A topic is deleted and created again under a running producer and consumer: UNKNOWN_TOPIC_ID is handled,
and no record of the old topic is in the new one.
"""

from __future__ import annotations

import pytest

from pykafka2 import errors
from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import data_of, fetch_request, partition_of, produce_request
from tests.broker.support.leaders import append
from tests.broker.support.raw_client import RawClient
from tests.error_codes import UNKNOWN_TOPIC_OR_PARTITION

KEY = ("t", 0)


def test_the_old_id_is_unknown_to_produce_and_fetch(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"t": 1})
    simulation.run_for(1)
    append(cluster, KEY, b"old")
    old = cluster.controller.image.topics["t"].id
    cluster.delete_topic("t")
    cluster.create_topic("t")
    new = cluster.controller.image.topics["t"].id
    assert new != old
    wire = RawClient(cluster.brokers[cluster.partition(*KEY).leader].address, simulation=simulation)

    def fetch(topic_id: bytes) -> tuple[int, bytes]:
        partition = FetchPartition(
            partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=-1
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1000,
            topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
        )
        (response,) = wire.call(request, 17).responses
        assert response.topic_id == topic_id
        (answer,) = response.partitions
        return answer.error_code, bytes(answer.records or b"")

    def produce(topic_id: bytes) -> int:
        data = PartitionProduceData(index=0, records=batch([b"new"]))
        request = ProduceRequest(
            acks=1, timeout_ms=1000, topic_data=[TopicProduceData(topic_id=topic_id, partition_data=[data])]
        )
        (response,) = wire.call(request, 13).responses
        assert response.topic_id == topic_id
        (answer,) = response.partition_responses
        return int(answer.error_code)

    assert fetch(old) == (errors.UnknownTopicId.code, b"")
    assert produce(old) == errors.UnknownTopicId.code
    assert fetch(new) == (0, b"")
    assert produce(new) == 0
    simulation.run_for(1)
    assert cluster.log("t", 0).values() == [b"new"]
    wire.close()


@pytest.mark.slow
def test_under_a_running_producer_and_consumer(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"t": 1}, config={"auto.create.topics.enable": False})
    producer = simulation.producer(cluster)
    consumer = simulation.consumer(cluster, "t", auto_offset_reset="earliest")
    got: list[bytes | None] = []

    def read(count: int) -> None:
        deadline = simulation.now + 60
        while len(got) < count:
            assert simulation.now < deadline, got
            for records in consumer.poll(timeout_ms=1000).values():
                got.extend(record.value for record in records)

    for number in range(20):
        producer.send("t", value=b"old %d" % number)
    producer.flush(timeout=10)
    read(20)
    cluster.delete_topic("t")
    simulation.run_for(1)
    cluster.create_topic("t", 1, 3)
    # Fewer than before: the consumer's position is beyond the end, so it is reset.
    futures = [producer.send("t", value=b"new %d" % number) for number in range(5)]
    producer.flush(timeout=60)
    offsets = [future.result().offset for future in futures]
    assert sorted(offsets) == list(range(5))
    kept = cluster.log("t", 0).values()
    assert kept == [b"new %d" % number for number in range(5)]
    got.clear()
    read(5)
    assert got == kept


def test_topic_deletion_answers_waiting_requests_and_reaches_a_stopped_broker(simulation: Simulation) -> None:
    """Waiting requests are answered at once. The restarted broker deletes its old data."""
    cluster = simulation.cluster(brokers=3, topics={"t": 1}, controller=0)
    simulation.run_for(1)
    append(cluster, KEY, b"old")
    simulation.run_for(1)
    leader = cluster.partition(*KEY).leader
    absent = next(broker for broker in (1, 2) if broker != leader)
    cluster.controls.crash_broker(absent)
    cluster.controls.pause_followers()
    simulation.run_for(1)
    writer, reader = (RawClient(cluster.brokers[leader].address, simulation=simulation) for _ in range(2))
    writer.send(produce_request(*KEY, batch([b"waits"]), timeout_ms=60_000), 12)
    reader.send(fetch_request(*KEY, 1, max_wait_ms=60_000), 12)
    simulation.run_for(1)
    assert not writer.has_response()
    assert not reader.has_response()
    deleted = simulation.now
    cluster.delete_topic("t")
    assert partition_of(writer.receive(ProduceRequest, 12)[1]).error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert data_of(reader.receive(FetchRequest, 12)[1]).error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert simulation.now - deleted < 0.5
    cluster.controls.resume_followers()
    cluster.create_topic("t", assignment=[[leader, absent]])
    append(cluster, KEY, b"new")
    cluster.controls.restart_broker(absent)
    assert simulation.wait_until(lambda: absent in cluster.partition(*KEY).isr, 30)
    simulation.run_for(1)
    for broker in (leader, absent):
        assert cluster.log("t", 0, broker=broker).values() == [b"new"], f"broker {broker}"
    (other,) = {0, 1, 2} - {leader, absent}
    assert KEY not in cluster.brokers[other].replicas.replicas, "and the third has nothing left of it"
    writer.close()
    reader.close()
