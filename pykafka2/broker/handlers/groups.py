"""APIs of the group coordinator: classic groups, KIP-848 groups, committed offsets.

All of them are submitted to the shard of the group's partition, which responds once its records are committed
(coordinators/groups/). The versions are those of Apache Kafka 4.4.0. Coordinators are imported with the first
group.

TxnOffsetCommit commits offsets with a transaction. Before the group coordinator accepts them, the partition
of __consumer_offsets is verified with the transaction coordinator, as a leader does for a Produce; since
version 5 the request adds it (KIP-890).
"""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pykafka2.broker.coordinators.internal_topics import OFFSETS_TOPIC, partition_for
from pykafka2.broker.coordinators.refusals import OFFSET_FETCH, REFUSAL
from pykafka2.broker.handlers.api import GROUP_COORDINATOR, api, submit_to_groups
from pykafka2.broker.handlers.authorization import (
    READ_EACH_TOPIC,
    READ_GROUP,
    WRITE_TRANSACTION,
    Checked,
    Verdict,
    add_refusals,
    check_subscription,
    code_of,
    each,
    hide_described_topics,
    in_turn,
    keep_described,
    on_named,
    set_group_operations,
    topic_name,
)
from pykafka2.broker.security.authorizer import Access
from pykafka2.errors import (
    NotCoordinator,
    UnsupportedVersion,
)
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from pykafka2.protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from pykafka2.protocol.messages.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from pykafka2.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from pykafka2.protocol.messages.transaction import TxnOffsetCommitRequest
from pykafka2.protocol.struct import Request
from pykafka2.records.batch import NO_SEQUENCE

if TYPE_CHECKING:
    from pykafka2.broker.coordinators.transactions.verifier import Codes, Guards, TransactionSupport
    from pykafka2.broker.handlers.services import Services
    from pykafka2.broker.log.producer_state import VerificationGuard
    from pykafka2.broker.server.request_context import RequestContext


FIRST_OFFSET_FETCH_WITH_GROUPS = 8

FIRST_SYNC_WITH_PROTOCOL = 5


def check_sync(checked: Checked) -> Verdict:
    """Check READ on the group, unless the handler rejects the request for its missing protocol."""
    request = checked.request
    if checked.version >= FIRST_SYNC_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return None
    return (
        None
        if checked.access.may(Operation.READ, ResourceType.GROUP, request.group_id)
        else code_of(ResourceType.GROUP)
    )


def check_list_groups(checked: Checked) -> Verdict:
    """Return all groups with DESCRIBE on the cluster, otherwise only those with DESCRIBE on the group."""
    if not checked.access.may_on_cluster(Operation.DESCRIBE, notes=False):
        checked.amend(
            lambda response: keep_described(
                checked.access, response, "groups", ResourceType.GROUP, "group_id"
            )
        )
    return None


def check_offset_fetch(checked: Checked) -> Verdict:
    """Check DESCRIBE on the group and on each topic; a request for all topics returns only allowed ones."""
    if checked.version >= FIRST_OFFSET_FETCH_WITH_GROUPS:
        return _check_offsets_of_groups(checked)
    request = checked.request
    if not checked.access.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        return code_of(ResourceType.GROUP)
    if request.topics is None:
        checked.amend(lambda response: _keep_described(checked, response))
        return None
    kept, refused = _split_topics(checked, request.topics)
    if refused:
        checked.replace(topics=kept)
        denied = [_without_offsets(topic, checked) for topic in refused]
        checked.amend(lambda response: response.topics.extend(denied))
    return None


def _check_offsets_of_groups(checked: Checked) -> Verdict:
    request = checked.request
    denied: list[Any] = []
    groups: list[Any] = []
    refused_topics: list[list[Any]] = []  # for each of `groups`
    for group in request.groups:
        if not checked.access.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            denied.append(group)
            continue
        refused: list[Any] = []
        allowed = group
        if group.topics is not None:
            kept, refused = _split_topics(checked, group.topics)
            if refused:
                allowed = copy(group)
                allowed.topics = kept
        groups.append(allowed)
        refused_topics.append(refused)
    checked.replace(groups=groups)

    def amend(response: Any) -> None:
        # In request order, because a request can name a group twice: with all its topics, and with some.
        for allowed, response_group, refused in zip(groups, response.groups, refused_topics, strict=False):
            if allowed.topics is None:
                _keep_described(checked, response_group)
            elif not response_group.error_code:
                response_group.topics.extend(_without_offsets(topic, checked) for topic in refused)

    checked.amend(amend)
    add_refusals(checked, denied, code_of(ResourceType.GROUP), None)
    return None


