"""The same answer with one error in every place: how a coordinator refuses a request as a whole.

Pure functions, one per request; `refusal` picks.  Also what a failed append means to each kind of request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from pykafka2 import errors
from pykafka2.protocol.messages import committed_offsets as offsets
from pykafka2.protocol.messages import consumer_group, group_admin, transaction, transaction_admin
from pykafka2.protocol.messages import group as classic
from pykafka2.protocol.struct import Request, Response

R = TypeVar("R", bound=Request[Any])

_REFUSERS: dict[type[Any], Callable[[Any, int, int], Response]] = {}

FIRST_OFFSET_FETCH_WITH_GROUPS: Final = 8
FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS: Final = 4


def refusal(request: Request[Any], version: int, code: int) -> Response:
    """The answer to `request` in `version` that says `code` wherever it can say an error."""
    return _REFUSERS[type(request)](request, version, code)


def append_error_code(request: Request[Any], code: int) -> int:
    """What a client is told when its records could not be appended or were not committed in time."""
    if code in _COORDINATOR_IS_IN_TROUBLE:
        return errors.CoordinatorNotAvailable.code
    if code in _COORDINATOR_MOVED:
        return errors.NotCoordinator.code
    if code in _TOO_LARGE:
        is_commit = isinstance(request, offsets.OffsetCommitRequest | transaction.TxnOffsetCommitRequest)
        return errors.InvalidCommitOffsetSize.code if is_commit else errors.UnknownServerError.code
    return code


_COORDINATOR_IS_IN_TROUBLE: Final = frozenset(
    {
        errors.UnknownTopicOrPartition.code,
        errors.NotEnoughReplicas.code,
        errors.NotEnoughReplicasAfterAppend.code,
        errors.RequestTimedOut.code,
    }
)
_COORDINATOR_MOVED: Final = frozenset({errors.NotLeaderOrFollower.code, errors.KafkaStorageError.code})
_TOO_LARGE: Final = frozenset(
    {errors.MessageTooLarge.code, errors.RecordListTooLarge.code, errors.InvalidFetchSize.code}
)


def _refuses(
    request: type[R],
) -> Callable[[Callable[[R, int, int], Response]], Callable[[R, int, int], Response]]:
    def register(function: Callable[[R, int, int], Response]) -> Callable[[R, int, int], Response]:
        _REFUSERS[request] = function
        return function

    return register


@_refuses(classic.JoinGroupRequest)
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


@_refuses(classic.SyncGroupRequest)
def _sync(request: classic.SyncGroupRequest, version: int, code: int) -> Response:
    return classic.SyncGroupResponse(error_code=code, assignment=b"")


@_refuses(classic.HeartbeatRequest)
def _heartbeat(request: classic.HeartbeatRequest, version: int, code: int) -> Response:
    return classic.HeartbeatResponse(error_code=code)


@_refuses(classic.LeaveGroupRequest)
def _leave(request: classic.LeaveGroupRequest, version: int, code: int) -> Response:
    return classic.LeaveGroupResponse(error_code=code)


@_refuses(group_admin.DescribeGroupsRequest)
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


@_refuses(group_admin.ListGroupsRequest)
def _list(request: group_admin.ListGroupsRequest, version: int, code: int) -> Response:
    return group_admin.ListGroupsResponse(error_code=code, groups=[])


@_refuses(group_admin.DeleteGroupsRequest)
def _delete(request: group_admin.DeleteGroupsRequest, version: int, code: int) -> Response:
    return group_admin.DeleteGroupsResponse(
        results=[
            group_admin.DeletableGroupResult(group_id=name, error_code=code) for name in request.groups_names
        ]
    )


@_refuses(offsets.OffsetCommitRequest)
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


@_refuses(offsets.OffsetFetchRequest)
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


@_refuses(offsets.OffsetDeleteRequest)
def _delete_offsets(request: offsets.OffsetDeleteRequest, version: int, code: int) -> Response:
    return offsets.OffsetDeleteResponse(error_code=code, topics=[])


@_refuses(transaction.TxnOffsetCommitRequest)
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


@_refuses(consumer_group.ConsumerGroupHeartbeatRequest)
def _consumer_heartbeat(
    request: consumer_group.ConsumerGroupHeartbeatRequest, version: int, code: int
) -> Response:
    return consumer_heartbeat_error(code, None)


def consumer_heartbeat_error(code: int, message: str | None) -> consumer_group.ConsumerGroupHeartbeatResponse:
    """A ConsumerGroupHeartbeat that failed."""
    return consumer_group.ConsumerGroupHeartbeatResponse(
        error_code=code, error_message=message, member_epoch=0, heartbeat_interval_ms=0
    )


@_refuses(consumer_group.ConsumerGroupDescribeRequest)
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


@_refuses(transaction.InitProducerIdRequest)
def _init(request: transaction.InitProducerIdRequest, version: int, code: int) -> Response:
    return transaction.InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


@_refuses(transaction.AddPartitionsToTxnRequest)
def _add_partitions(request: transaction.AddPartitionsToTxnRequest, version: int, code: int) -> Response:
    if version >= FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS:
        return transaction.AddPartitionsToTxnResponse(
            results_by_transaction=[
                transaction.AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id, topic_results=partition_results(one.topics, code)
                )
                for one in request.transactions
            ]
        )
    return transaction.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=partition_results(request.v3_and_below_topics, code)
    )


def partition_results(
    topics: list[transaction.AddPartitionsToTxnTopic], code: int
) -> list[transaction.AddPartitionsToTxnTopicResult]:
    """One code for all partitions of an AddPartitionsToTxn."""
    return [
        transaction.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                transaction.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=code
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


@_refuses(transaction.AddOffsetsToTxnRequest)
def _add_offsets(request: transaction.AddOffsetsToTxnRequest, version: int, code: int) -> Response:
    return transaction.AddOffsetsToTxnResponse(error_code=code)


@_refuses(transaction.EndTxnRequest)
def _end(request: transaction.EndTxnRequest, version: int, code: int) -> Response:
    return transaction.EndTxnResponse(error_code=code)


@_refuses(transaction_admin.DescribeTransactionsRequest)
def _describe_transactions(
    request: transaction_admin.DescribeTransactionsRequest, version: int, code: int
) -> Response:
    return transaction_admin.DescribeTransactionsResponse(
        transaction_states=[described_transaction_error(name, code) for name in request.transactional_ids]
    )


def described_transaction_error(
    transactional_id: str, code: int
) -> transaction_admin.DescribeTransactionsResponseTransactionState:
    """A transaction that could not be described."""
    return transaction_admin.DescribeTransactionsResponseTransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )


@_refuses(transaction_admin.ListTransactionsRequest)
def _list_transactions(
    request: transaction_admin.ListTransactionsRequest, version: int, code: int
) -> Response:
    return transaction_admin.ListTransactionsResponse(
        error_code=code, unknown_state_filters=[], transaction_states=[]
    )
