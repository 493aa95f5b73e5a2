"""Results of admin calls about the cluster: features, quorum, versions, log directories."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import attrs

from pykafka2.errors import KafkaError
from pykafka2.types import Node, TopicPartition


@attrs.define(frozen=True)
class ClusterDescription:
    """The cluster's id, its controller (in KRaft any broker that is up) and its brokers.

    `fenced` are the ids of those brokers that are registered but not up, and `authorized_operations` the
    operations that the principal may perform on the cluster; both only if requested.
    """

    cluster_id: str | None
    controller: Node | None
    nodes: tuple[Node, ...]
    authorized_operations: tuple[str, ...] | None = None
    fenced: tuple[int, ...] = ()


class VersionRange(NamedTuple):
    """The lowest and the highest version, both included."""

    min_version: int
    max_version: int


class ApiVersion(NamedTuple):
    """An API of a broker by its key, with the versions that the broker supports."""

    api_key: int
    min_version: int
    max_version: int


@attrs.define(frozen=True)
class FeatureMetadata:
    """Features by name: the levels in effect, with their epoch (-1 if unknown), and the supported ones."""

    finalized: Mapping[str, VersionRange]
    finalized_epoch: int
    supported: Mapping[str, VersionRange]


class UpdateFeatureType(IntEnum):
    """The direction of a feature update; an unsafe downgrade can lose metadata."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@attrs.define(frozen=True)
class FeatureUpdate:
    """A feature's new level; 0 disables the feature."""

    max_version_level: int
    upgrade_type: UpdateFeatureType = attrs.field(
        default=UpdateFeatureType.UPGRADE, converter=UpdateFeatureType
    )


@attrs.define(frozen=True)
class QuorumReplica:
    """A controller's or broker's copy of the metadata log; times are milliseconds, None if unknown."""

    replica_id: int
    log_end_offset: int
    last_fetch_time_ms: int | None
    last_caught_up_time_ms: int | None
    directory_id: bytes


@attrs.define(frozen=True)
class QuorumInfo:
    """The quorum of controllers: its leader, the voters, and the observers (brokers).

    `nodes` has the listeners of the controllers by id: name, host and port.
    """

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[tuple[str, str, int], ...]]


@attrs.define(frozen=True)
class ReplicaLog:
    """A replica in a log directory.

    `offset_lag` is its distance to the high watermark, or to the current replica if `is_future`: a copy that
    replaces the current one when it has caught up.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool = False


@attrs.define(frozen=True)
class LogDir:
    """A log directory of a broker with its replicas; `error` is set if it failed. A size of -1 is unknown."""

    replicas: Mapping[TopicPartition, ReplicaLog]
    error: KafkaError | None = None
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


@attrs.define(frozen=True)
class ReplicaLogDir:
    """The directory of a replica, and the one that it is being moved to; None if there is none."""

    current: str | None
    current_offset_lag: int
    future: str | None = None
    future_offset_lag: int = -1


@attrs.define(frozen=True)
class ProducerState:
    """A producer that has written to a partition; the start offset is None without an open transaction."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@attrs.define(frozen=True)
class HangingTransaction:
    """A transaction that is open in a partition, but that no coordinator will end.

    Consumers with read_committed wait at its `start_offset`; `abort_transaction` ends it. `transactional_id`
    is None if no coordinator has an id with this producer.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp: int
    transactional_id: str | None = None
