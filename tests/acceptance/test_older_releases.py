"""Our clients on brokers that respond like older releases of Apache Kafka; these brokers among themselves."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from pykafka2 import QuotaEntity, TopicPartition
from pykafka2.broker.base.features import RELEASES
from pykafka2.errors import ElectionNotNeeded
from pykafka2.testing import QUICK, KafkaCluster, Simulation
from tests.testing import client_core
from tests.testing.client_core import COUNT, Clients, numbers

CHOSEN = ("2.8", "3.9", "4.0")
CASES = [
    *CHOSEN,
    *(pytest.param(name, marks=pytest.mark.gate) for name in RELEASES if name not in CHOSEN),
]
OFTEN = ("2.8", "3.0", "3.1", "3.9", "4.0", "4.4")
"""Releases in which the requests of producers and consumers differ most: OffsetFetch and FindCoordinator of
several groups, Fetch and Produce by topic id, transactions without AddPartitionsToTxn."""
IN_GATE, IN_LONG = [pytest.mark.gate], [pytest.mark.gate, pytest.mark.long]
rarely = pytest.mark.parametrize(
    "release",
    [
        name if name in CHOSEN else pytest.param(name, marks=IN_GATE if name in OFTEN else IN_LONG)
        for name in RELEASES
    ],
    indirect=True,
)


@pytest.fixture(params=CASES)
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation(seed=5) as simulation:
        yield simulation


@pytest.fixture
def cluster(simulation: Simulation, release: str) -> KafkaCluster:
    return simulation.cluster(brokers=3, as_version=release, config=dict(QUICK))


@pytest.fixture
def clients(simulation: Simulation, cluster: KafkaCluster) -> Clients:
    return Clients.in_virtual_time(simulation, cluster.bootstrap_servers)


@pytest.mark.gate
@rarely
def test_records_of_every_kind_are_read_in_order(clients: Clients) -> None:
    client_core.records_of_every_kind_are_read_in_order(clients)


@pytest.mark.gate
@rarely
def test_classic_group_shares_partitions_and_resumes(
    clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    client_core.classic_group_shares_partitions_and_resumes(clients)
    assert "failed, retrying" not in caplog.text, "an older form of OffsetFetch is no failure"


def test_consumer_protocol_works_since_4_0_and_is_refused_before(clients: Clients, release: str) -> None:
    client_core.new_protocol_joins_or_names_the_classic_one(clients, release.startswith("4"))


@pytest.mark.gate
@rarely
def test_transactions_commit_abort_and_fence(clients: Clients, cluster: KafkaCluster, release: str) -> None:
    client_core.transactions_commit_abort_and_fence(clients)
    # Since transaction.version 2 the partitions' leaders add them.
    assert bool(cluster.history.count("AddPartitionsToTxn")) is not release.startswith("4")


def test_topics_are_created_described_and_deleted(clients: Clients) -> None:
    client_core.topics_are_created_described_and_deleted(clients)


@rarely
def test_replicas_follow_and_leaders_change_under_the_limit(clients: Clients, cluster: KafkaCluster) -> None:
    partition = clients.topic("replicated", 1)[0]
    with clients.producer() as producer:
        for half in range(2):
            for value in numbers(half * COUNT, (half + 1) * COUNT):
                producer.send("replicated", value, partition=0)
            producer.flush()
            if not half:
                leader = cluster.partition("replicated", 0).leader
                cluster.controls.crash_broker(leader)
    cluster.controls.restart_broker(leader)
    cluster.wait_until(lambda: len(cluster.partition("replicated", 0).isr) == 3)
    assert client_core.read(clients, partition, 2 * COUNT) == numbers(0, 2 * COUNT)
    assert cluster.log("replicated", 0, leader).log_end_offset == 2 * COUNT


def test_calls_for_the_controller_reach_it_from_every_broker(clients: Clients, cluster: KafkaCluster) -> None:
    """Up to 3.2 only the controller accepts them; later brokers forward them."""
    clients.topic("orders")
    cluster.controls.move_controller(2)
    first = TopicPartition("orders", 0)
    for total, servers in enumerate(clients.bootstrap_servers.split(","), start=3):
        with attrs.evolve(clients, bootstrap_servers=servers).admin() as admin:
            admin.create_partitions({"orders": total})
            assert admin.list_partition_reassignments() == {}
            admin.alter_partition_reassignments({first: [2, 0, 1]})
            admin.alter_client_quotas({QuotaEntity(client_id="app"): {"producer_byte_rate": 1_000_000.0}})
            outcomes = admin.elect_leaders([first], raise_errors=False)
            assert first in outcomes.succeeded or isinstance(outcomes.errors[first], ElectionNotNeeded)
