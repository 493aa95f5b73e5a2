"""Requests about committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.

Kafka's rules; offsets.py stores the offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup, GroupState
from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroup
from pykafka2.broker.coordinators.groups.offsets import (
    NO_TOPIC_ID,
    CommittedOffset,
    OffsetStore,
    Place,
    write_offset,
)
from pykafka2.broker.coordinators.refusals import refusal
from pykafka2.broker.coordinators.replay import Caller, Deferred, Producer, Result
from pykafka2.broker.coordinators.settings import Topics
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

FIRST_COMMIT_WITH_TOPIC_IDS: Final = 10
FIRST_TRANSACTIONAL_COMMIT_WITH_TOPIC_IDS: Final = 6
"""From it on missing groups and stale epochs have their own errors, too (KIP-1319)."""
FIRST_OFFSET_FETCH_WITH_GROUPS: Final = 8
FIRST_FETCH_WITH_TOPIC_IDS: Final = 10
FIRST_COMMIT_THAT_NAMES_A_MISSING_GROUP: Final = 9


class Offsets(OffsetStore):
    """All committed offsets of a shard, and the requests about them."""

    # -- OffsetCommit -------------------------------------------------------------------------------

    def commit(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("wire.OffsetCommitRequest", deferred.request)
        generation = request.generation_id_or_member_epoch
        by_id = caller.version >= FIRST_COMMIT_WITH_TOPIC_IDS
        names = [self._name(topic.name, topic.topic_id, by_id) for topic in request.topics]
        if names and not any(name is not None and self.topics.partition_count(name) for name in names):
            self._refuse_topics(deferred, names, out)  # as in Kafka, before the group is looked up
            return
        group = self._group_for_commit(request.group_id, generation, caller.version)
        if isinstance(group, ConsumerGroup):
            partitions = [
                (None if name is None else self.topics.id_of(name), partition.partition_index)
                for topic, name in zip(request.topics, names, strict=True)
                for partition in topic.partitions
            ]
            group.check_commit(
                request.member_id, request.group_instance_id, generation, False, caller.version, partitions
            )
        else:
            group.check_commit(request.member_id, request.group_instance_id, generation, False)
            member = group.members.get(request.member_id)
            # A commit counts as a heartbeat.
            if member is not None and group.is_in(GroupState.STABLE, GroupState.PREPARING_REBALANCE):
                self._classic.schedule_session_timeout(group, member, now)
        at_ms = self._wall_ms(now)
        expires_ms = None if request.retention_time_ms == -1 else at_ms + request.retention_time_ms
        topics = []
        for topic, name in zip(request.topics, names, strict=True):
            responses = []
            for partition in topic.partitions:
                code = self._refusal(name, partition.partition_index, partition.committed_metadata)
                if not code and name is not None:
                    offset = CommittedOffset(
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata or "",
                        at_ms,
                        expires_ms,
                        self.topics.id_of(name) or NO_TOPIC_ID,
                    )
                    write_offset(out, request.group_id, (name, partition.partition_index), offset)
                responses.append(
                    wire.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                )
            topics.append(
                wire.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=responses)
            )
        out.respond(deferred, wire.OffsetCommitResponse(topics=topics))

    def _refuse_topics(self, deferred: Deferred[Any], names: list[str | None], out: Result) -> None:
        response = refusal(cast("wire.OffsetCommitRequest", deferred.request), deferred.version, 0)
        for topic, name in zip(response.topics, names, strict=True):
            for partition in topic.partitions:
                partition.error_code = self._refusal(name, partition.partition_index, None)
        out.respond(deferred, response)

    def _group_for_commit(self, group_id: str, generation: int, version: int) -> ClassicGroup | ConsumerGroup:
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup | ConsumerGroup):
            return group
        if group is None and generation < 0:
            return ClassicGroup(group_id)  # replay creates the real one
        if version >= FIRST_COMMIT_THAT_NAMES_A_MISSING_GROUP:
            raise GroupIdNotFound(f"group {group_id} does not exist")
        raise IllegalGeneration(f"group {group_id} does not exist")

    def _name(self, name: str, topic_id: bytes, by_id: bool) -> str | None:
        return self.topics.name_of(topic_id) if by_id else name

    def _refusal(self, name: str | None, partition: int, metadata: str | None) -> int:
        if name is None:
            return UnknownTopicId.code
        if not 0 <= partition < self.topics.partition_count(name):
            return UnknownTopicOrPartition.code
        # Apache compares offset.metadata.max.bytes with Java's characters, not bytes.
        units = len((metadata or "").encode("utf-16-be", "surrogatepass")) // 2
        return OffsetMetadataTooLarge.code if units > self._settings.offset_metadata_max_bytes else 0

    # -- TxnOffsetCommit ----------------------------------------------------------------------------

    def commit_transactional(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("transaction.TxnOffsetCommitRequest", deferred.request)
        if not request.group_id:
            raise InvalidGroupId
        group = self.groups.get(request.group_id)
        by_id = caller.version >= FIRST_TRANSACTIONAL_COMMIT_WITH_TOPIC_IDS
        if not isinstance(group, ClassicGroup | ConsumerGroup):
            if group is not None or request.generation_id_or_member_epoch >= 0:
                missing = GroupIdNotFound if by_id else IllegalGeneration
                raise missing(f"group {request.group_id} does not exist")
            group = ClassicGroup(request.group_id)
        generation, instance_id = request.generation_id_or_member_epoch, request.group_instance_id
        names = [self._name(topic.name, topic.topic_id, by_id) for topic in request.topics]
        is_before_4_4 = self._settings.is_before_4_4
        if isinstance(group, ConsumerGroup):
            partitions = [
                (None if name is None else self.topics.id_of(name), partition.partition_index)
                for topic, name in zip(request.topics, names, strict=True)
                for partition in topic.partitions
            ]
            try:
                group.check_commit(
                    request.member_id, instance_id, generation, True, caller.version, partitions
                )
            except StaleMemberEpoch as error:
                if by_id:
                    raise
                raise IllegalGeneration(str(error)) from error  # older producers know no member epochs
        else:
            group.check_commit(request.member_id, instance_id, generation, True)
        out.producer = Producer(request.producer_id, request.producer_epoch)
        at_ms = self._wall_ms(now)
        topics = []
        for topic, name in zip(request.topics, names, strict=True):
            responses = []
            for partition in topic.partitions:
                code = self._refusal(name, partition.partition_index, partition.committed_metadata)
                if not code and name is not None:
                    offset = CommittedOffset(
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata or "",
                        at_ms,
                        topic_id=NO_TOPIC_ID if is_before_4_4 else self.topics.id_of(name) or NO_TOPIC_ID,
                    )
                    write_offset(out, request.group_id, (name, partition.partition_index), offset)
                responses.append(
                    transaction.TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                )
            topics.append(
                transaction.TxnOffsetCommitResponseTopic(
                    name=topic.name, topic_id=topic.topic_id, partitions=responses
                )
            )
        out.respond(deferred, transaction.TxnOffsetCommitResponse(topics=topics))

    # -- OffsetFetch --------------------------------------------------------------------------------

    def fetch(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("wire.OffsetFetchRequest", deferred.request)
        if caller.version >= FIRST_OFFSET_FETCH_WITH_GROUPS:
            groups = [self._fetch_group(group, caller, request.require_stable) for group in request.groups]
            out.respond(deferred, wire.OffsetFetchResponse(groups=groups))
            return
        single = wire.OffsetFetchRequestGroup(
            group_id=request.group_id,
            topics=None
            if request.topics is None
            else [
                wire.OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
                for topic in request.topics
            ],
        )
        group = self._fetch_group(single, caller, request.require_stable)
        topics = [
            wire.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    wire.OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ]
        out.respond(deferred, wire.OffsetFetchResponse(topics=topics, error_code=group.error_code))

    def _fetch_group(
        self, query: wire.OffsetFetchRequestGroup, caller: Caller, require_stable: bool
    ) -> wire.OffsetFetchResponseGroup:
        """Return a group's offsets: -1 without an error if there is no commit, even for an unknown group."""
        group = self.groups.get(query.group_id)
        if isinstance(group, ConsumerGroup):
            try:
                group.check_fetch(query.member_id, query.member_epoch)
            except BrokerError as error:
                return wire.OffsetFetchResponseGroup(
                    group_id=query.group_id, topics=[], error_code=error.code or 0
                )
        known = self.committed.get(query.group_id, {})
        responses: dict[tuple[str, bytes], list[wire.OffsetFetchResponsePartitions]] = {}
        if query.topics is None:
            for name, partition in sorted(known):
                topic = (name, self.topics.id_of(name) or bytes(16))
                responses.setdefault(topic, []).append(
                    self._offset_response(query.group_id, (name, partition), require_stable)
                )
        for requested in query.topics or ():
            found = requested.name
            if caller.version >= FIRST_FETCH_WITH_TOPIC_IDS:
                found = self.topics.name_of(requested.topic_id) or ""
                if not found:
                    responses[requested.name, requested.topic_id] = [
                        _absent(partition, UnknownTopicId.code) for partition in requested.partition_indexes
                    ]
                    continue
            responses.setdefault((requested.name, requested.topic_id), []).extend(
                self._offset_response(query.group_id, (found, partition), require_stable, requested.topic_id)
                for partition in requested.partition_indexes
            )
        return wire.OffsetFetchResponseGroup(
            group_id=query.group_id,
            topics=[
                wire.OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in responses.items()
            ],
        )

    def _offset_response(
        self, group_id: str, place: Place, require_stable: bool, topic_id: bytes = NO_TOPIC_ID
    ) -> wire.OffsetFetchResponsePartitions:
        if require_stable and self.is_pending(group_id, place):
            return _absent(place[1], UnstableOffsetCommit.code)
        offset = self.committed.get(group_id, {}).get(place)
        if offset is None or not offset.is_of(topic_id):
            return _absent(place[1], 0)
        return wire.OffsetFetchResponsePartitions(
            partition_index=place[1],
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
        )

    # -- OffsetDelete -------------------------------------------------------------------------------

    def delete(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        request = cast("wire.OffsetDeleteRequest", deferred.request)
        if not request.group_id:
            raise InvalidGroupId
        group = self.groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"group {request.group_id} does not exist")
        if isinstance(group, ClassicGroup):
            if group.state is GroupState.DEAD:
                raise CoordinatorNotAvailable
            if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
                raise NonEmptyGroup(f"{request.group_id} has members, and their subscriptions are unknown")
        known = self.committed.get(request.group_id, {})
        topics = []
        for topic in request.topics:
            responses = []
            for partition in topic.partitions:
                place = (topic.name, partition.partition_index)
                code = 0
                if not 0 <= partition.partition_index < self.topics.partition_count(topic.name):
                    code = UnknownTopicOrPartition.code
                elif group.is_subscribed_to(topic.name):
                    code = GroupSubscribedToTopic.code
                elif place in known or self.is_pending(request.group_id, place):
                    write_offset(out, request.group_id, place, None)
                responses.append(
                    wire.OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                )
            topics.append(wire.OffsetDeleteResponseTopic(name=topic.name, partitions=responses))
        out.respond(deferred, wire.OffsetDeleteResponse(topics=topics))


