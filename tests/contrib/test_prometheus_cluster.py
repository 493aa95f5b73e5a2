"""`ClusterCollector`: kafka_exporter's metrics of brokers, topics and two groups, and lost brokers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.contrib.prometheus import FAMILIES, ClusterCollector
from pykafka2.testing import KafkaCluster
from tests.contrib.test_prometheus_clients import scraped

pytestmark = pytest.mark.kafka(
    brokers=2, topics={"orders": 2, "bills": 1}, config={"group.initial.rebalance.delay.ms": 0}
)
COMMITTED = {"billing": {"orders": (4, 6), "bills": (1,)}, "audit": {"orders": (0, 10)}}
WRITTEN = 10


@pytest.fixture
def admin(kafka_cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    """A client of a cluster with ten records in each of three partitions, and the offsets of two groups."""
    servers = kafka_cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for topic, partition in (("orders", 0), ("orders", 1), ("bills", 0)):
            for _ in range(WRITTEN):
                producer.send(topic, b"x", partition=partition)
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        for group, topics in COMMITTED.items():
            offsets = {
                TopicPartition(topic, number): offset
                for topic, offsets in topics.items()
                for number, offset in enumerate(offsets)
            }
            admin.alter_group_offsets(group, offsets)
        yield admin


def values(name: str, collector: ClusterCollector) -> dict[tuple[str, ...], float]:
    """Return the values of a metric by the values of its labels, in the order of `FAMILIES`."""
    labels, _ = FAMILIES[name]
    return {
        tuple(found[label] for label in labels): value for found, value in scraped(collector).get(name, [])
    }


def test_lag_and_offsets_of_two_groups(admin: KafkaAdminClient) -> None:
    collector = ClusterCollector(admin)
    assert values("kafka_consumergroup_lag", collector) == {
        ("billing", "orders", "0"): 6,
        ("billing", "orders", "1"): 4,
        ("billing", "bills", "0"): 9,
        ("audit", "orders", "0"): 10,
        ("audit", "orders", "1"): 0,
    }
    assert values("kafka_consumergroup_current_offset", collector)["billing", "orders", "1"] == 6
    assert values("kafka_consumergroup_members", collector) == {("billing",): 0, ("audit",): 0}


@pytest.mark.gate
def test_lag_is_that_of_group_lag(admin: KafkaAdminClient) -> None:
    admin.delete_records({TopicPartition("orders", 0): 5})
    lags = values("kafka_consumergroup_lag", ClusterCollector(admin))
    for group in COMMITTED:
        for one, lag in admin.group_lag(group).items():
            assert lags[group, one.topic, str(one.partition)] == lag.lag
    assert lags["audit", "orders", "0"] == 5  # not 10, since five records are deleted


@pytest.mark.gate
def test_brokers_topics_and_replicas(admin: KafkaAdminClient) -> None:
    collector = ClusterCollector(admin, topics=["orders", "bills"])
    assert values("kafka_brokers", collector) == {(): 2}
    assert values("kafka_topic_partitions", collector) == {("orders",): 2, ("bills",): 1}
    described = admin.describe_topics(["orders"])["orders"]
    for name, expected in {
        "leader": [one.leader for one in described.partitions],
        "replicas": [2, 2],
        "in_sync_replica": [2, 2],
        "leader_is_preferred": [1, 1],
        "under_replicated_partition": [0, 0],
        "current_offset": [10, 10],
        "oldest_offset": [0, 0],
    }.items():
        found = values(f"kafka_topic_partition_{name}", collector)
        assert [found["orders", "0"], found["orders", "1"]] == expected, name


@pytest.mark.gate
def test_patterns_choose_groups_and_topics(admin: KafkaAdminClient) -> None:
    collector = ClusterCollector(admin, groups=["bill*"], topics=["ord*"], sums=True)
    assert values("kafka_consumergroup_lag", collector).keys() == {
        ("billing", "orders", "0"),
        ("billing", "orders", "1"),
    }
    assert values("kafka_consumergroup_lag_sum", collector) == {("billing", "orders"): 10}
    assert values("kafka_consumergroup_current_offset_sum", collector) == {("billing", "orders"): 10}
    assert values("kafka_topic_partitions", collector) == {("orders",): 2}


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_count_and_partitions_without_a_commit_have_no_lag(
    kafka_cluster: KafkaCluster, admin: KafkaAdminClient, protocol: str
) -> None:
    with KafkaConsumer(
        "bills",
        bootstrap_servers=kafka_cluster.bootstrap_servers,
        group_id="new",
        group_protocol=protocol,
        auto_offset_reset="latest",
        enable_auto_commit=False,
    ) as consumer:
        while not consumer.assignment():
            consumer.poll(50)
        collector = ClusterCollector(admin, groups=["new"])
        assert values("kafka_consumergroup_members", collector) == {("new",): 1}
        assert values("kafka_consumergroup_lag", collector) == {}


@pytest.mark.gate
@pytest.mark.slow
def test_open_transaction_is_lag_unless_read_committed(
    kafka_cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("bills", b"x").result()
        key = ("billing", "bills", "0")
        assert values("kafka_consumergroup_lag", ClusterCollector(admin))[key] == 10
        committed = ClusterCollector(admin, isolation_level="read_committed")
        assert values("kafka_consumergroup_lag", committed)[key] == 9
        producer.abort_transaction()
        # The broker writes the end into the log after its response.
        kafka_cluster.wait_until(lambda: not kafka_cluster.transaction("t").is_open, what="the end of t")


def test_lost_broker_leaves_the_metrics_of_the_other(
    kafka_cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    kafka_cluster.controls.crash_broker(1)
    samples = scraped(ClusterCollector(admin, topics=["orders"], timeout=5.0))
    assert samples["kafka_up"] == [({}, 1.0)]
    assert len(samples["kafka_topic_partition_in_sync_replica"]) == 2


@pytest.mark.gate
@pytest.mark.slow
def test_lost_cluster_is_up_0_until_it_is_back(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    servers = kafka_cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, retry_backoff_ms=10) as admin:
        collector, patient = ClusterCollector(admin, timeout=0.3), ClusterCollector(admin, timeout=20.0)
        assert scraped(patient)["kafka_up"] == [({}, 1.0)]
        for broker in range(2):
            kafka_cluster.controls.crash_broker(broker)
        for _ in range(2):
            lost: dict[str, Any] = scraped(collector)
            assert lost == {"kafka_up": [({}, 0.0)], "kafka_scrape_errors": [({}, 1.0)]}
        assert caplog.text.count("Scrape failed: kafka_up is 0") == 1
        for broker in range(2):
            kafka_cluster.controls.restart_broker(broker)
        assert scraped(patient)["kafka_up"] == [({}, 1.0)]
