"""The cluster's metadata as an immutable snapshot, and how a response changes it.

Pure functions of the old snapshot and a Metadata response. metadata.py sends the requests and replaces the
snapshot in one assignment.

A response that leaves a topic out does not erase it, and a response from a broker with stale metadata does
not replace newer information: a partition's leader epoch only grows (KIP-320) while the topic id stays the
same (KIP-516).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from pykafka2.cluster.validation import HIGHEST_EPOCH, believable_nodes, checked_metadata
from pykafka2.errors import BrokerError, TopicAuthorizationFailed, UnknownTopicOrPartition, error_of
from pykafka2.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import Node, PartitionInfo

NO_LEADER = -1
NO_EPOCH = -1

# A broker with stale metadata can lack a new topic, new partitions, a leader that another broker hinted at,
# or the new id of a re-created topic. Such a response is accepted only the third time in a row.
BELIEVED_AFTER = 3


@attrs.define(frozen=True)
class TopicSnapshot:
    """The latest metadata of a topic.

    `partitions` can be known even if `error_code` reports an error in the last response.
    """

    name: str
    topic_id: bytes = ZERO_UUID
    partitions: Mapping[int, PartitionInfo] = attrs.field(factory=dict)
    error_code: int = 0
    is_internal: bool = False
    unknown_answers: int = 0
    """Number of consecutive responses that did not know the topic."""
    fewer_answers: int = 0
    """Number of consecutive responses that lacked some of `partitions`."""
    hinted: Mapping[int, int] = attrs.field(factory=dict)
    """For partitions whose leader is known only by a hint: the responses since then with an older epoch."""
    former_id: bytes = ZERO_UUID
    """Id of the deleted topic that had this name before."""
    former_answers: int = 0
    """Number of consecutive responses with that former id."""

    @property
    def is_usable(self) -> bool:
        return bool(self.partitions)

    @property
    def is_gone(self) -> bool:
        """Whether it does not exist: a topic missing from a single response stays usable."""
        return not self.is_usable and isinstance(self.error, UnknownTopicOrPartition)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the last response contained less than this snapshot, so another one must confirm it."""
        has_less = self.fewer_answers > 0 or self.former_answers > 0
        return has_less or (self.unknown_answers > 0 and self.is_usable)

    @property
    def error(self) -> BrokerError | None:
        """The topic's error in the last response, with the name of the topic."""
        if not self.error_code:
            return None
        if self.error_code == UnknownTopicOrPartition.code:
            message = f"topic {self.name!r} does not exist on the brokers; create it, or check the name"
        else:
            message = f"topic {self.name!r}: {error_of(self.error_code)}"
        return error_of(self.error_code, message)


@attrs.define(frozen=True)
class ClusterSnapshot:
    """The cluster's metadata at one moment. `version` grows by one per successful response."""

    version: int = 0
    cluster_id: str | None = None
    controller_id: int = NO_LEADER
    nodes: Mapping[int, Node] = attrs.field(factory=dict)
    topics: Mapping[str, TopicSnapshot] = attrs.field(factory=dict)
    names_by_id: Mapping[bytes, str] = attrs.field(factory=dict)

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        known = self.topics.get(topic)
        return known.partitions.get(partition) if known is not None else None


def merge_response(
    old: ClusterSnapshot,
    response: MetadataResponse,
    keep_topics: Collection[str] | None,
    *,
    names_all: bool = False,
) -> ClusterSnapshot:
    """Return the snapshot after a response.

    Topics that the response leaves out stay if they are in `keep_topics` (all of them if it is None). With
    `names_all`, the response lists every topic, so those it leaves out are unknown to the broker.

    Raise CorruptResponse for an impossible response (see validation.py).
    """
    nodes = checked_metadata(response)
    node_ids = frozenset(node.id for node in nodes)
    topics = {name: topic for name, topic in old.topics.items() if keep_topics is None or name in keep_topics}
    for topic in response.topics:
        if topic.name is not None:
            topics[topic.name] = _merge_topic(old.topics.get(topic.name), topic, node_ids)
    if names_all:
        for name in topics.keys() - {topic.name for topic in response.topics}:
            if topics[name].error_code != TopicAuthorizationFailed.code:
                topics[name] = _topic_in_error(topics[name], name, UnknownTopicOrPartition.code)
    return ClusterSnapshot(
        version=old.version + 1,
        cluster_id=response.cluster_id or old.cluster_id,
        controller_id=response.controller_id,
        nodes={node.id: node for node in nodes},
        topics=topics,
        names_by_id=_names_by_id(topics.values()),
    )


def with_leader(
    old: ClusterSnapshot,
    topic: str,
    partition: int,
    leader_id: int,
    leader_epoch: int,
    endpoints: Sequence[Node] = (),
) -> ClusterSnapshot:
    """Return the snapshot after a broker's hint about a newer leader (KIP-951).

    Return the old one if the hint is not newer, or has an impossible broker or epoch.
    """
    known = old.topics.get(topic)
    info = old.partition(topic, partition)
    nodes = {**old.nodes, **{node.id: node for node in endpoints}}
    if known is None or info is None or leader_epoch <= info.leader_epoch or leader_id not in nodes:
        return old
    if leader_epoch > HIGHEST_EPOCH or not believable_nodes(endpoints):
        return old
    moved = attrs.evolve(info, leader=leader_id, leader_epoch=leader_epoch)
    changed = attrs.evolve(
        known, partitions={**known.partitions, partition: moved}, hinted={**known.hinted, partition: 0}
    )
    return attrs.evolve(old, nodes=nodes, topics={**old.topics, topic: changed})


