"""The transaction coordinator on real brokers and logs, in virtual time.

Unless noted, a rule holds for transaction.version 1 and 2.
"""

from __future__ import annotations

import pytest

from pykafka2 import errors
from pykafka2.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.protocol.messages.transaction_admin import DescribeTransactionsRequest, ListTransactionsRequest
from pykafka2.testing.simulation import Simulation
from tests.broker.support.transactions import ClusterTransactions, Producer

A, B = ("t", 0), ("u", 1)

CONCURRENT = errors.ConcurrentTransactions.code
FENCED = errors.ProducerFenced.code
INVALID_EPOCH = errors.InvalidProducerEpoch.code
INVALID_STATE = errors.InvalidTxnState.code


# ---------------------------------------------------------------------- InitProducerId


# ---------------------------------------------------------------------- EndTxn


def test_produce_adds_its_partition_to_the_transaction(new: ClusterTransactions) -> None:
    producer = Producer(new).begin()
    assert new.cluster.transaction("tid").state == "Empty"
    assert producer.write([b"x"]).error_code == 0
    assert new.cluster.transaction("tid").partitions == (A,)
    assert producer.write([b"y"], "u", 1).error_code == 0
    assert new.cluster.transaction("tid").partitions == (A, B)
    assert producer.end() == 0
    new.until("CompleteCommit")
    assert (new.values(), new.values("u", 1)) == ([b"x"], [b"y"])


@pytest.mark.parametrize("patience_ms", [100, 5_000])
def test_batch_right_after_the_end_waits_for_the_markers(simulated: Simulation, patience_ms: int) -> None:
    """The next transaction begins while the one before is being ended: the leader verifies it again."""
    cluster_bench = ClusterTransactions(
        simulated, config={"add.partitions.to.txn.retry.backoff.max.ms": patience_ms}
    )
    producer = Producer(cluster_bench).begin()
    producer.send(b"x", "u", 1)
    cluster_bench.cluster.controls.pause_followers(B)
    assert producer.end() == 0
    assert cluster_bench.cluster.transaction("tid").state == "PrepareCommit"
    started = simulated.now
    simulated.spawn(
        lambda: (simulated.sleep(0.5), cluster_bench.cluster.controls.resume_followers()), "later"
    )
    code = producer.write([b"y"]).error_code
    if patience_ms == 100:
        assert (code, round(simulated.now - started, 1)) == (CONCURRENT, 0.1)
    else:
        assert (code, simulated.now - started > 0.5) == (0, True)


# ---------------------------------------------------------------------- timeouts, markers


@pytest.mark.gate
def test_marker_is_written_after_its_leader_becomes_reachable(cluster_bench: ClusterTransactions) -> None:
    """The decision is final; the marker is written when the partition has a leader again."""
    producer = Producer(cluster_bench).begin()
    leader = cluster_bench.leader("u", 1)
    coordinator = cluster_bench.find("tid")
    if leader == coordinator:
        cluster_bench.cluster.controls.move_coordinator("tid", (leader + 1) % 3, kind="transaction")
        cluster_bench.simulation.run_for(0.1)
    producer.send(b"x")
    producer.send(b"y", "u", 1)
    cluster_bench.cluster.controls.cut_link(cluster_bench.find("tid"), cluster_bench.leader("u", 1))
    producer.end()
    cluster_bench.simulation.run_for(2)
    assert cluster_bench.cluster.transaction("tid").state == "PrepareCommit"
    cluster_bench.cluster.controls.heal()
    cluster_bench.until("CompleteCommit")
    assert (cluster_bench.values(), cluster_bench.values("u", 1)) == ([b"x"], [b"y"])


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_new_coordinator_finishes_the_end_of_a_transaction_of_a_crashed_one(
    cluster_bench: ClusterTransactions, committed: bool
) -> None:
    producer = Producer(cluster_bench).begin()
    producer.send(b"x")
    producer.send(b"y", "u", 1)
    cluster_bench.cluster.controls.pause_followers(B)
    assert producer.end(committed=committed) == 0
    assert cluster_bench.state == ("PrepareCommit" if committed else "PrepareAbort")
    dead = cluster_bench.find("tid")
    cluster_bench.cluster.controls.crash_broker(dead)
    cluster_bench.cluster.controls.resume_followers()
    cluster_bench.until("CompleteCommit" if committed else "CompleteAbort")
    assert cluster_bench.cluster.transaction("tid").coordinator != dead
    assert cluster_bench.values() == ([b"x"] if committed else [])
    assert cluster_bench.values("u", 1) == ([b"y"] if committed else [])
    producer.begin()
    producer.send(b"z")
    assert producer.end() == 0


