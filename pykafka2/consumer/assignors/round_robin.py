"""The assignor "roundrobin": all partitions in order, to one member after another, as Kafka's.

Topics stand in the order of their names, members in that of their instance or member ids; a member that does
not read a topic is passed over.  Where all members read the same, nobody has two more than another.
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
    """Partitions in turn over all topics.  Stateless: any number of consumers may share it."""

    @property
    def name(self) -> str:
        return "roundrobin"

    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Assignment]:
        given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        turns = cycle(member_order(members))
        for topic, readers in subscribers(cluster, members).items():
            reading = frozenset(readers)
            for partition in cluster.topic_partitions(topic):
                member_id = next(member_id for member_id in turns if member_id in reading)
                given[member_id].append(partition)
        return {member_id: Assignment(tuple(partitions)) for member_id, partitions in given.items()}
