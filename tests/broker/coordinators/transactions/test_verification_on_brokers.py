"""Requests of leaders and group coordinators to transaction coordinators, in virtual time.

Tests with `world` run with transaction.version 1 and 2.
"""

from __future__ import annotations

import logging

import pytest

from pykafka2 import errors
from pykafka2.protocol.messages.transaction import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import in_transaction
from tests.broker.support.data_requests import TV1_PRODUCE, partition_of, produce_request
from tests.broker.support.transactions import ClusterTransactions, Producer

A, B = ("t", 0), ("u", 1)

CONCURRENT = errors.ConcurrentTransactions.code
FENCED = errors.ProducerFenced.code
INVALID_EPOCH = errors.InvalidProducerEpoch.code
INVALID_STATE = errors.InvalidTxnState.code


# ---------------------------------------------------------------------- verification


def test_a_partition_that_was_not_added_is_refused(old: ClusterTransactions) -> None:
    producer = Producer(old).begin()
    assert producer.write([b"x"], version=10).error_code == INVALID_STATE
    assert producer.write([b"x"], version=11).error_code == errors.TransactionAbortable.code
    assert old.read(committed=False).high_watermark == 0
    assert producer.add(A) == [0]
    assert producer.write([b"x"]).error_code == 0


def test_a_coordinator_that_cannot_answer_is_not_enough_replicas(old: ClusterTransactions) -> None:
    producer = Producer(old).begin()
    assert producer.add(A, B) == [0, 0]
    controls = old.cluster.controls
    controls.hold_loading()
    coordinator = old.find("tid")
    other = next(one for one in range(3) if one != coordinator)
    controls.move_coordinator("tid", other, kind="transaction")
    assert producer.write([b"x"]).error_code == errors.NotEnoughReplicas.code
    controls.release_loading()
    old.simulation.run_for(0.01)
    assert producer.write([b"x"]).error_code == 0


def test_a_stranger_cannot_write_into_a_transaction(old: ClusterTransactions) -> None:
    producer = Producer(old).begin()
    producer.send(b"x")
    records = in_transaction([b"y"], producer.id + 7)
    request = produce_request("t", 0, records, transactional_id="tid")
    answer = partition_of(old.call_broker(old.leader(), request, TV1_PRODUCE))
    assert answer.error_code == errors.InvalidProducerIdMapping.code
    assert producer.end() == 0
    old.until("CompleteCommit")
    assert old.values() == [b"x"]


def test_write_admitted_by_the_coordinator_is_replicated_at_once(old: ClusterTransactions) -> None:
    """The followers' fetches that wait are answered with it, and not when their time is up."""
    producer = Producer(old).begin()
    assert producer.add(A) == [0]
    leader = old.leader()
    if leader == old.find("tid"):
        old.cluster.controls.move_coordinator("tid", (leader + 1) % 3, kind="transaction")
        old.find("tid")
    for _ in range(3):
        old.simulation.run_for(0.11)
        started = old.simulation.clock.monotonic()
        assert producer.write([b"x"]).error_code == 0
        assert old.simulation.clock.monotonic() - started < 0.05
        assert producer.end() == 0
        old.until("CompleteCommit")
        old.simulation.run_for(0.1)
        producer.begin()
        assert producer.add(A) == [0]


def test_later_requests_of_a_connection_wait_for_a_verification(old: ClusterTransactions) -> None:
    """Two batches pipelined, the first must ask the coordinator, which is slow: their order stays."""
    from pykafka2.protocol.messages.produce import ProduceRequest
    from tests.broker.support.raw_client import RawClient

    producer = Producer(old).begin()
    assert producer.add(A) == [0]
    leader, coordinator = old.leader(), old.find("tid")
    if leader == coordinator:
        old.cluster.controls.move_coordinator("tid", (leader + 1) % 3, kind="transaction")
        coordinator = old.find("tid")
        old.simulation.run_for(0.1)
    old.cluster.controls.delay_link(leader, coordinator, 0.5)
    wire = RawClient(old.cluster.brokers[leader].address, simulation=old.simulation)
    for sequence in range(3):
        records = in_transaction([b"%d" % sequence], producer.id, producer.epoch, sequence)
        wire.send(produce_request("t", 0, records, transactional_id="tid"), TV1_PRODUCE)
    codes = [partition_of(wire.receive(ProduceRequest, TV1_PRODUCE)[1]).error_code for _ in range(3)]
    wire.close()
    assert codes == [0, 0, 0]
    old.cluster.controls.heal()
    assert producer.end() == 0
    old.until("CompleteCommit")
    assert old.values() == [b"0", b"1", b"2"]


