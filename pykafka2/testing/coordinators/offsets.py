"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit, and their end.

Offsets live in the log's records alone.  What a transaction commits is pending, invisible, until its marker
comes; meanwhile readers that require stable offsets are told UNSTABLE_OFFSET_COMMIT (rule 49).  Kafka 4.3's
rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import attrs

from pykafka2.errors import (
    BrokerError,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    NonEmptyGroup,
    OffsetMetadataTooLarge,
    StaleMemberEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from pykafka2.protocol.messages import committed_offsets as wire
from pykafka2.protocol.messages import transaction
from pykafka2.protocol.messages.group_records import (
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pykafka2.testing.coordinators.classic_rebalance import ClassicRebalance, Groups
from pykafka2.testing.coordinators.classic_state import ClassicGroup, GroupState
from pykafka2.testing.coordinators.consumer_state import ConsumerGroup
from pykafka2.testing.coordinators.refusals import FIRST_OFFSET_FETCH_WITH_GROUPS
from pykafka2.testing.coordinators.replay import Caller, Deferred, Producer, Result
from pykafka2.testing.coordinators.settings import NO_TOPICS, GroupSettings, Topics

FIRST_COMMIT_WITH_TOPIC_IDS: Final = 10
FIRST_FETCH_WITH_TOPIC_IDS: Final = 10
FIRST_COMMIT_THAT_NAMES_A_MISSING_GROUP: Final = 9

Place = tuple[str, int]
"""Topic and partition."""


@attrs.define(frozen=True)
class CommittedOffset:
    """One committed offset; timestamps are the wall clock's milliseconds."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int | None = None

    @classmethod
    def from_record(cls, value: OffsetCommitValue) -> CommittedOffset:
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            None if value.expire_timestamp == -1 else value.expire_timestamp,
        )


class Offsets:
    """Every committed offset of a shard."""

    def __init__(
        self,
        groups: Groups,
        classic: ClassicRebalance,
        settings: GroupSettings,
        wall_ms: Callable[[float], int],
    ) -> None:
        self.groups = groups
        self.topics: Topics = NO_TOPICS
        self.committed: dict[str, dict[Place, CommittedOffset]] = {}
        # Per producer and group what its open transaction would commit.
        self.pending: dict[int, dict[str, dict[Place, CommittedOffset]]] = {}
        self._classic = classic
        self._settings = settings
        self._wall_ms = wall_ms

    # -- replay -------------------------------------------------------------------------------------

    def replay(
        self,
        key: OffsetCommitKey | LegacyOffsetCommitKey,
        value: OffsetCommitValue | None,
        producer: Producer | None,
    ) -> None:
        place = (key.topic, key.partition)
        if value is None:
            self._forget(key.group, place)
            return
        # A consumer outside of groups has a group nonetheless: empty, without a protocol.
        if key.group not in self.groups:
            self.groups[key.group] = ClassicGroup(key.group)
        offset = CommittedOffset.from_record(value)
        if producer is not None:
            self.pending.setdefault(producer.id, {}).setdefault(key.group, {})[place] = offset
        else:
            self.committed.setdefault(key.group, {})[place] = offset

    def replay_marker(self, producer: Producer, committed: bool) -> None:
        """A transaction ended: what it would commit is committed, or was never there."""
        for group_id, offsets in self.pending.pop(producer.id, {}).items():
            if not committed:
                continue
            if group_id not in self.groups:
                self.groups[group_id] = ClassicGroup(group_id)
            self.committed.setdefault(group_id, {}).update(offsets)

    def _forget(self, group_id: str, place: Place) -> None:
        offsets = self.committed.get(group_id, {})
        offsets.pop(place, None)
        if not offsets:
            self.committed.pop(group_id, None)
        for groups in self.pending.values():
            groups.get(group_id, {}).pop(place, None)

    # -- OffsetCommit -------------------------------------------------------------------------------

    def commit(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("wire.OffsetCommitRequest", deferred.request)
        generation = request.generation_id_or_member_epoch
        names = [self._name(topic.name, topic.topic_id, caller.version) for topic in request.topics]
        group = self._group_for_commit(request.group_id, generation, caller.version)
        if isinstance(group, ConsumerGroup):
            partitions = [
                (None if name is None else self.topics.id_of(name), one.partition_index)
                for topic, name in zip(request.topics, names, strict=True)
                for one in topic.partitions
            ]
            group.check_commit(
                request.member_id, request.group_instance_id, generation, False, caller.version, partitions
            )
        else:
            group.check_commit(request.member_id, request.group_instance_id, generation, False)
            member = group.members.get(request.member_id)
            # 004-28: a commit is a sign of life.
            if member is not None and group.is_in(GroupState.STABLE, GroupState.PREPARING_REBALANCE):
                self._classic.arm_session(group, member, now)
        at_ms = self._wall_ms(now)
        expires_ms = None if request.retention_time_ms == -1 else at_ms + request.retention_time_ms
        topics = []
        for topic, name in zip(request.topics, names, strict=True):
            answers = []
            for one in topic.partitions:
                code = self._refusal(name, one.partition_index, one.committed_metadata)
                if not code and name is not None:
                    offset = CommittedOffset(
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.committed_metadata or "",
                        at_ms,
                        expires_ms,
                    )
                    write_offset(out, request.group_id, (name, one.partition_index), offset)
                answers.append(
                    wire.OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                )
            topics.append(
                wire.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)
            )
        out.reply(deferred, wire.OffsetCommitResponse(topics=topics))

    def _group_for_commit(self, group_id: str, generation: int, version: int) -> ClassicGroup | ConsumerGroup:
        group = self.groups.get(group_id)
        if group is not None:
            return group
        if generation < 0:
            return ClassicGroup(group_id)  # replay makes the real one
        if version >= FIRST_COMMIT_THAT_NAMES_A_MISSING_GROUP:
            raise GroupIdNotFound(f"no group {group_id}")
        raise IllegalGeneration(f"no group {group_id}")

    def _name(self, name: str, topic_id: bytes, version: int) -> str | None:
        return self.topics.name_of(topic_id) if version >= FIRST_COMMIT_WITH_TOPIC_IDS else name

    def _refusal(self, name: str | None, partition: int, metadata: str | None) -> int:
        if name is None:
            return UnknownTopicId.code
        if not 0 <= partition < self.topics.partition_count(name):
            return UnknownTopicOrPartition.code
        # Apache counts Java's characters, not bytes, against offset.metadata.max.bytes.
        units = len((metadata or "").encode("utf-16-be", "surrogatepass")) // 2
        return OffsetMetadataTooLarge.code if units > self._settings.offset_metadata_max_bytes else 0

    # -- TxnOffsetCommit ----------------------------------------------------------------------------

    def commit_transactional(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("transaction.TxnOffsetCommitRequest", deferred.request)
        if not request.group_id:
            raise InvalidGroupId
        group = self.groups.get(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise IllegalGeneration(f"no group {request.group_id}")
            group = ClassicGroup(request.group_id)
        generation, instance_id = request.generation_id, request.group_instance_id
        if isinstance(group, ConsumerGroup):
            partitions = [
                (self.topics.id_of(topic.name), one.partition_index)
                for topic in request.topics
                for one in topic.partitions
            ]
            try:
                group.check_commit(
                    request.member_id, instance_id, generation, True, caller.version, partitions
                )
            except BrokerError as error:
                # Producers know no member epochs.
                if isinstance(error, StaleMemberEpoch):
                    raise IllegalGeneration(str(error)) from error
                raise
        else:
            group.check_commit(request.member_id, instance_id, generation, True)
        out.producer = Producer(request.producer_id, request.producer_epoch)
        at_ms = self._wall_ms(now)
        topics = []
        for topic in request.topics:
            answers = []
            for one in topic.partitions:
                code = self._refusal(topic.name, one.partition_index, one.committed_metadata)
                if not code:
                    offset = CommittedOffset(
                        one.committed_offset,
                        one.committed_leader_epoch,
                        one.committed_metadata or "",
                        at_ms,
                    )
                    write_offset(out, request.group_id, (topic.name, one.partition_index), offset)
                answers.append(
                    transaction.TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=code
                    )
                )
            topics.append(transaction.TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers))
        out.reply(deferred, transaction.TxnOffsetCommitResponse(topics=topics))

    # -- OffsetFetch --------------------------------------------------------------------------------

    def fetch(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("wire.OffsetFetchRequest", deferred.request)
        if caller.version >= FIRST_OFFSET_FETCH_WITH_GROUPS:
            groups = [self._fetch_group(one, caller, request.require_stable) for one in request.groups]
            out.reply(deferred, wire.OffsetFetchResponse(groups=groups))
            return
        asked = wire.OffsetFetchRequestGroup(
            group_id=request.group_id,
            topics=None
            if request.topics is None
            else [
                wire.OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ],
        )
        group = self._fetch_group(asked, caller, request.require_stable)
        topics = [
            wire.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    wire.OffsetFetchResponsePartition(
                        partition_index=one.partition_index,
                        committed_offset=one.committed_offset,
                        committed_leader_epoch=one.committed_leader_epoch,
                        metadata=one.metadata,
                        error_code=one.error_code,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in group.topics
        ]
        out.reply(deferred, wire.OffsetFetchResponse(topics=topics, error_code=group.error_code))

    def _fetch_group(
        self, asked: wire.OffsetFetchRequestGroup, caller: Caller, require_stable: bool
    ) -> wire.OffsetFetchResponseGroup:
        """Rule 83: what nobody committed is -1 and no error, an unknown group included."""
        group = self.groups.get(asked.group_id)
        if isinstance(group, ConsumerGroup):
            try:
                group.check_fetch(asked.member_id, asked.member_epoch)
            except BrokerError as error:
                return wire.OffsetFetchResponseGroup(
                    group_id=asked.group_id, topics=[], error_code=error.code or 0
                )
        known = self.committed.get(asked.group_id, {})
        answers: dict[tuple[str, bytes], list[wire.OffsetFetchResponsePartitions]] = {}
        if asked.topics is None:
            for name, partition in sorted(known):
                topic = (name, self.topics.id_of(name) or bytes(16))
                answers.setdefault(topic, []).append(
                    self._answer(asked.group_id, (name, partition), require_stable)
                )
        for one in asked.topics or ():
            found = one.name
            if caller.version >= FIRST_FETCH_WITH_TOPIC_IDS:
                found = self.topics.name_of(one.topic_id) or ""
                if not found:
                    answers[one.name, one.topic_id] = [
                        _absent(partition, UnknownTopicId.code) for partition in one.partition_indexes
                    ]
                    continue
            answers.setdefault((one.name, one.topic_id), []).extend(
                self._answer(asked.group_id, (found, partition), require_stable)
                for partition in one.partition_indexes
            )
        return wire.OffsetFetchResponseGroup(
            group_id=asked.group_id,
            topics=[
                wire.OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in answers.items()
            ],
        )

    def _answer(
        self, group_id: str, place: Place, require_stable: bool
    ) -> wire.OffsetFetchResponsePartitions:
        if require_stable and self.is_pending(group_id, place):
            return _absent(place[1], UnstableOffsetCommit.code)
        offset = self.committed.get(group_id, {}).get(place)
        if offset is None:
            return _absent(place[1], 0)
        return wire.OffsetFetchResponsePartitions(
            partition_index=place[1],
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
        )

    def is_pending(self, group_id: str, place: Place) -> bool:
        """Whether an open transaction would commit it."""
        return any(place in groups.get(group_id, ()) for groups in self.pending.values())

    def has_open_transaction(self, group_id: str) -> bool:
        return any(group_id in groups for groups in self.pending.values())

    # -- the end of offsets -------------------------------------------------------------------------

    def delete(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("wire.OffsetDeleteRequest", deferred.request)
        if not request.group_id:
            raise InvalidGroupId
        group = self.groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"no group {request.group_id}")
        if isinstance(group, ClassicGroup):
            if group.state is GroupState.DEAD:
                raise CoordinatorNotAvailable
            if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
                raise NonEmptyGroup(f"{request.group_id} has members, and what they read is not known")
        known = self.committed.get(request.group_id, {})
        topics = []
        for topic in request.topics:
            answers = []
            for one in topic.partitions:
                place = (topic.name, one.partition_index)
                code = 0
                if not 0 <= one.partition_index < self.topics.partition_count(topic.name):
                    code = UnknownTopicOrPartition.code
                elif group.is_subscribed_to(topic.name):
                    code = GroupSubscribedToTopic.code
                elif place in known:
                    write_offset(out, request.group_id, place, None)
                answers.append(
                    wire.OffsetDeleteResponsePartition(partition_index=one.partition_index, error_code=code)
                )
            topics.append(wire.OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        out.reply(deferred, wire.OffsetDeleteResponse(topics=topics))

    def forget_all(self, group_id: str, out: Result) -> None:
        """All offsets of a group that is deleted."""
        places = set(self.committed.get(group_id, ()))
        for groups in self.pending.values():
            places |= set(groups.get(group_id, ()))
        for place in sorted(places):
            write_offset(out, group_id, place, None)

    def forget_topics(self, names: Iterable[str], out: Result) -> None:
        """Topics were deleted: so are the offsets in them."""
        gone = set(names)
        for group_id, offsets in self.committed.items():
            for place in sorted(offsets):
                if place[0] in gone:
                    write_offset(out, group_id, place, None)

    def expire(self, group_id: str, now: float, out: Result) -> bool:
        """Rule 84: remove a group's offsets that are due; whether none is left, pending ones included."""
        group = self.groups[group_id]
        known = self.committed.get(group_id)
        if not known:
            return not self.has_open_transaction(group_id)
        base_of = _expiry_base(group)
        if base_of is None:
            return False
        at_ms = self._wall_ms(now)
        retention_ms = self._settings.offsets_retention * 1000
        is_all_gone = True
        for place, offset in sorted(known.items()):
            if offset.expires_ms is not None:
                is_due = at_ms >= offset.expires_ms
            else:
                is_due = at_ms - base_of(offset) >= retention_ms
            if is_due and not group.is_subscribed_to(place[0]) and not self.is_pending(group_id, place):
                write_offset(out, group_id, place, None)
            else:
                is_all_gone = False
        return is_all_gone and not self.has_open_transaction(group_id)


def _expiry_base(group: ClassicGroup | ConsumerGroup) -> Callable[[CommittedOffset], int] | None:
    """From when an offset's retention counts, in the wall clock's milliseconds; None if none expires."""
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        if group.state is GroupState.EMPTY:
            emptied_ms = group.changed_ms
            return lambda offset: offset.committed_ms if emptied_ms is None else emptied_ms
        knows_topics = group.uses_consumer_protocol and group.subscribed_topics is not None
        if not knows_topics or group.state is not GroupState.STABLE:
            return None
    return lambda offset: offset.committed_ms


def write_offset(out: Result, group_id: str, place: Place, offset: CommittedOffset | None) -> None:
    """A commit as a record, or with None its removal."""
    key = OffsetCommitKey(group=group_id, topic=place[0], partition=place[1])
    if offset is None:
        out.write(key, None)
        return
    value = OffsetCommitValue(
        offset=offset.offset,
        leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        commit_timestamp=offset.committed_ms,
        expire_timestamp=-1 if offset.expires_ms is None else offset.expires_ms,
    )
    # Only version 1 has a place for an expiry of its own, as clients before 2.1 ask for.
    out.write(key, value, 3 if offset.expires_ms is None else 1)


def _absent(partition: int, code: int) -> wire.OffsetFetchResponsePartitions:
    return wire.OffsetFetchResponsePartitions(
        partition_index=partition, committed_offset=-1, metadata="", error_code=code
    )
