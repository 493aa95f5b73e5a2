"""Transactions of the producer in virtual time: what they promise, in both transaction versions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from pykafka2 import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata, TopicPartition
from pykafka2.driver.pollable import ToController
from pykafka2.errors import (
    ClientClosed,
    CoordinatorLoadInProgress,
    ForkedClientError,
    GroupAuthorizationFailed,
    IllegalArgument,
    IllegalGeneration,
    IllegalState,
    InvalidProducerEpoch,
    InvalidTransactionTimeout,
    KafkaTimeoutError,
    MessageTooLarge,
    NotEnoughReplicas,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionAborted,
    TransactionalIdAuthorizationFailed,
    TransactionFailed,
    UnknownMemberId,
)
from pykafka2.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.protocol.messages.transaction import (
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from pykafka2.testing import KafkaCluster, Simulation
from tests.producer.transactions.transactional import a_cluster, a_producer, committed, read, requests

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster(simulation: Simulation, version: int) -> KafkaCluster:
    return a_cluster(simulation, version)


@pytest.fixture
def producer(simulation: Simulation, cluster: KafkaCluster) -> KafkaProducer:
    return a_producer(simulation, cluster)


class TestEnds:
    @pytest.mark.gate
    def test_committed_records_are_visible_only_after_the_commit(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        for partition in range(3):
            producer.send("spread", b"v%d" % partition, partition=partition)
        producer.flush()
        assert committed(simulation, cluster, "spread") == []
        assert len(read(simulation, cluster, "spread")) == 3
        producer.commit_transaction()
        assert sorted(committed(simulation, cluster, "spread")) == [b"v0", b"v1", b"v2"]

    @pytest.mark.gate
    def test_aborted_records_are_never_visible_to_read_committed(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        producer.send("orders", b"aborted").result(5)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("orders", b"committed")
        producer.commit_transaction()
        assert committed(simulation, cluster) == [b"committed"]
        assert read(simulation, cluster, "orders") == [b"aborted", b"committed"]

    def test_commit_sends_waiting_records_without_lingering(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = a_producer(simulation, cluster, linger_ms=20_000)
        producer.begin_transaction()
        delivery = producer.send("orders", b"v")
        began = simulation.now
        producer.commit_transaction()
        assert simulation.now - began < 1
        assert delivery.result(0).offset == 0

    def test_abort_fails_unsent_records_and_flush_does_not_raise_or_log_them(
        self, simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        producer = a_producer(simulation, cluster, linger_ms=20_000)
        producer.begin_transaction()
        delivery = producer.send("orders", b"v")
        producer.abort_transaction()
        with pytest.raises(TransactionAborted, match="'t' was aborted before the record was written"):
            delivery.result(0)
        producer.flush()
        producer.close()
        assert read(simulation, cluster, "orders") == []
        assert "delivered" not in caplog.text

    def test_abort_warns_that_unacknowledged_records_may_be_in_the_log(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = a_producer(simulation, cluster, retry_backoff_ms=30_000, retry_backoff_max_ms=30_000)
        producer.begin_transaction()
        cluster.controls.lose_reply(ProduceRequest)
        delivery = producer.send("orders", b"v")
        simulation.sleep(1)
        producer.abort_transaction()
        with pytest.raises(TransactionAborted, match=r"before the record was written.*may or may not be in"):
            delivery.result(0)
        assert read(simulation, cluster, "orders") == [b"v"]
        assert committed(simulation, cluster) == []

    def test_unreported_failed_record_is_forgotten_with_its_transaction(
        self, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
        producer.send("orders", b"v")
        with pytest.raises(TransactionFailed, match="MessageTooLarge"):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.flush()
        producer.close()

    @pytest.mark.gate
    def test_many_transactions_follow_each_other(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        expected = []
        for number in range(12):
            producer.begin_transaction()
            # Partitions take turns, so that some see nothing of several epochs.
            values = [b"%d-%d" % (number, index) for index in range(40)]
            for value in values:
                producer.send("spread", value * 20, partition=number % 3)
            if number % 4 == 3:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
                expected += [value * 20 for value in values]
        assert sorted(committed(simulation, cluster, "spread")) == sorted(expected)

    @pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
    def test_empty_transaction_sends_no_request(
        self, cluster: KafkaCluster, producer: KafkaProducer, end: str
    ) -> None:
        before = len(list(cluster.history.entries()))
        producer.begin_transaction()
        producer.send_offsets_to_transaction({}, "g")
        getattr(producer, end)()
        assert len(list(cluster.history.entries())) == before
        producer.begin_transaction()
        producer.send("orders", b"v")
        producer.commit_transaction()

    @pytest.mark.gate
    def test_records_outside_of_a_transaction_are_not_taken(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        before = producer.health()["buffer_available_bytes"]
        with pytest.raises(IllegalState, match=r"call begin_transaction\(\) first"):
            producer.send("orders", b"too early")
        producer.begin_transaction()
        producer.send("orders", b"in time")
        producer.commit_transaction()
        with pytest.raises(IllegalState, match=r"call begin_transaction\(\) first"):
            producer.send("orders", b"too late")
        assert read(simulation, cluster, "orders") == [b"in time"]
        assert producer.health()["buffer_available_bytes"] == before

    def test_transaction_version_decides_which_requests_are_sent(
        self, cluster: KafkaCluster, producer: KafkaProducer, version: int
    ) -> None:
        before = cluster.transaction("t").producer_epoch
        for _ in range(2):
            producer.begin_transaction()
            producer.send("orders", b"v")
            producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(1)}, "g")
            producer.commit_transaction()
        added = requests(cluster, "AddPartitionsToTxn") + requests(cluster, "AddOffsetsToTxn")
        raised = cluster.transaction("t").producer_epoch - before
        assert (added, raised) == ((0, 2) if version == 2 else (4, 0))
        assert requests(cluster, "InitProducerId") == 1


@pytest.mark.gate
def test_a_cluster_that_is_upgraded_is_followed_with_a_new_epoch(simulation: Simulation) -> None:
    """From the first transaction that ends after the producer knows it."""
    cluster = a_cluster(simulation, 1)
    producer = a_producer(simulation, cluster)
    epochs = []
    for number in range(4):
        with producer.transaction():
            producer.send("orders", b"%d" % number)
        epochs.append(producer.health()["producer_epoch"])
        if number == 0:
            raised = FeatureUpdateKey(feature="transaction.version", max_version_level=2, upgrade_type=1)
            answer = producer._core.client.request(
                UpdateFeaturesRequest(feature_updates=[raised]), ToController()
            )
            assert answer.error_code == 0
            simulation.sleep(1)
            coordinator = cluster.coordinator("t", "transaction")
            cluster.controls.stop_broker(coordinator)
            cluster.controls.restart_broker(coordinator)
            simulation.sleep(1)
    assert epochs == [0, 1, 2, 3]
    assert requests(cluster, "AddPartitionsToTxn") == 2
    assert requests(cluster, "InitProducerId") == 2
    assert committed(simulation, cluster) == [b"0", b"1", b"2", b"3"]


def test_an_empty_transaction_without_any_connection_changes_no_version(simulation: Simulation) -> None:
    """No broker could tell the version any more, as idle connections are closed; it was taken for 0."""
    cluster = a_cluster(simulation, 2)
    producer = a_producer(simulation, cluster, connections_max_idle_ms=2000)
    simulation.sleep(10)
    assert producer.metrics()["connection-count"] == 0
    with producer.transaction():
        pass
    with producer.transaction():
        producer.send("orders", b"v")
    assert requests(cluster, "AddPartitionsToTxn") == 0
    assert requests(cluster, "InitProducerId") == 1
    assert committed(simulation, cluster) == [b"v"]


class TestBlock:
    def test_a_block_commits(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        with producer.transaction():
            producer.send("orders", b"v")
        assert committed(simulation, cluster) == [b"v"]

    def test_block_that_raises_aborts_and_notes_it(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        def fail() -> None:
            with producer.transaction():
                producer.send("orders", b"v").result(5)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as raised:
            fail()
        assert raised.value.__notes__ == ["the transaction was aborted"]
        assert committed(simulation, cluster) == []
        with producer.transaction():
            producer.send("orders", b"next")
        assert committed(simulation, cluster) == [b"next"]

    @pytest.mark.gate
    def test_a_block_that_ctrl_c_ends_aborts_too(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        def interrupted() -> None:
            with producer.transaction():
                producer.send("orders", b"v").result(5)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert producer.health()["transaction_state"] == "ready"
        with producer.transaction():
            producer.send("orders", b"next")
        assert committed(simulation, cluster) == [b"next"]

    def test_block_with_a_failed_record_aborts_and_names_the_record(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        cluster.controls.fail_next(ProduceRequest, TopicAuthorizationFailed)
        failed = pytest.raises(TransactionFailed, match="TopicAuthorizationFailed: orders-0")
        with failed as raised, producer.transaction():
            producer.send("orders", b"v")
        assert raised.value.__notes__ == ["the transaction was aborted"]
        assert producer.health()["transaction_state"] == "ready"

    def test_a_block_may_end_its_transaction_itself(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        with producer.transaction():
            producer.send("orders", b"v").result(5)
            producer.abort_transaction()
        assert committed(simulation, cluster) == []

    @pytest.mark.gate
    def test_an_abort_that_fails_is_noted(self, cluster: KafkaCluster, producer: KafkaProducer) -> None:
        def fail() -> None:
            with producer.transaction():
                producer.send("orders", b"v").result(5)
                cluster.controls.fail_next(EndTxnRequest, ProducerFenced)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError) as raised:
            fail()
        assert "could not be aborted: ProducerFenced" in raised.value.__notes__[0]


class TestOffsets:
    def test_offsets_move_with_the_commit_and_not_before(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        for offset, end in ((5, producer.abort_transaction), (7, producer.commit_transaction)):
            producer.begin_transaction()
            group = ConsumerGroupMetadata("copiers")
            producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(offset, "note", 3)}, group)
            assert cluster.group("copiers").offsets == {}
            end()
            simulation.sleep(0.5)
        assert cluster.group("copiers").offsets == {ORDERS: 7}

    def test_offsets_go_out_with_all_that_is_known_of_them_and_of_the_member(
        self, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        member = ConsumerGroupMetadata("copiers", 3, "somebody", "instance")
        with pytest.raises(TransactionFailed):
            producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(5, "note", 3)}, member)
        producer.abort_transaction()
        request: Any = cluster.history.requests("TxnOffsetCommit")[-1]
        generation = request.generation_id_or_member_epoch
        membership = (request.group_id, generation, request.member_id, request.group_instance_id)
        assert membership == ("copiers", 3, "somebody", "instance")
        [topic] = request.topics
        [one] = topic.partitions
        assert (topic.name, one.partition_index) == ("orders", 0)
        assert (one.committed_offset, one.committed_metadata, one.committed_leader_epoch) == (5, "note", 3)

    def test_offsets_that_wait_behind_others_are_part_of_the_commit(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        cluster.controls.hold(TxnOffsetCommitRequest)
        for group in ("first", "second"):
            with pytest.raises(KafkaTimeoutError, match="commit_transaction"):
                producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(7)}, group, 0.5)
        committing = simulation.spawn(producer.commit_transaction)
        simulation.sleep(0.5)
        cluster.controls.clear()
        committing.result()
        simulation.sleep(0.5)
        assert [cluster.group(group).offsets for group in ("first", "second")] == [{ORDERS: 7}] * 2

    def test_offsets_that_wait_when_a_transaction_is_aborted_are_not_those_of_the_next(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        cluster.controls.hold(TxnOffsetCommitRequest)
        for group in ("first", "second"):
            with pytest.raises(KafkaTimeoutError):
                producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(7)}, group, 0.5)
        with pytest.raises(KafkaTimeoutError):
            producer.abort_transaction(0.5)
        cluster.controls.clear()
        producer.abort_transaction()
        sent = requests(cluster, "TxnOffsetCommit")
        with producer.transaction():
            producer.send("orders", b"v")
        assert requests(cluster, "TxnOffsetCommit") == sent

    @pytest.mark.gate
    def test_several_groups_take_part_in_one_transaction(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        with producer.transaction():
            for number in range(3):
                producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(number)}, f"g{number}")
        simulation.sleep(0.5)
        assert [cluster.group(f"g{number}").offsets[ORDERS] for number in range(3)] == [0, 1, 2]

    @pytest.mark.parametrize("error", [UnknownMemberId, IllegalGeneration, GroupAuthorizationFailed])
    def test_rejected_offsets_abort_the_transaction(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer, error: Any
    ) -> None:
        producer.begin_transaction()
        producer.send("orders", b"v")
        cluster.controls.fail_next(TxnOffsetCommitRequest, error)
        with pytest.raises(TransactionFailed, match=error.__name__):
            producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(1)}, "copiers")
        with pytest.raises(TransactionFailed, match=error.__name__):
            producer.commit_transaction()
        producer.abort_transaction()
        assert committed(simulation, cluster) == []

    def test_a_member_that_is_unknown_to_the_group_is_refused(
        self, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        with pytest.raises(TransactionFailed, match="orders-0"):
            producer.send_offsets_to_transaction(
                {ORDERS: OffsetAndMetadata(1)}, ConsumerGroupMetadata("copiers", 3, "nobody")
            )
        producer.abort_transaction()

    def test_the_types_of_kafka_python_are_taken(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        class TheirOffset(NamedTuple):
            offset: int
            metadata: str | None
            leader_epoch: int | None

        class TheirGroup(NamedTuple):
            group_id: str
            generation_id: int
            member_id: str
            group_instance_id: str | None
            state: str

        group: Any = TheirGroup("copiers", -1, "", None, "UNJOINED")
        offsets: Any = {("orders", 0): TheirOffset(4, None, None)}
        with producer.transaction():
            producer.send_offsets_to_transaction(offsets, group_metadata=group)
        simulation.sleep(0.5)
        assert cluster.group("copiers").offsets == {ORDERS: 4}

    def test_plain_offsets_are_taken_as_by_commit(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        spread = TopicPartition("spread", 1)
        with producer.transaction():
            producer.send_offsets_to_transaction({ORDERS: 50, spread: OffsetAndMetadata(7)}, "copiers")
        simulation.sleep(0.5)
        assert cluster.group("copiers").offsets == {ORDERS: 50, spread: 7}

    def test_commit_and_transaction_refuse_the_same_offsets_with_the_same_error(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        consumer = simulation.consumer(cluster, group_id="g")
        consumer.assign([ORDERS])
        producer.begin_transaction()
        record = producer.send("orders", b"v").result(10)
        invalid: list[Any] = [
            [ORDERS],
            5,
            {"orders": 1},
            {ORDERS: "1"},
            {ORDERS: -1},
            {ORDERS: True},
            {ORDERS: 2**63},
        ]
        invalid += [
            {ORDERS: None},
            {ORDERS: record},
            {ORDERS: 2**63},
            {ORDERS: OffsetAndMetadata(1, "\ud800")},
        ]
        invalid += [{TopicPartition("orders", -5): 1}, {ORDERS: OffsetAndMetadata(1, "", 2**31)}]
        for offsets in invalid:
            with pytest.raises(IllegalArgument) as of_commit:
                consumer.commit(offsets)
            with pytest.raises(IllegalArgument) as of_transaction:
                producer.send_offsets_to_transaction(offsets, "g")
            assert str(of_commit.value) == str(of_transaction.value)

    @pytest.mark.parametrize(
        ("offsets", "group", "words"),
        [
            ([ORDERS], "g", "offsets must be"),
            ({"orders": OffsetAndMetadata(1)}, "g", "the key 'orders': a partition must be"),
            ({ORDERS: "1"}, "g", "orders-0: the offset must be an OffsetAndMetadata or an int, not '1'"),
            ({ORDERS: -1}, "g", "the offset must be an int from 0 to .* not -1"),
            ({ORDERS: OffsetAndMetadata(-1)}, "g", "the offset must be an int from 0 to .* not -1"),
            ({ORDERS: True}, "g", "an OffsetAndMetadata or an int, not True"),
            ({ORDERS: (1, "a", 2)}, "g", "an OffsetAndMetadata or an int, not \\(1, .a., 2\\)"),
            ({ORDERS: OffsetAndMetadata(True)}, "g", "the offset must be an int from 0 .* not True"),
            ({("orders", "0"): OffsetAndMetadata(1)}, "g", "must be an int, not '0'"),
            ({(5, 0): OffsetAndMetadata(1)}, "g", "a topic must be a str, not 5"),
            ({TopicPartition("\ud800", 0): OffsetAndMetadata(1)}, "g", "not valid Unicode"),
            ({TopicPartition("orders", -5): OffsetAndMetadata(1)}, "g", "a partition number must be from 0"),
            (
                {TopicPartition("orders", 2**40): OffsetAndMetadata(1)},
                "g",
                "a partition number must be from 0",
            ),
            ({ORDERS: OffsetAndMetadata(2**63)}, "g", "the offset must be .* not 9223372036854775808"),
            ({ORDERS: OffsetAndMetadata(1, "", "x")}, "g", "leader epoch must be an int"),  # type: ignore[arg-type]
            ({ORDERS: OffsetAndMetadata(1, "x" * 40_000)}, "g", "has 40000 bytes"),
            (
                {ORDERS: OffsetAndMetadata(1)},
                "\ud800",
                "group_metadata.group_id: it is not valid Unicode text",
            ),
            ({ORDERS: OffsetAndMetadata(1)}, ConsumerGroupMetadata("g", "x"), "generation_id must be an int"),  # type: ignore[arg-type]
            ({ORDERS: OffsetAndMetadata(1)}, ConsumerGroupMetadata("g", 1, 7), "member_id and"),  # type: ignore[arg-type]
            (
                {ORDERS: OffsetAndMetadata(1)},
                ConsumerGroupMetadata("g", topic_ids={ORDERS: "id"}),  # type: ignore[dict-item]
                "topic_ids must map partitions to ids of 16 bytes",
            ),
            (
                {ORDERS: OffsetAndMetadata(1)},
                ConsumerGroupMetadata("g", topic_ids=[ORDERS]),
                "topic_ids must",
            ),  # type: ignore[arg-type]
            ({ORDERS: OffsetAndMetadata(1)}, 5, "group_metadata=5"),
            ({ORDERS: OffsetAndMetadata(1)}, ConsumerGroupMetadata(None), "the group_id of a consumer"),  # type: ignore[arg-type]
        ],
    )
    @pytest.mark.parametrize("version", [2], indirect=True, ids=["version 2"])
    def test_bad_arguments_are_named(
        self, producer: KafkaProducer, offsets: Any, group: Any, words: str
    ) -> None:
        producer.begin_transaction()
        with pytest.raises(IllegalArgument, match=words):
            producer.send_offsets_to_transaction(offsets, group)
        assert producer.health()["transaction_state"] == "in transaction"


class TestTimeouts:
    @pytest.mark.parametrize(
        ("call", "request_class"),
        [("commit_transaction", EndTxnRequest), ("abort_transaction", EndTxnRequest)],
    )
    def test_an_end_that_timed_out_may_be_called_again(
        self,
        simulation: Simulation,
        cluster: KafkaCluster,
        producer: KafkaProducer,
        call: str,
        request_class: Any,
    ) -> None:
        end: Callable[[float], None] = getattr(producer, call)
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        cluster.controls.hold(request_class)
        began = simulation.now
        with pytest.raises(KafkaTimeoutError, match=f"{call} did not end within 2 s"):
            end(2)
        assert simulation.now - began < 3
        with pytest.raises(KafkaTimeoutError):
            end(1)
        cluster.controls.clear()
        end(5)
        assert committed(simulation, cluster) == ([b"v"] if call == "commit_transaction" else [])

    def test_commit_that_succeeded_after_its_timeout_is_reported_by_the_next_call(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        cluster.controls.hold(EndTxnRequest)
        with pytest.raises(KafkaTimeoutError):
            producer.commit_transaction(1)
        cluster.controls.clear()
        simulation.sleep(5)
        with pytest.raises(IllegalState, match=r"commit_transaction\(\) timed out, but succeeded after that"):
            producer.begin_transaction()
        sent = requests(cluster, "EndTxn")
        producer.commit_transaction()
        assert requests(cluster, "EndTxn") == sent
        producer.begin_transaction()
        producer.commit_transaction()

    def test_a_transaction_begins_though_nothing_else_may_block(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """Its begin had timed out for the caller, and had succeeded."""
        producer = simulation.producer(cluster, transactional_id="t", max_block_ms=0)
        producer.init_transactions(10)
        for number in range(2):
            producer.begin_transaction()
            producer.abort_transaction(10)
            assert producer.health()["transaction_state"] == "ready", number

    def test_init_without_a_coordinator_raises_at_its_timeout_and_succeeds_later(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        cluster.controls.hold(FindCoordinatorRequest)
        producer = simulation.producer(cluster, transactional_id="t", max_block_ms=3000)
        began = simulation.now
        with pytest.raises(KafkaTimeoutError, match="init_transactions did not end within 3 s"):
            producer.init_transactions()
        assert simulation.now - began < 4
        cluster.controls.clear()
        producer.init_transactions()
        with producer.transaction():
            producer.send("orders", b"v")

    def test_without_any_broker_a_call_names_the_addresses(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        for broker in range(3):
            cluster.controls.stop_broker(broker)
        producer = simulation.producer(cluster, transactional_id="t")
        with pytest.raises(KafkaTimeoutError, match="no broker could be reached: broker-0"):
            producer.init_transactions(2)

    def test_transaction_timeout_aborts_and_a_new_transaction_succeeds(
        self, simulation: Simulation, cluster: KafkaCluster, version: int
    ) -> None:
        producer = a_producer(simulation, cluster, transaction_timeout_ms=5000)
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        simulation.sleep(10)
        if version == 1:
            with pytest.raises(ProducerFenced, match="transaction_timeout_ms=5000"):
                producer.commit_transaction()
            return
        # Since KIP-890 the coordinator knows the producer again.
        with pytest.raises(TransactionFailed, match="InvalidTxnState"):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send("orders", b"next")
        assert committed(simulation, cluster) == [b"next"]


class TestOthers:
    def test_a_newer_producer_fences_the_older_one(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        producer.send("orders", b"zombie").result(5)
        newer = a_producer(simulation, cluster)
        with pytest.raises(ProducerFenced, match="close this producer and create a new one"):
            producer.commit_transaction()
        with pytest.raises(ProducerFenced):
            producer.begin_transaction()
        with pytest.raises(ProducerFenced):
            producer.send("orders", b"zombie")
        producer.close(1)
        with newer.transaction():
            newer.send("orders", b"new")
        assert committed(simulation, cluster) == [b"new"]

    def test_block_of_a_fenced_producer_raises_producer_fenced_and_its_close_raises_nothing(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        a_producer(simulation, cluster)
        with pytest.raises(ProducerFenced, match="close this producer and"), producer.transaction():
            producer.send("orders", b"zombie")
        producer.close(5)

    def test_close_after_a_fatal_commit_raises_nothing_again(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        a_producer(simulation, cluster)
        producer.begin_transaction()
        producer.send("orders", b"zombie")
        # Brokers with transaction.version 1 name the fence in the response to the Produce request.
        advice = r"the same id; call abort_transaction\(\)|close this producer and create a new one"
        with pytest.raises((TransactionFailed, ProducerFenced), match=advice):
            producer.commit_transaction()
        with pytest.raises(ProducerFenced, match="close this producer and create a new one"):
            producer.abort_transaction()
        producer.close(5)

    def test_close_of_a_fenced_producer_raises_if_no_call_has_raised(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        a_producer(simulation, cluster)
        assert simulation.wait_until(producer.send("orders", b"zombie").done, 5)
        with pytest.raises((InvalidProducerEpoch, ProducerFenced), match="1 record was not delivered"):
            producer.close(5)

    def test_a_refused_init_may_be_tried_again(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, transactional_id="t")
        cluster.controls.fail_next(InitProducerIdRequest, TransactionalIdAuthorizationFailed)
        with pytest.raises(TransactionalIdAuthorizationFailed, match="init_transactions"):
            producer.init_transactions()
        cluster.controls.fail_next(FindCoordinatorRequest, TransactionalIdAuthorizationFailed)
        producer.init_transactions()
        producer.begin_transaction()

    def test_too_long_a_timeout_is_refused_by_name(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, transactional_id="t", transaction_timeout_ms=10**9)
        with pytest.raises(InvalidTransactionTimeout):
            producer.init_transactions()

    def test_callbacks_may_not_wait_for_the_thread_they_run_on(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        refused: list[IllegalState] = []

        def end_it(metadata: object, error: object) -> None:
            for end in (producer.commit_transaction, producer.abort_transaction, producer.detach_transaction):
                with pytest.raises(IllegalState, match="inside a callback of the IO thread") as raised:
                    end()
                refused.append(raised.value)

        producer.begin_transaction()
        producer.send("orders", b"v", on_delivery=end_it).result(5)
        producer.commit_transaction()
        assert len(refused) == 3
        assert committed(simulation, cluster) == [b"v"]

    def test_close_aborts_an_open_transaction(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer, caplog: Any
    ) -> None:
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        producer.send("orders", b"w")
        producer.close()
        assert not cluster.transaction("t").is_open
        assert "aborting the open transaction of 't'" in caplog.text
        assert committed(simulation, cluster) == []
        with pytest.raises(ClientClosed):
            producer.begin_transaction()

    def test_close_aborts_a_failed_transaction(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
        with pytest.raises(MessageTooLarge):
            producer.send("orders", b"w").result(5)
        producer.close()
        assert not cluster.transaction("t").is_open

    def test_close_waits_for_a_commit_under_retry(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer
    ) -> None:
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        cluster.controls.fail_next(EndTxnRequest, CoordinatorLoadInProgress, times=4)
        with pytest.raises(KafkaTimeoutError):
            producer.commit_transaction(0.1)
        producer.close()
        assert committed(simulation, cluster) == [b"v"]

    @pytest.mark.parametrize("call", ["commit_transaction", "detach_transaction"])
    def test_close_aborts_a_transaction_with_a_record_that_fails_during_the_wait(
        self, simulation: Simulation, cluster: KafkaCluster, producer: KafkaProducer, call: str
    ) -> None:
        """Readers would have waited for the rest of transaction_timeout_ms."""
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        cluster.controls.fail_next(ProduceRequest, NotEnoughReplicas, times=3)
        cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
        producer.send("orders", b"w")
        with pytest.raises(KafkaTimeoutError):
            getattr(producer, call)(0.1)
        with suppress(MessageTooLarge):
            producer.close()
        assert not cluster.transaction("t").is_open

    def test_a_child_after_a_fork_gets_the_error_of_forks(self, producer: KafkaProducer) -> None:
        producer._on_fork_in_child(ForkedClientError("created before a fork"))
        with pytest.raises(ForkedClientError, match="created before a fork"):
            producer.begin_transaction()
        producer._core.refusal = None

    @pytest.mark.gate
    def test_times_are_counted_under_kafkas_names(self, producer: KafkaProducer) -> None:
        with producer.transaction():
            producer.send("orders", b"v")
            producer.send_offsets_to_transaction({ORDERS: OffsetAndMetadata(1)}, "g")
        producer.begin_transaction()
        producer.send("orders", b"v").result(5)
        producer.abort_transaction()
        names = {name for name, value in producer.metrics().items() if name.startswith("txn-") and value > 0}
        kinds = ("init", "begin", "send-offsets", "commit", "abort")
        # In virtual time a call that asks no broker takes none.
        assert names | {"txn-begin-time-ns-total"} == {f"txn-{kind}-time-ns-total" for kind in kinds}
