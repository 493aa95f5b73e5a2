"""Requests of leaders and group coordinators to transaction coordinators, in virtual time.

Tests with `cluster_bench` run with transaction.version 1 and 2.
"""

from __future__ import annotations

import logging

import pytest

from pykafka2 import errors
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import in_transaction
from tests.broker.support.data_requests import TV1_PRODUCE, partition_of, produce_request
from tests.broker.support.transactions import ClusterTransactions, Producer

A, B = ("t", 0), ("u", 1)

CONCURRENT = errors.ConcurrentTransactions.code
FENCED = errors.ProducerFenced.code
INVALID_EPOCH = errors.InvalidProducerEpoch.code
INVALID_STATE = errors.InvalidTxnState.code
UNKNOWN = errors.UnknownTopicOrPartition.code


# ---------------------------------------------------------------------- verification


def test_produce_to_a_partition_that_was_not_added_is_rejected(old: ClusterTransactions) -> None:
    producer = Producer(old).begin()
    assert producer.write([b"x"], version=10).error_code == INVALID_STATE
    assert producer.write([b"x"], version=11).error_code == errors.TransactionAbortable.code
    assert old.read(committed=False).high_watermark == 0
    assert producer.add(A) == [0]
    assert producer.write([b"x"]).error_code == 0


def test_produce_while_the_coordinator_loads_gets_not_enough_replicas(old: ClusterTransactions) -> None:
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


def test_batch_of_another_producer_id_is_rejected(old: ClusterTransactions) -> None:
    producer = Producer(old).begin()
    producer.send(b"x")
    records = in_transaction([b"y"], producer.id + 7)
    request = produce_request("t", 0, records, transactional_id="tid")
    response = partition_of(old.call_broker(old.leader(), request, TV1_PRODUCE))
    assert response.error_code == errors.InvalidProducerIdMapping.code
    assert producer.end() == 0
    old.until("CompleteCommit")
    assert old.values() == [b"x"]


def test_write_admitted_by_the_coordinator_is_replicated_at_once(old: ClusterTransactions) -> None:
    """The waiting fetches of followers get it at once, not after their timeout."""
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
    """Pipelined batches keep their order although the verification of the first is slow."""
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


def test_without_verification_only_newer_producers_add_partitions(simulated: Simulation) -> None:
    """With the option off, a batch whose partition was not added leaves a hanging transaction (KIP-890)."""
    cluster_bench = ClusterTransactions(
        simulated, config={"transaction.partition.verification.enable": False}
    )
    producer = Producer(cluster_bench).begin()
    assert producer.write([b"x"], version=TV1_PRODUCE).error_code == 0
    assert cluster_bench.cluster.transaction("tid").state == "Empty"
    assert producer.write([b"y"], "u", 1).error_code == 0
    assert cluster_bench.cluster.transaction("tid").partitions == (B,)
    assert producer.end() == 0
    cluster_bench.until("CompleteCommit")
    assert (cluster_bench.read().last_stable_offset, cluster_bench.values("u", 1)) == (0, [b"y"])


# ---------------------------------------------------------------------- offsets


def test_offsets_of_a_transaction_are_invisible_until_it_commits(cluster_bench: ClusterTransactions) -> None:
    producer = Producer(cluster_bench).begin()
    if cluster_bench.version == 1:
        assert producer.add_offsets("g") == 0
    assert producer.commit_offset("g", 5) == 0
    pending = cluster_bench.offset("g")
    assert (pending.error_code, pending.committed_offset) == (errors.UnstableOffsetCommit.code, -1)
    assert cluster_bench.offset("g", stable=False).committed_offset == -1
    assert producer.end() == 0
    cluster_bench.until("CompleteCommit")
    assert cluster_bench.offset("g").committed_offset == 5


def test_offsets_of_an_aborted_transaction_are_discarded(cluster_bench: ClusterTransactions) -> None:
    producer = Producer(cluster_bench).begin()
    if cluster_bench.version == 1:
        assert producer.add_offsets("g") == 0
    assert producer.commit_offset("g", 5) == 0
    assert producer.end(committed=False) == 0
    cluster_bench.until("CompleteAbort")
    found = cluster_bench.offset("g")
    assert (found.error_code, found.committed_offset) == (0, -1)


