"""The cluster as last heard of: immutable, so that any thread may read it, and how an answer changes it.

Pure functions of the old snapshot and a Metadata response; owned by nobody.  metadata.py decides when to ask
and swaps the snapshot in one assignment.

What is known is never erased by an answer that merely does not speak of it, nor replaced by an answer from a
broker that is behind: a partition's leader epoch only grows while the topic stays the same (KIP-320), and the
topic's id says whether it is the same (KIP-516).
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

# A broker that is behind may not know a topic yet, or partitions added lately, or a leader that another
# broker has hinted at, or that a topic was made anew: one such answer is doubted, three are believed.
BELIEVED_AFTER = 3


@attrs.define(frozen=True)
class TopicSnapshot:
    """A topic as last heard of.

    `partitions` may be known although `error_code` says that the last answer was an error.
    """

    name: str
    topic_id: bytes = ZERO_UUID
    partitions: Mapping[int, PartitionInfo] = attrs.field(factory=dict)
    error_code: int = 0
    is_internal: bool = False
    unknown_answers: int = 0
    """How many answers in a row have not known it."""
    fewer_answers: int = 0
    """How many answers in a row have not known some of `partitions`."""
    hinted: Mapping[int, int] = attrs.field(factory=dict)
    """Partitions whose leader is known by a hint alone: how many answers have told an older epoch since."""
    former_id: bytes = ZERO_UUID
    """Of the topic that had this name before: it was deleted, and does not come back."""
    former_answers: int = 0
    """How many answers in a row have told that one."""

    @property
    def is_usable(self) -> bool:
        return bool(self.partitions)

    @property
    def is_gone(self) -> bool:
        """Whether several brokers do not know it: what one alone does not know stays usable."""
        return not self.is_usable and isinstance(self.error, UnknownTopicOrPartition)

    @property
    def is_in_doubt(self) -> bool:
        """Whether the last answer knew less of it than is told here: the next may know all, or confirm it."""
        is_less = self.fewer_answers > 0 or self.former_answers > 0
        return is_less or (self.unknown_answers > 0 and self.is_usable)

    @property
    def error(self) -> BrokerError | None:
        """The topic's error in the last response, with the name of the topic."""
        if not self.error_code:
            return None
        if self.error_code == UnknownTopicOrPartition.code:
            words = f"topic {self.name!r} does not exist on the brokers; create it, or check the name"
        else:
            words = f"topic {self.name!r}: {error_of(self.error_code)}"
        return error_of(self.error_code, words)


@attrs.define(frozen=True)
class ClusterSnapshot:
    """Everything known of the cluster at one moment.  `version` grows by one per successful answer."""

    version: int = 0
    cluster_id: str | None = None
    controller_id: int = NO_LEADER
    nodes: Mapping[int, Node] = attrs.field(factory=dict)
    topics: Mapping[str, TopicSnapshot] = attrs.field(factory=dict)
    names_by_id: Mapping[bytes, str] = attrs.field(factory=dict)

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        known = self.topics.get(topic)
        return known.partitions.get(partition) if known is not None else None


