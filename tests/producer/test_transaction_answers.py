"""What the answers of coordinators say, apart from any cluster: which of several errors counts."""

from __future__ import annotations

from itertools import permutations

import pytest

from pykafka2.errors import (
    OperationNotAttempted,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka2.producer.transaction_requests import error_of_offsets, error_of_partitions
from pykafka2.protocol.messages.transaction import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

CODES = (
    0,
    OperationNotAttempted.code,
    UnknownTopicOrPartition.code,
    TopicAuthorizationFailed.code,
)


@pytest.mark.parametrize("codes", [*permutations(CODES)], ids=str)
def test_what_no_retry_helps_is_told_before_what_it_may(codes: tuple[int, ...]) -> None:
    partitions = [
        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
        for number, code in enumerate(codes)
    ]
    topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=partitions)
    told = error_of_partitions(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic]))
    assert isinstance(told, TopicAuthorizationFailed)
    assert f"orders-{codes.index(TopicAuthorizationFailed.code)}" in str(told)


@pytest.mark.parametrize("codes", [*permutations(CODES[:3])], ids=str)
def test_partitions_that_were_not_tried_say_least(codes: tuple[int, ...]) -> None:
    partitions = [
        TxnOffsetCommitResponsePartition(partition_index=number, error_code=code)
        for number, code in enumerate(codes)
    ]
    topic = TxnOffsetCommitResponseTopic(name="orders", partitions=partitions)
    told = error_of_offsets(TxnOffsetCommitResponse(topics=[topic]))
    assert isinstance(told, UnknownTopicOrPartition)


def test_without_an_error_there_is_none() -> None:
    assert error_of_partitions(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[])) is None
    assert error_of_offsets(TxnOffsetCommitResponse(topics=[])) is None
