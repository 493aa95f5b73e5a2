"""Requests to coordinators and their responses, without a cluster."""

from __future__ import annotations

from itertools import permutations

import pytest

from pykafka2.errors import (
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from pykafka2.producer.transactions.requests import (
    Step,
    commit_offsets,
    end_versions,
    error_of_offsets,
    error_of_partitions,
    fatal_error,
    offset_commit_versions,
    produce_versions,
)
from pykafka2.protocol.messages.transaction import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

CODES = (
    0,
    OperationNotAttempted.code,
    UnknownTopicOrPartition.code,
    TopicAuthorizationFailed.code,
)


ORDERS_ID = bytes(range(16))


def offsets_of(**topics: bytes) -> TxnOffsetCommitRequest:
    """Return a request about topics with these ids."""
    offsets = {TopicPartition(name, 0): OffsetAndMetadata(1) for name in topics}
    return commit_offsets("t", (1, 0), offsets, ConsumerGroupMetadata("g"), lambda name: topics[name])


@pytest.mark.parametrize("codes", [*permutations(CODES)], ids=str)
def test_fatal_error_is_raised_before_retriable_ones(codes: tuple[int, ...]) -> None:
    partitions = [
        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=code)
        for number, code in enumerate(codes)
    ]
    topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=partitions)
    error = error_of_partitions(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic]))
    assert isinstance(error, TopicAuthorizationFailed)
    assert f"orders-{codes.index(TopicAuthorizationFailed.code)}" in str(error)


@pytest.mark.parametrize("codes", [*permutations(CODES[:3])], ids=str)
def test_untried_partitions_are_reported_last(codes: tuple[int, ...]) -> None:
    partitions = [
        TxnOffsetCommitResponsePartition(partition_index=number, error_code=code)
        for number, code in enumerate(codes)
    ]
    topic = TxnOffsetCommitResponseTopic(name="orders", partitions=partitions)
    error = error_of_offsets(TxnOffsetCommitResponse(topics=[topic]), offsets_of())
    assert isinstance(error, UnknownTopicOrPartition)


def test_topics_that_the_response_names_by_id_have_their_names_in_errors() -> None:
    partition = TxnOffsetCommitResponsePartition(partition_index=3, error_code=UnknownTopicOrPartition.code)
    topic = TxnOffsetCommitResponseTopic(topic_id=ORDERS_ID, partitions=[partition])
    error = error_of_offsets(TxnOffsetCommitResponse(topics=[topic]), offsets_of(orders=ORDERS_ID))
    assert "orders-3" in str(error)


def test_without_an_error_there_is_none() -> None:
    assert error_of_partitions(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[])) is None
    assert error_of_offsets(TxnOffsetCommitResponse(topics=[]), offsets_of()) is None


def test_request_versions_follow_the_transaction_version() -> None:
    """KIP-890: Produce 12 has the broker add the partition, EndTxn 5 raises the epoch."""
    assert (produce_versions(1), produce_versions(2)) == ((None, 11), (12, None))
    assert (end_versions(1), end_versions(2)) == ((None, 4), (5, None))
    nobody, member = ConsumerGroupMetadata("g"), ConsumerGroupMetadata("g", 3, "m", None)
    by_id, by_name = offsets_of(orders=ORDERS_ID), offsets_of(orders=ORDERS_ID, refunds=ZERO_UUID)
    assert [offset_commit_versions(1, group, by_id) for group in (nobody, member)] == [(None, 4), (3, 4)]
    assert [offset_commit_versions(2, group, by_id) for group in (nobody, member)] == [(5, None)] * 2
    assert [offset_commit_versions(2, group, by_name) for group in (nobody, member)] == [(5, 5)] * 2


@pytest.mark.parametrize(("late", "words"), [(False, "was not committed"), (True, "committed is not known")])
def test_a_fenced_commit_promises_nothing_that_may_yet_happen(late: bool, words: str) -> None:
    error = fatal_error(ProducerFenced(), Step.COMMIT, transactional_id="t", timeout=60, is_in_doubt=late)
    assert isinstance(error, ProducerFenced)
    assert words in str(error)
