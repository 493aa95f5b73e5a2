"""Transactions under faults: bugs that other clients had, each retold against the bundled cluster.

A commit that returns has everything in it, one that raises has not, and an unknown outcome is never reported
as either. Names in brackets are where the bug was found.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest

from pykafka2 import KafkaProducer, OffsetAndMetadata, TopicPartition
from pykafka2.broker.coordinators.transactions.state import MAX_EPOCH
from pykafka2.errors import (
    ConcurrentTransactions,
    DeliveryTimeout,
    IllegalState,
    IncompleteSend,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    KafkaTimeoutError,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdNotFound,
    TransactionFailed,
    UnknownProducerId,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.protocol.messages.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from pykafka2.testing import KafkaCluster, Simulation
from tests.gate import rest_in_gate, rest_in_long
from tests.producer.rows import a_row
from tests.producer.transactions.transactional import a_cluster, a_producer, committed, read, requests

ORDERS = TopicPartition("orders", 0)
EXPIRES_SOON = {
    "transactional.id.expiration.ms": 60_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 10_000,
}


@pytest.fixture
def cluster(simulation: Simulation, version: int) -> KafkaCluster:
    return a_cluster(simulation, version)


@pytest.fixture
def producer(simulation: Simulation, cluster: KafkaCluster) -> KafkaProducer:
    return a_producer(simulation, cluster)


@pytest.fixture
def old(simulation: Simulation) -> KafkaCluster:
    return a_cluster(simulation, 1)


def end_with_offsets(producer: KafkaProducer) -> None:
    """Commit a transaction that has a record and offsets."""
    producer.send("orders", b"v")
    producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(1)}, "g")
    producer.commit_transaction()


def bill_until_fatal(producer: KafkaProducer) -> None:
    """Repeat a transaction as applications do: abort it after an error and begin again."""
    for _ in range(3):
        try:
            producer.send("orders", b"bill")
            producer.commit_transaction()
            return
        except TransactionFailed:
            producer.abort_transaction()
            producer.begin_transaction()


def goes_on(simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer) -> None:
    """After an abort the producer's next transaction is whole, and nothing else is seen."""
    producer.abort_transaction()
    with producer.transaction():
        for number in range(3):
            producer.send("orders", b"next %d" % number).result(10)
    assert committed(simulation, cluster) == [b"next 0", b"next 1", b"next 2"]


