"""Log directories of brokers, and the replicas in them (DescribeLogDirs, AlterReplicaLogDirs; KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pykafka2.admin.arguments import partitions_of, text, whole_number
from pykafka2.admin.cluster import checked_brokers
from pykafka2.admin.cluster_values import LogDir, ReplicaLog, ReplicaLogDir
from pykafka2.admin.offsets import by_topic
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.places import at_brokers
from pykafka2.admin.rounds import Part, Results, Rounds
from pykafka2.cluster.arguments import checked_partition, describe_argument
from pykafka2.driver.pollable import ToNode
from pykafka2.errors import IllegalArgument, InvalidTopicException, KafkaError, error_of, error_or_none
from pykafka2.text import type_of
from pykafka2.types import TopicPartition, TopicPartitionReplica

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.log_dirs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest


class LogDirsAdmin:
    """The calls of `KafkaAdminClient` about log directories. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[int, dict[str, LogDir]]:
        """Return the log directories of brokers by path, with the replicas in them.

        Args:
            brokers: broker ids; None for all.
            partitions: the partitions whose replicas are returned; None for all.

        Raises:
            ItemsFailed: some brokers failed (unless `raise_errors` is False), such as with
                `ClusterAuthorizationFailed` and `KafkaTimeoutError`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        wanted = None if partitions is None else partitions_of("partitions", partitions)
        outcomes = at_brokers(
            self._cluster,
            "describe_log_dirs",
            checked_brokers(self._cluster, brokers, timeout),
            lambda broker: _describe_request(wanted),
            lambda response, broker: _log_dirs(response),
            timeout,
        )
        return outcomes.checked("describe_log_dirs", raise_errors)

    def describe_replica_log_dirs(
        self,
        replicas: Iterable[TopicPartitionReplica],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartitionReplica, ReplicaLogDir]:
        """Return the directory of each replica, and the one that it is being moved to.

        A replica that the broker does not have has no directory: `current` is None.

        Raise the errors of `describe_log_dirs`, by replica.
        """
        wanted = [_replica("replicas", replica) for replica in _listed("replicas", replicas)]

        def divide(
            pending: list[TopicPartitionReplica], left: float
        ) -> tuple[list[Part[TopicPartitionReplica, ReplicaLogDir]], dict[TopicPartitionReplica, KafkaError]]:
            return [part(broker, some) for broker, some in _by_broker(pending).items()], {}

        def part(
            broker: int, some: list[TopicPartitionReplica]
        ) -> Part[TopicPartitionReplica, ReplicaLogDir]:
            request = _describe_request([TopicPartition(one.topic, one.partition) for one in some])
            return Part(
                some, request, ToNode(broker), lambda response: (_replica_log_dirs(response, some), {})
            )

        outcomes = Rounds(self._cluster, "describe_replica_log_dirs", timeout).run(wanted, divide)
        return outcomes.checked("describe_replica_log_dirs", raise_errors)

    def alter_replica_log_dirs(
        self,
        targets: Mapping[TopicPartitionReplica, str],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartitionReplica, None]:
        """Move replicas to other log directories of their brokers.

        Return when the brokers have begun; `describe_replica_log_dirs` shows the progress. For a replica
        that the broker does not have yet, the directory is kept until the replica is created.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `LogDirNotFound`,
                `ReplicaNotAvailable`, `KafkaStorageError`, `ClusterAuthorizationFailed`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        if not isinstance(targets, Mapping):
            raise IllegalArgument(f"targets must be {{TopicPartitionReplica: path}}, not {type_of(targets)}")
        wanted = {
            _replica("targets", replica): text(f"the directory of {replica}", path)
            for replica, path in targets.items()
        }

        def divide(
            pending: list[TopicPartitionReplica], left: float
        ) -> tuple[list[Part[TopicPartitionReplica, None]], dict[TopicPartitionReplica, KafkaError]]:
            return [part(broker, some) for broker, some in _by_broker(pending).items()], {}

        def part(broker: int, some: list[TopicPartitionReplica]) -> Part[TopicPartitionReplica, None]:
            request = _alter_request({replica: wanted[replica] for replica in some})
            return Part(some, request, ToNode(broker), lambda response: _altered(response, broker))

        outcomes = Rounds(self._cluster, "alter_replica_log_dirs", timeout).run(wanted, divide)
        return outcomes.checked("alter_replica_log_dirs", raise_errors)


