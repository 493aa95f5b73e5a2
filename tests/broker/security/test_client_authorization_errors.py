"""Errors of our clients under access rules: raised at once, typed, and with the missing right.

In virtual time.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    KafkaShareConsumer,
    TopicPartition,
    errors,
)
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster, Simulation

ME = "User:ANONYMOUS"


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "group.initial.rebalance.delay.ms": 0}
    return simulation.cluster(brokers=3, topics=["orders"], config=config)


@pytest.fixture
def options(simulation: Simulation, cluster: KafkaCluster) -> dict[str, Any]:
    return {"bootstrap_servers": cluster.bootstrap_servers, "runtime": simulation.runtime.at("app")}


def test_producer_without_write_raises_with_the_missing_operation(
    cluster: KafkaCluster, options: dict[str, Any]
) -> None:
    with (
        KafkaProducer(**options) as producer,
        pytest.raises(errors.TopicAuthorizationFailed, match=r"'orders'.*WRITE to produce"),
    ):
        producer.send("orders", b"x").result(30)
    cluster.acls.allow(ME, "DESCRIBE", topic="orders")
    with (
        KafkaProducer(**options) as producer,
        pytest.raises(errors.ClusterAuthorizationFailed, match=r"WRITE on a topic, or IDEMPOTENT_WRITE"),
    ):
        producer.send("orders", b"x").result(30)
    with (
        KafkaProducer(enable_idempotence=False, **options) as producer,
        pytest.raises(errors.TopicAuthorizationFailed, match=r"orders-0.*WRITE to produce"),
    ):
        producer.send("orders", b"x").result(30)
    assert cluster.log("orders", 0).log_end_offset == 0
    cluster.acls.allow(ME, "WRITE", topic="orders")
    with KafkaProducer(**options) as producer:
        producer.send("orders", b"x").result(30)


def test_transactional_producer_without_write_on_its_id_raises(
    cluster: KafkaCluster, options: dict[str, Any]
) -> None:
    cluster.acls.allow(ME, "WRITE", topic="orders")
    with (
        KafkaProducer(transactional_id="payments", **options) as producer,
        pytest.raises(errors.TransactionalIdAuthorizationFailed, match="WRITE"),
    ):
        producer.init_transactions()
    cluster.acls.allow(ME, "WRITE", transactional_id="pay", prefix=True)
    with KafkaProducer(transactional_id="payments", **options) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"x").result(30)
        producer.commit_transaction()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_member_without_read_on_group_or_topic_raises(
    cluster: KafkaCluster, options: dict[str, Any], protocol: str
) -> None:
    named = {"group_id": "readers", "group_protocol": protocol, "auto_offset_reset": "earliest", **options}
    cluster.acls.allow(ME, "READ", topic="orders")
    with (
        KafkaConsumer("orders", **named) as consumer,
        pytest.raises(errors.GroupAuthorizationFailed, match=r"'readers'.*READ"),
    ):
        consumer.poll(timeout_ms=30_000)
    cluster.acls.revoke()
    cluster.acls.allow(ME, "READ", group="readers")
    with (
        KafkaConsumer("orders", **named) as consumer,
        pytest.raises(errors.TopicAuthorizationFailed, match=r"'orders'.*READ to consume"),
    ):
        consumer.poll(timeout_ms=30_000)


def test_share_consumer_without_read_on_the_group_raises_with_group_and_operation(
    cluster: KafkaCluster, options: dict[str, Any]
) -> None:
    cluster.acls.allow(ME, "READ", topic="orders")
    cluster.acls.allow(ME, "DESCRIBE", group="readers")
    with (
        KafkaShareConsumer("orders", group_id="readers", **options) as consumer,
        pytest.raises(errors.GroupAuthorizationFailed, match=r"group 'readers'.*allows READ on it"),
    ):
        consumer.poll(timeout_ms=30_000)


def test_revoked_read_access_fails_the_next_poll_until_restored(
    cluster: KafkaCluster, options: dict[str, Any]
) -> None:
    cluster.acls.allow(ME, "READ", "WRITE", topic="orders")
    with KafkaProducer(**options) as producer:
        producer.send("orders", b"x").result(30)
    with KafkaConsumer(**options) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        consumer.seek_to_beginning()
        assert sum(map(len, consumer.poll(timeout_ms=30_000).values())) == 1
        cluster.acls.revoke(ME, "READ")
        with pytest.raises(errors.TopicAuthorizationFailed, match=r"orders-0.*READ to consume"):
            consumer.poll(timeout_ms=30_000)
        cluster.acls.allow(ME, "READ", topic="orders")
        with KafkaProducer(**options) as producer:
            producer.send("orders", b"y").result(30)
        assert sum(map(len, consumer.poll(timeout_ms=30_000).values())) == 1


def test_admin_client_without_rights_raises(cluster: KafkaCluster, options: dict[str, Any]) -> None:
    with KafkaAdminClient(**options) as admin:
        with pytest.raises(ItemsFailed, match="new: TopicAuthorizationFailed"):
            admin.create_topics(["new"])
        with pytest.raises(ItemsFailed, match="orders: TopicAuthorizationFailed"):
            admin.delete_topics(["orders"])
        with pytest.raises(errors.ClusterAuthorizationFailed):
            admin.describe_acls()
        assert admin.list_topics() == []
    assert "orders" in cluster.topics()