class TestWhatFailsIsNotCommitted:
    @pytest.mark.parametrize(
        "error",
        rest_in_gate([OutOfOrderSequenceNumber, UnknownProducerId, InvalidTxnState, TransactionAbortable]),
    )
    def test_a_gap_in_the_sequence_is_not_numbered_away(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer, error: Any
    ) -> None:
        """The first half of a transaction was lost with its commit (librdkafka #3575): an epoch was raised
        in its midst, which the coordinator took for the end of what came before."""
        producer.begin_transaction()
        producer.send("orders", b"first").result(5)
        sent = requests(cluster, "InitProducerId")
        cluster.controls.fail_next(ProduceRequest, error)
        with pytest.raises(error):
            producer.send("orders", b"second").result(5)
        assert requests(cluster, "InitProducerId") == sent
        with pytest.raises(TransactionFailed, match=error.__name__):
            producer.commit_transaction()
        assert requests(cluster, "EndTxn") == 0
        goes_on(simulation, cluster, producer)

    def test_producer_fenced_between_produce_and_commit_raises_producer_fenced(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        """The commit looked successful (librdkafka before 1.6.0)."""
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        a_producer(simulation, cluster)
        with pytest.raises(ProducerFenced):
            producer.commit_transaction()
        assert committed(simulation, cluster) == []

    @pytest.mark.gate
    def test_a_record_that_expired_is_missed_by_the_commit(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """The commit succeeded without it (librdkafka before 1.7.0)."""
        producer = a_producer(
            simulation, cluster, delivery_timeout_ms=3000, request_timeout_ms=1000, linger_ms=0
        )
        producer.begin_transaction()
        producer.send("orders", b"kept").result(2)
        cluster.controls.hold(ProduceRequest)
        producer.send("orders", b"expired")
        with pytest.raises(TransactionFailed, match="delivery_timeout_ms") as failed:
            producer.commit_transaction(30)
        assert isinstance(failed.value.__cause__, DeliveryTimeout)
        cluster.controls.clear()
        goes_on(simulation, cluster, producer)

    @pytest.mark.gate
    def test_a_cluster_that_went_down_before_partitions_joined_commits_nothing(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """The commit succeeded without any record (librdkafka before 1.7.0)."""
        producer = a_producer(
            simulation, cluster, delivery_timeout_ms=3000, request_timeout_ms=1000, linger_ms=0
        )
        producer.partitions_for("orders")
        for broker in range(3):
            cluster.controls.stop_broker(broker)
        producer.begin_transaction()
        delivery = producer.send("orders", b"v")
        with pytest.raises(TransactionFailed, match="delivery_timeout_ms"):
            producer.commit_transaction(10)
        assert delivery.failed()
        for broker in range(3):
            cluster.controls.restart_broker(broker)
        assert committed(simulation, cluster) == []

    def test_failed_end_of_a_transaction_is_not_reported_as_success(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        """Offsets went past an aborted transaction (franz-go before 1.21.4)."""
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(1)}, "copiers")
        cluster.controls.fail_next(EndTxnRequest, UnknownServerError)
        with pytest.raises(UnknownServerError, match="whether the transaction was committed is not known"):
            producer.commit_transaction()
        with pytest.raises(UnknownServerError):
            producer.begin_transaction()
        producer.close(1)
        a_producer(simulation, cluster)
        assert committed(simulation, cluster) == []
        assert cluster.group("copiers").offsets == {}

    @pytest.mark.gate
    def test_commit_fails_though_a_callback_reported_the_failed_record(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        """A failure that the application has seen must not be committed around."""
        raised: list[object] = []
        producer.begin_transaction()
        producer.send("orders", b"kept").result(5)
        cluster.controls.fail_next(ProduceRequest, TopicAuthorizationFailed)
        producer.send("orders", b"v", on_delivery=lambda metadata, error: raised.append(error))
        producer.send("orders", b"w").exception(5)
        assert len(raised) == 1
        with pytest.raises(TransactionFailed):
            producer.commit_transaction()
        goes_on(simulation, cluster, producer)

    def test_send_during_a_commit_is_refused(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        cluster.controls.hold(ProduceRequest)
        producer.send("orders", b"on the wire")
        simulation.sleep(0.1)
        producer.send("orders", b"waits")
        with pytest.raises(KafkaTimeoutError):
            producer.commit_transaction(0.5)
        with pytest.raises(IllegalState, match="is being committed"):
            producer.send("orders", b"too late")
        cluster.controls.clear()
        producer.commit_transaction()
        assert committed(simulation, cluster) == [b"on the wire", b"waits"]

    @pytest.mark.gate
    def test_abort_waits_for_expired_requests_in_flight(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """Before transaction.version 2 their records could open a transaction that never ends (KIP-890)."""
        producer = a_producer(
            simulation, cluster, request_timeout_ms=4000, delivery_timeout_ms=4500, linger_ms=0
        )
        producer.begin_transaction()
        producer.send("orders", b"first").result(5)
        cluster.controls.hold(ProduceRequest)
        producer.send("orders", b"given up")
        with pytest.raises(TransactionFailed, match="delivery_timeout_ms"):
            producer.commit_transaction(10)
        with pytest.raises(KafkaTimeoutError):
            producer.abort_transaction(1)
        assert requests(cluster, "EndTxn") == 0
        producer.abort_transaction(10)
        assert requests(cluster, "EndTxn") == 1
        cluster.controls.clear()
        assert committed(simulation, cluster) == []

    def test_offsets_that_wait_go_with_their_transaction(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        cluster.controls.hold(TxnOffsetCommitRequest)
        for group in ("held", "waits"):
            with pytest.raises(KafkaTimeoutError, match=r"commit_transaction\(\) waits for it"):
                producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(1)}, group, 0.5)
        cluster.controls.clear()
        producer.abort_transaction()
        with producer.transaction():
            producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(2)}, "next")
        simulation.sleep(0.5)
        assert cluster.group("next").offsets == {ORDERS: 2}
        assert cluster.group("held").offsets == {}
        assert requests(cluster, "TxnOffsetCommit") == 2


class TestPartitionsThatMayNotJoin:
    @pytest.mark.parametrize(
        "error", rest_in_gate([TopicAuthorizationFailed, InvalidTxnState, TransactionAbortable])
    )
    def test_the_commit_fails_at_once(self, simulation: Simulation, old: KafkaCluster, error: Any) -> None:
        """It hung (KAFKA-9287, librdkafka #3041)."""
        producer = a_producer(simulation, old)
        old.controls.fail_next(AddPartitionsToTxnRequest, error)
        producer.begin_transaction()
        delivery = producer.send("orders", b"v")
        began = simulation.now
        with pytest.raises(TransactionFailed, match=error.__name__):
            producer.commit_transaction()
        assert simulation.now - began < 1
        assert isinstance(delivery.exception(5), TransactionFailed)
        goes_on(simulation, old, producer)

    def test_unknown_topic_in_add_partitions_is_retried(
        self, simulation: Simulation, old: KafkaCluster
    ) -> None:
        producer = a_producer(simulation, old)
        old.controls.fail_next(AddPartitionsToTxnRequest, UnknownTopicOrPartition, times=3)
        with producer.transaction():
            producer.send("orders", b"v")
        assert committed(simulation, old) == [b"v"]

    def test_the_end_of_the_transaction_before_is_not_waited_for_long(
        self, simulation: Simulation, old: KafkaCluster
    ) -> None:
        """Markers are written in milliseconds; a back-off of 100 ms after each commit would be most of it."""
        producer = a_producer(simulation, old, retry_backoff_ms=1000)
        producer.begin_transaction()
        old.controls.fail_next(AddPartitionsToTxnRequest, ConcurrentTransactions, times=3)
        began = simulation.now
        producer.send("orders", b"v").result(10)
        assert simulation.now - began < 0.2
        producer.commit_transaction()

    @pytest.mark.parametrize(
        "request_class", [AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest]
    )
    @pytest.mark.parametrize("error", rest_in_gate([ProducerFenced, InvalidProducerEpoch]))
    def test_fenced_producer_cannot_commit_or_abort(
        self, simulation: Simulation, old: KafkaCluster, request_class: Any, error: Any
    ) -> None:
        producer = a_producer(simulation, old)
        old.controls.fail_next(request_class, error)
        producer.begin_transaction()
        producer.send("orders", b"v")
        with pytest.raises(ProducerFenced, match="close this producer"):  # noqa: PT012
            producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(1)}, "g")
            producer.commit_transaction()
        with pytest.raises(ProducerFenced):
            producer.abort_transaction()


