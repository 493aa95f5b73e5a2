"""Authorization of groups and transactions, and filters of their lists."""

from __future__ import annotations

from copy import copy
from typing import Any

from pykafka2.broker.handlers.authorization.checks import Checked, Verdict, code_of, topic_name
from pykafka2.broker.security.authorizer import Access
from pykafka2.errors import (
    ClusterAuthorizationFailed,
    OperationNotAttempted,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.acl_terms import Operation, ResourceType
from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages.transaction import AddPartitionsToTxnResponse
from pykafka2.protocol.struct import Response

TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
CLUSTER = ResourceType.CLUSTER
OPERATIONS_NOT_REQUESTED = -2147483648
FIRST_OFFSET_FETCH_WITH_GROUPS = 8
FIRST_OFFSET_FETCH_WITH_ERROR = 2
FIRST_ADD_PARTITIONS_OF_BROKERS = 4
FIND_GROUP, FIND_TRANSACTION, FIND_SHARE = 0, 1, 2
FIRST_FIND_WITH_KEYS = 4
FIRST_SYNC_WITH_PROTOCOL = 5


# ---------------------------------------------------------------------- coordinators


def check_sync(checked: Checked) -> Verdict:
    """Check READ on the group, unless the handler rejects the request for its missing protocol."""
    request = checked.request
    if checked.version >= FIRST_SYNC_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return None
    return None if checked.access.may(Operation.READ, GROUP, request.group_id) else code_of(GROUP)


def check_find_coordinator(checked: Checked) -> Verdict:
    """Check DESCRIBE on the group or the transactional id."""
    request = checked.request
    kinds = {FIND_GROUP: GROUP, FIND_TRANSACTION: TRANSACTIONAL_ID}
    resource_type = kinds.get(request.key_type)
    if resource_type is None:
        return None
    is_allowed = checked.access.may
    if checked.version < FIRST_FIND_WITH_KEYS:
        may_find = is_allowed(Operation.DESCRIBE, resource_type, request.key)
        return None if may_find else code_of(resource_type)
    keys = request.coordinator_keys
    refused = {key: None for key in keys if not is_allowed(Operation.DESCRIBE, resource_type, key)}
    if not refused:
        return None
    others = copy(request)
    others.coordinator_keys = [key for key in keys if key in refused]
    response_group: Any = checked.services.responses.refusal_of(
        checked.context, others, code_of(resource_type)
    )
    for coordinator in response_group.coordinators:
        coordinator.error_message = ""
    checked.replace(coordinator_keys=[key for key in keys if key not in refused])
    checked.amend(lambda response: response.coordinators.extend(response_group.coordinators))
    return None


# ---------------------------------------------------------------------- lists and descriptions


def check_list_groups(checked: Checked) -> Verdict:
    """Return all groups with DESCRIBE on the cluster, otherwise only those with DESCRIBE on the group."""
    if not checked.access.may_on_cluster(Operation.DESCRIBE, notes=False):
        checked.amend(lambda response: _keep(checked.access, response, "groups", GROUP, "group_id"))
    return None


def check_list_transactions(checked: Checked) -> Verdict:
    checked.amend(
        lambda response: _keep(
            checked.access, response, "transaction_states", TRANSACTIONAL_ID, "transactional_id"
        )
    )
    return None


def _keep(access: Access, response: Any, entries: str, resource_type: int, name: str) -> None:
    kept = [
        entry
        for entry in getattr(response, entries)
        if access.may(Operation.DESCRIBE, resource_type, getattr(entry, name), notes=False)
    ]
    setattr(response, entries, kept)


def set_group_operations(checked: Checked) -> Verdict:
    """Set the authorized operations of each group (KIP-430)."""
    rights = checked.access.rights

    def amend(response: Any) -> None:
        for group in response.groups:
            if group.authorized_operations != OPERATIONS_NOT_REQUESTED:
                group.authorized_operations &= rights.operations(GROUP, group.group_id)

    if checked.request.include_authorized_operations:
        checked.amend(amend)
    return None


def hide_transactions_topics(checked: Checked) -> Verdict:
    """Remove the topics of a transaction that the client cannot describe."""
    access = checked.access

    def hide(response: Any) -> None:
        for transaction in response.transaction_states:
            transaction.topics = [
                topic
                for topic in transaction.topics
                if access.may(Operation.DESCRIBE, TOPIC, topic.topic, notes=False)
            ]

    checked.amend(hide)
    return None


def hide_consumer_groups_topics(checked: Checked) -> Verdict:
    """Hide a group if one of its members subscribes to a topic that the client cannot describe."""
    access = checked.access

    def hide(response: Any) -> None:
        for group in response.groups:
            topics = {topic for member in group.members for topic in _topics_of(member)}
            if not all(access.may(Operation.DESCRIBE, TOPIC, topic) for topic in sorted(topics)):
                group.error_code = code_of(TOPIC)
                group.error_message = (
                    "The group has described topic(s) that the client is not authorized to describe."
                )
                group.members = []

    checked.amend(hide)
    return None


def _topics_of(member: Any) -> set[str]:
    assigned = [*member.assignment.topic_partitions, *member.target_assignment.topic_partitions]
    return {*member.subscribed_topic_names, *(partitions.topic_name for partitions in assigned)}


def check_subscription(checked: Checked) -> Verdict:
    """Check DESCRIBE on every topic named by a member of a KIP-848 group."""
    names = checked.request.subscribed_topic_names or ()
    is_allowed = checked.access.may
    if all([is_allowed(Operation.DESCRIBE, TOPIC, name) for name in dict.fromkeys(names)]):  # noqa: C419  records all denials
        return None
    return code_of(TOPIC)


# ---------------------------------------------------------------------- committed offsets


def check_offset_fetch(checked: Checked) -> Verdict:
    """Check DESCRIBE on the group and on each topic; a request for all topics returns only allowed ones."""
    if checked.version >= FIRST_OFFSET_FETCH_WITH_GROUPS:
        return _check_offsets_of_groups(checked)
    request = checked.request
    if not checked.access.may(Operation.DESCRIBE, GROUP, request.group_id):
        return code_of(GROUP)
    if request.topics is None:
        checked.amend(lambda response: _keep_described(checked, response))
        return None
    kept, refused = _split(checked, request.topics)
    if refused:
        checked.replace(topics=kept)
        denied = [_without_offsets(topic, checked) for topic in refused]
        checked.amend(lambda response: response.topics.extend(denied))
    return None


def _check_offsets_of_groups(checked: Checked) -> Verdict:
    request = checked.request
    others = copy(request)
    others.groups = []
    groups: list[Any] = []
    refused_topics: list[list[Any]] = []  # for each of `groups`
    for group in request.groups:
        if not checked.access.may(Operation.DESCRIBE, GROUP, group.group_id):
            others.groups.append(group)
            continue
        refused: list[Any] = []
        allowed = group
        if group.topics is not None:
            kept, refused = _split(checked, group.topics)
            if refused:
                allowed = copy(group)
                allowed.topics = kept
        groups.append(allowed)
        refused_topics.append(refused)
    refusal: Any = checked.services.responses.refusal_of(checked.context, others, code_of(GROUP))
    checked.replace(groups=groups)

    def amend(response: Any) -> None:
        # In request order, because a request can name a group twice: with all its topics, and with some.
        for allowed, response_group, refused in zip(groups, response.groups, refused_topics, strict=False):
            if allowed.topics is None:
                _keep_described(checked, response_group)
            elif not response_group.error_code:
                response_group.topics.extend(_without_offsets(topic, checked) for topic in refused)
        response.groups.extend(refusal.groups)

    checked.amend(amend)
    return None


def _split(checked: Checked, topics: list[Any]) -> tuple[list[Any], list[Any]]:
    kept: list[Any] = []
    refused: list[Any] = []
    for topic in topics:
        name = topic_name(topic, checked.image)
        is_kept = name is None or checked.access.may(Operation.DESCRIBE, TOPIC, name)
        (kept if is_kept else refused).append(topic)
    return kept, refused


def _keep_described(checked: Checked, response_group: Any) -> None:
    """Remove topics that the client cannot describe from one group's response."""
    access, image = checked.access, checked.image
    response_group.topics = [
        topic
        for topic in response_group.topics
        if access.may(Operation.DESCRIBE, TOPIC, topic_name(topic, image) or "", notes=False)
    ]


def _without_offsets(topic: Any, checked: Checked) -> Any:
    """Return the result for a topic of an OffsetFetch that the client cannot describe."""
    by_groups = checked.version >= FIRST_OFFSET_FETCH_WITH_GROUPS
    of_partition = (
        offsets.OffsetFetchResponsePartitions if by_groups else offsets.OffsetFetchResponsePartition
    )
    partitions: Any = [
        of_partition(partition_index=number, committed_offset=-1, metadata="", error_code=code_of(TOPIC))
        for number in topic.partition_indexes
    ]
    if by_groups:
        return offsets.OffsetFetchResponseTopics(
            name=topic.name, topic_id=topic.topic_id, partitions=partitions
        )
    return offsets.OffsetFetchResponseTopic(name=topic.name, partitions=partitions)


def check_offset_delete(checked: Checked) -> Verdict:
    """Check READ on each topic."""
    kept: list[Any] = []
    refused: list[Any] = []
    for topic in checked.request.topics:
        if checked.access.may(Operation.READ, TOPIC, topic.name):
            kept.append(topic)
        else:
            refused.append(_undeleted(topic))
    if not refused:
        return None
    if not kept:
        return offsets.OffsetDeleteResponse(topics=refused)
    checked.replace(topics=kept)
    checked.amend(lambda response: None if response.error_code else response.topics.extend(refused))
    return None


def _undeleted(topic: Any) -> offsets.OffsetDeleteResponseTopic:
    return offsets.OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            offsets.OffsetDeleteResponsePartition(
                partition_index=partition.partition_index, error_code=code_of(TOPIC)
            )
            for partition in topic.partitions
        ],
    )


