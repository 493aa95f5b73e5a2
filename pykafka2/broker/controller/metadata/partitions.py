"""Partitions in the metadata log: changes merged as in Kafka's PartitionRegistration, and record versions.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pykafka2.broker.base.image import UNASSIGNED
from pykafka2.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)
from pykafka2.protocol.struct import MetadataRecord

NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_CHANGE: Final = -1

# Versions of records by the lowest metadata.version that has them (MetadataVersion), the newest first.
_VERSIONS: Final[dict[type[MetadataRecord], tuple[tuple[int, int], ...]]] = {
    RegisterBrokerRecord: ((30, 4), (17, 3), (8, 2), (0, 1)),
    BrokerRegistrationChangeRecord: ((30, 3), (17, 2), (0, 1)),
    PartitionRecord: ((23, 2), (17, 1), (0, 0)),
    PartitionChangeRecord: ((23, 2), (17, 1), (0, 0)),
}

# Fields that older versions lack, and that are left out there.
_LACKING: Final[dict[type[MetadataRecord], dict[str, int]]] = {
    RegisterBrokerRecord: {"cordoned_log_dirs": 4, "log_dirs": 3, "is_migrating_zk_broker": 2},
    BrokerRegistrationChangeRecord: {"cordoned_log_dirs": 3, "log_dirs": 2},
    PartitionRecord: {"eligible_leader_replicas": 2, "last_known_elr": 2, "directories": 1},
    PartitionChangeRecord: {"eligible_leader_replicas": 2, "last_known_elr": 2, "directories": 1},
}


def versioned(record: MetadataRecord, metadata_version: int) -> tuple[MetadataRecord, int]:
    """Return a record and its version at this level of metadata.version.

    Fields that this version lacks have their defaults.
    """
    cls = type(record)
    levels = _VERSIONS.get(cls)
    if levels is None:
        return record, 0
    version = next(version for level, version in levels if metadata_version >= level)
    lacking = {name for name, first in _LACKING[cls].items() if version < first}
    if not lacking:
        return record, version
    fields = {entry.name: getattr(record, entry.name) for entry in cls._fields if entry.name not in lacking}
    return cls(**fields), version


def merged(partition: PartitionRecord, change: PartitionChangeRecord) -> PartitionRecord:
    """Return the partition after a change; each change increments the partition epoch."""
    has_leader = change.leader != NO_LEADER_CHANGE
    replicas = partition.replicas if change.replicas is None else change.replicas
    directories = change.directories
    if directories is None:
        directories = directories_of(replicas, partition)
    return PartitionRecord(
        partition_id=partition.partition_id,
        topic_id=partition.topic_id,
        replicas=replicas,
        isr=partition.isr if change.isr is None else change.isr,
        removing_replicas=(
            partition.removing_replicas if change.removing_replicas is None else change.removing_replicas
        ),
        adding_replicas=(
            partition.adding_replicas if change.adding_replicas is None else change.adding_replicas
        ),
        leader=change.leader if has_leader else partition.leader,
        leader_recovery_state=(
            partition.leader_recovery_state
            if change.leader_recovery_state == NO_RECOVERY_CHANGE
            else change.leader_recovery_state
        ),
        leader_epoch=partition.leader_epoch + has_leader,
        partition_epoch=partition.partition_epoch + 1,
        directories=directories,
        eligible_leader_replicas=(
            partition.eligible_leader_replicas
            if change.eligible_leader_replicas is None
            else change.eligible_leader_replicas or None
        ),
        last_known_elr=(
            partition.last_known_elr if change.last_known_elr is None else change.last_known_elr or None
        ),
    )


def directories_of(replicas: Sequence[int], before: PartitionRecord) -> list[bytes]:
    """Return the directories of these replicas; those that the partition had before keep theirs."""
    known = dict(zip(before.replicas, before.directories, strict=False))
    if not known:
        return []  # written before metadata.version 3.7-IV2
    return [known.get(replica, UNASSIGNED) for replica in replicas]
