"""The start offsets of a share group: altered, deleted, and which partitions have one.

The share coordinator has the offsets; the group's records say which partitions have one. Both changes need a
group without members, and a new state epoch fences leaders that still write the former state.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import attrs

from pykafka2.broker.coordinators.groups.share.group import ShareGroups
from pykafka2.broker.coordinators.groups.share.partition_states import Place, Results, error_in
from pykafka2.broker.coordinators.groups.share.state import (
    Assignment,
    PartitionStates,
    ShareGroup,
    without_topics,
)
from pykafka2.broker.coordinators.replay import Deferred, Result
from pykafka2.errors import InvalidGroupId, NonEmptyGroup, UnknownTopicOrPartition, error_of
from pykafka2.protocol.messages import share_offsets as messages

UNKNOWN = UnknownTopicOrPartition.code


def alter(shares: ShareGroups, deferred: Deferred[Any], out: Result) -> None:
    """Set start offsets; a group that does not exist is created."""
    request = cast("messages.AlterShareGroupOffsetsRequest", deferred.request)
    if not request.group_id:
        raise InvalidGroupId
    exists = request.group_id in shares.groups
    group = shares.get(request.group_id) if exists else ShareGroup(request.group_id)
    _check_empty(group)
    starts: dict[Place, int] = {}
    topics = [_altered(shares, topic, starts) for topic in request.topics]
    response = messages.AlterShareGroupOffsetsResponse(responses=topics)
    if not starts:
        out.respond(deferred, response)
        return
    partitions: dict[bytes, set[int]] = {}
    for topic_id, number in starts:
        partitions.setdefault(topic_id, set()).add(number)
    changed = {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items()}
    shares.states.write_initializing(group, changed, out)

    def initialized(results: Results, now: float) -> None:
        out = Result()
        if error_in(results):
            for topic in topics:
                for entry in topic.partitions:
                    result = results.get((topic.topic_id, entry.partition_index))
                    if result is not None and result.error_code:
                        entry.error_code, entry.error_message = result.error_code, result.error_message
        else:
            shares.states.write_initialized(group.id, changed, 0, out)
        out.respond(deferred, response)
        shares.states.context.carry_out(out, now)

    call = partial(shares.states.initialize, group.id, group.epoch, starts, initialized)
    shares.states.after_commit(deferred, out, call)


def _altered(
    shares: ShareGroups, topic: messages.AlterShareGroupOffsetsRequestTopic, starts: dict[Place, int]
) -> messages.AlterShareGroupOffsetsResponseTopic:
    """Return a topic's entry of the response, and add the start offsets of its partitions that exist."""
    topic_id = shares.topics.id_of(topic.topic_name)
    count = shares.topics.partition_count(topic.topic_name)
    partitions = []
    for one in topic.partitions:
        entry = messages.AlterShareGroupOffsetsResponsePartition(partition_index=one.partition_index)
        if topic_id is not None and 0 <= one.partition_index < count:
            starts[topic_id, one.partition_index] = one.start_offset
        else:
            entry.error_code, entry.error_message = UNKNOWN, str(UnknownTopicOrPartition())
        partitions.append(entry)
    return messages.AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, topic_id=topic_id or bytes(16), partitions=partitions
    )


def _check_empty(group: ShareGroup) -> None:
    if group.members:
        raise NonEmptyGroup(f"{group.id} has members")


