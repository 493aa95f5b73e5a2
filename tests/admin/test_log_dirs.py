"""Log directories of two brokers and the replicas of two topics in them, in virtual time."""

from __future__ import annotations

import pytest

from pykafka2 import NewTopic, TopicPartition
from pykafka2.admin.cluster_values import ReplicaLogDir
from pykafka2.errors import IllegalArgument, KafkaTimeoutError, LogDirNotFound, ReplicaNotAvailable
from pykafka2.protocol.messages.log_dirs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from pykafka2.structs import TopicPartitionReplica
from tests.admin.worlds import World

SINGLE = [TopicPartition("single", number) for number in range(2)]


@pytest.fixture
def single(world: World) -> World:
    """With a topic whose partitions have one replica each, on different brokers."""
    world.admin.create_topics([NewTopic("single", assignment={0: [0], 1: [1]})])
    world.admin.wait_for_topics(["single"])
    world.fill("single", [3, 0])
    return world


def test_log_directories_of_all_brokers_are_described(single: World) -> None:
    single.cluster.history.clear()
    dirs = single.admin.describe_log_dirs()
    assert list(dirs) == [0, 1]
    assert single.cluster.history.count(DescribeLogDirsRequest) == 2
    (first,), (second,) = dirs[0].values(), dirs[1].values()
    assert first.error is None
    assert first.replicas[SINGLE[0]].size_bytes > 0
    assert first.replicas[SINGLE[0]].offset_lag == 0
    assert SINGLE[1] not in first.replicas
    assert second.replicas[SINGLE[1]].size_bytes == 0
    assert TopicPartition("orders", 0) in first.replicas
    assert TopicPartition("orders", 0) in second.replicas


def test_chosen_brokers_and_partitions_are_described(single: World) -> None:
    dirs = single.admin.describe_log_dirs([1], partitions=SINGLE)
    assert list(dirs) == [1]
    (directory,) = dirs[1].values()
    assert list(directory.replicas) == [SINGLE[1]]


def test_broker_that_is_down_has_its_own_error(single: World) -> None:
    single.cluster.controls.crash_broker(1)
    outcomes = single.admin.describe_log_dirs([0, 1], timeout=3, raise_errors=False)
    assert isinstance(outcomes.errors[1], KafkaTimeoutError)
    assert len(outcomes[0]) == 1


def test_directory_of_each_replica_is_described(single: World) -> None:
    replicas = [TopicPartitionReplica("single", 0, 0), TopicPartitionReplica("single", 0, 1)]
    described = single.admin.describe_replica_log_dirs(replicas)
    (path,) = single.admin.describe_log_dirs([0])[0]
    assert described[replicas[0]] == ReplicaLogDir(path, 0)
    assert described[replicas[1]] == ReplicaLogDir(None, -1)


@pytest.mark.gate
def test_replicas_are_moved_to_directories(single: World) -> None:
    (path,) = single.admin.describe_log_dirs([0])[0]
    (other,) = single.admin.describe_log_dirs([1])[1]
    moved, wrong = TopicPartitionReplica("single", 0, 0), TopicPartitionReplica("orders", 0, 0)
    missing, second = TopicPartitionReplica("single", 0, 1), TopicPartitionReplica("single", 1, 1)
    single.cluster.history.clear()
    outcomes = single.admin.alter_replica_log_dirs(
        {moved: path, wrong: "/nowhere", missing: other, second: other}, raise_errors=False
    )
    assert (outcomes[moved], outcomes[second]) == (None, None)
    assert isinstance(outcomes.errors[wrong], LogDirNotFound)
    assert isinstance(outcomes.errors[missing], ReplicaNotAvailable | KafkaTimeoutError)
    assert single.cluster.history.count(AlterReplicaLogDirsRequest) >= 2


def test_invalid_replicas_are_refused(world: World) -> None:
    with pytest.raises(IllegalArgument, match="TopicPartitionReplica"):
        world.admin.describe_replica_log_dirs([TopicPartition("orders", 0)])  # type: ignore[list-item]
    with pytest.raises(IllegalArgument, match="list"):
        world.admin.describe_replica_log_dirs(TopicPartitionReplica("orders", 0, 0))  # type: ignore[arg-type]
    with pytest.raises(IllegalArgument, match="directory"):
        world.admin.alter_replica_log_dirs({TopicPartitionReplica("orders", 0, 0): ""})
    with pytest.raises(IllegalArgument, match="broker"):
        world.admin.describe_log_dirs(["0"])  # type: ignore[list-item]
