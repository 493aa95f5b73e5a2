"""Requests of share groups at a shard; imported with its first share group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pykafka2.broker.coordinators.groups.share import offsets
from pykafka2.broker.coordinators.groups.share.group import ShareGroups
from pykafka2.broker.coordinators.groups.share.state import ShareGroup, ShareMember
from pykafka2.broker.coordinators.refusals import REFUSAL
from pykafka2.broker.coordinators.replay import Caller, Deferred, Result
from pykafka2.errors import (
    BrokerError,
    GroupIdNotFound,
    InconsistentGroupProtocol,
    InvalidGroupId,
    UnknownMemberId,
)
from pykafka2.protocol.messages import share_group, share_offsets
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Response

ASSIGNOR = "simple"

# Without an authorizer all operations are allowed: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
ALL_GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))


def handle(shares: ShareGroups, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
    """Handle a request of a share group."""
    request = deferred.request
    if isinstance(request, share_group.ShareGroupHeartbeatRequest):
        shares.heartbeat(caller, deferred, out, now)
    elif isinstance(request, share_group.ShareGroupDescribeRequest):
        _describe(shares, deferred, out)
    elif isinstance(request, share_offsets.DescribeShareGroupOffsetsRequest):
        offsets.describe(shares, deferred, out)
    elif isinstance(request, share_offsets.AlterShareGroupOffsetsRequest):
        offsets.alter(shares, deferred, out)
    elif isinstance(request, share_offsets.DeleteShareGroupOffsetsRequest):
        offsets.delete(shares, deferred, out)
    else:
        raise TypeError(f"{type(request).__name__} is not a request for a group coordinator")


def split(request: Any) -> list[tuple[str, Any]]:
    """Return one request for each group, with its id."""
    if isinstance(request, share_group.ShareGroupDescribeRequest):
        with_operations = request.include_authorized_operations
        return [
            (
                name,
                share_group.ShareGroupDescribeRequest(
                    group_ids=[name], include_authorized_operations=with_operations
                ),
            )
            for name in request.group_ids
        ]
    kind = share_offsets.DescribeShareGroupOffsetsRequest
    return [(group.group_id, kind(groups=[group])) for group in request.groups]


def merge(request: Any, responses: list[Any]) -> Response:
    """Merge the responses to these requests."""
    kind: Callable[..., Response] = request.RESPONSE
    return kind(groups=[group for response in responses for group in response.groups])


_CLASSIC = (ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP)


def refuse_other(shares: ShareGroups, deferred: Deferred[Any], out: Result) -> bool:
    """Reject a request of another kind of group that names a share group. Return whether it was rejected."""
    request: Any = deferred.request
    if not isinstance(shares.groups.get(getattr(request, "group_id", "")), ShareGroup):
        return False
    if request.API_KEY == ApiKey.JOIN_GROUP:
        out.refuse(deferred, InconsistentGroupProtocol.code, member_id="")
        return True
    if request.API_KEY in _CLASSIC:
        raise UnknownMemberId
    raise GroupIdNotFound(f"Group {request.group_id} is not a consumer group.")


def _describe(shares: ShareGroups, deferred: Deferred[Any], out: Result) -> None:
    request = cast("share_group.ShareGroupDescribeRequest", deferred.request)
    described = []
    for group_id in request.group_ids:
        try:
            if not group_id:
                raise InvalidGroupId
            group = _described(shares, shares.get(group_id))
            if request.include_authorized_operations:
                group.authorized_operations = ALL_GROUP_OPERATIONS
        except BrokerError as error:
            code = error.code or 0
            group = REFUSAL.entry(share_group.DescribedGroup, group_id, deferred.version, code)
            group.error_message = str(error) if group_id else None
        described.append(group)
    out.respond(deferred, share_group.ShareGroupDescribeResponse(groups=described))


def _described(shares: ShareGroups, group: ShareGroup) -> share_group.DescribedGroup:
    return share_group.DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(shares, member) for member in group.members.values()],
    )


def _member(shares: ShareGroups, member: ShareMember) -> share_group.Member:
    topics = shares.topics
    return share_group.Member(
        member_id=member.id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=share_group.ShareGroupDescribeResponseAssignment(
            topic_partitions=[
                share_group.ShareGroupDescribeResponseTopicPartitions(
                    topic_id=topic_id, topic_name=name, partitions=sorted(member.assigned[topic_id])
                )
                for topic_id in sorted(member.assigned)
                if (name := topics.name_of(topic_id)) is not None
            ]
        ),
    )
