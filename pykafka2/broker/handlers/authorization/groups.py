"""Who may use groups and transactions, and what lists of them tell whom."""

from __future__ import annotations

from copy import copy
from typing import Any

from pykafka2.broker.handlers.authorization.checks import Checked, Verdict, code_of, topic_name
from pykafka2.broker.security.asker import Asker
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
OPERATIONS_NOT_ASKED = -2147483648
FIRST_OFFSET_FETCH_WITH_GROUPS = 8
FIRST_OFFSET_FETCH_WITH_ERROR = 2
FIRST_ADD_PARTITIONS_OF_BROKERS = 4
FIND_GROUP, FIND_TRANSACTION, FIND_SHARE = 0, 1, 2
FIRST_FIND_WITH_KEYS = 4
FIRST_SYNC_WITH_PROTOCOL = 5


# ---------------------------------------------------------------------- coordinators


def check_sync(checked: Checked) -> Verdict:
    """READ on the group, unless the handler refuses what lacks its protocol."""
    request = checked.request
    if checked.version >= FIRST_SYNC_WITH_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return None
    return None if checked.asker.may(Operation.READ, GROUP, request.group_id) else code_of(GROUP)


def check_find_coordinator(checked: Checked) -> Verdict:
    """DESCRIBE on the group or the transactional id."""
    request = checked.request
    kinds = {FIND_GROUP: GROUP, FIND_TRANSACTION: TRANSACTIONAL_ID}
    resource_type = kinds.get(request.key_type)
    if resource_type is None:
        return None
    may = checked.asker.may
    if checked.version < FIRST_FIND_WITH_KEYS:
        is_allowed = may(Operation.DESCRIBE, resource_type, request.key)
        return None if is_allowed else code_of(resource_type)
    keys = request.coordinator_keys
    refused = {key: None for key in keys if not may(Operation.DESCRIBE, resource_type, key)}
    if not refused:
        return None
    others = copy(request)
    others.coordinator_keys = [key for key in keys if key in refused]
    answer: Any = checked.services.answers.refusal_of(checked.context, others, code_of(resource_type))
    for one in answer.coordinators:
        one.error_message = ""
    checked.replace(coordinator_keys=[key for key in keys if key not in refused])
    checked.amend(lambda response: response.coordinators.extend(answer.coordinators))
    return None


# ---------------------------------------------------------------------- lists and descriptions


def check_list_groups(checked: Checked) -> Verdict:
    """All of them to who may describe the cluster; to others those that they may describe."""
    if not checked.asker.may_on_cluster(Operation.DESCRIBE, notes=False):
        checked.amend(lambda response: _keep(checked.asker, response, "groups", GROUP, "group_id"))
    return None


def check_list_transactions(checked: Checked) -> Verdict:
    checked.amend(
        lambda response: _keep(
            checked.asker, response, "transaction_states", TRANSACTIONAL_ID, "transactional_id"
        )
    )
    return None


def _keep(asker: Asker, response: Any, entries: str, resource_type: int, name: str) -> None:
    kept = [
        one
        for one in getattr(response, entries)
        if asker.may(Operation.DESCRIBE, resource_type, getattr(one, name), notes=False)
    ]
    setattr(response, entries, kept)


def tell_group_operations(checked: Checked) -> Verdict:
    """What who asks may do with each group (KIP-430)."""
    rights = checked.asker.rights

    def tell(response: Any) -> None:
        for group in response.groups:
            if group.authorized_operations != OPERATIONS_NOT_ASKED:
                group.authorized_operations = rights.operations(GROUP, group.group_id)

    if checked.request.include_authorized_operations:
        checked.amend(tell)
    return None


def hide_transactions_topics(checked: Checked) -> Verdict:
    """Of a transaction's partitions those are told whose topics one may describe."""
    asker = checked.asker

    def hide(response: Any) -> None:
        for one in response.transaction_states:
            one.topics = [
                topic
                for topic in one.topics
                if asker.may(Operation.DESCRIBE, TOPIC, topic.topic, notes=False)
            ]

    checked.amend(hide)
    return None


def hide_consumer_groups_topics(checked: Checked) -> Verdict:
    """A group one of whose members reads a topic that one may not describe is not described."""
    asker = checked.asker

    def hide(response: Any) -> None:
        for group in response.groups:
            topics = {topic for member in group.members for topic in _topics_of(member)}
            if not all(asker.may(Operation.DESCRIBE, TOPIC, topic) for topic in sorted(topics)):
                group.error_code = code_of(TOPIC)
                group.error_message = (
                    "The group has described topic(s) that the client is not authorized to describe."
                )
                group.members = []

    checked.amend(hide)
    return None


def _topics_of(member: Any) -> set[str]:
    assigned = [*member.assignment.topic_partitions, *member.target_assignment.topic_partitions]
    return {*member.subscribed_topic_names, *(one.topic_name for one in assigned)}


def check_subscription(checked: Checked) -> Verdict:
    """DESCRIBE on every topic that a member of a KIP-848 group names."""
    names = checked.request.subscribed_topic_names or ()
    may = checked.asker.may
    if all([may(Operation.DESCRIBE, TOPIC, name) for name in dict.fromkeys(names)]):  # noqa: C419  notes all
        return None
    return code_of(TOPIC)


# ---------------------------------------------------------------------- committed offsets