class TestLateRequests:
    """Frames of dead connections that arrive behind their retry (KAFKA-17754, found by Jepsen)."""

    @pytest.mark.gate
    @pytest.mark.parametrize("version", [2, 1], indirect=True, ids=["version 2", "version 1"])
    @pytest.mark.parametrize("is_commit", rest_in_gate([True, False]), ids=["commit", "abort"])
    def test_a_late_end_does_not_end_the_next_transaction(
        self,
        simulation: Simulation,
        cluster: KafkaCluster,
        producer: KafkaProducer,
        is_commit: bool,
        version: int,
    ) -> None:
        """Before transaction.version 2 it had the epoch of the next one, and ended it half-way."""
        producer.begin_transaction()
        producer.send("orders", b"first").result(5)
        cluster.controls.rule(api="EndTxn", then="replay", nth=1)
        sent = requests(cluster, "InitProducerId")
        if is_commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        assert requests(cluster, "InitProducerId") - sent == (0 if version == 2 else 1)
        producer.begin_transaction()
        producer.send("orders", b"second").result(5)
        cluster.controls.release()
        simulation.sleep(1)
        assert committed(simulation, cluster) == ([b"first"] if is_commit else [])
        producer.send("orders", b"third").result(5)
        producer.abort_transaction()
        assert committed(simulation, cluster) == ([b"first"] if is_commit else [])

    def test_a_commit_stands_though_the_next_epoch_is_refused(
        self, simulation: Simulation, old: KafkaCluster
    ) -> None:
        producer = a_producer(simulation, old)
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        old.controls.rule(api="EndTxn", then="apply_then_lose_reply", nth=1)
        old.controls.fail_next(InitProducerIdRequest, ProducerFenced)
        producer.commit_transaction()
        with pytest.raises(ProducerFenced):
            producer.begin_transaction()
        assert committed(simulation, old) == [b"v"]

    def test_missing_next_epoch_in_the_response_is_retried(
        self, simulation: Simulation, old: KafkaCluster
    ) -> None:
        producer = a_producer(simulation, old)
        producer.begin_transaction()
        producer.send("orders", b"first").result(5)
        old.controls.rule(api="EndTxn", then="apply_then_lose_reply", nth=1)
        none = {"producer_id": -1, "producer_epoch": -1}
        rule = old.controls.rule(api=InitProducerIdRequest, then="replace_reply", reply=none, times=2)
        producer.commit_transaction()
        assert rule.fired == 2
        with producer.transaction():
            producer.send("orders", b"second")
        assert committed(simulation, old) == [b"first", b"second"]

    def test_late_offsets_are_not_those_of_the_next_transaction(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        cluster.controls.rule(api="TxnOffsetCommit", then="replay", nth=1)
        producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(1)}, "copiers")
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({TopicPartition("spread", 1): OffsetAndMetadata(8)}, "copiers")
        cluster.controls.release()
        simulation.sleep(1)
        producer.commit_transaction()
        simulation.sleep(1)
        assert cluster.group("copiers").offsets == {TopicPartition("spread", 1): 8}

    @pytest.mark.gate
    def test_late_records_are_not_part_of_the_next_transaction(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = a_producer(
            simulation, cluster, delivery_timeout_ms=3000, request_timeout_ms=1000, linger_ms=0
        )
        producer.begin_transaction()
        producer.send("orders", b"first").result(5)
        cluster.controls.rule(api="Produce", then="replay", nth=1)
        cluster.controls.rule(api="Produce", then="close_before", nth=1, times=1000)
        producer.send("orders", b"late")
        with pytest.raises(TransactionFailed):
            producer.commit_transaction()
        producer.abort_transaction()
        for rule in cluster.controls.rules():
            if rule.then == "close_before":
                cluster.controls.remove_rule(rule)
        producer.begin_transaction()
        producer.send("orders", b"second").result(5)
        cluster.controls.release()
        simulation.sleep(1)
        producer.commit_transaction()
        assert committed(simulation, cluster) == [b"second"]

    @pytest.mark.gate
    @pytest.mark.parametrize(
        "request_class",
        rest_in_gate(
            [EndTxnRequest, TxnOffsetCommitRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest]
        ),
        ids=lambda one: one.__name__,
    )
    @pytest.mark.parametrize(
        "how", rest_in_long(["apply_then_lose_reply", "close_before", "half_frame"], in_gate=2)
    )
    def test_lost_requests_and_answers_are_repeated(
        self,
        simulation: Simulation,
        cluster: KafkaCluster,
        producer: KafkaProducer,
        request_class: Any,
        how: str,
    ) -> None:
        cluster.controls.rule(api=request_class, then=how, nth=1)
        for number in range(3):
            with producer.transaction():
                producer.send("orders", b"%d" % number)
                producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(number)}, "g")
        assert committed(simulation, cluster) == [b"0", b"1", b"2"]
        assert cluster.group("g").offsets == {ORDERS: 2}

    @pytest.mark.gate
    @pytest.mark.parametrize(
        "how", rest_in_long(["apply_then_lose_reply", "close_before", "half_frame"], in_gate=2)
    )
    def test_a_lost_init_is_repeated(self, simulation: Simulation, cluster: KafkaCluster, how: str) -> None:
        cluster.controls.rule(api=InitProducerIdRequest, then=how, nth=1)
        producer = a_producer(simulation, cluster)
        with producer.transaction():
            producer.send("orders", b"v")
        assert committed(simulation, cluster) == [b"v"]


