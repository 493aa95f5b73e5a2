"""DescribeLogDirs and AlterReplicaLogDirs: a broker has one log directory, held in memory.

The responses are those of a Kafka broker with a single directory: moving a replica to it has no effect, and
any other path is not found (KIP-113).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.handlers.registry import handles, refuses
from pykafka2.errors import BrokerError, LogDirNotFound
from pykafka2.protocol.messages.log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.replication.key import Key
    from pykafka2.broker.server.request_context import RequestContext


@handles(DescribeLogDirsRequest, 1, 5)
def describe(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest, now: float
) -> DescribeLogDirsResponse:
    requested: dict[Key, None] | None = None
    if request.topics is not None:
        requested = dict.fromkeys(
            (topic.topic, number) for topic in request.topics for number in topic.partitions
        )
    topics: dict[str, DescribeLogDirsTopic] = {}
    for key, replica in services.replicas.replicas.items():
        if requested is not None and key not in requested:
            continue
        topic = topics.setdefault(key[0], DescribeLogDirsTopic(name=key[0], partitions=[]))
        log = replica.log
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=key[1],
                partition_size=log.size_bytes,
                offset_lag=max(log.high_watermark - log.log_end_offset, 0),
                is_future_key=False,
            )
        )
    # A directory in memory has no capacity: -1 means unknown.
    directory = DescribeLogDirsResult(log_dir=services.logs.path, topics=list(topics.values()))
    return DescribeLogDirsResponse(results=[directory])


@refuses(DescribeLogDirsRequest)
def refuse_describe(request: DescribeLogDirsRequest, code: int) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=code, results=[])


@handles(AlterReplicaLogDirsRequest, 1, 2)
def alter(
    services: Services, context: RequestContext, request: AlterReplicaLogDirsRequest, now: float
) -> AlterReplicaLogDirsResponse:
    codes: dict[Key, int] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for number in topic.partitions:
                codes[topic.name, number] = _move(services, (topic.name, number), directory.path)
    return _moved(codes)


def _move(services: Services, key: Key, path: str) -> int:
    """Returns the error code of moving one replica to that directory."""
    if path != services.logs.path:
        return LogDirNotFound.code or 0
    try:
        services.replicas.replica_of(key)
    except BrokerError as error:
        return error.code or 0
    return 0


def _moved(codes: dict[Key, int]) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic, number), code in codes.items():
        result = results.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic, partitions=[]))
        result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))


@refuses(AlterReplicaLogDirsRequest)
def refuse_alter(request: AlterReplicaLogDirsRequest, code: int) -> AlterReplicaLogDirsResponse:
    return _moved(
        {
            (topic.name, number): code
            for directory in request.dirs
            for topic in directory.topics
            for number in topic.partitions
        }
    )