def delete(shares: ShareGroups, deferred: Deferred[Any], out: Result) -> None:
    """Delete the start offsets of topics."""
    request = cast("messages.DeleteShareGroupOffsetsRequest", deferred.request)
    if not request.group_id:
        raise InvalidGroupId
    group = shares.get(request.group_id)
    _check_empty(group)
    states = group.states
    if states is None:
        out.respond(deferred, messages.DeleteShareGroupOffsetsResponse(responses=[]))
        return
    failed: list[messages.DeleteShareGroupOffsetsResponseTopic] = []
    partitions = _to_delete(shares, states, request, failed)
    changed = attrs.evolve(
        states,
        initialized=without_topics(states.initialized, partitions),
        deleting=states.deleting | partitions.keys(),
    )
    shares.states.write(group.id, changed, out)
    if not partitions:
        out.respond(deferred, messages.DeleteShareGroupOffsetsResponse(responses=failed))
        return

    def deleted(results: Results, now: float) -> None:
        out = Result()
        topics = _deleted(shares, group.id, results, out)
        out.respond(deferred, messages.DeleteShareGroupOffsetsResponse(responses=topics + failed))
        shares.states.context.carry_out(out, now)

    call = partial(shares.states.delete, group.id, partitions, deleted)
    shares.states.after_commit(deferred, out, call)


def _to_delete(
    shares: ShareGroups,
    states: PartitionStates,
    request: messages.DeleteShareGroupOffsetsRequest,
    failed: list[messages.DeleteShareGroupOffsetsResponseTopic],
) -> Assignment:
    """Return the partitions with a state, and add entries for topics without one."""
    partitions: dict[bytes, frozenset[int]] = {}
    for topic in request.topics:
        topic_id = shares.topics.id_of(topic.topic_name)
        if topic_id is not None and topic_id in states.initialized:
            partitions[topic_id] = states.initialized[topic_id]
        elif topic_id is not None and topic_id in states.deleting:
            partitions[topic_id] = frozenset(range(shares.topics.partition_count(topic.topic_name)))
        else:
            reason = str(UnknownTopicOrPartition())
            failed.append(
                messages.DeleteShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name,
                    topic_id=bytes(16),
                    error_code=UNKNOWN,
                    error_message=reason if topic_id is None else "There is no offset information to delete.",
                )
            )
    return partitions


def _deleted(
    shares: ShareGroups, group_id: str, results: Results, out: Result
) -> list[messages.DeleteShareGroupOffsetsResponseTopic]:
    """Return the entries of topics whose states were deleted or not, and write the former ones."""
    codes: dict[bytes, int] = {}
    for (topic_id, _), result in results.items():
        codes[topic_id] = codes.get(topic_id) or result.error_code
    group = shares.states.find(group_id)
    if group is not None and group.states is not None and not all(codes.values()):
        done = {topic_id for topic_id, code in codes.items() if not code}
        # A member that joined meanwhile has had them initialized, possibly before they were deleted.
        initialized = without_topics(group.states.initialized, done)
        changed = attrs.evolve(group.states, initialized=initialized, deleting=group.states.deleting - done)
        shares.states.write(group_id, changed, out)
    return [
        messages.DeleteShareGroupOffsetsResponseTopic(
            topic_name=shares.topics.name_of(topic_id) or "",
            topic_id=topic_id,
            error_code=code,
            error_message=str(error_of(code)) if code else None,
        )
        for topic_id, code in sorted(codes.items())
    ]


def describe(shares: ShareGroups, deferred: Deferred[Any], out: Result) -> None:
    """Name the partitions of groups with a start offset; the share coordinator has the offsets."""
    request = cast("messages.DescribeShareGroupOffsetsRequest", deferred.request)
    groups = []
    for one in request.groups:
        group = shares.states.find(one.group_id)
        states = None if group is None else group.states
        initialized: Mapping[bytes, frozenset[int]] = {} if states is None else states.initialized
        groups.append(
            messages.DescribeShareGroupOffsetsResponseGroup(
                group_id=one.group_id,
                topics=[
                    messages.DescribeShareGroupOffsetsResponseTopic(
                        topic_name=name,
                        topic_id=topic_id,
                        partitions=[
                            messages.DescribeShareGroupOffsetsResponsePartition(
                                partition_index=number, start_offset=-1, leader_epoch=0
                            )
                            for number in sorted(initialized[topic_id])
                        ],
                    )
                    for topic_id in sorted(initialized)
                    if (name := shares.topics.name_of(topic_id)) is not None
                ],
            )
        )
    out.respond(deferred, messages.DescribeShareGroupOffsetsResponse(groups=groups))