def without_node(old: ClusterSnapshot, node_id: int) -> ClusterSnapshot:
    """Return the snapshot without a node whose address is wrong; the next response can list it again."""
    return attrs.evolve(old, nodes={known: node for known, node in old.nodes.items() if known != node_id})


def without_topics(old: ClusterSnapshot, names: Collection[str]) -> ClusterSnapshot:
    """Return the snapshot without these topics, which are no longer used."""
    topics = {name: topic for name, topic in old.topics.items() if name not in names}
    return attrs.evolve(old, topics=topics, names_by_id=_names_by_id(topics.values()))


def _names_by_id(topics: Iterable[TopicSnapshot]) -> dict[bytes, str]:
    return {topic.topic_id: topic.name for topic in topics if topic.topic_id != ZERO_UUID}


def _merge_topic(
    old: TopicSnapshot | None, new: MetadataResponseTopic, node_ids: frozenset[int]
) -> TopicSnapshot:
    name = new.name or ""
    if new.error_code:
        return _topic_in_error(old, name, new.error_code)
    is_former = old is not None and old.is_usable and new.topic_id == old.former_id != ZERO_UUID
    if old is not None and is_former and old.former_answers + 1 < BELIEVED_AFTER:
        return attrs.evolve(old, former_answers=old.former_answers + 1)
    is_same = old is not None and (old.topic_id == new.topic_id or ZERO_UUID in (old.topic_id, new.topic_id))
    known = old.partitions if old is not None and is_same else {}
    hinted = dict(old.hinted) if old is not None and is_same else {}
    partitions = {
        partition.partition_index: _merge_partition(
            known.get(partition.partition_index), name, partition, node_ids, hinted
        )
        for partition in new.partitions
    }
    fewer_answers = 0
    if old is not None and not known.keys() <= partitions.keys() and old.fewer_answers + 1 < BELIEVED_AFTER:
        # A topic never loses partitions, so this broker's metadata is stale.
        fewer_answers = old.fewer_answers + 1
        partitions = {**known, **partitions}
    return TopicSnapshot(
        name=name,
        topic_id=new.topic_id,
        partitions=partitions,
        is_internal=new.is_internal,
        fewer_answers=fewer_answers,
        hinted=hinted,
        former_id=_former_id(old, new.topic_id),
    )


def _former_id(old: TopicSnapshot | None, topic_id: bytes) -> bytes:
    """Return the id of the earlier topic of this name, or sixteen zero bytes if unknown."""
    if old is None:
        return ZERO_UUID
    is_same = ZERO_UUID in (old.topic_id, topic_id) or old.topic_id == topic_id
    former_id = old.former_id if is_same else old.topic_id
    return former_id if former_id != topic_id else ZERO_UUID


def _topic_in_error(old: TopicSnapshot | None, name: str, error_code: int) -> TopicSnapshot:
    if old is None:
        return TopicSnapshot(name, error_code=error_code, unknown_answers=1)
    unknown_answers = old.unknown_answers + 1 if error_code == UnknownTopicOrPartition.code else 0
    if unknown_answers >= BELIEVED_AFTER:
        former_id = old.former_id if old.topic_id == ZERO_UUID else old.topic_id
        return TopicSnapshot(
            name, error_code=error_code, unknown_answers=unknown_answers, former_id=former_id
        )
    return attrs.evolve(
        old, error_code=error_code, unknown_answers=unknown_answers, fewer_answers=0, former_answers=0
    )


def _merge_partition(
    old: PartitionInfo | None,
    topic: str,
    new: MetadataResponsePartition,
    node_ids: frozenset[int],
    hinted: dict[int, int],
) -> PartitionInfo:
    """Return the partition after a response; update `hinted`, which belongs to the topic."""
    number = new.partition_index
    # An older epoch means stale metadata, so the old leader is kept. Not without end, though, if that leader
    # is no longer a broker or known only by a hint: its epoch can be wrong and never be confirmed.
    is_behind = old is not None and NO_EPOCH < new.leader_epoch < old.leader_epoch
    if is_behind and number in hinted:
        hinted[number] += 1
    is_kept = hinted.get(number, 0) < BELIEVED_AFTER
    if old is not None and is_behind and is_kept and (old.leader in node_ids or old.leader == NO_LEADER):
        return old
    hinted.pop(number, None)
    return PartitionInfo(
        topic=topic,
        partition=new.partition_index,
        leader=new.leader_id,
        leader_epoch=new.leader_epoch,
        replicas=tuple(new.replica_nodes),
        isr=tuple(new.isr_nodes),
        offline_replicas=tuple(new.offline_replicas),
    )
