"""Transactions that leave their producer: who may end them, how often, and which errors the others get."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pykafka2 import TransactionHandle, end_transaction, end_transactions
from pykafka2.errors import (
    BrokerError,
    IllegalArgument,
    IllegalState,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaTimeoutError,
    MessageTooLarge,
    ProducerFenced,
    TransactionFailed,
    UnknownOption,
)
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.protocol.messages.transaction import EndTxnRequest
from pykafka2.protocol.messages.transaction_admin import DescribeTransactionsResponse
from pykafka2.testing import KafkaCluster, Simulation
from tests.gate import rest_in_gate
from tests.producer.transactions.transactional import a_cluster, a_producer, committed, read, requests


@pytest.fixture
def cluster(simulation: Simulation, version: int) -> KafkaCluster:
    return a_cluster(simulation, version)


def handed_over(simulation: Simulation, cluster: KafkaCluster, **options: Any) -> TransactionHandle:
    """An open transaction with one record, whose producer is closed."""
    producer = a_producer(simulation, cluster, linger_ms=20_000, **options)
    producer.begin_transaction()
    producer.send("orders", b"v")
    handle = producer.detach_transaction()
    producer.close()
    return handle


def end(
    simulation: Simulation, cluster: KafkaCluster, handle: TransactionHandle, *, commit: bool, **more: Any
) -> None:
    """End it like another process."""
    runtime = simulation.runtime.at("elsewhere")
    end_transaction(
        handle, commit=commit, runtime=runtime, bootstrap_servers=cluster.bootstrap_servers, **more
    )


def test_transaction_handle_can_be_pickled_and_has_no_secret(
    simulation: Simulation, cluster: KafkaCluster, version: int
) -> None:
    handle = handed_over(simulation, cluster)
    copy = pickle.loads(pickle.dumps(handle))
    assert copy == handle
    known = cluster.transaction("t")
    assert copy == TransactionHandle("t", known.producer_id, known.producer_epoch, version, is_empty=False)
    assert set(TransactionHandle.__slots__) - {"__weakref__"} == {
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "transaction_version",
        "is_empty",
    }


@pytest.mark.gate
@pytest.mark.parametrize("commit", rest_in_gate([True, False]), ids=["commit", "abort"])
def test_the_transaction_stays_open_until_it_is_ended(
    simulation: Simulation, cluster: KafkaCluster, commit: bool
) -> None:
    handle = handed_over(simulation, cluster)
    simulation.sleep(5)
    assert cluster.transaction("t").is_open
    assert committed(simulation, cluster) == []
    assert read(simulation, cluster, "orders") == [b"v"]
    for _ in range(3):
        end(simulation, cluster, handle, commit=commit)
    assert committed(simulation, cluster) == ([b"v"] if commit else [])
    with pytest.raises(InvalidTxnState, match=r"ended otherwise.*is in state Complete"):
        end(simulation, cluster, handle, commit=not commit)


@pytest.mark.parametrize("was_ended", rest_in_gate([True, False]))
def test_error_after_the_next_init_names_the_new_producer(
    simulation: Simulation, cluster: KafkaCluster, was_ended: bool
) -> None:
    handle = handed_over(simulation, cluster)
    if was_ended:
        end(simulation, cluster, handle, commit=True)
    newer = a_producer(simulation, cluster)
    epoch = newer.health()["producer_epoch"]
    with pytest.raises(ProducerFenced, match=f"of producer {handle.producer_id} with epoch {epoch}"):
        end(simulation, cluster, handle, commit=True)
    with newer.transaction():
        newer.send("orders", b"new")
    assert committed(simulation, cluster) == ([b"v", b"new"] if was_ended else [b"new"])


def test_empty_describe_transactions_response_keeps_the_fenced_error(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    handle = handed_over(simulation, cluster)
    a_producer(simulation, cluster)
    nothing = DescribeTransactionsResponse(transaction_states=[])
    cluster.controls.rule(api="DescribeTransactions", then="replace_reply", reply=lambda *_: nothing)
    with pytest.raises(ProducerFenced, match=r"its state is unknown: .* response lacks 't'"):
        end(simulation, cluster, handle, commit=True)


def test_unanswered_describe_transactions_does_not_exceed_the_timeout(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """Each handle took ten seconds more."""
    handle = handed_over(simulation, cluster)
    a_producer(simulation, cluster)
    cluster.controls.hold("DescribeTransactions")
    began = simulation.now
    with pytest.raises(ProducerFenced, match="its state is unknown"):
        end(simulation, cluster, handle, commit=True, timeout=2)
    assert simulation.now - began < 4
    cluster.controls.clear()


@pytest.mark.parametrize("error", [ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping])
def test_fencing_error_of_each_code_fences_the_handle(
    simulation: Simulation, cluster: KafkaCluster, error: type[BrokerError]
) -> None:
    handle = handed_over(simulation, cluster)
    cluster.controls.fail_next(EndTxnRequest, error)
    with pytest.raises(ProducerFenced, match="has ended, as another producer took over the id"):
        end(simulation, cluster, handle, commit=True)


@pytest.mark.gate
def test_transaction_timeout_raises_its_own_error(
    simulation: Simulation, cluster: KafkaCluster, version: int
) -> None:
    handle = handed_over(simulation, cluster, transaction_timeout_ms=3000)
    simulation.sleep(10)
    with pytest.raises(InvalidTxnState if version == 2 else ProducerFenced, match="CompleteAbort"):
        end(simulation, cluster, handle, commit=True)
    assert committed(simulation, cluster) == []


def test_a_handle_has_the_epoch_that_its_producer_has_come_to(simulation: Simulation) -> None:
    cluster = a_cluster(simulation, 1)
    a_producer(simulation, cluster)
    handle = handed_over(simulation, cluster)
    assert handle.producer_epoch == cluster.transaction("t").producer_epoch > 0
    end(simulation, cluster, handle, commit=True)


@pytest.mark.gate
@pytest.mark.parametrize("commit", [True, False])
def test_an_empty_transaction_ends_without_a_request(
    simulation: Simulation, cluster: KafkaCluster, commit: bool
) -> None:
    producer = a_producer(simulation, cluster)
    producer.begin_transaction()
    handle = producer.detach_transaction()
    producer.close()
    end(simulation, cluster, handle, commit=commit)
    assert handle.is_empty
    assert requests(cluster, "EndTxn") == 0


def test_a_failed_record_keeps_the_transaction_with_its_producer(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = a_producer(simulation, cluster)
    producer.begin_transaction()
    cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
    producer.send("orders", b"v")
    with pytest.raises(TransactionFailed, match="detach_transaction"):
        producer.detach_transaction()
    producer.abort_transaction()


def test_detach_sends_waiting_records_without_lingering(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = a_producer(simulation, cluster, linger_ms=20_000)
    producer.begin_transaction()
    delivery = producer.send("orders", b"v")
    began = simulation.now
    producer.detach_transaction()
    assert delivery.done()
    assert simulation.now - began < 1


def test_a_detached_producer_can_only_be_closed(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = a_producer(simulation, cluster)
    with producer.transaction():  # leaving the block ends nothing
        producer.send("orders", b"v")
        handle = producer.detach_transaction()
    assert producer.detach_transaction() == handle
    with pytest.raises(IllegalState, match=r"end_transaction\(handle\)"):
        producer.send("orders", b"w")
    with pytest.raises(IllegalState, match=r"end_transaction\(handle\)"):
        producer.init_transactions()
    producer.close()
    assert cluster.transaction("t").is_open
    end(simulation, cluster, handle, commit=True)
    assert committed(simulation, cluster) == [b"v"]


def test_lost_requests_and_answers_are_repeated(simulation: Simulation, cluster: KafkaCluster) -> None:
    handle = handed_over(simulation, cluster)
    cluster.controls.rule(api="EndTxn", then="apply_then_lose_reply", nth=1)
    cluster.controls.move_coordinator("t", (cluster.coordinator("t", "transaction") + 1) % 3, "transaction")
    end(simulation, cluster, handle, commit=True)
    assert committed(simulation, cluster) == [b"v"]


def test_without_an_answer_it_ends_in_time(simulation: Simulation, cluster: KafkaCluster) -> None:
    handle = handed_over(simulation, cluster)
    cluster.controls.hold("EndTxn")
    began = simulation.now
    with pytest.raises(KafkaTimeoutError):
        end(simulation, cluster, handle, commit=True, timeout=2)
    assert simulation.now - began < 4
    cluster.controls.clear()
    end(simulation, cluster, handle, commit=True)


def test_bad_arguments_are_named(simulation: Simulation, cluster: KafkaCluster) -> None:
    handle = TransactionHandle("t", 1, 1, 2)
    unknown: Any = ("t", 1, 1)
    with pytest.raises(IllegalArgument, match=r"handle=\('t', 1, 1\)"):
        end(simulation, cluster, unknown, commit=True)
    yes: Any = "yes"
    with pytest.raises(IllegalArgument, match="commit='yes'"):
        end(simulation, cluster, handle, commit=yes)
    with pytest.raises(UnknownOption, match="linger_ms"):
        end(simulation, cluster, handle, commit=True, linger_ms=5)


@pytest.mark.gate
def test_many_are_ended_together_and_each_that_was_not_is_named(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    handles = [handed_over(simulation, cluster, name=f"task-{number}") for number in range(3)]
    empty = TransactionHandle("task-3", 9, 0, 2, is_empty=True)
    successor = a_producer(simulation, cluster, "task-1")
    runtime = simulation.runtime.at("elsewhere")

    for _ in range(2):  # as often as one likes
        errors = end_transactions(
            [*handles, empty], commit=True, runtime=runtime, bootstrap_servers=cluster.bootstrap_servers
        )
        assert set(errors) == {handles[1]}
        assert isinstance(errors[handles[1]], ProducerFenced)
        assert "'task-1'" in str(errors[handles[1]])
    assert committed(simulation, cluster) == [b"v", b"v"]
    successor.close()


def test_many_ends_take_handles_alone(simulation: Simulation, cluster: KafkaCluster) -> None:
    with pytest.raises(IllegalArgument, match="'task-1'"):
        end_transactions(["task-1"], commit=True)  # type: ignore[list-item]
    with pytest.raises(IllegalArgument, match="commit='yes'"):
        end_transactions([], commit="yes")  # type: ignore[arg-type]
    alone: Any = TransactionHandle("task-1", 9, 0, 2)
    with pytest.raises(IllegalArgument, match=r"handles=TransactionHandle.* give an iterable"):
        end_transactions(alone, commit=True)
    assert end_transactions([], commit=False, bootstrap_servers="nowhere:1") == {}
