"""The core of our clients on the server of Apache Kafka 3.9.1, the last release before 4.0."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import KafkaAdminClient, NewTopic
from tests.testing import client_core
from tests.testing.client_core import Clients

from .maven import KafkaUnavailable, oldest_server_jars, skip_or_fail
from .real_kafka import RealKafka

pytestmark = pytest.mark.real_kafka


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealKafka]:
    """Three brokers of 3.9.1."""
    try:
        jars = oldest_server_jars()
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))
    assert jars.clients_jar().name == "kafka-clients-3.9.1.jar"
    with RealKafka(jars, brokers=3) as kafka:
        yield kafka


@pytest.fixture
def clients(kafka: RealKafka) -> Clients:
    return Clients(kafka.bootstrap_servers)


def test_server_3_9_1_replicates_a_topic_over_three_brokers(kafka: RealKafka) -> None:
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