def test_without_verification_older_producers_write_unasked_newer_ones_still_add(
    simulated: Simulation,
) -> None:
    """The option is dynamic; with it off a batch that was not added hangs, as before KIP-890."""
    world = ClusterTransactions(simulated, config={"transaction.partition.verification.enable": False})
    producer = Producer(world).begin()
    assert producer.write([b"x"], version=TV1_PRODUCE).error_code == 0
    assert world.cluster.transaction("tid").state == "Empty"
    assert producer.write([b"y"], "u", 1).error_code == 0
    assert world.cluster.transaction("tid").partitions == (B,)
    assert producer.end() == 0
    world.until("CompleteCommit")
    assert (world.read().last_stable_offset, world.values("u", 1)) == (0, [b"y"])


def add_for_many(world: ClusterTransactions, producers: list[tuple[Producer, bool]]) -> dict[str, list[int]]:
    """AddPartitionsToTxn as a leader sends it to the coordinator of all of these (with True: only verify)."""
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=producer.name,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name="t", partitions=[0, 1])],
            )
            for producer, verify_only in producers
        ]
    )
    answer = world.call_broker(world.find(producers[0][0].name), request, 5)
    return {
        result.transactional_id: [
            one.partition_error_code for topic in result.topic_results for one in topic.results_by_partition
        ]
        for result in answer.results_by_transaction
    }


def test_one_request_verifies_or_adds_for_many_transactions(simulated: Simulation) -> None:
    world = ClusterTransactions(simulated, brokers=1)
    one, two = Producer(world, "one").begin(), Producer(world, "two").begin()
    assert add_for_many(world, [(one, True), (two, False)]) == {
        "one": [errors.TransactionAbortable.code] * 2,
        "two": [0, 0],
    }
    assert world.cluster.transaction("two").partitions == (("t", 0), ("t", 1))
    assert world.cluster.transaction("one").state == "Empty"
    assert add_for_many(world, [(two, True)]) == {"two": [0, 0]}


def test_missing_partitions_and_those_of_the_same_request_are_not_added(old: ClusterTransactions) -> None:
    producer = Producer(old).begin()
    unknown, untried = errors.UnknownTopicOrPartition.code, errors.OperationNotAttempted.code
    assert producer.add(A, ("t", 9)) == [untried, unknown]
    assert producer.add(("none", 0)) == [unknown]
    assert old.cluster.transaction("tid").state == "Empty"


# ---------------------------------------------------------------------- offsets


def test_offsets_of_a_transaction_are_invisible_until_it_commits(world: ClusterTransactions) -> None:
    producer = Producer(world).begin()
    if world.version == 1:
        assert producer.add_offsets("g") == 0
    assert producer.commit_offset("g", 5) == 0
    pending = world.offset("g")
    assert (pending.error_code, pending.committed_offset) == (errors.UnstableOffsetCommit.code, -1)
    assert world.offset("g", stable=False).committed_offset == -1
    assert producer.end() == 0
    world.until("CompleteCommit")
    assert world.offset("g").committed_offset == 5


def test_offsets_of_an_aborted_transaction_never_were(world: ClusterTransactions) -> None:
    producer = Producer(world).begin()
    if world.version == 1:
        assert producer.add_offsets("g") == 0
    assert producer.commit_offset("g", 5) == 0
    assert producer.end(committed=False) == 0
    world.until("CompleteAbort")
    found = world.offset("g")
    assert (found.error_code, found.committed_offset) == (0, -1)