def _absent(partition: int, code: int) -> wire.OffsetFetchResponsePartitions:
    return wire.OffsetFetchResponsePartitions(
        partition_index=partition, committed_offset=-1, metadata="", error_code=code
    )


Commit = wire.OffsetCommitRequest | transaction.TxnOffsetCommitRequest


@attrs.define(frozen=True)
class Missing:
    """The partitions of a commit that do not exist, which the broker rejects without their group."""

    codes: Mapping[tuple[int, int], int]
    """Error codes by the positions of topic and partition in the request."""
    are_all: bool
    """Whether no partition of the request exists; also if it has none."""

    def add_to(self, response: Any) -> None:
        """Set their errors in the response, whatever error their group has."""
        for (topic, partition), code in self.codes.items():
            response.topics[topic].partitions[partition].error_code = code


def missing_partitions(request: Commit, version: int, topics: Topics | None) -> Missing:
    """Return the missing partitions of a commit."""
    missing: dict[tuple[int, int], int] = {}
    if topics is None:
        return Missing(missing, are_all=False)
    topic_list: list[Any] = [*request.topics]
    is_transactional = isinstance(request, transaction.TxnOffsetCommitRequest)
    first = FIRST_TRANSACTIONAL_COMMIT_WITH_TOPIC_IDS if is_transactional else FIRST_COMMIT_WITH_TOPIC_IDS
    for at, topic in enumerate(topic_list):
        name: str | None = topic.name
        code = UnknownTopicOrPartition.code
        if version >= first:
            name = topics.name_of(topic.topic_id)
            code = UnknownTopicId.code if name is None else code
        count = 0 if name is None else topics.partition_count(name)
        for place, partition in enumerate(topic.partitions):
            if not 0 <= partition.partition_index < count:
                missing[at, place] = code
    return Missing(missing, are_all=len(missing) == sum(len(topic.partitions) for topic in topic_list))
