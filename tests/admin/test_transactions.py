"""Transactions seen from outside, against the bundled cluster in virtual time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, TopicPartition
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.admin.rounds import gathered
from pykafka2.admin.transactions import _described
from pykafka2.admin.values import TransactionListing
from pykafka2.errors import (
    ClusterAuthorizationFailed,
    IllegalArgument,
    KafkaError,
    KafkaTimeoutError,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
)
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.protocol.messages.transaction_admin import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponseTransactionState,
    ListTransactionsRequest,
    TopicData,
)
from pykafka2.testing import KafkaCluster, Simulation
from tests.internal_topics import FEW_PARTITIONS


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    return simulation.cluster(brokers=3, topics={"orders": 2}, config=FEW_PARTITIONS)


@pytest.fixture
def admin(simulation: Simulation, cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        yield admin


@pytest.fixture
def producers(simulation: Simulation, cluster: KafkaCluster) -> Iterator[list[KafkaProducer]]:
    """Eight ids, so they have several coordinators; the ids with even numbers have an open transaction."""
    made = []
    for number in range(8):
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id=f"task-{number}",
            transaction_timeout_ms=90_000,
            runtime=simulation.runtime.at(f"task-{number}"),
        )
        producer.init_transactions()
        if number % 2 == 0:
            producer.begin_transaction()
            producer.send("orders", b"v", partition=1).result(10)
        made.append(producer)
    yield made
    for producer in made:
        producer.close()


@pytest.mark.gate
def test_transactions_of_all_coordinators_are_listed(
    admin: KafkaAdminClient, producers: list[KafkaProducer]
) -> None:
    everything = admin.list_transactions()
    assert [one.transactional_id for one in everything] == [f"task-{number}" for number in range(8)]
    ongoing = admin.list_transactions(states=["Ongoing"])
    assert [one.transactional_id for one in ongoing] == ["task-0", "task-2", "task-4", "task-6"]
    chosen = ongoing[1]
    assert admin.list_transactions(producer_ids=[chosen.producer_id]) == [chosen]
    assert chosen == TransactionListing("task-2", chosen.producer_id, "Ongoing")


@pytest.mark.gate
def test_unknown_transaction_states_are_named(
    admin: KafkaAdminClient, producers: list[KafkaProducer]
) -> None:
    with pytest.raises(IllegalArgument, match="Undecided"):
        admin.list_transactions(states=["Undecided"])
    with pytest.raises(IllegalArgument, match="'Ongoing'"):
        admin.list_transactions(states="Ongoing")


@pytest.mark.gate
def test_a_transaction_is_described_with_its_partitions(
    admin: KafkaAdminClient, producers: list[KafkaProducer]
) -> None:
    described = admin.describe_transactions(["task-2", "task-3"])
    ongoing = described["task-2"]
    assert (ongoing.state, ongoing.timeout) == ("Ongoing", 90.0)
    assert ongoing.partitions == (TopicPartition("orders", 1),)
    assert ongoing.start_time_ms > 0
    assert ongoing.producer_epoch >= 0
    assert described["task-3"].state == "Empty"
    assert described["task-3"].partitions == ()


@pytest.mark.gate
def test_unknown_transactional_id_has_its_own_error(
    admin: KafkaAdminClient, producers: list[KafkaProducer]
) -> None:
    outcomes = admin.describe_transactions(["task-0", "nobody"], raise_errors=False)
    assert outcomes["task-0"].state == "Ongoing"
    assert isinstance(outcomes.errors["nobody"], TransactionalIdNotFound)
    with pytest.raises(ItemsFailed, match="nobody"):
        admin.describe_transactions(["nobody"])


@pytest.mark.gate
def test_fenced_producers_can_neither_send_nor_commit(
    admin: KafkaAdminClient, producers: list[KafkaProducer]
) -> None:
    """Half of them have a transaction open, the others are about to begin one."""
    names = [f"task-{number}" for number in range(6)]
    before = admin.describe_transactions(names)
    fenced = admin.fence_producers(names)
    assert list(fenced) == names
    after = admin.describe_transactions(names)
    for name in names:
        assert after[name].state == "Empty"
        assert (after[name].producer_id, after[name].producer_epoch) == (
            fenced[name].producer_id,
            fenced[name].producer_epoch,
        )
        assert fenced[name].producer_epoch > before[name].producer_epoch
    for number, producer in enumerate(producers[:6]):
        if number % 2:
            producer.begin_transaction()
        with suppress(KafkaError):
            producer.send("orders", b"late", partition=1).result(10)
        with pytest.raises(KafkaError):
            producer.commit_transaction()
    producers[6].commit_transaction()


@pytest.mark.gate
def test_fencing_registers_an_unknown_id(admin: KafkaAdminClient, producers: list[KafkaProducer]) -> None:
    fenced = admin.fence_producers(["nobody", "task-1"])
    assert fenced["nobody"].producer_epoch == 0
    assert admin.describe_transactions(["nobody"])["nobody"].state == "Empty"


def test_ids_that_cannot_be_fenced_have_errors_of_their_own(
    cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    cluster.controls.fail_next(InitProducerIdRequest, TransactionalIdAuthorizationFailed)
    outcomes = admin.fence_producers(["task-0", "task-1"], raise_errors=False)
    assert len(outcomes.errors) == 1
    assert isinstance(next(iter(outcomes.errors.values())), TransactionalIdAuthorizationFailed)
    with pytest.raises(IllegalArgument, match="transactional_ids"):
        admin.fence_producers("task-0")


# ---------------------------------------------------------------------- coordinators, two of each thing


@pytest.mark.gate
def test_every_partition_of_every_topic_is_described(
    admin: KafkaAdminClient, cluster: KafkaCluster, producers: list[KafkaProducer]
) -> None:
    cluster.create_topic("bills", partitions=3)
    for number in (0, 1):
        producers[0].send("orders", b"v", partition=number).result(10)
    for number in (2, 0):
        producers[0].send("bills", b"v", partition=number).result(10)
    described = admin.describe_transactions(["task-0", "task-2"])
    assert described["task-0"].partitions == tuple(
        TopicPartition(topic, number)
        for topic, number in (("bills", 0), ("bills", 2), ("orders", 0), ("orders", 1))
    )
    assert described["task-2"].partitions == (TopicPartition("orders", 1),)


@pytest.mark.gate
@pytest.mark.parametrize("is_crash", [True, False], ids=["its broker crashes", "it moves"])
def test_transactions_are_described_by_the_next_coordinator(
    simulation: Simulation,
    admin: KafkaAdminClient,
    cluster: KafkaCluster,
    producers: list[KafkaProducer],
    is_crash: bool,
) -> None:
    """All eight coordinators are known; those of one broker are lost together (KAFKA-13840)."""
    ids = [f"task-{number}" for number in range(8)]
    before = admin.describe_transactions(ids)
    brokers = {name: cluster.coordinator(name, "transaction") for name in ids}
    lost = Counter(brokers.values()).most_common(1)[0][0]
    moved = [name for name, broker in brokers.items() if broker == lost]
    assert len(moved) >= 2
    if is_crash:
        cluster.controls.crash_broker(lost)
    else:
        for name in moved:
            cluster.controls.move_coordinator(name, (lost + 1) % 3, "transaction")
    started = simulation.now
    after = admin.describe_transactions(ids)
    assert dict(after) == dict(before)
    assert simulation.now - started < 5


@pytest.mark.gate
def test_each_unknown_transactional_id_has_its_error_within_one_timeout(
    simulation: Simulation, admin: KafkaAdminClient, cluster: KafkaCluster, producers: list[KafkaProducer]
) -> None:
    outcomes = admin.describe_transactions(["nobody-1", "task-1", "nobody-2"], raise_errors=False)
    assert list(outcomes.errors) == ["nobody-1", "nobody-2"]
    cluster.controls.hold(DescribeTransactionsRequest)
    started = simulation.now
    outcomes = admin.describe_transactions(["task-0", "task-1", "task-2"], timeout=3, raise_errors=False)
    assert {type(error) for error in outcomes.errors.values()} == {KafkaTimeoutError}
    assert len(outcomes.errors) == 3
    assert simulation.now - started == pytest.approx(3, abs=0.5)


def test_a_list_that_one_coordinator_refuses_is_no_list(
    admin: KafkaAdminClient, cluster: KafkaCluster, producers: list[KafkaProducer]
) -> None:
    for broker in range(3):
        cluster.controls.rule(
            api=ListTransactionsRequest, broker=broker, times=1, then="error:CLUSTER_AUTHORIZATION_FAILED"
        )
        with pytest.raises(ClusterAuthorizationFailed):
            admin.list_transactions()
    assert len(admin.list_transactions(states=["Ongoing", "Empty"])) == 8
    two = [one.producer_id for one in admin.list_transactions()[2:4]]
    assert [one.transactional_id for one in admin.list_transactions(producer_ids=two)] == ["task-2", "task-3"]


@pytest.mark.gate
def test_transactions_of_reachable_coordinators_are_listed_without_waiting_for_the_other(
    simulation: Simulation, admin: KafkaAdminClient, cluster: KafkaCluster, producers: list[KafkaProducer]
) -> None:
    everything = admin.list_transactions()
    lost = cluster.coordinator("task-0", "transaction")
    kept = [one for one in everything if cluster.coordinator(one.transactional_id, "transaction") != lost]
    assert 0 < len(kept) < len(everything)
    cluster.controls.crash_broker(lost, unnoticed=True)
    started = simulation.now
    listed = admin.list_transactions(raise_errors=False)
    assert simulation.now - started < 2
    assert (listed, list(listed.errors)) == (kept, [lost])


@pytest.mark.gate
def test_wrong_filter_is_raised_although_errors_are_returned(
    admin: KafkaAdminClient, producers: list[KafkaProducer]
) -> None:
    with pytest.raises(IllegalArgument, match="Asleep"):
        admin.list_transactions(states=["Asleep"], raise_errors=False)


class Calls:
    """Two calls: the first one is interrupted."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    def call(self, name: str) -> Any:
        def result(timeout: float) -> object:
            raise KeyboardInterrupt

        return SimpleNamespace(result=result, cancel=lambda: self.cancelled.append(name))


def test_ctrl_c_while_several_ids_are_waited_for_ends_the_call_of_each() -> None:
    calls = Calls()
    with pytest.raises(KeyboardInterrupt):
        gathered({name: calls.call(name) for name in ("a", "b", "c")}, 5.0)
    assert calls.cancelled == ["a", "b", "c"]


def test_partitions_of_a_description_are_in_order() -> None:
    topics = [TopicData(topic="b", partitions=[2, 0]), TopicData(topic="a", partitions=[1, 3, 0])]
    state = DescribeTransactionsResponseTransactionState(
        transactional_id="t",
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=1000,
        producer_id=7,
        producer_epoch=0,
        topics=topics,
    )
    described = _described(state)
    assert described.partitions == tuple(
        TopicPartition(*one) for one in [("a", 0), ("a", 1), ("a", 3), ("b", 0), ("b", 2)]
    )
