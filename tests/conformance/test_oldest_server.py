"""The core of our clients on Apache Kafka 3.9.1, the last release before 4.0, and on 2.8.2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import KafkaAdminClient, NewTopic
from tests.testing import client_core
from tests.testing.client_core import Clients

from .behaviour.compare import differences
from .behaviour.golden import recorded, transcript
from .behaviour.older_releases import SCENARIOS_OF
from .maven import KafkaUnavailable, skip_or_fail
from .real_kafka import RealKafka
from .zookeeper_kafka import ZooKeeperKafka, older

pytestmark = pytest.mark.real_kafka


@pytest.fixture(scope="module", params=["3.9", pytest.param("2.8", marks=pytest.mark.long)])
def kafka(request: pytest.FixtureRequest) -> Iterator[RealKafka | ZooKeeperKafka]:
    """Three brokers of 3.9.1, and of 2.8.2."""
    try:
        with older(request.param) as kafka:
            _ = kafka.bootstrap_servers
            yield kafka
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))


@pytest.fixture
def clients(kafka: RealKafka | ZooKeeperKafka) -> Clients:
    return Clients(kafka.bootstrap_servers)


def test_topic_is_replicated_over_three_brokers(kafka: RealKafka | ZooKeeperKafka) -> None:
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("orders", partitions=2, replication_factor=3)])
        admin.wait_for_topics(["orders"])
        replicas = [one.replicas for one in admin.describe_topics(["orders"])["orders"].partitions]
    assert [len(one) for one in replicas] == [3, 3]


def test_records_of_every_kind_are_read_in_order(clients: Clients) -> None:
    client_core.records_of_every_kind_are_read_in_order(clients)


def test_classic_group_shares_partitions_and_resumes(clients: Clients) -> None:
    client_core.classic_group_shares_partitions_and_resumes(clients)


def test_consumer_protocol_is_refused_and_the_classic_one_named(clients: Clients) -> None:
    client_core.new_protocol_joins_or_names_the_classic_one(clients, has_protocol=False)


def test_transactions_commit_abort_and_fence(clients: Clients) -> None:
    client_core.transactions_commit_abort_and_fence(clients)


def test_topics_are_created_described_and_deleted(clients: Clients) -> None:
    client_core.topics_are_created_described_and_deleted(clients)


@pytest.mark.long
@pytest.mark.parametrize("release", SCENARIOS_OF)
def test_older_release_responds_as_recorded(release: str) -> None:
    strange = []
    try:
        with older(release) as kafka:
            _ = kafka.bootstrap_servers
            addresses = kafka.addresses, kafka.sasl_addresses
            for scenario in SCENARIOS_OF[release]:
                answers = transcript(scenario, addresses, release)
                strange += differences(scenario, recorded(scenario, release), answers)
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))
    assert not strange, f"{len(strange)} fields differ; the first:\n{strange[0]}"