# ---------------------------------------------------------------------- transactions


def check_init_producer_id(checked: Checked) -> Verdict:
    """Check WRITE on the transactional id; without one IDEMPOTENT_WRITE, or WRITE on any topic (KIP-679)."""
    name, access = checked.request.transactional_id, checked.access
    if name is not None:
        if not access.may(Operation.WRITE, TRANSACTIONAL_ID, name):
            return TransactionalIdAuthorizationFailed.code
        return None
    if access.rights.may_any(Operation.WRITE, TOPIC) or access.may_on_cluster(Operation.IDEMPOTENT_WRITE):
        return None
    return ClusterAuthorizationFailed.code


def check_add_partitions(checked: Checked) -> Verdict:
    """Check WRITE on the transactional id and every topic; if one is denied, nothing is added.

    Since version 4 brokers send it.
    """
    request, access, image = checked.request, checked.access, checked.image
    if checked.version >= FIRST_ADD_PARTITIONS_OF_BROKERS:
        if access.may_on_cluster(Operation.CLUSTER_ACTION):
            return None
        return AddPartitionsToTxnResponse(error_code=ClusterAuthorizationFailed.code)
    if not access.may(Operation.WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return TransactionalIdAuthorizationFailed.code
    topics = request.v3_and_below_topics
    refused = {topic.name for topic in topics if not access.may(Operation.WRITE, TOPIC, topic.name)}
    if not refused:
        return None

    def code_for(name: str, number: int) -> int:
        if name in refused:
            return code_of(TOPIC)
        is_known = image.partition(name, number) is not None
        return OperationNotAttempted.code if is_known else UnknownTopicOrPartition.code

    response: Any = checked.services.responses.refusal_of(
        checked.context, request, OperationNotAttempted.code
    )
    for topic in response.results_by_topic_v3_and_below:
        for partition in topic.results_by_partition:
            partition.partition_error_code = code_for(topic.name, partition.partition_index)
    response_group: Response = response
    return response_group


def check_markers(checked: Checked) -> Verdict:
    """Check ALTER or CLUSTER_ACTION on the cluster."""
    access = checked.access
    if access.may_on_cluster(Operation.ALTER, notes=False) or access.may_on_cluster(Operation.CLUSTER_ACTION):
        return None
    return code_of(CLUSTER)
