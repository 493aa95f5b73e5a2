"""The replicas that one broker has, and what it knows of the cluster: all parts of this package look here.

`ReplicaManager` adds and drops them; the parts below it find theirs here, and note here what has moved.
Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Iterable

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.log.leader_epochs import UNKNOWN_EPOCH
from pykafka2.broker.replication.key import Key
from pykafka2.broker.replication.replica import Replica
from pykafka2.errors import NotLeaderOrFollower, UnknownTopicOrPartition


class HostedReplicas:
    """The replicas of one broker by partition, in the roles that `image` gives them."""

    __slots__ = ("broker_id", "image", "moved", "replicas")

    def __init__(self, broker_id: int, image: ClusterImage) -> None:
        self.broker_id = broker_id
        self.image = image
        self.replicas: dict[Key, Replica] = {}
        self.moved: dict[Key, bool] = {}
        """Partitions that moved in this turn; whoever waits for them is tried at its end.

        True: more than the log's end moved, so that an acks=all produce may be done.
        """

    def leader_of(self, key: Key, current_leader_epoch: int = UNKNOWN_EPOCH) -> Replica:
        """Our replica, if it leads in the epoch that the asker believes in; the epoch is looked at first."""
        replica = self.replica_of(key)
        replica.check_epoch(current_leader_epoch)
        replica.check_leader()
        return replica

    def replica_of(self, key: Key) -> Replica:
        """Our replica; `NotLeaderOrFollower` if others have one, `UnknownTopicOrPartition` if nobody has."""
        replica = self.replicas.get(key)
        if replica is not None:
            return replica
        self.check_known(key)
        raise NotLeaderOrFollower(f"broker {self.broker_id} has no replica of {key[0]}-{key[1]}")

    def check_known(self, key: Key) -> None:
        """`UnknownTopicOrPartition` if nobody has such a partition."""
        if key not in self.replicas and self.image.partition(*key) is None:
            raise UnknownTopicOrPartition(f"there is no partition {key[0]}-{key[1]}")

    def chosen(self, keys: Iterable[Key] | None) -> list[Replica]:
        """Those of these partitions that are here; None stands for all."""
        if keys is None:
            return list(self.replicas.values())
        return [self.replicas[key] for key in keys if key in self.replicas]

    def is_internal(self, topic: str) -> bool:
        image = self.image.topics.get(topic)
        return image is not None and image.is_internal