def _split_topics(checked: Checked, topics: list[Any]) -> tuple[list[Any], list[Any]]:
    kept: list[Any] = []
    refused: list[Any] = []
    for topic in topics:
        name = topic_name(topic, checked.image)
        is_kept = name is None or checked.access.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
        (kept if is_kept else refused).append(topic)
    return kept, refused


def _keep_described(checked: Checked, response_group: Any) -> None:
    """Remove topics that the client cannot describe from one group's response."""
    access, image = checked.access, checked.image
    response_group.topics = [
        topic
        for topic in response_group.topics
        if access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic_name(topic, image) or "", notes=False)
    ]


def _without_offsets(topic: Any, checked: Checked) -> Any:
    """Return the result for a topic of an OffsetFetch that the client cannot describe."""
    by_groups = checked.version >= FIRST_OFFSET_FETCH_WITH_GROUPS
    cls: Any = offsets.OffsetFetchResponseTopics if by_groups else offsets.OffsetFetchResponseTopic
    return OFFSET_FETCH.entry(cls, topic, checked.version, code_of(ResourceType.TOPIC))


def check_offset_delete(checked: Checked) -> Verdict:
    """Check READ on each topic."""
    kept: list[Any] = []
    refused: list[Any] = []
    for topic in checked.request.topics:
        if checked.access.may(Operation.READ, ResourceType.TOPIC, topic.name):
            kept.append(topic)
        else:
            code = code_of(ResourceType.TOPIC)
            refused.append(REFUSAL.entry(offsets.OffsetDeleteResponseTopic, topic, checked.version, code))
    if not refused:
        return None
    if not kept:
        return offsets.OffsetDeleteResponse(topics=refused)
    checked.replace(topics=kept)
    checked.amend(lambda response: None if response.error_code else response.topics.extend(refused))
    return None


# ---------------------------------------------------------------------- the APIs

api(HeartbeatRequest, 0, 4, at=GROUP_COORDINATOR, access=READ_GROUP)
api(LeaveGroupRequest, 0, 5, at=GROUP_COORDINATOR, access=READ_GROUP)
api(SyncGroupRequest, 0, 5, at=GROUP_COORDINATOR, access=check_sync)
api(ListGroupsRequest, 0, 5, at=GROUP_COORDINATOR, access=check_list_groups)
api(OffsetFetchRequest, 1, 10, at=GROUP_COORDINATOR, access=check_offset_fetch)
# Version 0 of OffsetCommit and OffsetFetch is about ZooKeeper.
api(OffsetCommitRequest, 2, 10, at=GROUP_COORDINATOR, access=in_turn(READ_GROUP, READ_EACH_TOPIC), oldest=1)
api(
    DescribeGroupsRequest,
    0,
    6,
    at=GROUP_COORDINATOR,
    access=in_turn(each(Operation.DESCRIBE, ResourceType.GROUP), set_group_operations),
)
api(DeleteGroupsRequest, 0, 3, at=GROUP_COORDINATOR, access=each(Operation.DELETE, ResourceType.GROUP))
api(
    OffsetDeleteRequest,
    0,
    0,
    at=GROUP_COORDINATOR,
    access=in_turn(on_named(Operation.DELETE, ResourceType.GROUP, "group_id"), check_offset_delete),
)


@api(JoinGroupRequest, 0, 9, at=GROUP_COORDINATOR, access=READ_GROUP)
def handle_join(services: Services, context: RequestContext, request: Request[Any], now: float) -> None:
    """Submit; a pattern of a KIP-848 group matches only topics that the client can describe."""
    coordinators, access = services.coordinators, services.access_of(context)
    if access is None:
        submit_to_groups(services, context, request, now)
    else:
        may_describe = partial(_may_describe, access)
        coordinators.submit(coordinators.groups, context, request, now, may_describe, services.image.acls)


