"""Retention on running brokers, DeleteRecords, log directories."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import errors
from pykafka2.errors import for_code
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from pykafka2.protocol.messages.topics import DeleteRecordsRequest
from pykafka2.testing.cluster import Topic
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import (
    data_of,
    delete_records_request,
    deleted,
    error_name,
    fetch,
    fetch_request,
    produce,
    produce_request,
)
from tests.broker.support.leaders import append, ends
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

KEY = ("t", 0)
one_broker = pytest.mark.kafka(brokers=1, topics={"t": 1})


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=5) as world:
        yield world


def test_retention_is_applied_every_log_retention_check_interval(simulation: Simulation) -> None:
    cluster = simulation.cluster(
        brokers=2,
        topics={"t": Topic(configs={"retention.ms": 6000})},
        config={"log.retention.check.interval.ms": 30_000},
    )
    append(cluster, KEY, b"old")
    simulation.run_for(29)
    assert cluster.log(*KEY).values() == [b"old"]
    append(cluster, KEY, b"young")
    simulation.run_for(2)
    # Both are in one segment, whose largest timestamp counts.
    assert cluster.log(*KEY).values() == [b"old", b"young"]
    cluster.controls.roll_segments(KEY)
    simulation.run_for(30)
    for broker in range(2):
        log = cluster.log(*KEY, broker=broker)
        assert (log.log_start_offset, log.log_end_offset, log.values()) == (2, 2, [])
    append(cluster, KEY, b"next")
    simulation.run_for(1)
    assert ends(cluster, KEY) == [3, 3]


def test_apply_retention_deletes_the_segments_of_the_chosen_partitions(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"t": Topic(configs={"retention.bytes": 0}), "u": 1})
    append(cluster, KEY, b"a")
    append(cluster, ("u", 0), b"kept")
    assert cluster.controls.apply_retention(("u", 0)) == 0
    assert cluster.controls.apply_retention() == 1
    assert cluster.log(*KEY).log_start_offset == 1
    assert cluster.log("u", 0).values() == [b"kept"]


@one_broker
def test_waiting_fetch_below_the_new_log_start_is_out_of_range(live: LiveCluster, wire: RawClient) -> None:
    produce(wire, *KEY, batch(timestamp=0))
    wire.send(fetch_request(*KEY, 0, max_wait_ms=10_000, min_bytes=10_000), 12)
    live.wait_for(lambda: live.cluster.broker(0).replicas.fetches.waiting() == 1)
    live.controls.apply_retention()
    data = wire.receive(FetchRequest, 12)[1].responses[0].partitions[0]
    assert for_code(data.error_code).__name__ == "OffsetOutOfRange"
    assert fetch(wire, *KEY, 1).error_code == 0


@one_broker
def test_rolled_segment_completes_a_waiting_fetch(live: LiveCluster) -> None:
    reader, writer = live.leader(*KEY), live.leader(*KEY)
    produce(writer, *KEY, batch())
    reader.send(fetch_request(*KEY, 0, max_wait_ms=10_000, min_bytes=10_000), 12)
    live.wait_for(lambda: live.cluster.broker(0).replicas.fetches.waiting() == 1)
    produce(writer, *KEY, batch())
    assert live.history.entries("Fetch")[0].answered_at is None
    live.controls.roll_segments(KEY)
    produce(writer, *KEY, batch())
    data = reader.receive(FetchRequest, 12)[1].responses[0].partitions[0]
    assert len(data.records or b"") == 2 * len(batch()), "the rest of the segment"
    assert (live.history.entries("Fetch")[0].latency or 99) < 5, "not by its timeout"


# ---------------------------------------------------------------------- DeleteRecords


def delete(
    wire: RawClient,
    offset: int,
    *,
    topic: str = "t",
    partition: int = 0,
    version: int = 2,
    timeout_ms: int = 5000,
) -> tuple[int, str]:
    """Return the low watermark and the error."""
    request = delete_records_request(topic, partition, offset, timeout_ms=timeout_ms)
    return deleted(wire.call(request, version))


@one_broker
def test_delete_records_moves_the_log_start_offset(live: LiveCluster, wire: RawClient) -> None:
    produce(wire, *KEY, batch([b"a", b"b", b"c"]))
    for version, offset, low in ((0, 1, 1), (1, 0, 1), (2, 2, 2), (2, -1, 3)):
        assert delete(wire, offset, version=version) == (low, "none")
    assert fetch(wire, *KEY, 2).error_code == errors.OffsetOutOfRange.code
    assert live.cluster.log(*KEY).values() == []
    assert produce(wire, *KEY, batch()).base_offset == 3


@pytest.mark.kafka(
    brokers=2,
    topics={
        "t": 1,
        "compacted": Topic(configs={"cleanup.policy": "compact"}),
        "both": Topic(configs={"cleanup.policy": "compact,delete"}),
    },
)
def test_invalid_delete_records_requests_are_rejected(live: LiveCluster, wire: RawClient) -> None:
    produce(wire, *KEY, batch())
    assert delete(wire, 2) == (-1, "OffsetOutOfRange")
    assert delete(wire, -2) == (-1, "OffsetOutOfRange")
    assert delete(wire, 0, partition=7) == (-1, "UnknownTopicOrPartition")
    assert delete(wire, 0, topic="nosuch") == (-1, "UnknownTopicOrPartition")
    other = live.connect(1 - live.cluster.partition(*KEY).leader)
    assert delete(other, 0) == (-1, "NotLeaderOrFollower")
    assert delete(live.leader("compacted", 0), 0, topic="compacted") == (-1, "PolicyViolation")
    assert delete(live.leader("both", 0), 0, topic="both") == (0, "none")
    live.cluster.create_topic("__consumer_offsets", 1)
    assert (
        delete(live.leader("__consumer_offsets", 0), 0, topic="__consumer_offsets")[1]
        == "InvalidTopicException"
    )


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_delete_records_waits_for_live_replicas_only(live: LiveCluster, wire: RawClient) -> None:
    produce(wire, *KEY, batch([b"a", b"b"]))
    leading = live.cluster.partition(*KEY).leader
    assert delete(wire, 1) == (1, "none")
    assert {one.log_start_offset for one in live.cluster.partition(*KEY).replicas.values()} == {1}
    live.controls.pause_followers()
    produce(wire, *KEY, batch(), acks=1)
    produce(wire, *KEY, batch(), acks=1)  # a fetch under way can still read the first one
    assert live.cluster.partition(*KEY).high_watermark < 4
    assert delete(wire, 4) == (-1, "OffsetOutOfRange"), "records above the high watermark cannot be deleted"
    wire.send(delete_records_request(*KEY, 2, timeout_ms=200), 2)
    # The smallest log start of the live replicas has not moved.
    assert deleted(wire.receive(DeleteRecordsRequest, 2)[1]) == (1, "RequestTimedOut")
    assert live.cluster.partition(*KEY).replicas[leading].log_start_offset == 2, "the deletion has begun"
    wire.send(delete_records_request(*KEY, 2, timeout_ms=60_000), 2)
    live.wait_for(lambda: live.cluster.broker(leading).replicas.deletes.waiting() == 1)
    live.controls.crash_broker(1 - leading)
    # Only live replicas count; the leader learns of the crash from new metadata.
    assert deleted(wire.receive(DeleteRecordsRequest, 2)[1]) == (2, "none")


def test_delete_records_with_offset_minus_one_deletes_up_to_the_high_watermark(
    simulation: Simulation,
) -> None:
    """Records that no follower has copied stay."""
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    wire = RawClient(cluster.broker(cluster.partition(*KEY).leader).address, simulation=simulation)
    for value in (b"a", b"b"):
        wire.call(produce_request(*KEY, batch([value])), 12)
    simulation.run_for(1)
    cluster.controls.pause_followers()
    simulation.run_for(1)
    wire.call(produce_request(*KEY, batch([b"kept"]), acks=1), 12)
    view = cluster.partition(*KEY)
    assert (view.high_watermark, view.log_end_offset) == (2, 3)
    wire.send(delete_records_request(*KEY, -1, timeout_ms=5_000), 2)
    simulation.run_for(1)
    cluster.controls.resume_followers()
    assert deleted(wire.receive(DeleteRecordsRequest, 2)[1]) == (2, "none")
    assert {one.log_start_offset for one in cluster.partition(*KEY).replicas.values()} == {2}
    assert cluster.log(*KEY).values() == [b"kept"]
    wire.close()


def test_follower_adopts_the_log_start_offset_of_its_leader(simulation: Simulation) -> None:
    """Each response has the offset; a follower deletes segments before it, and keeps it as a leader."""
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    for value in (b"a", b"b", b"c"):
        append(cluster, KEY, value)
        cluster.controls.roll_segments(KEY)
        simulation.run_for(1)
    leading = cluster.partition(*KEY).leader
    with cluster.lock:
        cluster.broker(leading).replicas.log_manager.delete_records(
            {KEY: 2}, simulation.now, lambda done: None, simulation.now
        )
    simulation.run_for(2)
    follower = cluster.broker(1 - leading).replicas.replicas[KEY]
    assert follower.log.log_start_offset == 2
    assert next(iter(follower.log.segments)).base_offset == 2
    cluster.controls.move_leader(KEY, 1 - leading)
    assert cluster.log(*KEY).values() == [b"c"]
    wire = RawClient(cluster.broker(1 - leading).address, simulation=simulation)
    responses = [data_of(wire.call(fetch_request(*KEY, offset), 12)).error_code for offset in (0, 1, 2)]
    assert responses == [errors.OffsetOutOfRange.code] * 2 + [0], "below its start and at it"
    wire.close()


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_delete_records_with_timeout_zero_checks_once(live: LiveCluster) -> None:
    """librdkafka's test 0081 expects that only a partition without followers meets the timeout."""
    live.cluster.create_topic("alone", 1, replication_factor=1)
    for topic, expected in (("alone", (2, "none")), ("t", (0, "RequestTimedOut"))):
        wire = live.leader(topic, 0)
        produce(wire, topic, 0, batch([b"a", b"b"]))
        live.controls.pause_followers()  # otherwise one could be fast enough
        assert delete(wire, -1, topic=topic, timeout_ms=0) == expected
        live.controls.resume_followers()
        view = live.cluster.partition(topic, 0)
        assert view.replicas[view.leader].log_start_offset == 2


