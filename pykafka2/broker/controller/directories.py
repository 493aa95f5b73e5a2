"""The log directories of a partition's replicas, as the controller stores them (KIP-858). Pure functions."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka2.broker.base.image import UNASSIGNED, BrokerImage, PartitionImage


def with_directories(partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> PartitionImage:
    """Return the image with the directories of its replicas: those known, or the only one of a broker.

    Return the same object if nothing changes.
    """
    known = dict(partition.directories)
    directories = []
    for replica in partition.replicas:
        directory = known.get(replica) or _only_directory(brokers.get(replica))
        if directory != UNASSIGNED:
            directories.append((replica, directory))
    if tuple(directories) == partition.directories:
        return partition
    return attrs.evolve(partition, directories=tuple(directories))


def _only_directory(broker: BrokerImage | None) -> bytes:
    """Return the directory of a broker with a single one."""
    if broker is None or len(broker.directories) != 1:
        return UNASSIGNED
    return broker.directories[0]


def assigned(partition: PartitionImage, broker_id: int, directory: bytes) -> PartitionImage:
    """Return the image with another directory of one replica, or the same object if it is known."""
    if partition.directory_of(broker_id) == directory:
        return partition
    others = [(replica, known) for replica, known in partition.directories if replica != broker_id]
    if directory != UNASSIGNED:
        others.append((broker_id, directory))
    return attrs.evolve(partition, directories=tuple(others), partition_epoch=partition.partition_epoch + 1)
