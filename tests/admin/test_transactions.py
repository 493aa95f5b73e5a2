"""Transactions seen from outside, against the bundled cluster in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, TopicPartition
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.admin.values import TransactionListing
from pykafka2.errors import (
    IllegalArgument,
    KafkaError,
    TransactionalIdAuthorizationFailed,
    TransactionalIdNotFound,
)
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.testing import KafkaCluster, Simulation


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    return simulation.cluster(brokers=3, topics={"orders": 2})


@pytest.fixture
def admin(simulation: Simulation, cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        yield admin


@pytest.fixture
def producers(simulation: Simulation, cluster: KafkaCluster) -> Iterator[list[KafkaProducer]]:
    """Of eight ids, so that several coordinators are among theirs; those of even numbers have one open."""
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


def test_states_that_nobody_knows_are_named(admin: KafkaAdminClient, producers: list[KafkaProducer]) -> None:
    with pytest.raises(IllegalArgument, match="Undecided"):
        admin.list_transactions(states=["Undecided"])
    with pytest.raises(IllegalArgument, match="'Ongoing'"):
        admin.list_transactions(states="Ongoing")


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


def test_an_id_that_nobody_knows_has_an_error_of_its_own(
    admin: KafkaAdminClient, producers: list[KafkaProducer]
) -> None:
    outcomes = admin.describe_transactions(["task-0", "nobody"], raise_errors=False)
    assert outcomes["task-0"].state == "Ongoing"
    assert isinstance(outcomes.errors["nobody"], TransactionalIdNotFound)
    with pytest.raises(ItemsFailed, match="nobody"):
        admin.describe_transactions(["nobody"])


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
