"""The assignor "roundrobin": assigns all partitions in order to one member after another, as in Kafka.

Topics are ordered by name, members by instance id or member id; members that do not subscribe to a topic are
skipped. If all members subscribe to the same topics, their shares differ by at most one partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from pykafka2.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    ClusterMetadata,
    MemberSubscription,
    member_order,
    subscribers,
)
from pykafka2.types import TopicPartition


class RoundRobinAssignor(Assignor):
    """Assigns partitions in turn over all topics.  Stateless: any number of consumers can share it."""

    @property
    def name(self) -> str:
        return "roundrobin"

    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Assignment]:
        assigned: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        turns = cycle(member_order(members))
        for topic, readers in subscribers(cluster, members).items():
            reading = frozenset(readers)
            for partition in cluster.topic_partitions(topic):
                member_id = next(member_id for member_id in turns if member_id in reading)
                assigned[member_id].append(partition)
        return {member_id: Assignment(tuple(partitions)) for member_id, partitions in assigned.items()}
