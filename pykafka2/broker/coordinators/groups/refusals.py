"""How a group coordinator refuses each kind of request.  Pure."""

from __future__ import annotations

from typing import Final

from pykafka2.broker.coordinators.refusals import refuses
from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages import consumer_group, group_admin, transaction
from pykafka2.protocol.messages import group as classic
from pykafka2.protocol.struct import Response

FIRST_OFFSET_FETCH_WITH_GROUPS: Final = 8


@refuses(classic.JoinGroupRequest)
def _join(request: classic.JoinGroupRequest, version: int, code: int) -> Response:
    return join_error(version, code, request.member_id)


def join_error(version: int, code: int, member_id: str) -> classic.JoinGroupResponse:
    """A JoinGroup that failed; old versions have no null protocol."""
    return classic.JoinGroupResponse(
        error_code=code,
        member_id=member_id,
        leader="",
        protocol_name=None if version >= 7 else "",
        members=[],
    )


@refuses(classic.SyncGroupRequest)
def _sync(request: classic.SyncGroupRequest, version: int, code: int) -> Response:
    return classic.SyncGroupResponse(error_code=code, assignment=b"")


@refuses(classic.HeartbeatRequest)
def _heartbeat(request: classic.HeartbeatRequest, version: int, code: int) -> Response:
    return classic.HeartbeatResponse(error_code=code)


@refuses(classic.LeaveGroupRequest)
def _leave(request: classic.LeaveGroupRequest, version: int, code: int) -> Response:
    return classic.LeaveGroupResponse(error_code=code)


@refuses(group_admin.DescribeGroupsRequest)
def _describe(request: group_admin.DescribeGroupsRequest, version: int, code: int) -> Response:
    return group_admin.DescribeGroupsResponse(
        groups=[described_error(group_id, version, code) for group_id in request.groups]
    )


def described_error(
    group_id: str, version: int, code: int, state: str = "", message: str | None = None
) -> group_admin.DescribedGroup:
    """A group of a DescribeGroups response that could not be described."""
    return group_admin.DescribedGroup(
        error_code=code,
        error_message=message if version >= 6 else None,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
    )


@refuses(group_admin.ListGroupsRequest)
def _list(request: group_admin.ListGroupsRequest, version: int, code: int) -> Response:
    return group_admin.ListGroupsResponse(error_code=code, groups=[])


@refuses(group_admin.DeleteGroupsRequest)
def _delete(request: group_admin.DeleteGroupsRequest, version: int, code: int) -> Response:
    return group_admin.DeleteGroupsResponse(
        results=[
            group_admin.DeletableGroupResult(group_id=name, error_code=code) for name in request.groups_names
        ]
    )


@refuses(offsets.OffsetCommitRequest)
def _commit(request: offsets.OffsetCommitRequest, version: int, code: int) -> Response:
    return offsets.OffsetCommitResponse(
        topics=[
            offsets.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    offsets.OffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=code
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@refuses(offsets.OffsetFetchRequest)
def _fetch(request: offsets.OffsetFetchRequest, version: int, code: int) -> Response:
    if version >= FIRST_OFFSET_FETCH_WITH_GROUPS:
        return offsets.OffsetFetchResponse(
            groups=[
                offsets.OffsetFetchResponseGroup(group_id=one.group_id, topics=[], error_code=code)
                for one in request.groups
            ]
        )
    topics = []
    if version < 2:  # no place for an error but at the partitions
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


@refuses(offsets.OffsetDeleteRequest)
def _delete_offsets(request: offsets.OffsetDeleteRequest, version: int, code: int) -> Response:
    return offsets.OffsetDeleteResponse(error_code=code, topics=[])


@refuses(transaction.TxnOffsetCommitRequest)
def _commit_transactional(request: transaction.TxnOffsetCommitRequest, version: int, code: int) -> Response:
    return transaction.TxnOffsetCommitResponse(
        topics=[
            transaction.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    transaction.TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=code
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@refuses(consumer_group.ConsumerGroupHeartbeatRequest)
def _consumer_heartbeat(
    request: consumer_group.ConsumerGroupHeartbeatRequest, version: int, code: int
) -> Response:
    return consumer_heartbeat_error(code, None)


def consumer_heartbeat_error(code: int, message: str | None) -> consumer_group.ConsumerGroupHeartbeatResponse:
    """A ConsumerGroupHeartbeat that failed."""
    return consumer_group.ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


@refuses(consumer_group.ConsumerGroupDescribeRequest)
def _consumer_describe(
    request: consumer_group.ConsumerGroupDescribeRequest, version: int, code: int
) -> Response:
    return consumer_group.ConsumerGroupDescribeResponse(
        groups=[consumer_described_error(group_id, code) for group_id in request.group_ids]
    )


def consumer_described_error(
    group_id: str, code: int, message: str | None = None
) -> consumer_group.DescribedGroup:
    """A group of a ConsumerGroupDescribe response that could not be described."""
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
