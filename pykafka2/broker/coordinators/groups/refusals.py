"""Error responses of a group coordinator for each type of request. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages import consumer_group, group_admin, transaction
from pykafka2.protocol.messages import group as classic
from pykafka2.protocol.struct import Response

FIRST_OFFSET_FETCH_WITH_GROUPS: Final = 8


def _join(request: classic.JoinGroupRequest, version: int, code: int) -> Response:
    return join_error(version, code, request.member_id)


def join_error(version: int, code: int, member_id: str) -> classic.JoinGroupResponse:
    """Return a JoinGroup response with an error; old versions have no null protocol."""
    return classic.JoinGroupResponse(
        error_code=code,
        member_id=member_id,
        leader="",
        protocol_name=None if version >= 7 else "",
        members=[],
    )


def _sync(request: classic.SyncGroupRequest, version: int, code: int) -> Response:
    return classic.SyncGroupResponse(error_code=code, assignment=b"")


def _heartbeat(request: classic.HeartbeatRequest, version: int, code: int) -> Response:
    return classic.HeartbeatResponse(error_code=code)


def _leave(request: classic.LeaveGroupRequest, version: int, code: int) -> Response:
    return classic.LeaveGroupResponse(error_code=code)


def _describe(request: group_admin.DescribeGroupsRequest, version: int, code: int) -> Response:
    return group_admin.DescribeGroupsResponse(
        groups=[described_error(group_id, version, code) for group_id in request.groups]
    )


def described_error(
    group_id: str, version: int, code: int, state: str = "", message: str | None = None
) -> group_admin.DescribedGroup:
    """Return a group with an error for a DescribeGroups response."""
    return group_admin.DescribedGroup(
        error_code=code,
        error_message=message if version >= 6 else None,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )


def _list(request: group_admin.ListGroupsRequest, version: int, code: int) -> Response:
    return group_admin.ListGroupsResponse(error_code=code, groups=[])


def _delete(request: group_admin.DeleteGroupsRequest, version: int, code: int) -> Response:
    return group_admin.DeleteGroupsResponse(
        results=[
            group_admin.DeletableGroupResult(group_id=name, error_code=code) for name in request.groups_names
        ]
    )


def _commit(request: offsets.OffsetCommitRequest, version: int, code: int) -> Response:
    return offsets.OffsetCommitResponse(
        topics=[
            offsets.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    offsets.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _fetch(request: offsets.OffsetFetchRequest, version: int, code: int) -> Response:
    if version >= FIRST_OFFSET_FETCH_WITH_GROUPS:
        return offsets.OffsetFetchResponse(
            groups=[
                offsets.OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=code)
                for group in request.groups
            ]
        )
    topics = []
    if version < 2:  # version 0 and 1 have errors only in partitions
        topics = [
            offsets.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    offsets.OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    return offsets.OffsetFetchResponse(topics=topics, error_code=code)


def _delete_offsets(request: offsets.OffsetDeleteRequest, version: int, code: int) -> Response:
    return offsets.OffsetDeleteResponse(error_code=code, topics=[])


def _commit_transactional(request: transaction.TxnOffsetCommitRequest, version: int, code: int) -> Response:
    return transaction.TxnOffsetCommitResponse(
        topics=[
            transaction.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    transaction.TxnOffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=code
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _consumer_heartbeat(
    request: consumer_group.ConsumerGroupHeartbeatRequest, version: int, code: int
) -> Response:
    return consumer_heartbeat_error(code, None)


def consumer_heartbeat_error(code: int, message: str | None) -> consumer_group.ConsumerGroupHeartbeatResponse:
    """Return a ConsumerGroupHeartbeat response with an error."""
    return consumer_group.ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


def _consumer_describe(
    request: consumer_group.ConsumerGroupDescribeRequest, version: int, code: int
) -> Response:
    return consumer_group.ConsumerGroupDescribeResponse(
        groups=[consumer_described_error(group_id, code) for group_id in request.group_ids]
    )


def consumer_described_error(
    group_id: str, code: int, message: str | None = None
) -> consumer_group.DescribedGroup:
    """Return a group with an error for a ConsumerGroupDescribe response."""
    return consumer_group.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )


REFUSERS: Final[dict[type[Any], Callable[[Any, int, int], Response]]] = {
    classic.JoinGroupRequest: _join,
    classic.SyncGroupRequest: _sync,
    classic.HeartbeatRequest: _heartbeat,
    classic.LeaveGroupRequest: _leave,
    group_admin.DescribeGroupsRequest: _describe,
    group_admin.ListGroupsRequest: _list,
    group_admin.DeleteGroupsRequest: _delete,
    offsets.OffsetCommitRequest: _commit,
    offsets.OffsetFetchRequest: _fetch,
    offsets.OffsetDeleteRequest: _delete_offsets,
    transaction.TxnOffsetCommitRequest: _commit_transactional,
    consumer_group.ConsumerGroupHeartbeatRequest: _consumer_heartbeat,
    consumer_group.ConsumerGroupDescribeRequest: _consumer_describe,
}
"""For each type of request, the function (request, version, error code) that builds its error response."""
