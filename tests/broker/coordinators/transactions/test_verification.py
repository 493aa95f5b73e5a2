"""The leader's verification with the transaction coordinator, and the errors for each producer version."""

from __future__ import annotations

import pytest

from pykafka2 import errors
from pykafka2.broker.coordinators.refusals import refusal
from pykafka2.broker.coordinators.replay import Producer
from pykafka2.broker.coordinators.transactions.verifier import (
    TransactionSupport,
    for_offsets,
    for_produce,
    verification_codes,
    verification_request,
)
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.errors import BrokerError, InvalidTxnState
from pykafka2.protocol.messages.transaction import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from tests.broker.log.test_transactions import write
from tests.broker.support.transactions import A, B, ShardTransactions


def codes_for_client(
    request: AddPartitionsToTxnRequest, response: AddPartitionsToTxnResponse, support: TransactionSupport
) -> dict[tuple[str, int], int]:
    codes = verification_codes(request, response, support)
    return {place: for_produce(code, support) for place, code in codes.items()}


def verify(
    bench: ShardTransactions, producer: Producer, support: TransactionSupport
) -> dict[tuple[str, int], int]:
    request = verification_request(bench.name, producer.id, producer.epoch, [A, B], support)
    return codes_for_client(request, bench.call(request, 5), support)


def test_produce_version_decides_the_transaction_support() -> None:
    found = [TransactionSupport.of_produce(version) for version in (3, 10, 11, 12, 13)]
    assert found == [
        TransactionSupport.OLD_ERRORS,
        TransactionSupport.OLD_ERRORS,
        TransactionSupport.ABORTABLE,
        TransactionSupport.ADDS_PARTITIONS,
        TransactionSupport.ADDS_PARTITIONS,
    ]


def test_old_produce_versions_are_verified_without_adding_partitions() -> None:
    bench = ShardTransactions()
    producer = bench.begin()
    bench.add(producer, (A,), version=3)
    assert verify(bench, producer, TransactionSupport.OLD_ERRORS) == {A: 0, B: errors.InvalidTxnState.code}
    assert verify(bench, producer, TransactionSupport.ABORTABLE) == {
        A: 0,
        B: errors.TransactionAbortable.code,
    }
    assert bench.transaction.partitions == {A}


def test_newer_producers_add_the_partition_by_producing() -> None:
    bench = ShardTransactions()
    producer = bench.begin()
    assert verify(bench, producer, TransactionSupport.ADDS_PARTITIONS) == {A: 0, B: 0}
    assert bench.transaction.partitions == {A, B}


def test_fenced_producer_gets_invalid_producer_epoch() -> None:
    bench = ShardTransactions()
    stale = bench.begin()
    bench.begin()
    for support in TransactionSupport:
        code = errors.InvalidProducerEpoch.code
        assert verify(bench, stale, support) == {A: code, B: code}


@pytest.mark.parametrize(
    "error",
    [errors.CoordinatorLoadInProgress, errors.CoordinatorNotAvailable, errors.NotCoordinator],
)
def test_coordinator_errors_become_not_enough_replicas(error: type[BrokerError]) -> None:
    request = verification_request("t", 1, 0, [A], TransactionSupport.OLD_ERRORS)
    response = refusal(request, 5, error.code or 0)
    assert isinstance(response, AddPartitionsToTxnResponse)
    for support in TransactionSupport:
        assert codes_for_client(request, response, support) == {A: errors.NotEnoughReplicas.code}
        assert for_produce(errors.NetworkException.code, support) == errors.NotEnoughReplicas.code
    silent = codes_for_client(request, AddPartitionsToTxnResponse(), TransactionSupport.ABORTABLE)
    assert silent == {A: errors.NotEnoughReplicas.code}


def test_offset_commits_get_retriable_codes_for_coordinator_failures() -> None:
    assert for_offsets(errors.NetworkException.code) == errors.CoordinatorLoadInProgress.code
    assert for_offsets(errors.NotLeaderOrFollower.code) == errors.NotCoordinator.code
    assert for_offsets(errors.InvalidTxnState.code) == errors.InvalidTxnState.code


def test_ending_transaction_is_concurrent_only_to_newer_producers() -> None:
    bench = ShardTransactions()
    producer = bench.begin()
    bench.add(producer)
    response = bench.end(producer)
    following = Producer(response.producer_id, response.producer_epoch)
    expected = {
        TransactionSupport.OLD_ERRORS: errors.NotEnoughReplicas.code,
        TransactionSupport.ABORTABLE: errors.NotEnoughReplicas.code,
        TransactionSupport.ADDS_PARTITIONS: errors.ConcurrentTransactions.code,
    }
    for support, code in expected.items():
        assert verify(bench, following, support) == {A: code, B: code}


def test_unauthorized_verification_becomes_invalid_txn_state() -> None:
    request = verification_request("t", 1, 0, [A], TransactionSupport.ABORTABLE)
    response = AddPartitionsToTxnResponse(error_code=errors.ClusterAuthorizationFailed.code)
    assert codes_for_client(request, response, TransactionSupport.ABORTABLE) == {
        A: errors.InvalidTxnState.code
    }


def test_batch_after_the_abort_is_rejected() -> None:
    """The hanging transaction of KIP-890, from the verification to the log."""
    bench = ShardTransactions(transaction_version=1)
    producer = bench.begin(timeout_ms=1000)
    bench.add(producer, (A,), version=3)
    log = bench.logs[A] = PartitionLog(*A, bytes(16))
    log.verifications.required = True
    guard = log.verifications.begin(producer.id, producer.epoch, 0, False, 0)
    request = verification_request(
        bench.name, producer.id, producer.epoch, [A], TransactionSupport.OLD_ERRORS
    )
    assert codes_for_client(request, bench.call(request, 5), TransactionSupport.OLD_ERRORS) == {A: 0}
    bench.advance(20.0)
    bench.finish()
    with pytest.raises((InvalidTxnState, errors.InvalidProducerEpoch)):
        write(log, producer.id, 0, epoch=producer.epoch, guard=guard)
    assert log.last_stable_offset == log.high_watermark == 1