def check_offset_fetch(checked: Checked) -> Verdict:
    """DESCRIBE on the group, and on each topic; who asks for all topics hears of those only."""
    if checked.version >= FIRST_OFFSET_FETCH_WITH_GROUPS:
        return _check_offsets_of_groups(checked)
    request = checked.request
    if not checked.asker.may(Operation.DESCRIBE, GROUP, request.group_id):
        return code_of(GROUP)
    if request.topics is None:
        checked.amend(lambda response: _keep_described(checked, response))
        return None
    kept, refused = _split(checked, request.topics)
    if refused:
        checked.replace(topics=kept)
        told = [_without_offsets(topic, checked) for topic in refused]
        checked.amend(lambda response: response.topics.extend(told))
    return None


def _check_offsets_of_groups(checked: Checked) -> Verdict:
    request = checked.request
    others = copy(request)
    others.groups = []
    groups: list[Any] = []
    refused_topics: list[list[Any]] = []  # of each of `groups`
    for group in request.groups:
        if not checked.asker.may(Operation.DESCRIBE, GROUP, group.group_id):
            others.groups.append(group)
            continue
        refused: list[Any] = []
        asked = group
        if group.topics is not None:
            kept, refused = _split(checked, group.topics)
            if refused:
                asked = copy(group)
                asked.topics = kept
        groups.append(asked)
        refused_topics.append(refused)
    refusal: Any = checked.services.answers.refusal_of(checked.context, others, code_of(GROUP))
    checked.replace(groups=groups)

    def amend(response: Any) -> None:
        # In the order of the request, which may name a group twice: all its topics, and some.
        for asked, answer, refused in zip(groups, response.groups, refused_topics, strict=False):
            if asked.topics is None:
                _keep_described(checked, answer)
            elif not answer.error_code:
                answer.topics.extend(_without_offsets(topic, checked) for topic in refused)
        response.groups.extend(refusal.groups)

    checked.amend(amend)
    return None


def _split(checked: Checked, topics: list[Any]) -> tuple[list[Any], list[Any]]:
    kept: list[Any] = []
    refused: list[Any] = []
    for topic in topics:
        name = topic_name(topic, checked.image)
        is_kept = name is None or checked.asker.may(Operation.DESCRIBE, TOPIC, name)
        (kept if is_kept else refused).append(topic)
    return kept, refused


def _keep_described(checked: Checked, answer: Any) -> None:
    """Leave out topics that one may not describe; `answer` is one group's."""
    asker, image = checked.asker, checked.image
    answer.topics = [
        topic
        for topic in answer.topics
        if asker.may(Operation.DESCRIBE, TOPIC, topic_name(topic, image) or "", notes=False)
    ]


def _without_offsets(topic: Any, checked: Checked) -> Any:
    """The answer about a topic of an OffsetFetch that one may not describe."""
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
    """READ on each topic."""
    kept: list[Any] = []
    refused: list[Any] = []
    for one in checked.request.topics:
        if checked.asker.may(Operation.READ, TOPIC, one.name):
            kept.append(one)
        else:
            refused.append(_undeleted(one))
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
                partition_index=one.partition_index, error_code=code_of(TOPIC)
            )
            for one in topic.partitions
        ],
    )


# ---------------------------------------------------------------------- transactions


def check_init_producer_id(checked: Checked) -> Verdict:
    """WRITE on the transactional id; without one IDEMPOTENT_WRITE, or WRITE on any topic (KIP-679)."""
    name, asker = checked.request.transactional_id, checked.asker
    if name is not None:
        if not asker.may(Operation.WRITE, TRANSACTIONAL_ID, name):
            return TransactionalIdAuthorizationFailed.code
        return None
    if asker.rights.may_any(Operation.WRITE, TOPIC) or asker.may_on_cluster(Operation.IDEMPOTENT_WRITE):
        return None
    return ClusterAuthorizationFailed.code


def check_add_partitions(checked: Checked) -> Verdict:
    """WRITE on the transactional id and on every topic, or nothing is added; since version 4 brokers ask."""
    request, asker, image = checked.request, checked.asker, checked.image
    if checked.version >= FIRST_ADD_PARTITIONS_OF_BROKERS:
        if asker.may_on_cluster(Operation.CLUSTER_ACTION):
            return None
        return AddPartitionsToTxnResponse(error_code=ClusterAuthorizationFailed.code)
    if not asker.may(Operation.WRITE, TRANSACTIONAL_ID, request.v3_and_below_transactional_id):
        return TransactionalIdAuthorizationFailed.code
    topics = request.v3_and_below_topics
    refused = {topic.name for topic in topics if not asker.may(Operation.WRITE, TOPIC, topic.name)}
    if not refused:
        return None

    def code_for(name: str, number: int) -> int:
        if name in refused:
            return code_of(TOPIC)
        is_known = image.partition(name, number) is not None
        return OperationNotAttempted.code if is_known else UnknownTopicOrPartition.code

    response: Any = checked.services.answers.refusal_of(checked.context, request, OperationNotAttempted.code)
    for topic in response.results_by_topic_v3_and_below:
        for one in topic.results_by_partition:
            one.partition_error_code = code_for(topic.name, one.partition_index)
    answer: Response = response
    return answer


def check_markers(checked: Checked) -> Verdict:
    """ALTER on the cluster, or CLUSTER_ACTION."""
    asker = checked.asker
    if asker.may_on_cluster(Operation.ALTER, notes=False) or asker.may_on_cluster(Operation.CLUSTER_ACTION):
        return None
    return code_of(CLUSTER)
