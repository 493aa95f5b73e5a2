"""Commits of one group apply in order: from many connections in virtual time, on one over real sockets."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.group_records import OffsetCommitValue
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.bench import PARTITION, ClusterBench
from tests.broker.support.raw_client import RawClient


def test_commits_of_one_group_apply_in_the_order_of_their_arrival(simulation: Simulation) -> None:
    """Eight connections, replication held up meanwhile: the last one wins, and none is lost."""
    bench = ClusterBench(simulation, brokers=3)
    assert bench.commit(0) == 0
    bench.cluster.controls.pause_followers()
    wires = [bench.wire(bench.coordinator) for _ in range(8)]
    for number, wire in enumerate(wires, start=1):
        requested = offsets.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=number, committed_metadata=""
        )
        topic = offsets.OffsetCommitRequestTopic(name="orders", partitions=[requested])
        wire.send(offsets.OffsetCommitRequest(group_id="billing", topics=[topic]), 9)
        bench.advance(0.01)
    assert not any(wire.has_response() for wire in wires)
    bench.cluster.controls.resume_followers()
    for wire in wires:
        answer = wire.receive(offsets.OffsetCommitRequest, 9)[1]
        assert answer.topics[0].partitions[0].error_code == 0
    assert bench.committed() == 8
    values = [
        OffsetCommitValue.decode(value[2:], 4) for value in bench.cluster.log(*PARTITION).values() if value
    ]
    assert [value.offset for value in values] == list(range(9))


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"offsets.topic.num.partitions": 1})
def test_the_commits_of_a_group_apply_in_order(
    kafka_cluster: KafkaCluster, connect: Callable[[], RawClient], wait_for: Callable[..., None]
) -> None:
    wire = connect()
    wait_for(lambda: wire.call(FindCoordinatorRequest(key="g"), 3).error_code == 0)

    def commit(offset: int) -> offsets.OffsetCommitRequest:
        requested = offsets.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        topics = [offsets.OffsetCommitRequestTopic(name="t", partitions=[requested])]
        return offsets.OffsetCommitRequest(group_id="g", topics=topics)

    wait_for(lambda: wire.call(commit(0), 7).topics[0].partitions[0].error_code == 0)
    for offset in (*range(1, 60), 7):  # an explicit lower one is allowed: the last one counts
        wire.send(commit(offset), 7)
    for _ in range(60):
        answer = wire.receive(offsets.OffsetCommitRequest, 7)[1]
        assert answer.topics[0].partitions[0].error_code == 0
    topics = [offsets.OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
    answer = wire.call(offsets.OffsetFetchRequest(group_id="g", topics=topics), 5)
    assert answer.topics[0].partitions[0].committed_offset == 7
    assert kafka_cluster.log("__consumer_offsets", 0).log_end_offset >= 61