def _may_describe(access: Access, topic: str) -> bool:
    return access.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, notes=False)


@api(
    ConsumerGroupHeartbeatRequest, 0, 1, at=GROUP_COORDINATOR, access=in_turn(READ_GROUP, check_subscription)
)
def handle_consumer_heartbeat(
    services: Services, context: RequestContext, request: Request[Any], now: float
) -> None:
    _require_consumer_protocol(services)
    handle_join(services, context, request, now)


@api(
    ConsumerGroupDescribeRequest,
    0,
    1,
    at=GROUP_COORDINATOR,
    access=in_turn(
        each(Operation.DESCRIBE, ResourceType.GROUP),
        hide_described_topics,
        set_group_operations,
    ),
)
def handle_consumer_describe(
    services: Services, context: RequestContext, request: Request[Any], now: float
) -> None:
    _require_consumer_protocol(services)
    submit_to_groups(services, context, request, now)


def _require_consumer_protocol(services: Services) -> None:
    """Raise `UnsupportedVersion` unless KIP-848 is enabled.

    It needs group.coordinator.rebalance.protocols and a finalized group.version.
    """
    configured = services.config.get("group.coordinator.rebalance.protocols")
    if "consumer" not in configured or services.image.features.get("group.version", 0) < 1:
        raise UnsupportedVersion("the consumer group protocol is disabled")


# ---------------------------------------------------------------------- offsets in transactions

FIRST_THAT_ADDS: Final = 5
FIRST_WITH_ABORTABLE: Final = 4


def support_of(version: int) -> TransactionSupport:
    """Return the transaction features of the producer, by the version of its request."""
    from pykafka2.broker.coordinators.transactions.verifier import TransactionSupport

    if version >= FIRST_THAT_ADDS:
        return TransactionSupport.ADDS_PARTITIONS
    return TransactionSupport.ABORTABLE if version >= FIRST_WITH_ABORTABLE else TransactionSupport.OLD_ERRORS


@api(
    TxnOffsetCommitRequest,
    0,
    6,
    at=GROUP_COORDINATOR,
    access=in_turn(WRITE_TRANSACTION, READ_GROUP, READ_EACH_TOPIC),
)
def handle_txn_offset_commit(
    services: Services, context: RequestContext, request: TxnOffsetCommitRequest, now: float
) -> None:
    """Verify, then submit to the group coordinator, which responds.

    A verification can start the transaction, so there is none if no partition exists.
    """
    from pykafka2.broker.coordinators.transactions.verifier import VerificationRequest, for_offsets

    coordinators = services.coordinators
    key = (OFFSETS_TOPIC, partition_for(request.group_id, coordinators.groups.partitions))

    missing = coordinators.groups.missing_in(request, context.version)
    if missing.are_all:
        submit_to_groups(services, context, request, now)
        return

    def fail(code: int) -> None:
        if not context.is_complete:
            response = services.responses.refusal_of(context, request, code)
            missing.add_to(response)
            context.respond(response)

    def proceed(guard: VerificationGuard | None, at: float) -> None:
        if not coordinators.coordinates(key):
            fail(NotCoordinator.code or 0)
            return
        with coordinators.log_of(key).guarded_by(guard):
            submit_to_groups(services, context, request, at)

    if not coordinators.coordinates(key):
        fail(NotCoordinator.code or 0)
        return
    verification = VerificationRequest(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        {key: NO_SEQUENCE},
        support_of(context.version),
    )
    guards, errors = services.verifier.begin(verification)
    if errors:
        fail(for_offsets(errors[key].code or 0))
        return

    def on_codes(found: Guards, codes: Codes, at: float) -> None:
        code = codes[key]
        if code:
            fail(for_offsets(code))
        else:
            services.respond_with(context, lambda: proceed(found[key], at))

    if guards:
        services.verifier.verify(verification, guards, on_codes, now)
    else:
        proceed(None, now)
