"""Commits of one group apply in order."""

from __future__ import annotations

from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages.group_records import OffsetCommitValue
from pykafka2.testing.simulation import Simulation
from tests.broker.group_bench import PARTITION, GroupBench


def test_commits_of_one_group_apply_in_the_order_of_their_arrival(simulation: Simulation) -> None:
    """Eight connections, replication held up meanwhile: the last one wins, and none is lost."""
    bench = GroupBench(simulation, brokers=3)
    assert bench.commit(0) == 0
    bench.cluster.controls.pause_followers()
    wires = [bench.wire(bench.coordinator) for _ in range(8)]
    for number, wire in enumerate(wires, start=1):
        asked = offsets.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=number, committed_metadata=""
        )
        topic = offsets.OffsetCommitRequestTopic(name="orders", partitions=[asked])
        wire.send(offsets.OffsetCommitRequest(group_id="billing", topics=[topic]), 9)
        bench.advance(0.01)
    assert not any(wire.has_reply() for wire in wires)
    bench.cluster.controls.resume_followers()
    for wire in wires:
        answer = wire.receive(offsets.OffsetCommitRequest, 9)[1]
        assert answer.topics[0].partitions[0].error_code == 0
    assert bench.committed() == 8
    values = [
        OffsetCommitValue.decode(value[2:], 4) for value in bench.cluster.log(*PARTITION).values() if value
    ]
    assert [value.offset for value in values] == list(range(9))
