"""Log start, committed offset, last stable offset, high watermark, log end, as the glossary says: one
scenario of what moves each of them, and what does not.

      log start <= committed .. last stable offset <= high watermark <= log end
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import TopicPartition
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka2.records.batch import TRANSACTIONAL_FLAG
from pykafka2.testing import KafkaCluster, Simulation
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import marker_request, partition_of, produce_request
from tests.broker.support.raw_client import RawClient

KEY = TopicPartition("t", 0)
PRODUCER = 7


class Partition:
    """One partition on two brokers, as consumers and replicas see it."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        config = {"transaction.partition.verification.enable": False, "offsets.topic.num.partitions": 1}
        self.cluster: KafkaCluster = simulation.cluster(brokers=2, topics={"t": 1}, config=config)
        servers = self.cluster.bootstrap_servers
        self.reader = simulation.consumer(self.cluster)
        self.committed_reader = simulation.consumer(self.cluster, isolation_level="read_committed")
        leader = self.cluster.partition(*KEY).leader
        self.wire = RawClient(self.cluster.broker(leader).address, simulation=simulation)
        first = RawClient(servers.split(",")[0], simulation=simulation)
        while first.call(FindCoordinatorRequest(key="g"), 3).error_code:
            simulation.run_for(0.2)  # the offsets topic is being made
        first.close()
        simulation.run_for(1)
        self.group = RawClient(
            self.cluster.broker(self.cluster.coordinator("g")).address, simulation=simulation
        )

    def close(self) -> None:
        self.wire.close()
        self.group.close()

    def produce(self, *values: bytes, acks: int = -1) -> None:
        now = self.cluster.runtime.clock.wall_ms()
        request = produce_request("t", 0, batch(values, timestamp=now), acks=acks)
        assert partition_of(self.wire.call(request, 12)).error_code == 0

    def begin(self, *values: bytes) -> None:
        """Write within a transaction."""
        records = batch(
            values,
            timestamp=self.cluster.runtime.clock.wall_ms(),
            attributes=TRANSACTIONAL_FLAG,
            producer_id=PRODUCER,
            producer_epoch=0,
            base_sequence=0,
        )
        assert (
            partition_of(
                self.wire.call(produce_request("t", 0, records, transactional_id="tid"), 11)
            ).error_code
            == 0
        )

    def end(self) -> None:
        """Commit it: the coordinator's marker."""
        answer = self.wire.call(marker_request(PRODUCER, committed=True), 2)
        assert answer.markers[0].topics[0].partitions[0].error_code == 0

    def commit(self, offset: int) -> None:
        requested = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        topics = [OffsetCommitRequestTopic(name="t", partitions=[requested])]
        answer = self.group.call(OffsetCommitRequest(group_id="g", topics=topics), 7)
        assert answer.topics[0].partitions[0].error_code == 0

    def delete(self, offset: int) -> int:
        requested = DeleteRecordsPartition(partition_index=0, offset=offset)
        topics = [DeleteRecordsTopic(name="t", partitions=[requested])]
        answer = (
            self.wire.call(DeleteRecordsRequest(topics=topics, timeout_ms=5000), 2).topics[0].partitions[0]
        )
        assert answer.error_code == 0
        return answer.low_watermark

    @property
    def committed(self) -> int:
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        answer = self.group.call(OffsetFetchRequest(group_id="g", topics=topics), 5)
        return answer.topics[0].partitions[0].committed_offset

    @property
    def offsets(self) -> tuple[int, int, int, int, int]:
        """Log start, committed, last stable offset, high watermark, log end."""
        start = self.reader.beginning_offsets([KEY])[KEY]
        high = self.reader.end_offsets([KEY])[KEY]
        stable = self.committed_reader.end_offsets([KEY])[KEY]
        view = self.cluster.partition(*KEY)
        leader = view.replicas[view.leader]
        assert (start, high) == (leader.log_start_offset, leader.high_watermark), (
            "clients see the broker's own"
        )
        return start, self.committed, stable, high, leader.log_end_offset


@pytest.fixture
def partition(simulation: Simulation) -> Iterator[Partition]:
    made = Partition(simulation)
    yield made
    made.close()


def test_each_operation_moves_its_partition_offsets(partition: Partition) -> None:
    controls, run_for = partition.cluster.controls, partition.simulation.run_for
    assert partition.offsets == (0, -1, 0, 0, 0)

    partition.produce(b"0", b"1", b"2")
    assert partition.offsets == (0, -1, 3, 3, 3)

    partition.commit(2)
    assert partition.offsets == (0, 2, 3, 3, 3), "a commit is the group's own affair"

    controls.pause_followers()
    run_for(1)
    partition.produce(b"3", acks=1)
    assert partition.offsets == (0, 2, 3, 3, 4), "the log's end alone: no other replica has it"
    controls.resume_followers()
    run_for(1)
    assert partition.offsets == (0, 2, 4, 4, 4)

    partition.begin(b"4", b"5")
    partition.produce(b"6")
    assert partition.offsets == (0, 2, 4, 7, 7), "an open transaction holds back what is stable"
    partition.end()
    run_for(1)
    assert partition.offsets == (0, 2, 8, 8, 8), "the marker has an offset of its own"

    assert partition.delete(3) == 3
    assert partition.offsets == (3, 2, 8, 8, 8), "the group's offset stays, though it cannot be read any more"
    partition.commit(8)
    assert partition.delete(-1) == 8
    assert partition.offsets == (8, 8, 8, 8, 8)
    assert partition.cluster.log(*KEY).values() == []

    partition.produce(b"next")
    assert partition.offsets == (8, 8, 9, 9, 9)
    starts = {one.log_start_offset for one in partition.cluster.partition(*KEY).replicas.values()}
    assert starts == {8}
