"""DescribeLogDirs and AlterReplicaLogDirs: the directories in log.dirs (KIP-113).

On disk a replica moves in the background; meanwhile its copy is described as a future replica.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.handlers.api import api
from pykafka2.broker.handlers.authorization import on_cluster
from pykafka2.errors import BrokerError, KafkaStorageError, LogDirNotFound
from pykafka2.protocol.acl_terms import Operation
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
    from pykafka2.broker.base.image import Key
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext


@api(DescribeLogDirsRequest, 1, 5, access=on_cluster(Operation.DESCRIBE), oldest=0)
def describe(
    services: Services, context: RequestContext, request: DescribeLogDirsRequest, now: float
) -> DescribeLogDirsResponse:
    requested: dict[Key, None] | None = None
    if request.topics is not None:
        requested = dict.fromkeys(
            (topic.topic, number) for topic in request.topics for number in topic.partitions
        )
    places = services.logs.places
    directories: dict[str, dict[str, DescribeLogDirsTopic]] = {path: {} for path in places.paths}
    for key, replica in services.replicas.replicas.items():
        if requested is not None and key not in requested:
            continue
        log = replica.log
        topics = directories[places.of(log.topic_id, log.partition)]
        topic = topics.setdefault(key[0], DescribeLogDirsTopic(name=key[0], partitions=[]))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=key[1],
                partition_size=log.size_bytes,
                offset_lag=max(log.high_watermark - log.log_end_offset, 0),
                is_future_key=False,
            )
        )
    for move in services.logs.moves:
        key = move.log.topic, move.log.partition
        if requested is not None and key not in requested:
            continue
        topic = directories[move.path].setdefault(key[0], DescribeLogDirsTopic(name=key[0], partitions=[]))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=key[1],
                partition_size=move.size_bytes,
                offset_lag=move.lag,
                is_future_key=True,
            )
        )
    # The capacity is unknown: -1.
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(log_dir=path, topics=list(topics.values()))
            if services.logs.is_online(path)
            else DescribeLogDirsResult(error_code=KafkaStorageError.code or 0, log_dir=path, topics=[])
            for path, topics in directories.items()
        ]
    )


def refuse_alter(request: AlterReplicaLogDirsRequest, version: int, code: int) -> AlterReplicaLogDirsResponse:
    return _moved(
        {
            (topic.name, number): code
            for directory in request.dirs
            for topic in directory.topics
            for number in topic.partitions
        }
    )


@api(AlterReplicaLogDirsRequest, 1, 2, access=on_cluster(Operation.ALTER), refusal=refuse_alter, oldest=0)
def alter(
    services: Services, context: RequestContext, request: AlterReplicaLogDirsRequest, now: float
) -> AlterReplicaLogDirsResponse:
    codes: dict[Key, int] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for number in topic.partitions:
                codes[topic.name, number] = _move(services, (topic.name, number), directory.path, now)
    return _moved(codes)


def _move(services: Services, key: Key, path: str, now: float) -> int:
    """Return the error code of moving one replica to that directory."""
    places = services.logs.places
    if path not in places.paths:
        return LogDirNotFound.code or 0
    if not services.logs.is_online(path):
        return KafkaStorageError.code or 0
    try:
        replica = services.replicas.replica_of(key)
    except KafkaStorageError as error:
        return error.code or 0
    except BrokerError as error:
        places.prefer(*key, path)  # for a replica that is created later
        return error.code or 0
    try:
        services.replicas.moves.begin(replica, path, now)
    except BrokerError as error:
        return error.code or 0
    return 0


def _moved(codes: dict[Key, int]) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic, number), code in codes.items():
        result = results.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic, partitions=[]))
        result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(results.values()))
