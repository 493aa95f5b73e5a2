"""Transactions seen from outside, against the bundled cluster in virtual time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, TopicPartition
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.admin.values import TransactionListing
from pykafka2.errors import IllegalArgument, TransactionalIdNotFound
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