def test_pending_offsets_survive_a_move_of_the_group_coordinator(cluster_bench: ClusterTransactions) -> None:
    producer = Producer(cluster_bench).begin()
    if cluster_bench.version == 1:
        assert producer.add_offsets("g") == 0
    assert producer.commit_offset("g", 5) == 0
    to = (cluster_bench.find("g", "group") + 1) % 3
    cluster_bench.cluster.controls.move_coordinator("g", to)
    cluster_bench.simulation.run_for(0.1)
    assert cluster_bench.offset("g").error_code == errors.UnstableOffsetCommit.code
    assert producer.end() == 0
    cluster_bench.until("CompleteCommit")
    assert cluster_bench.offset("g").committed_offset == 5


def test_offset_commit_of_a_group_that_was_not_added_is_rejected(old: ClusterTransactions) -> None:
    producer = Producer(old).begin()
    assert producer.commit_offset("g", 5, version=3) == INVALID_STATE
    assert producer.commit_offset("g", 5, version=4) == errors.TransactionAbortable.code
    assert old.offset("g").committed_offset == -1


@pytest.mark.gate
@pytest.mark.parametrize("places", [{"u": [7]}, {"missing": [0], "t": [-1, 9]}, {}])
def test_offset_commit_of_missing_partitions_does_not_start_the_transaction(
    cluster_bench: ClusterTransactions, places: dict[str, list[int]]
) -> None:
    producer = Producer(cluster_bench).begin()
    expected = [(name, [UNKNOWN] * len(numbers)) for name, numbers in places.items()]
    coordinator = cluster_bench.find("g", "group")
    for broker in (coordinator, (coordinator + 1) % 3):
        for version in (3, 4, 5):
            assert producer.commit_offsets("g", 5, places, version=version, to=broker) == expected
    assert cluster_bench.state == "Empty"


def test_missing_partitions_keep_their_error_when_the_commit_of_others_fails(
    cluster_bench: ClusterTransactions,
) -> None:
    producer = Producer(cluster_bench).begin()
    places = {"t": [9, 0], "missing": [0], "u": [0]}
    other = (cluster_bench.find("g", "group") + 1) % 3
    moved = errors.NotCoordinator.code
    found = producer.commit_offsets("g", 5, places, to=other)
    assert found == [("t", [UNKNOWN, moved]), ("missing", [UNKNOWN]), ("u", [moved])]
    Producer(cluster_bench).begin()
    found = producer.commit_offsets("g", 5, places)
    assert found == [("t", [UNKNOWN, INVALID_EPOCH]), ("missing", [UNKNOWN]), ("u", [INVALID_EPOCH])]


@pytest.mark.gate
def test_offset_commit_of_a_fenced_producer_is_rejected(cluster_bench: ClusterTransactions) -> None:
    first = Producer(cluster_bench).begin()
    second = Producer(cluster_bench).begin()
    if cluster_bench.version == 1:
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


def transaction_with_late_markers(new: ClusterTransactions, marker_seconds: float) -> Producer:
    """Return the producer of an ended transaction whose markers reach their leader that much later."""
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
def test_batch_before_the_markers_waits_for_them(new: ClusterTransactions, marker_seconds: float) -> None:
    """The marker invalidates a pending verification, which is repeated and then succeeds."""
    producer = transaction_with_late_markers(new, marker_seconds)
    assert producer.write([b"second"]).error_code == 0
    assert producer.end() == 0
    new.until("CompleteCommit")
    assert new.values() == [b"first", b"second"]


@pytest.mark.parametrize("marker_seconds", [0.005, 0.015, 0.05])
def test_offset_commit_before_the_markers_gets_concurrent_transactions(
    new: ClusterTransactions, marker_seconds: float
) -> None:
    producer = transaction_with_late_markers(new, marker_seconds)
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