def _listed(argument: str, values: Iterable[TopicPartitionReplica]) -> list[TopicPartitionReplica]:
    if isinstance(values, TopicPartitionReplica):
        raise IllegalArgument(f"{argument}={values!r} must be a list of TopicPartitionReplica")
    return list(values)


def _replica(argument: str, replica: object) -> TopicPartitionReplica:
    if not isinstance(replica, tuple) or len(replica) != 3:
        raise IllegalArgument(
            f"{argument} must contain TopicPartitionReplica(topic, partition, broker_id), not "
            f"{describe_argument(replica)}"
        )
    topic, number, broker = replica
    try:
        partition = checked_partition((topic, number))
    except (TypeError, ValueError, InvalidTopicException) as error:
        raise IllegalArgument(f"{argument} contains {describe_argument(replica)}: {error}") from None
    return TopicPartitionReplica(
        partition.topic, partition.partition, whole_number(f"broker_id of {partition}", broker, 0)
    )


def _by_broker(replicas: list[TopicPartitionReplica]) -> dict[int, list[TopicPartitionReplica]]:
    shares: dict[int, list[TopicPartitionReplica]] = {}
    for replica in replicas:
        shares.setdefault(replica.broker_id, []).append(replica)
    return shares


def _describe_request(partitions: list[TopicPartition] | None) -> DescribeLogDirsRequest:
    from pykafka2.protocol.messages.log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

    if partitions is None:
        return DescribeLogDirsRequest(topics=None)
    return DescribeLogDirsRequest(
        topics=[
            DescribableLogDirTopic(topic=name, partitions=numbers)
            for name, numbers in by_topic(partitions).items()
        ]
    )


def _log_dirs(response: Any) -> dict[str, LogDir]:
    if response.error_code:
        raise error_of(response.error_code)
    found: dict[str, LogDir] = {}
    for result in response.results:
        replicas = {
            TopicPartition(topic.name, entry.partition_index): ReplicaLog(
                entry.partition_size, entry.offset_lag, entry.is_future_key
            )
            for topic in result.topics
            for entry in topic.partitions
        }
        found[result.log_dir] = LogDir(
            {partition: replicas[partition] for partition in sorted(replicas)},
            error_or_none(result.error_code),
            result.total_bytes,
            result.usable_bytes,
            result.is_cordoned,
        )
    # Before version 3 of the message a refusal is one directory without a name.
    if list(found) == [""] and found[""].error is not None:
        raise found[""].error
    return {path: found[path] for path in sorted(found)}


def _replica_log_dirs(
    response: Any, replicas: list[TopicPartitionReplica]
) -> dict[TopicPartitionReplica, ReplicaLogDir]:
    dirs = _log_dirs(response)
    found: dict[TopicPartitionReplica, ReplicaLogDir] = {}
    for replica in replicas:
        partition = TopicPartition(replica.topic, replica.partition)
        current, future = (
            next(
                (
                    (path, log_dir.replicas[partition].offset_lag)
                    for path, log_dir in dirs.items()
                    if partition in log_dir.replicas and log_dir.replicas[partition].is_future is is_future
                ),
                (None, -1),
            )
            for is_future in (False, True)
        )
        found[replica] = ReplicaLogDir(*current, *future)
    return found


def _alter_request(targets: Mapping[TopicPartitionReplica, str]) -> AlterReplicaLogDirsRequest:
    from pykafka2.protocol.messages.log_dirs import (
        AlterReplicaLogDir,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirTopic,
    )

    dirs: dict[str, list[TopicPartition]] = {}
    for replica, path in targets.items():
        dirs.setdefault(path, []).append(TopicPartition(replica.topic, replica.partition))
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirTopic(name=name, partitions=numbers)
                    for name, numbers in by_topic(partitions).items()
                ],
            )
            for path, partitions in dirs.items()
        ]
    )


def _altered(response: Any, broker: int) -> Results[TopicPartitionReplica, None]:
    done: dict[TopicPartitionReplica, None] = {}
    errors: dict[TopicPartitionReplica, KafkaError] = {}
    for topic in response.results:
        for entry in topic.partitions:
            replica = TopicPartitionReplica(topic.topic_name, entry.partition_index, broker)
            if entry.error_code:
                errors[replica] = error_of(entry.error_code)
            else:
                done[replica] = None
    return done, errors