class TestCoordinators:
    @pytest.mark.gate
    def test_a_coordinator_that_moves_is_found_again(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        for number in range(4):
            with producer.transaction():
                producer.send("orders", b"%d" % number)
                producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(number)}, "g")
                cluster.controls.move_coordinator("t", number % 3, "transaction")
                cluster.controls.move_coordinator("g", (number + 1) % 3)
        assert committed(simulation, cluster) == [b"0", b"1", b"2", b"3"]
        assert cluster.group("g").offsets == {ORDERS: 3}

    def test_a_coordinator_that_crashes_in_the_middle_of_a_commit_is_waited_for(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        coordinator = cluster.coordinator("t", "transaction")
        cluster.controls.rule(api="EndTxn", then="hold", nth=1)
        with pytest.raises(KafkaTimeoutError):
            producer.commit_transaction(0.5)
        cluster.controls.crash_broker(coordinator)
        producer.commit_transaction(30)
        assert committed(simulation, cluster) == [b"v"]

    @pytest.mark.gate
    def test_a_leader_that_moves_doubles_and_loses_nothing(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        """A batch that was refused after it had been appended is found in the log (KAFKA-13574)."""
        producer.begin_transaction()
        for number in range(30):
            if number % 10 == 5:
                cluster.controls.fail_next(ProduceRequest, NotLeaderOrFollower)
                cluster.controls.lose_reply(ProduceRequest)
            producer.send("orders", b"%d" % number).result(20)
        producer.commit_transaction()
        assert committed(simulation, cluster) == [b"%d" % number for number in range(30)]

    @pytest.mark.gate
    @pytest.mark.parametrize(
        "request_class", [EndTxnRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest]
    )
    def test_invalid_producer_id_mapping_is_fatal_and_requests_no_new_id(
        self, simulation: Simulation, old: KafkaCluster, request_class: Any
    ) -> None:
        producer = a_producer(simulation, old)
        old.controls.fail_next(request_class, InvalidProducerIdMapping)
        producer.begin_transaction()
        before = requests(old, "InitProducerId")
        with pytest.raises(InvalidProducerIdMapping, match=r"transactional\.id\.expiration\.ms"):
            end_with_offsets(producer)
        with pytest.raises(InvalidProducerIdMapping, match="create a new one"):
            producer.abort_transaction()
        assert requests(old, "InitProducerId") == before

    @pytest.mark.gate
    @pytest.mark.parametrize("has_sent", [True, False])
    def test_zombie_does_not_come_back_after_its_transactional_id_expired(
        self, simulation: Simulation, version: int, has_sent: bool
    ) -> None:
        """Its repeated batch was committed, and the rightful producer fenced (KAFKA-18019)."""
        cluster = a_cluster(simulation, version, EXPIRES_SOON)
        zombie = a_producer(simulation, cluster)
        zombie.begin_transaction()
        if has_sent:
            zombie.send("orders", b"bill").result(5)
        with a_producer(simulation, cluster) as rightful, rightful.transaction():
            rightful.send("orders", b"bill")
        simulation.sleep(90)
        with pytest.raises(TransactionalIdNotFound):
            cluster.transaction("t")
        with pytest.raises(KafkaError) as refused:
            bill_until_fatal(zombie)
        assert isinstance(refused.value, InvalidProducerIdMapping | ProducerFenced)
        successor = a_producer(simulation, cluster)
        with pytest.raises(type(refused.value)):
            zombie.begin_transaction()
        with successor.transaction():
            successor.send("orders", b"next")
        assert committed(simulation, cluster) == [b"bill", b"next"]


class TestTheEndOfAProducer:
    """`close` hung without brokers (KAFKA-5503, KAFKA-6768, KAFKA-16217, kafka-python #1052)."""

    def with_a_held_init(self, cluster: KafkaCluster, producer: KafkaProducer) -> None:
        cluster.controls.hold(InitProducerIdRequest)
        with pytest.raises(KafkaTimeoutError):
            producer.init_transactions(0.5)

    def with_an_open_transaction(self, cluster: KafkaCluster, producer: KafkaProducer) -> None:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)

    def with_a_held_commit(self, cluster: KafkaCluster, producer: KafkaProducer) -> None:
        self.with_an_open_transaction(cluster, producer)
        cluster.controls.hold(EndTxnRequest)
        with pytest.raises(KafkaTimeoutError):
            producer.commit_transaction(0.5)

    def with_a_held_abort(self, cluster: KafkaCluster, producer: KafkaProducer) -> None:
        self.with_an_open_transaction(cluster, producer)
        cluster.controls.hold(EndTxnRequest)
        with pytest.raises(KafkaTimeoutError):
            producer.abort_transaction(0.5)

    def with_held_records(self, cluster: KafkaCluster, producer: KafkaProducer) -> None:
        producer.init_transactions()
        producer.begin_transaction()
        cluster.controls.hold(ProduceRequest)
        producer.send("orders", b"v")

    @pytest.mark.parametrize(
        "state",
        [
            with_a_held_init,
            with_an_open_transaction,
            with_a_held_commit,
            with_a_held_abort,
            with_held_records,
        ],
        ids=lambda one: one.__name__,
    )
    def test_close_keeps_its_deadline_without_brokers(
        self,
        simulation: Simulation,
        cluster: KafkaCluster,
        state: Callable[[TestTheEndOfAProducer, KafkaCluster, KafkaProducer], None],
    ) -> None:
        producer = simulation.producer(cluster, transactional_id="t")
        state(self, cluster, producer)
        for broker in range(3):
            cluster.controls.kill_broker(broker)
        began = simulation.now
        with suppress(KafkaTimeoutError):
            producer.close(1)
        assert simulation.now - began <= 2

    def test_the_end_of_the_interpreter_keeps_its_deadline_too(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        """It was had twice: by the transaction, and by what waits."""
        producer.begin_transaction()
        cluster.controls.hold(ProduceRequest)
        producer.send("orders", b"v")
        simulation.sleep(1)
        began = simulation.now
        assert producer._on_exit(3) == 1
        assert simulation.now - began < 4.5
        cluster.controls.clear()

    def test_close_waits_for_a_commit_that_is_under_way(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, transactional_id="t")
        self.with_a_held_commit(cluster, producer)
        cluster.controls.clear()
        producer.close(10)
        assert committed(simulation, cluster) == [b"v"]


def test_the_last_epoch_is_followed_by_another_producer_id(
    simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer, version: int
) -> None:
    """Producers failed when their epochs were used up (KAFKA-19367)."""
    first = producer.health()["producer_id"]
    where = cluster.brokers[cluster.coordinator("t", "transaction")].coordinators.transactions
    (shard,) = [one for one in where.shards.values() if "t" in one.transactions]
    # The coordinator's state is set near its last epochs, instead of ending 32,000 transactions.
    shard.transactions["t"] = attrs.evolve(shard.transactions["t"], epoch=MAX_EPOCH - 3)
    producer = a_producer(simulation, cluster)
    for number in range(4):
        with producer.transaction():
            producer.send("orders", b"%d" % number)
        if version == 1:  # there only another init raises the epoch
            producer = a_producer(simulation, cluster)
    assert producer.health()["producer_id"] > first
    assert committed(simulation, cluster) == [b"0", b"1", b"2", b"3"]


@pytest.mark.gate
def test_input_of_an_aborted_transaction_is_read_again(
    simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
) -> None:
    """Input was skipped, as the reader's position stayed behind the aborted part (KAFKA-17582)."""
    with producer.transaction():
        for number in range(10):
            producer.send("orders", b"%d" % number)
    simulation.sleep(1)
    consumer = simulation.consumer(cluster, isolation_level="read_committed", max_poll_records=3)
    consumer.assign([ORDERS])
    consumer.seek(ORDERS, 0)
    attempts = 0
    while consumer.position(ORDERS) < 10:
        records = consumer.poll(timeout_ms=500).get(ORDERS, [])
        if not records:
            continue
        attempts += 1
        producer.begin_transaction()
        for record in records:
            producer.send("spread", record.value, partition=0)
        position = OffsetAndMetadata(consumer.position(ORDERS))
        producer.send_offsets_to_transaction({ORDERS: position}, "copiers")
        if attempts % 2:
            producer.flush()
            producer.abort_transaction()
            consumer.seek(ORDERS, cluster.group("copiers").offsets.get(ORDERS, 0))
        else:
            producer.commit_transaction()
            simulation.sleep(0.5)
    assert committed(simulation, cluster, "spread") == [b"%d" % number for number in range(10)]
    assert len(read(simulation, cluster, "spread")) > 10


@pytest.mark.parametrize("is_by_column", [False, True], ids=["send", "send_many"])
def test_send_waiting_for_memory_is_refused_when_its_transaction_ends(
    simulation: Simulation, cluster: KafkaCluster, is_by_column: bool
) -> None:
    producer = a_producer(simulation, cluster, buffer_memory=40_000)
    producer.begin_transaction()
    cluster.controls.hold(ProduceRequest)
    refused: list[Exception] = []

    def send() -> None:
        try:
            for _ in range(10):
                if is_by_column:
                    producer.send_many("orders", [b"x" * 100] * 250)
                else:
                    producer.send("orders", b"x" * 10_000)
        except (IllegalState, IncompleteSend) as error:
            refused.append(error)

    sending = simulation.spawn(send)
    simulation.sleep(1)
    cluster.controls.clear()
    producer.abort_transaction(20)
    sending.result()
    assert len(refused) == 1
    with producer.transaction():
        producer.send("orders", b"next")
    assert committed(simulation, cluster) == [b"next"]


def test_record_checked_before_its_transaction_ended_does_not_join_after(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """Its thread stood still between the two; nothing may wait for a transaction that has not begun."""
    producer = a_producer(simulation, cluster)
    queue = producer._core.accumulator.queue("orders", 0)
    with pytest.raises(IllegalState, match="begin_transaction"):
        producer._core.accumulator.append_waiting(queue, *a_row(), timeout=0)
    assert producer.health()["records_waiting"] == 0
    assert producer.health()["buffer_available_bytes"] == 33_554_432