def test_offsets_survive_the_group_coordinator(world: ClusterTransactions) -> None:
    producer = Producer(world).begin()
    if world.version == 1:
        assert producer.add_offsets("g") == 0
    assert producer.commit_offset("g", 5) == 0
    to = (world.find("g", "group") + 1) % 3
    world.cluster.controls.move_coordinator("g", to)
    world.simulation.run_for(0.1)
    assert world.offset("g").error_code == errors.UnstableOffsetCommit.code
    assert producer.end() == 0
    world.until("CompleteCommit")
    assert world.offset("g").committed_offset == 5


def test_an_offset_outside_of_the_transaction_is_verified_and_refused(old: ClusterTransactions) -> None:
    producer = Producer(old).begin()
    assert producer.commit_offset("g", 5, version=3) == INVALID_STATE
    assert producer.commit_offset("g", 5, version=4) == errors.TransactionAbortable.code
    assert old.offset("g").committed_offset == -1


def test_member_and_generation_are_checked(world: ClusterTransactions) -> None:
    producer = Producer(world).begin()
    if world.version == 1:
        assert producer.add_offsets("g") == 0
    code = producer.commit_offset("g", 5, generation=3, member="nobody")
    assert code in (errors.IllegalGeneration.code, errors.UnknownMemberId.code)


def test_an_old_producer_commits_no_offset(world: ClusterTransactions) -> None:
    first = Producer(world).begin()
    second = Producer(world).begin()
    if world.version == 1:
        assert first.add_offsets("g") == FENCED
        assert second.add_offsets("g") == 0
    assert first.commit_offset("g", 5) == INVALID_EPOCH
    assert second.commit_offset("g", 7) == 0


def test_failure_after_the_verification_fails_only_that_request(
    old: ClusterTransactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator's response is handled outside of the handler, with the same protection."""
    from pykafka2.broker.replication.replica_manager import ReplicaManager

    producer = Producer(old).begin()
    assert producer.add(A) == [0]
    logging.disable(logging.CRITICAL)
    with monkeypatch.context() as patch:
        patch.setattr(ReplicaManager, "append", lambda self, *args, **kwargs: 1 // 0)
        assert producer.write([b"x"]).error_code == errors.UnknownServerError.code
    logging.disable(logging.NOTSET)
    assert producer.write([b"x"]).error_code == 0
    assert len(old.cluster.problems.take()) == 1


# ---------------------------------------------------------------------- while the markers are on their way


def a_transaction_being_ended(new: ClusterTransactions, marker_seconds: float) -> Producer:
    """Its record and an offset wait for their markers, which their leader gets to see so much later."""
    producer = Producer(new).begin()
    coordinator = new.find("tid")
    leader = (coordinator + 1) % 3
    controls = new.cluster.controls
    new.find("g", "group")
    controls.move_leader(A, leader)
    controls.move_coordinator("g", leader)
    new.simulation.run_for(1)
    producer.send(b"first")
    assert producer.commit_offset("g", 1) == 0
    controls.delay_link(coordinator, leader, marker_seconds, one_way=True)
    assert producer.end() == 0
    assert new.state == "PrepareCommit"
    return producer


@pytest.mark.parametrize("marker_seconds", [0.005, 0.015])
def test_a_batch_that_overtakes_the_markers_waits_for_them(
    new: ClusterTransactions, marker_seconds: float
) -> None:
    """The marker invalidates a pending verification, which is repeated and then succeeds."""
    producer = a_transaction_being_ended(new, marker_seconds)
    assert producer.write([b"second"]).error_code == 0
    assert producer.end() == 0
    new.until("CompleteCommit")
    assert new.values() == [b"first", b"second"]


@pytest.mark.parametrize("marker_seconds", [0.005, 0.015, 0.05])
def test_offset_commit_before_the_markers_gets_concurrent_transactions(
    new: ClusterTransactions, marker_seconds: float
) -> None:
    producer = a_transaction_being_ended(new, marker_seconds)
    codes = []
    for _ in range(10):
        codes.append(producer.commit_offset("g", 2))
        if codes[-1] == 0:
            break
        new.simulation.run_for(0.02)
    assert {*codes[:-1]} <= {CONCURRENT}
    assert codes[-1] == 0
    assert producer.end() == 0
    new.until("CompleteCommit")
    assert new.offset("g").committed_offset == 2
