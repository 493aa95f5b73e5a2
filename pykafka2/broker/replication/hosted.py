"""The replicas of one broker and its view of the cluster, shared by all modules of this package.

`ReplicaManager` adds and drops replicas; the modules below it look them up here, and record here what moved.
Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka2.broker.base.image import ClusterImage, Key
from pykafka2.broker.log.leader_epochs import UNKNOWN_EPOCH
from pykafka2.broker.replication.replica import Replica, Role
from pykafka2.errors import KafkaStorageError, NotLeaderOrFollower, UnknownTopicOrPartition


class HostedReplicas:
    """The replicas of one broker by partition, in the roles that `image` defines."""

    __slots__ = ("broker_id", "image", "moved", "offline", "replicas")

    def __init__(self, broker_id: int, image: ClusterImage) -> None:
        self.broker_id = broker_id
        self.image = image
        self.replicas: dict[Key, Replica] = {}
        self.offline: set[Key] = set()
        """Partitions whose log could not be opened, because its data directory has failed."""
        self.moved: dict[Key, bool] = {}
        """Partitions that moved in this turn; operations that wait for them are tried at its end.

        True: more than the log's end moved, so that an acks=all produce can be complete.
        """

    def leader_of(self, key: Key, current_leader_epoch: int = UNKNOWN_EPOCH) -> Replica:
        """Return this broker's replica if it is the leader in the requester's epoch.

        The epoch is checked first.
        """
        replica = self.replicas.get(key)
        if replica is None or replica.log.files.is_offline:
            replica = self.replica_of(key)  # raises
        if current_leader_epoch != UNKNOWN_EPOCH:
            replica.check_epoch(current_leader_epoch)
        if replica.role is not Role.LEADER:
            replica.check_leader()
        return replica

    def replica_of(self, key: Key) -> Replica:
        """Return this broker's replica.

        Raise `KafkaStorageError` if its data directory has failed, `NotLeaderOrFollower` if only other
        brokers have one, `UnknownTopicOrPartition` if the partition does not exist.
        """
        replica = self.replicas.get(key)
        if replica is not None:
            if replica.log.files.is_offline:
                raise KafkaStorageError(f"the data directory of {key[0]}-{key[1]} is offline")
            return replica
        self.check_known(key)
        if key in self.offline:
            raise KafkaStorageError(f"the data directory of {key[0]}-{key[1]} is offline")
        raise NotLeaderOrFollower(f"broker {self.broker_id} has no replica of {key[0]}-{key[1]}")

    def check_known(self, key: Key) -> None:
        """Raise `UnknownTopicOrPartition` if the partition does not exist."""
        if key not in self.replicas and self.image.partition(*key) is None:
            raise UnknownTopicOrPartition(f"partition {key[0]}-{key[1]} does not exist")

    def chosen(self, keys: Iterable[Key] | None) -> list[Replica]:
        """Return the hosted replicas among these partitions; None means all."""
        if keys is None:
            return list(self.replicas.values())
        return [self.replicas[key] for key in keys if key in self.replicas]

    def is_internal(self, topic: str) -> bool:
        image = self.image.topics.get(topic)
        return image is not None and image.is_internal
