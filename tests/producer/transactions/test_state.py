"""The states of transactions: each allows its calls, and refuses others by an error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from pykafka2 import KafkaProducer, OffsetAndMetadata, TopicPartition, TransactionHandle
from pykafka2.errors import (
    IllegalState,
    IllegalTransition,
    KafkaError,
    KafkaTimeoutError,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionFailed,
    error_of,
)
from pykafka2.events import EventSink
from pykafka2.producer.transactions.state import (
    LEGAL_CALLS,
    LEGAL_MOVES,
    NEXT_STEP,
    OPEN_STATES,
    Call,
    TransactionState,
    TransactionStatus,
    again,
)
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.protocol.messages.transaction import EndTxnRequest, InitProducerIdRequest
from pykafka2.testing import KafkaCluster, Simulation

S = TransactionState

CALLS: dict[Call, Callable[[KafkaProducer], object]] = {
    Call.INIT: lambda producer: producer.init_transactions(),
    Call.BEGIN: lambda producer: producer.begin_transaction(),
    Call.SEND: lambda producer: producer.send("orders", b"v"),
    Call.SEND_OFFSETS: lambda producer: producer.send_offsets_to_transaction(
        {TopicPartition("orders", 0): OffsetAndMetadata(1)}, "copiers"
    ),
    Call.COMMIT: lambda producer: producer.commit_transaction(),
    Call.ABORT: lambda producer: producer.abort_transaction(),
    Call.DETACH: lambda producer: producer.detach_transaction(),
}


def ready(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    producer.init_transactions()


def initializing(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    cluster.controls.hold(InitProducerIdRequest)
    with pytest.raises(KafkaTimeoutError, match=r"call init_transactions\(\) again"):
        producer.init_transactions(0.5)


def in_transaction(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    producer.init_transactions()
    producer.begin_transaction()


def committing(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    in_transaction(cluster, producer)
    producer.send("orders", b"v")
    cluster.controls.hold(EndTxnRequest)
    with pytest.raises(KafkaTimeoutError, match=r"call commit_transaction\(\) again"):
        producer.commit_transaction(0.5)


def aborting(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    in_transaction(cluster, producer)
    producer.send("orders", b"v").result(5)
    cluster.controls.hold(EndTxnRequest)
    with pytest.raises(KafkaTimeoutError, match=r"call abort_transaction\(\) again"):
        producer.abort_transaction(0.5)


def detaching(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    in_transaction(cluster, producer)
    cluster.controls.hold(ProduceRequest)
    producer.send("orders", b"v")
    with pytest.raises(
        KafkaTimeoutError, match=r"records not yet acknowledged: 1; .* call detach_transaction\(\) again"
    ):
        producer.detach_transaction(0.5)


def detached(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    in_transaction(cluster, producer)
    producer.send("orders", b"v")
    producer.detach_transaction()


def abortable_error(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    in_transaction(cluster, producer)
    cluster.controls.fail_next(ProduceRequest, TopicAuthorizationFailed)
    with pytest.raises(TopicAuthorizationFailed):
        producer.send("orders", b"v").result(5)


def fatal_error(cluster: KafkaCluster, producer: KafkaProducer) -> None:
    in_transaction(cluster, producer)
    producer.send("orders", b"v")
    cluster.controls.fail_next(EndTxnRequest, ProducerFenced)
    with pytest.raises(ProducerFenced):
        producer.commit_transaction()


WAYS: dict[TransactionState, Callable[[KafkaCluster, KafkaProducer], None]] = {
    S.UNINITIALIZED: lambda cluster, producer: None,
    S.INITIALIZING: initializing,
    S.READY: ready,
    S.IN_TRANSACTION: in_transaction,
    S.COMMITTING: committing,
    S.ABORTING: aborting,
    S.DETACHING: detaching,
    S.DETACHED: detached,
    S.ABORTABLE_ERROR: abortable_error,
    S.FATAL_ERROR: fatal_error,
}
AFTER: dict[tuple[TransactionState, Call], TransactionState] = {
    (S.UNINITIALIZED, Call.INIT): S.READY,
    (S.INITIALIZING, Call.INIT): S.READY,
    (S.READY, Call.BEGIN): S.IN_TRANSACTION,
    (S.IN_TRANSACTION, Call.SEND): S.IN_TRANSACTION,
    (S.IN_TRANSACTION, Call.SEND_OFFSETS): S.IN_TRANSACTION,
    (S.IN_TRANSACTION, Call.COMMIT): S.READY,
    (S.IN_TRANSACTION, Call.ABORT): S.READY,
    (S.IN_TRANSACTION, Call.DETACH): S.DETACHED,
    (S.COMMITTING, Call.COMMIT): S.READY,
    (S.ABORTING, Call.ABORT): S.READY,
    (S.DETACHING, Call.DETACH): S.DETACHED,
    (S.DETACHED, Call.DETACH): S.DETACHED,
    (S.ABORTABLE_ERROR, Call.ABORT): S.READY,
}
ERRORS = {S.ABORTABLE_ERROR: TransactionFailed, S.FATAL_ERROR: ProducerFenced}


def state_of(producer: KafkaProducer) -> TransactionState:
    return TransactionState(producer.health()["transaction_state"])


def a_producer(simulation: Simulation, cluster: KafkaCluster, state: TransactionState) -> KafkaProducer:
    producer = simulation.producer(cluster, transactional_id="t")
    WAYS[state](cluster, producer)
    assert state_of(producer) is state
    return producer


@pytest.mark.parametrize("state", TransactionState, ids=lambda state: state.value)
def test_illegal_call_in_a_state_names_the_next_step_and_changes_nothing(
    state: TransactionState, simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = a_producer(simulation, cluster, state)
    for call in [call for call in Call if call not in LEGAL_CALLS[state]]:
        with pytest.raises(ERRORS.get(state, IllegalState)) as refused:
            CALLS[call](producer)
        assert NEXT_STEP[state] in str(refused.value)
        assert call.value in str(refused.value)
        assert state_of(producer) is state
    cluster.controls.clear()


@pytest.mark.parametrize(("state", "call"), AFTER, ids=lambda one: one.value)
def test_legal_call_in_a_state_leads_to_the_next_state(
    state: TransactionState, call: Call, simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = a_producer(simulation, cluster, state)
    cluster.controls.clear()
    got = CALLS[call](producer)
    assert state_of(producer) is AFTER[state, call]
    if call is Call.DETACH:
        assert isinstance(got, TransactionHandle)


def test_the_walk_above_leaves_nothing_out() -> None:
    assert set(WAYS) == set(LEGAL_CALLS) == set(NEXT_STEP) == set(LEGAL_MOVES) == set(TransactionState)
    assert set(AFTER) == {(state, call) for state, calls in LEGAL_CALLS.items() for call in calls}


@pytest.mark.parametrize("before", TransactionState, ids=lambda state: state.value)
def test_a_move_that_the_table_lacks_is_refused(before: TransactionState) -> None:
    for after in TransactionState:
        status = TransactionStatus("t", EventSink())
        status.state = before
        if after in LEGAL_MOVES[before]:
            status.move_to(after, 0.0)
            assert status.state is after
        else:
            with pytest.raises(IllegalTransition, match="transaction 't'"):
                status.move_to(after, 0.0)
            assert status.state is before


def test_every_state_but_the_last_ones_leads_on_and_every_open_one_may_fail() -> None:
    assert {state for state, after in LEGAL_MOVES.items() if not after} == {S.DETACHED, S.FATAL_ERROR}
    assert all({S.ABORTABLE_ERROR, S.FATAL_ERROR} <= LEGAL_MOVES[state] for state in OPEN_STATES)


def test_error_of_an_unknown_code_keeps_its_message() -> None:
    cause = error_of(999, "of the future")
    assert str(again(cause, "commit_transaction: of the future")) == "commit_transaction: of the future"


def test_errors_of_a_state_keep_their_cause(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = a_producer(simulation, cluster, S.ABORTABLE_ERROR)
    with pytest.raises(TransactionFailed, match=r"orders-0.*abort_transaction") as failed:
        producer.commit_transaction()
    assert isinstance(failed.value.__cause__, TopicAuthorizationFailed)
    assert "orders-0" in producer.explain()
    with suppress(KafkaError):
        producer.abort_transaction()
    assert producer.health()["transaction_error"] is None