def merge_answer(
    old: ClusterSnapshot,
    answer: MetadataResponse,
    keep_topics: Collection[str] | None,
    *,
    names_all: bool = False,
) -> ClusterSnapshot:
    """The snapshot after an answer.  Of topics it does not name, those in `keep_topics` stay (None: all).

    With `names_all` the answer is to name every topic that may be seen: its broker does not know what it
    leaves out.

    Raises `CorruptResponse` for an answer that no cluster could mean (see answers.py).
    """
    nodes = checked_metadata(answer)
    node_ids = frozenset(node.id for node in nodes)
    topics = {name: topic for name, topic in old.topics.items() if keep_topics is None or name in keep_topics}
    for told in answer.topics:
        if told.name is not None:
            topics[told.name] = _merge_topic(old.topics.get(told.name), told, node_ids)
    if names_all:
        for name in topics.keys() - {told.name for told in answer.topics}:
            if topics[name].error_code != TopicAuthorizationFailed.code:
                topics[name] = _topic_in_error(topics[name], name, UnknownTopicOrPartition.code)
    return ClusterSnapshot(
        version=old.version + 1,
        cluster_id=answer.cluster_id or old.cluster_id,
        controller_id=answer.controller_id,
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
    """The snapshot after a broker's hint at a newer leader (KIP-951); the old one if it is not newer, or
    names brokers or an epoch that cannot be."""
    known = old.topics.get(topic)
    info = old.partition(topic, partition)
    nodes = {**old.nodes, **{node.id: node for node in endpoints}}
    if known is None or info is None or leader_epoch <= info.leader_epoch or leader_id not in nodes:
        return old
    if leader_epoch > HIGHEST_EPOCH or not believable_nodes(endpoints):
        return old
    moved = attrs.evolve(info, leader=leader_id, leader_epoch=leader_epoch)
    told = attrs.evolve(
        known, partitions={**known.partitions, partition: moved}, hinted={**known.hinted, partition: 0}
    )
    return attrs.evolve(old, nodes=nodes, topics={**old.topics, topic: told})


def without_topics(old: ClusterSnapshot, names: Collection[str]) -> ClusterSnapshot:
    """The snapshot after topics were forgotten because nobody uses them."""
    topics = {name: topic for name, topic in old.topics.items() if name not in names}
    return attrs.evolve(old, topics=topics, names_by_id=_names_by_id(topics.values()))


def _names_by_id(topics: Iterable[TopicSnapshot]) -> dict[bytes, str]:
    return {topic.topic_id: topic.name for topic in topics if topic.topic_id != ZERO_UUID}


def _merge_topic(
    old: TopicSnapshot | None, told: MetadataResponseTopic, node_ids: frozenset[int]
) -> TopicSnapshot:
    name = told.name or ""
    if told.error_code:
        return _topic_in_error(old, name, told.error_code)
    is_former = old is not None and old.is_usable and told.topic_id == old.former_id != ZERO_UUID
    if old is not None and is_former and old.former_answers + 1 < BELIEVED_AFTER:
        return attrs.evolve(old, former_answers=old.former_answers + 1)
    is_same = old is not None and (
        old.topic_id == told.topic_id or ZERO_UUID in (old.topic_id, told.topic_id)
    )
    known = old.partitions if old is not None and is_same else {}
    hinted = dict(old.hinted) if old is not None and is_same else {}
    partitions = {
        partition.partition_index: _merge_partition(
            known.get(partition.partition_index), name, partition, node_ids, hinted
        )
        for partition in told.partitions
    }
    fewer_answers = 0
    if old is not None and not known.keys() <= partitions.keys() and old.fewer_answers + 1 < BELIEVED_AFTER:
        # A topic never loses partitions, so this broker is behind.
        fewer_answers = old.fewer_answers + 1
        partitions = {**known, **partitions}
    return TopicSnapshot(
        name=name,
        topic_id=told.topic_id,
        partitions=partitions,
        is_internal=told.is_internal,
        fewer_answers=fewer_answers,
        hinted=hinted,
        former_id=_former_id(old, told.topic_id),
    )


def _former_id(old: TopicSnapshot | None, topic_id: bytes) -> bytes:
    """Return the id of the earlier topic with the name, or sixteen zero bytes if unknown."""
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
    told: MetadataResponsePartition,
    node_ids: frozenset[int],
    hinted: dict[int, int],
) -> PartitionInfo:
    """`hinted`, which may be changed, is that of the topic."""
    number = told.partition_index
    # The broker asked is behind the one asked before; but a leader that is none of the brokers, or that was
    # only hinted at, may be wrong, of an epoch that never comes, and would be waited for without end.
    is_behind = old is not None and NO_EPOCH < told.leader_epoch < old.leader_epoch
    if is_behind and number in hinted:
        hinted[number] += 1
    is_kept = hinted.get(number, 0) < BELIEVED_AFTER
    if old is not None and is_behind and is_kept and (old.leader in node_ids or old.leader == NO_LEADER):
        return old
    hinted.pop(number, None)
    return PartitionInfo(
        topic=topic,
        partition=told.partition_index,
        leader=told.leader_id,
        leader_epoch=told.leader_epoch,
        replicas=tuple(told.replica_nodes),
        isr=tuple(told.isr_nodes),
        offline_replicas=tuple(told.offline_replicas),
    )
