"""Test a small service while Kafka fails.

Shows: the fixture `kafka_cluster`, a fault rule (the broker stores a record, and its acknowledgement is
lost), a crash of the partition's leader, and how to read the log afterwards.

    python -m pytest examples/test_order_service.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.testing import KafkaCluster


class OrderService:
    """Accepts an order when all in-sync replicas have it."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers,
            client_id="order-service",
            value_serializer=lambda order: json.dumps(order).encode(),
        )

    def accept(self, number: int, customer: str) -> None:
        """Return when the order is stored; raise `KafkaError` if it could not be stored."""
        delivery = self._producer.send(
            "orders", {"number": number, "customer": customer}, key=customer.encode()
        )
        delivery.result(timeout=30)

    def close(self) -> None:
        self._producer.close()


@pytest.fixture
def service(kafka_cluster: KafkaCluster) -> Iterator[OrderService]:
    service = OrderService(kafka_cluster.bootstrap_servers)
    yield service
    service.close()


def stored(cluster: KafkaCluster) -> list[dict[str, Any]]:
    """Return the records of the topic from its beginning to its current end."""
    orders = TopicPartition("orders", 0)
    with KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=json.loads,
    ) as consumer:
        consumer.assign([orders])
        end = consumer.end_offsets([orders])[orders]
        found: list[dict[str, Any]] = []
        while consumer.position(orders) < end:
            for records in consumer.poll(timeout_ms=1000).values():
                found += [record.value for record in records]
        return found


@pytest.mark.kafka(brokers=3, topics={"orders": 1})
def test_an_order_is_stored(service: OrderService, kafka_cluster: KafkaCluster) -> None:
    service.accept(1, "ada")
    assert stored(kafka_cluster) == [{"number": 1, "customer": "ada"}]


@pytest.mark.kafka(brokers=3, topics={"orders": 1})
def test_order_with_a_lost_acknowledgement_is_stored_once(
    service: OrderService, kafka_cluster: KafkaCluster
) -> None:
    lost = kafka_cluster.controls.rule(api="Produce", nth=1, then="apply_then_lose_reply")
    service.accept(1, "ada")
    assert lost.fired == 1
    kafka_cluster.history.exactly(2, "Produce", client_id="order-service")
    assert [order["number"] for order in stored(kafka_cluster)] == [1]


@pytest.mark.kafka(brokers=3, topics={"orders": 1})
def test_orders_survive_the_crash_of_a_leader(service: OrderService, kafka_cluster: KafkaCluster) -> None:
    for number in range(10):
        service.accept(number, "ada")

    leader = kafka_cluster.partition("orders", 0).leader
    kafka_cluster.controls.crash_broker(leader)
    for number in range(10, 20):
        service.accept(number, "ada")

    assert kafka_cluster.partition("orders", 0).leader != leader
    assert [order["number"] for order in stored(kafka_cluster)] == list(range(20))