def test_transaction_survives_a_move_of_its_coordinator(cluster_bench: ClusterTransactions) -> None:
    producer = Producer(cluster_bench).begin()
    producer.send(b"x")
    before = cluster_bench.cluster.transaction("tid")
    to = (before.coordinator + 1) % 3
    cluster_bench.cluster.controls.move_coordinator("tid", to, kind="transaction")
    cluster_bench.simulation.run_for(0.1)
    after = cluster_bench.cluster.transaction("tid")
    assert (after.state, after.partitions, after.coordinator) == ("Ongoing", before.partitions, to)
    producer.send(b"y", "u", 1)
    assert producer.end() == 0
    cluster_bench.until("CompleteCommit")
    assert (cluster_bench.values(), cluster_bench.values("u", 1)) == ([b"x"], [b"y"])


def test_deleted_topic_does_not_block_the_end_of_its_transaction(cluster_bench: ClusterTransactions) -> None:
    producer = Producer(cluster_bench).begin()
    producer.send(b"x")
    producer.send(b"y", "u", 1)
    cluster_bench.cluster.controls.pause_followers(B)
    assert producer.end() == 0
    cluster_bench.cluster.delete_topic("u")
    cluster_bench.cluster.controls.resume_followers()
    cluster_bench.until("CompleteCommit")
    assert cluster_bench.values() == [b"x"]


# ---------------------------------------------------------------------- coordinators, queries


def test_other_brokers_respond_not_coordinator(cluster_bench: ClusterTransactions) -> None:
    producer = Producer(cluster_bench).begin()
    other = (cluster_bench.find("tid") + 1) % 3
    request = InitProducerIdRequest(transactional_id="tid", transaction_timeout_ms=1000)
    assert cluster_bench.call_broker(other, request, 5).error_code == errors.NotCoordinator.code
    cluster_bench.cluster.controls.hold_loading()
    cluster_bench.cluster.controls.move_coordinator("tid", other, kind="transaction")
    assert producer.try_init().error_code == errors.CoordinatorLoadInProgress.code
    cluster_bench.cluster.controls.release_loading()
    cluster_bench.simulation.run_for(0.05)
    assert producer.init() == 0


@pytest.mark.gate
def test_describe_and_list_transactions(cluster_bench: ClusterTransactions) -> None:
    one, two = Producer(cluster_bench, "one").begin(), Producer(cluster_bench, "two").begin()
    one.send(b"x")
    described = one.call(DescribeTransactionsRequest(transactional_ids=["one"]), 0).transaction_states[0]
    assert (described.transaction_state, described.producer_id) == ("Ongoing", one.id)
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", [0])]
    missing = one.call(DescribeTransactionsRequest(transactional_ids=["none"]), 0)
    assert missing.transaction_states[0].error_code in (
        errors.TransactionalIdNotFound.code,
        errors.NotCoordinator.code,
    )
    request = ListTransactionsRequest(state_filters=["Ongoing"], producer_id_filters=[])
    listed = [
        state.transactional_id
        for broker in range(3)
        for state in cluster_bench.call_broker(broker, request, 2).transaction_states
    ]
    assert listed == ["one"]
    assert [view.transactional_id for view in cluster_bench.cluster.transactions() if view.is_open] == ["one"]
    assert two.end(committed=False) == (0 if cluster_bench.version == 2 else INVALID_STATE)


@pytest.mark.gate
def test_coordinator_uses_the_finalized_transaction_version(new: ClusterTransactions) -> None:
    """UpdateFeatures changes the version while a transaction is open: its abort by the coordinator is then
    one of version 1, without an epoch for each transaction.
    """
    producer = Producer(new).begin(timeout_ms=1_000)
    producer.send(b"x")
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
    request = UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update])
    assert new.call_broker(0, request, 1).error_code == 0
    new.simulation.run_for(0.1)
    assert [broker.image.transaction_version for broker in new.cluster.brokers] == [1, 1, 1]
    new.until("CompleteAbort")
    where = new.cluster.brokers[new.find("tid")].coordinators.transactions
    (shard,) = [one for one in where.shards.values() if "tid" in one.transactions]
    assert shard.transactions["tid"].client_version == 0
    assert new.values() == []


def test_unused_transactional_id_expires(simulated: Simulation) -> None:
    cluster_bench = ClusterTransactions(
        simulated,
        brokers=1,
        config={
            "transactional.id.expiration.ms": 60_000,
            "transaction.remove.expired.transaction.cleanup.interval.ms": 10_000,
        },
    )
    Producer(cluster_bench).begin()
    simulated.run_for(50)
    assert cluster_bench.cluster.transaction("tid").state == "Empty"
    simulated.run_for(25)
    with pytest.raises(errors.TransactionalIdNotFound):
        cluster_bench.cluster.transaction("tid")
