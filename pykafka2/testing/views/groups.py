"""Views of groups: the present state of their coordinators, as plain values.

Read from the coordinator's memory under the cluster's lock, including soft state (members that are joining).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

import attrs

from pykafka2.broker.coordinators.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    partition_for,
)
from pykafka2.errors import (
    ConfigurationError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptData,
    GroupIdNotFound,
)
from pykafka2.testing.running import Running
from pykafka2.types import TopicPartition

# Coordinators load with the first request that needs one, so a view loads them, too.
if TYPE_CHECKING:
    from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup, ClassicMember
    from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroup
    from pykafka2.broker.coordinators.groups.share.state import ShareGroup
    from pykafka2.broker.coordinators.settings import Topics

INTERNAL_TOPICS = {"group": OFFSETS_TOPIC, "transaction": TRANSACTIONS_TOPIC, "share": SHARE_STATE_TOPIC}


@attrs.define(frozen=True)
class MemberView:
    """One member; `epoch` is the generation in a classic group.

    `assignment` is its last assignment (of a KIP-848 member: what it can read until revocations complete).
    """

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    epoch: int
    assignment: tuple[TopicPartition, ...]


@attrs.define(frozen=True)
class GroupView:
    """A group; `kind` is "classic", "consumer" (KIP-848) or "share" (KIP-932), `state` Kafka's name, `epoch`
    its generation or group epoch; `protocol` and `leader` are None where there are none.
    """

    group_id: str
    kind: str
    state: str
    epoch: int
    protocol: str | None
    leader: str | None
    members: dict[str, MemberView]
    offsets: dict[TopicPartition, int]
    """Committed offsets, without those of open transactions."""


def coordinator_partition(running: Running, key: str, kind: str) -> tuple[str, int]:
    """Return the partition with the records of a group, transactional id or share partition.  Raise
    `CoordinatorNotAvailable` before the first lookup of such a coordinator creates the internal topic.
    """
    topic = INTERNAL_TOPICS.get(kind)
    if topic is None:
        raise ConfigurationError(f"kind={kind!r} is illegal. Set 'group', 'transaction' or 'share'.")
    image = running.controllers.image.topics.get(topic)
    if image is None:
        raise CoordinatorNotAvailable(
            f"No client has looked up a coordinator yet, so {topic} does not exist."
        )
    return topic, partition_for(key, len(image.partitions))


def coordinator_of(running: Running, key: str, kind: str) -> int:
    """Implement `ClusterApi.coordinator`."""
    running.check()
    with running.lock:
        return running.controllers.partition(*coordinator_partition(running, key, kind)).leader


def group_view(running: Running, group_id: str) -> GroupView:
    """Implement `ClusterApi.group`."""
    running.check()
    with running.lock:
        return _group(running, group_id)


def _group(running: Running, group_id: str) -> GroupView:
    from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup

    topic, partition = coordinator_partition(running, group_id, "group")
    leader = running.controllers.partition(topic, partition).leader
    coordinators = running.broker(leader).coordinators if leader >= 0 else None
    shard = None if coordinators is None else coordinators.groups.shards.get(partition)
    if coordinators is None or shard is None:
        raise CoordinatorNotAvailable(f"{topic}-{partition} has no coordinator now")
    if coordinators.has_failed((topic, partition)):
        raise CoordinatorNotAvailable(f"broker {leader} could not load {topic}-{partition}, see its log")
    if not coordinators.is_active((topic, partition)):
        raise CoordinatorLoadInProgress(f"broker {leader} loads {topic}-{partition}")
    group = shard.groups.get(group_id)
    if group is None:
        raise GroupIdNotFound(f"Group {group_id!r} does not exist")
    offsets = {
        TopicPartition(*place): one.offset
        for place, one in sorted(shard.offsets.committed.get(group_id, {}).items())
    }
    if isinstance(group, ClassicGroup):
        return _classic(group, offsets)
    if group.kind == "share":
        return _share(cast("ShareGroup", group), shard.topics)
    return _consumer(
        cast("ConsumerGroup", group), offsets, shard.topics, shard.settings.consumer_assignors[0]
    )


def _classic(group: ClassicGroup, offsets: dict[TopicPartition, int]) -> GroupView:
    members = {
        member.id: MemberView(
            member.id,
            member.instance_id,
            member.client_id,
            member.client_host,
            group.generation,
            _assigned(member) if group.uses_consumer_protocol else (),
        )
        for member in group.members.values()
    }
    return GroupView(
        group.id,
        "classic",
        group.state.value,
        group.generation,
        group.protocol,
        group.leader,
        members,
        offsets,
    )


def _assigned(member: ClassicMember) -> tuple[TopicPartition, ...]:
    """Decode the leader's assignment; empty for a protocol type other than consumer."""
    from pykafka2.protocol.messages.consumer_protocol import ConsumerProtocolAssignment

    try:
        # Version 0 is the prefix of all versions; an int16 with the version precedes it.
        read = ConsumerProtocolAssignment.decode(member.assignment[2:], 0, allow_trailing=True)
    except CorruptData:
        return ()
    return tuple(
        TopicPartition(one.topic, number) for one in read.assigned_partitions for number in one.partitions
    )


def _share(group: ShareGroup, topics: Topics) -> GroupView:
    members = {
        member.id: MemberView(
            member.id,
            None,
            member.client_id,
            member.client_host,
            member.epoch,
            tuple(_named(member.assigned, topics)),
        )
        for member in group.members.values()
    }
    return GroupView(group.id, "share", group.state.value, group.epoch, "simple", None, members, {})


def _consumer(
    group: ConsumerGroup, offsets: dict[TopicPartition, int], topics: Topics, default_assignor: str
) -> GroupView:
    members = {
        member.id: MemberView(
            member.id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.epoch,
            (*_named(member.assigned, topics), *_named(member.pending_revocation, topics)),
        )
        for member in group.members.values()
    }
    assignor = group.preferred_assignor(default_assignor)
    return GroupView(group.id, "consumer", group.state.value, group.epoch, assignor, None, members, offsets)


def _named(assignment: Mapping[bytes, Iterable[int]], topics: Topics) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(name, number)
        for topic_id, numbers in sorted(assignment.items())
        if (name := topics.name_of(topic_id)) is not None
        for number in sorted(numbers)
    )