def test_leader_change_completes_a_waiting_delete_records(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": 1})
    append(cluster, KEY, b"a")
    simulation.run_for(1)
    leading = cluster.partition(*KEY).leader
    cluster.controls.pause_followers()
    simulation.run_for(1)
    wire = RawClient(cluster.broker(leading).address, simulation=simulation)
    wire.send(delete_records_request(*KEY, 1, timeout_ms=60_000), 2)
    simulation.run_for(5)
    assert not wire.has_response()
    cluster.controls.move_leader(KEY, 1 - leading)
    assert deleted(wire.receive(DeleteRecordsRequest, 2)[1]) == (-1, "NotLeaderOrFollower")
    wire.close()


# ---------------------------------------------------------------------- log directories


@pytest.mark.kafka(brokers=1, topics={"t": 2, "u": 1})
@pytest.mark.parametrize("version", range(1, 6))
def test_describe_log_dirs_returns_partition_sizes(wire: RawClient, version: int) -> None:
    produce(wire, "t", 1, batch())

    def sizes(topics: list[DescribableLogDirTopic] | None) -> dict[tuple[str, int], int]:
        (directory,) = wire.call(DescribeLogDirsRequest(topics=topics), version).results
        assert (directory.error_code, directory.log_dir) == (0, "/tmp/kafka-logs")
        return {
            (topic.name, one.partition_index): one.partition_size
            for topic in directory.topics
            for one in topic.partitions
        }

    assert sizes(None) == {("t", 0): 0, ("t", 1): len(batch()), ("u", 0): 0}
    assert sizes([DescribableLogDirTopic(topic="t", partitions=[1, 9])]) == {("t", 1): len(batch())}
    assert sizes([]) == {}


def move_replica(wire: RawClient, path: str, topic: str) -> str:
    """Move the first partition of a topic to a directory and return the error."""
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    return error_name(wire.call(request, 2).results[0].partitions[0].error_code)


@one_broker
def test_replicas_can_only_move_to_the_directory_where_they_are(wire: RawClient) -> None:
    assert move_replica(wire, "/tmp/kafka-logs", "t") == "none"
    assert move_replica(wire, "/elsewhere", "t") == "LogDirNotFound"
    assert move_replica(wire, "/tmp/kafka-logs", "nosuch") == "UnknownTopicOrPartition"


@pytest.mark.kafka(brokers=1, topics={"t": 4}, config={"log.dirs": "/one, /two"})
def test_replicas_are_spread_over_log_directories_and_moved(live: LiveCluster, wire: RawClient) -> None:
    produce(wire, *KEY, batch())

    def places() -> dict[tuple[str, int], str]:
        results = wire.call(DescribeLogDirsRequest(topics=None), 4).results
        assert [one.log_dir for one in results] == ["/one", "/two"]
        return {
            (topic.name, one.partition_index): directory.log_dir
            for directory in results
            for topic in directory.topics
            for one in topic.partitions
        }

    before = places()
    assert sorted(before.values()) == ["/one", "/one", "/two", "/two"]
    to = "/one" if before["t", 0] == "/two" else "/two"
    assert move_replica(wire, to, "t") == "none"
    assert places() == {**before, ("t", 0): to}
    assert live.cluster.log(*KEY).log_end_offset == 1
    assert move_replica(wire, "/three", "t") == "LogDirNotFound"
    assert move_replica(wire, "/two", "later") == "UnknownTopicOrPartition"
    live.cluster.create_topic("later")
    assert places()["later", 0] == "/two"
    live.cluster.delete_topic("t")
    assert places() == {("later", 0): "/two"}
