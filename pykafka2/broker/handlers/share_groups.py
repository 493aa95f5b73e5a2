"""APIs of share groups at their coordinator (KIP-932): members, and start offsets with their lag (KIP-1226).

All but DescribeShareGroupOffsets are submitted to the shard of the group's partition
(coordinators/groups/share/). The start offsets are read from the share coordinator by any broker; only the
list of a group's partitions comes from its shard. Share groups are imported with the first one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykafka2.broker.base.features import SHARE_VERSION
from pykafka2.broker.handlers.api import GROUP_COORDINATOR, api, submit_to_groups
from pykafka2.broker.handlers.authorization import (
    MESSAGES,
    READ_GROUP,
    Checked,
    Verdict,
    check_subscription,
    code_of,
    each,
    hide_described_topics,
    in_turn,
    on_named,
    set_group_operations,
)
from pykafka2.broker.security.authorizer import Access
from pykafka2.broker.server.responses import REFUSAL
from pykafka2.errors import InvalidRequest, TopicAuthorizationFailed, UnsupportedVersion
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages import share_offsets
from pykafka2.protocol.messages.share_group import ShareGroupDescribeRequest, ShareGroupHeartbeatRequest
from pykafka2.protocol.messages.share_offsets import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from pykafka2.protocol.struct import Request

if TYPE_CHECKING:
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.server.request_context import RequestContext

MAX_MEMBER_ID: Final = 36
DENIED: Final = TopicAuthorizationFailed(MESSAGES[code_of(ResourceType.TOPIC)])


def require_share_groups(services: Services) -> None:
    """Raise `UnsupportedVersion` unless share.version is finalized."""
    if services.image.features.get(SHARE_VERSION, 0) < 1:
        raise UnsupportedVersion("share groups are disabled; finalize share.version")


def _may_read(checked: Checked, topic: str) -> bool:
    return checked.access.may(Operation.READ, ResourceType.TOPIC, topic)


def check_alter(checked: Checked) -> Verdict:
    """Check READ on each topic; the partitions of others get the error."""
    kept, refused = _split(checked)
    if refused:
        cls = share_offsets.AlterShareGroupOffsetsResponseTopic
        denied = [REFUSAL.entry(cls, topic, checked.version, DENIED) for topic in refused]
        for topic in denied:
            known = checked.image.topics.get(topic.topic_name)
            topic.topic_id = bytes(16) if known is None else known.id
        checked.replace(topics=kept)
        checked.amend(lambda response: response.responses.extend(denied))
    return None


def check_delete(checked: Checked) -> Verdict:
    """Check READ on each topic; others get the error."""
    kept, refused = _split(checked)
    if refused:
        cls = share_offsets.DeleteShareGroupOffsetsResponseTopic
        denied = [REFUSAL.entry(cls, topic, checked.version, DENIED) for topic in refused]
        checked.replace(topics=kept)
        checked.amend(lambda response: None if response.error_code else response.responses.extend(denied))
    return None


def _split(checked: Checked) -> tuple[list[Any], list[Any]]:
    kept: list[Any] = []
    refused: list[Any] = []
    for topic in checked.request.topics:
        (kept if _may_read(checked, topic.topic_name) else refused).append(topic)
    return kept, refused


@api(ShareGroupHeartbeatRequest, 1, 1, at=GROUP_COORDINATOR, access=in_turn(READ_GROUP, check_subscription))
def handle_heartbeat(
    services: Services, context: RequestContext, request: ShareGroupHeartbeatRequest, now: float
) -> None:
    require_share_groups(services)
    if not 0 < len(request.member_id) <= MAX_MEMBER_ID:
        raise InvalidRequest("the member id is empty or longer than 36 characters")
    submit_to_groups(services, context, request, now)


@api(
    ShareGroupDescribeRequest,
    1,
    1,
    at=GROUP_COORDINATOR,
    access=in_turn(
        each(Operation.DESCRIBE, ResourceType.GROUP, message=None),
        hide_described_topics,
        set_group_operations,
    ),
)
@api(AlterShareGroupOffsetsRequest, 0, 0, at=GROUP_COORDINATOR, access=in_turn(READ_GROUP, check_alter))
@api(
    DeleteShareGroupOffsetsRequest,
    0,
    0,
    at=GROUP_COORDINATOR,
    access=in_turn(on_named(Operation.DELETE, ResourceType.GROUP, "group_id"), check_delete),
)
def handle(services: Services, context: RequestContext, request: Request[Any], now: float) -> None:
    require_share_groups(services)
    submit_to_groups(services, context, request, now)


@api(
    DescribeShareGroupOffsetsRequest,
    0,
    1,
    at=GROUP_COORDINATOR,
    access=each(Operation.DESCRIBE, ResourceType.GROUP, message=None),
)
def handle_describe_offsets(
    services: Services, context: RequestContext, request: DescribeShareGroupOffsetsRequest, now: float
) -> None:
    require_share_groups(services)
    from pykafka2.broker.share.start_offsets import StartOffsets

    offsets = StartOffsets(services.node, services.persister, services.coordinators.inter_broker)
    access = services.access_of(context)
    groups: list[share_offsets.DescribeShareGroupOffsetsResponseGroup | None] = [None] * len(request.groups)

    def done(position: int, group: share_offsets.DescribeShareGroupOffsetsResponseGroup) -> None:
        groups[position] = group
        described = [one for one in groups if one is not None]
        if len(described) == len(groups) and not context.is_complete:
            context.respond(DescribeShareGroupOffsetsResponse(groups=described))

    if not groups:
        context.respond(DescribeShareGroupOffsetsResponse(groups=[]))
    for position, group in enumerate(request.groups):
        _describe(services, context, offsets, access, group, position, done, now)


def _describe(
    services: Services,
    context: RequestContext,
    offsets: Any,
    access: Access | None,
    group: share_offsets.DescribeShareGroupOffsetsRequestGroup,
    position: int,
    done: Any,
    now: float,
) -> None:
    """Describe one group: its named topics, or all of which the shard says that they have offsets."""

    def may_describe(topic: str, *, notes: bool = True) -> bool:
        return access is None or access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, notes=notes)

    def finished(described: share_offsets.DescribeShareGroupOffsetsResponseGroup) -> None:
        done(position, described)

    if group.topics is not None:
        denied = []
        wanted = []
        for topic in group.topics:
            if may_describe(topic.topic_name):
                wanted.append((topic.topic_name, topic.partitions))
            else:
                denied.append(_denied(topic))
        offsets.describe(group.group_id, wanted, denied, finished, now)
        return

    def listed(response: DescribeShareGroupOffsetsResponse) -> None:
        (known,) = response.groups
        if known.error_code:
            finished(known)
            return
        wanted = [
            (topic.topic_name, [one.partition_index for one in topic.partitions])
            for topic in known.topics
            if may_describe(topic.topic_name, notes=False)
        ]
        offsets.describe(group.group_id, wanted, [], finished, services.clock.monotonic())

    from pykafka2.broker.coordinators.coordinators import caller_of

    only = DescribeShareGroupOffsetsRequest(groups=[group])
    services.coordinators.groups.submit(caller_of(context), only, now).then(listed)


def _denied(
    topic: share_offsets.DescribeShareGroupOffsetsRequestTopic,
) -> share_offsets.DescribeShareGroupOffsetsResponseTopic:
    return share_offsets.DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=bytes(16),
        partitions=[
            share_offsets.DescribeShareGroupOffsetsResponsePartition(
                partition_index=number,
                start_offset=-1,
                leader_epoch=0,
                error_code=code_of(ResourceType.TOPIC),
                error_message=str(DENIED),
            )
            for number in topic.partitions
        ],
    )
