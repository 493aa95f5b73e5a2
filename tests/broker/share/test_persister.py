"""The client of the share coordinator on a simulated cluster: results, coalescing, moved coordinators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka2.broker.coordinators.internal_topics import SHARE_STATE_TOPIC, share_partition_key
from pykafka2.errors import (
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages import share_state as messages
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.coordinators.share.bench import batch
from tests.connections import LiveCluster

AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4

ENTRIES: dict[str, tuple[Any, ...]] = {
    "initialize": (messages.InitializeShareGroupStateRequestPartitionData, "state_epoch", "start_offset"),
    "read": (messages.ReadShareGroupStateRequestPartitionData, "leader_epoch"),
    "write": (messages.WriteShareGroupStateRequestPartitionData,),
    "delete": (messages.DeleteShareGroupStateRequestPartitionData,),
    "summarize": (messages.ReadShareGroupStateSummaryRequestPartitionData, "leader_epoch"),
}


class ShareClient:
    """The persister of one broker, about partition 0 of a topic for group "g"."""

    def __init__(self, cluster: KafkaCluster, broker: int = 0, topic: str = "t") -> None:
        self.cluster = cluster
        self.broker = broker
        self.topic_id = cluster.controller.image.topics[topic].id

    @property
    def key(self) -> str:
        return share_partition_key("g", self.topic_id, 0)

    def start(
        self, name: str, *arguments: Any, group: str = "g", partition: int = 0, **fields: Any
    ) -> list[Any]:
        """Start a call with the first fields of its entry. Return the list that gets its result."""
        kind, *names = ENTRIES[name]
        entry = kind(partition=partition, **dict(zip(names, arguments, strict=True)), **fields)
        results: list[Any] = []
        with self.cluster.lock:
            persister = self.cluster.broker(self.broker).parts.services.persister
            now = self.cluster.runtime.clock.monotonic()
            persister.call(group, self.topic_id, entry, lambda result, at: results.append(result), now)
        return results

    def write(self, offset: int, partition: int = 0, leader_epoch: int = 0) -> list[Any]:
        """Start to acknowledge one record."""
        accepted = (offset, offset, ACKNOWLEDGED, 1)
        return self.store(accepted, complete=offset + 1, partition=partition, leader_epoch=leader_epoch)

    def store(
        self,
        *batches: tuple[int, int, int, int],
        start: int = 0,
        complete: int,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> list[Any]:
        """Start to write batches: first and last offset, state, count."""
        return self.start(
            "write",
            partition=partition,
            state_epoch=0,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=complete,
            state_batches=[batch(*one) for one in batches],
        )


def acknowledged(result: Any) -> list[int]:
    """Return the acknowledged offsets of a read state."""
    return [
        offset
        for one in result.state_batches
        for offset in range(one.first_offset, one.last_offset + 1)
        if one.delivery_state == ACKNOWLEDGED
    ]


def test_first_call_creates_the_state_topic_and_calls_return_results(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"t": 2})
    client = ShareClient(cluster)
    summaries = client.start("summarize", 0)
    simulation.run_for(5.0)
    assert [(one.error_code, one.start_offset) for one in summaries] == [(0, -1)]
    config = cluster.controller.image.topics[SHARE_STATE_TOPIC].config
    assert [config.get(name) for name in ("cleanup.policy", "retention.ms", "min.insync.replicas")] == [
        ("delete",),
        -1,
        2,
    ]
    unread = client.start("read", 0)
    initialized = [client.start("initialize", 0, 5, partition=number) for number in range(2)]
    simulation.run_for(1.0)
    assert [one.error_code for one in unread] == [InvalidRequest.code]
    assert [one.error_code for (one,) in initialized] == [0, 0]
    deleted = client.start("delete")
    simulation.run_for(1.0)
    read = [client.start("read", 0, partition=number) for number in range(2)]
    simulation.run_for(1.0)
    assert [one.error_code for one in deleted] == [0]
    assert [one.error_code for (one,) in read] == [InvalidRequest.code, 0]


def test_calls_that_wait_share_a_request_in_order(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"t": 2})
    client = ShareClient(cluster)
    for number in range(2):
        client.start("initialize", 0, 0, partition=number)
    simulation.run_for(5.0)
    written = [client.write(offset, partition=offset % 2) for offset in range(6)]
    simulation.run_for(1.0)
    assert [one.error_code for (one,) in written] == [0] * 6
    requests = cluster.metrics().api("WriteShareGroupState").total.count
    # The two share partitions can have the same coordinator, but need not.
    assert 4 <= requests <= 6
    read = [client.start("read", 0, partition=number) for number in range(2)]
    simulation.run_for(1.0)
    assert [acknowledged(one) for (one,) in read] == [[0, 2, 4], [1, 3, 5]]


def test_read_waits_for_the_retries_of_an_earlier_write(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 2})
    client = ShareClient(cluster)
    for number in range(2):
        client.start("initialize", 0, 0, partition=number)
    simulation.run_for(5.0)
    rule = {"api": "WriteShareGroupState", "then": "error:COORDINATOR_NOT_AVAILABLE", "times": 2}
    cluster.controls.rule(**rule, between_brokers=True)
    written = [client.write(offset) for offset in range(2)]
    read, other = client.start("read", 0), client.start("read", 0, partition=1)
    simulation.run_for(0.05)
    assert [written, read] == [[[], []], []]
    assert [one.error_code for one in other] == [0]
    simulation.run_for(3.0)
    assert [one.error_code for (one,) in written] == [0, 0]
    assert [acknowledged(one) for one in read] == [[0, 1]]


def test_write_survives_a_moved_coordinator_and_fences_the_former_leader(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"t": 1})
    client, other = ShareClient(cluster), ShareClient(cluster, broker=1)
    client.start("initialize", 0, 0)
    simulation.run_for(5.0)
    client.write(0)
    simulation.run_for(1.0)
    for offset in (1, 2):
        coordinator = cluster.coordinator(client.key, "share")
        cluster.controls.move_coordinator(client.key, (coordinator + 1) % 3, "share")
        (written,) = (client.write(offset),)
        simulation.run_for(3.0)
        assert [one.error_code for one in written] == [0]
    crashed = cluster.coordinator(client.key, "share")
    if crashed != 0:
        cluster.controls.crash_broker(crashed)
    read = (other if crashed != 1 else client).start("read", 7)
    simulation.run_for(15.0)
    assert [acknowledged(one) for one in read] == [[0, 1, 2]]
    late = client.write(3, leader_epoch=6)
    simulation.run_for(2.0)
    assert [one.error_code for one in late] == [FencedLeaderEpoch.code]


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("is_applied", [False, True])
def test_write_that_overtakes_a_retried_one_is_not_undone_by_it(
    simulation: Simulation, is_applied: bool
) -> None:
    """The coordinator moves while a write is on its way: it is rejected, or stored without a response."""
    cluster = simulation.cluster(brokers=3, topics={"t": 1})
    controls = cluster.controls
    client = ShareClient(cluster)
    client.start("initialize", 0, 0)
    simulation.run_for(5.0)
    old = cluster.coordinator(client.key, "share")
    client.broker, new = (old + 1) % 3, (old + 2) % 3
    if is_applied:
        controls.lose_reply("WriteShareGroupState", broker=old, between_brokers=True)
    else:
        controls.hold("WriteShareGroupState", times=1, broker=old, between_brokers=True)
    first = client.store((0, 9, AVAILABLE, 1), (10, 12, ACKNOWLEDGED, 1), start=0, complete=3)
    simulation.run_for(0.02)
    controls.move_coordinator(client.key, new, "share")
    second = client.store((0, 5, ACKNOWLEDGED, 2), (6, 6, ARCHIVED, 1), start=4, complete=6)
    simulation.run_for(0.05)
    assert ([one.error_code for one in second], first) == ([0], [])
    controls.release("WriteShareGroupState")
    simulation.run_for(1.0)
    assert [one.error_code for one in first] == [0]
    read, summary = client.start("read", 0), client.start("summarize", 0)
    simulation.run_for(1.0)
    assert [(one.start_offset, one.delivery_complete_count) for one in summary] == [(4, 6)]
    states = [
        (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in read[0].state_batches
    ]
    assert states == [
        (4, 5, ACKNOWLEDGED, 2),
        (6, 6, ARCHIVED, 1),
        (7, 9, AVAILABLE, 1),
        (10, 12, ACKNOWLEDGED, 1),
    ]


def test_waiting_calls_about_two_topics_get_their_own_results(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"t": 2, "u": 1})
    t, u = ShareClient(cluster), ShareClient(cluster, topic="u")
    t.start("initialize", 0, 0)
    simulation.run_for(5.0)
    calls = [
        t.start("initialize", 0, 0, partition=1),
        t.start("initialize", 0, 0, partition=7),
        u.start("initialize", 0, 0),
        u.start("initialize", -1, 0),
    ]
    simulation.run_for(20.0)
    codes = [one.error_code for (one,) in calls]
    assert codes == [0, UnknownTopicOrPartition.code, 0, InvalidRequest.code]


@pytest.mark.gate
def test_lost_response_and_errors_that_pass_delay_a_call_by_a_second_at_most(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"t": 1})
    client = ShareClient(cluster)
    client.start("initialize", 0, 0)
    simulation.run_for(5.0)
    cluster.controls.lose_reply("WriteShareGroupState", between_brokers=True)
    written = client.write(0)
    simulation.run_for(0.5)
    assert [one.error_code for one in written] == [0]
    rule = cluster.controls.rule(
        api="WriteShareGroupState", then="error:NOT_COORDINATOR", between_brokers=True
    )
    written = client.write(1)
    simulation.run_for(8.0)
    assert written == []
    cluster.controls.remove_rule(rule)
    simulation.run_for(1.1)
    assert [one.error_code for one in written] == [0]


@pytest.mark.gate
def test_call_is_retried_while_its_coordinator_has_older_metadata(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    ShareClient(cluster).start("initialize", 0, 0)
    simulation.run_for(5.0)
    cluster.controls.hold_metadata(1)
    cluster.create_topic("late", 8)
    late = ShareClient(cluster, topic="late")
    keys = [share_partition_key("g", late.topic_id, number) for number in range(8)]
    coordinators = [cluster.coordinator(key, "share") for key in keys]
    results = [late.start("initialize", 0, 0, partition=number) for number in range(8)]
    simulation.run_for(2.0)
    assert set(coordinators) == {0, 1}
    assert [len(one) for one in results] == [1 - coordinator for coordinator in coordinators]
    cluster.controls.release_metadata(1)
    simulation.run_for(1.1)
    assert [one.error_code for (one,) in results] == [0] * 8


def test_coordinator_that_moves_has_the_topics_that_were_created_before(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    ShareClient(cluster).start("initialize", 0, 0)
    simulation.run_for(5.0)
    cluster.create_topic("late", 2)
    late = ShareClient(cluster, topic="late")
    cluster.controls.move_coordinator(late.key, 1 - cluster.coordinator(late.key, "share"), "share")
    results = late.start("initialize", 0, 0)
    simulation.run_for(1.0)
    assert [one.error_code for one in results] == [0]


def test_call_without_a_coordinator_fails_after_its_retries(simulation: Simulation) -> None:
    config = {"share.coordinator.state.topic.replication.factor": 3}
    cluster = simulation.cluster(brokers=1, topics={"t": 1}, config=config)
    results = ShareClient(cluster).start("initialize", 0, 0)
    simulation.run_for(10.0)
    assert results == []
    simulation.run_for(10.0)
    assert [one.error_code for one in results] == [CoordinatorNotAvailable.code]


def test_deleted_topic_takes_its_states_with_it_on_brokers(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    client = ShareClient(cluster)
    client.start("initialize", 0, 0)
    simulation.run_for(5.0)
    broker = cluster.broker(cluster.coordinator(client.key, "share"))

    def states() -> int:
        return sum(len(shard.states) for shard in broker.coordinators.shares.shards.values())

    assert states() == 1
    cluster.delete_topic("t")
    simulation.run_for(1.0)
    assert states() == 0


@pytest.mark.gate
@pytest.mark.slow
def test_states_are_on_disk_after_a_restart(tmp_path: Path) -> None:
    with KafkaCluster(1, {"t": 1}, data_dir=tmp_path) as cluster:
        client = ShareClient(cluster)
        for call in (lambda: client.start("initialize", 0, 0), lambda: client.write(3)):
            results = call()
            cluster.wait_until(lambda results=results: results)  # type: ignore[misc]
            assert results[0].error_code == 0
    with KafkaCluster(1, data_dir=tmp_path) as cluster:
        read = ShareClient(cluster).start("read", 0)
        cluster.wait_until(lambda: read)
        assert acknowledged(read[0]) == [3]


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_cluster_without_share_groups_has_no_share_coordinator(live: LiveCluster) -> None:
    broker = live.cluster.running.brokers[0]
    assert broker.coordinators._shares is None
    assert broker.parts._share_persister is None
