"""Core of our clients on Apache Kafka 4.4.0, and on 4.3.1, 3.9.1 (the last before 4.0) and 2.8.2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import KafkaAdminClient, NewTopic, TopicPartition
from pykafka2.admin import ConfigResource
from pykafka2.errors import GroupIdNotFound, UnsupportedVersion
from tests.testing import client_core
from tests.testing.client_core import Clients

from .behaviour.compare import differences
from .behaviour.golden import recorded, transcript
from .behaviour.older_releases import SCENARIOS_OF
from .maven import KafkaUnavailable, skip_or_fail
from .real_kafka import RealKafka
from .zookeeper_kafka import ZooKeeperKafka, older

pytestmark = pytest.mark.real_kafka
Kafka = RealKafka | ZooKeeperKafka


# The gate has the newest release alone; `nox -s long` starts the others.
OLDER = [pytest.param(release, marks=pytest.mark.long) for release in ("4.3", "3.9", "2.8")]


@pytest.fixture(scope="module", params=["4.4", *OLDER])
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """Three brokers of 4.4.0, 4.3.1, 3.9.1 and 2.8.2."""
    if request.param == "4.4":
        yield request.getfixturevalue("real_kafka")
        return
    try:
        with older(request.param) as kafka:
            _ = kafka.bootstrap_servers
            yield kafka
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))


@pytest.fixture
def clients(kafka: Kafka) -> Clients:
    return Clients(kafka.bootstrap_servers)


def test_topic_is_replicated_over_three_brokers(kafka: Kafka) -> None:
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("replicated", partitions=2, replication_factor=3)])
        admin.wait_for_topics(["replicated"])
        replicas = [one.replicas for one in admin.describe_topics(["replicated"])["replicated"].partitions]
    assert [len(one) for one in replicas] == [3, 3]


def test_records_of_every_kind_are_read_in_order(clients: Clients) -> None:
    client_core.records_of_every_kind_are_read_in_order(clients)


def test_classic_group_shares_partitions_and_resumes(clients: Clients) -> None:
    client_core.classic_group_shares_partitions_and_resumes(clients)


def test_consumer_protocol_joins_or_names_the_classic_one(
    clients: Clients, request: pytest.FixtureRequest
) -> None:
    has_protocol = request.node.callspec.params["kafka"].startswith("4")
    client_core.new_protocol_joins_or_names_the_classic_one(clients, has_protocol)


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


@pytest.mark.long
def test_admin_client_manages_a_server_3_9_1() -> None:
    """Also with what it lacks: some resources of settings, some filters."""
    orders, first = ConfigResource("TOPIC", "orders"), TopicPartition("orders", 0)
    try:
        with (
            older("3.9") as kafka,
            KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin,
        ):
            admin.create_topics(
                [NewTopic("orders", partitions=2, replication_factor=3)], wait_for_metadata=True
            )
            for spec in ("earliest", "latest", "max_timestamp", "earliest_local", "latest_tiered"):
                assert admin.list_offsets({first: spec})[first].offset in (0, -1)
            outcomes = admin.list_offsets({first: "earliest_pending_upload"}, raise_errors=False)
            assert isinstance(outcomes.errors[first], UnsupportedVersion)
            admin.alter_group_offsets("g", {first: 0})
            assert admin.list_groups(types=["Classic"], states=["Empty"])[0].group_id == "g"
            assert admin.describe_groups(["g"])["g"].type == "Classic"
            outcomes_of_none = admin.describe_groups(["none"], raise_errors=False)
            assert isinstance(outcomes_of_none.errors["none"], GroupIdNotFound)
            assert admin.group_lag("g")[first].lag == 0
            admin.reset_group_offsets("g", to="latest")
            admin.delete_groups(["g"])
            admin.alter_configs({orders: {"retention.ms": 5000}})
            assert admin.reset_configs([orders])[orders] == ("retention.ms",)
            assert admin.list_client_metrics_resources() == []
            with pytest.raises(UnsupportedVersion):
                admin.list_config_resources(["TOPIC"])
            assert len(admin.describe_log_dirs()) == 3
            assert admin.describe_metadata_quorum().leader_id == 0
            assert [node.id for node in admin.describe_cluster(include_authorized_operations=True).nodes] == [
                0,
                1,
                2,
            ]
            with pytest.raises(UnsupportedVersion):
                admin.describe_cluster(include_fenced_brokers=True)
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))
