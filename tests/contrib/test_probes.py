"""`liveness` and `readiness` of clients that work, have lost their brokers, stall, or were closed."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.contrib.probes import liveness, readiness
from pykafka2.testing import KafkaCluster, Simulation


def test_connected_clients_are_alive_and_ready(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers
    with (
        KafkaProducer(bootstrap_servers=servers) as producer,
        KafkaConsumer(bootstrap_servers=servers) as consumer,
    ):
        assert liveness(producer, consumer) == []
        producer.send("orders", b"x").result()
        consumer.topics()
        assert readiness(producer, consumer) == []


def test_client_before_its_first_call_is_alive_and_not_ready() -> None:
    with KafkaProducer(bootstrap_servers="127.0.0.1:1", client_id="shop") as producer:
        assert liveness(producer) == []
        assert readiness(producer)[0].startswith("KafkaProducer 'shop' is not connected")


def test_closed_client_is_neither_alive_nor_ready(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers, client_id="one") as producer:
        producer.send("orders", b"x").result()
        closed = KafkaConsumer(bootstrap_servers=servers, client_id="two")
        closed.close()
        assert liveness(producer, closed) == ["KafkaConsumer 'two' is closed"]
        assert readiness(producer, closed) == ["KafkaConsumer 'two' is closed"]


@pytest.mark.gate
@pytest.mark.slow
def test_lost_cluster_is_no_reason_to_restart(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"orders": 1})
    producer = simulation.producer(cluster)
    producer.send("orders", b"1").result(timeout=10)
    for broker in range(2):
        cluster.controls.crash_broker(broker)
    simulation.sleep(2)
    assert liveness(producer) == []
    (reason, *_) = readiness(producer)
    assert "is not connected" in reason


class Client:
    """A client with the health of a moment that is hard to reach."""

    def __init__(self, **health: Any) -> None:
        self._health = {
            "state": "open",
            "failure": None,
            "connected": True,
            "unreachable": {},
            "metadata_error": None,
            **health,
        }

    def metric_rows(self) -> list[Any]:
        with KafkaProducer(bootstrap_servers="127.0.0.1:1", client_id="shop") as producer:
            return producer.metric_rows()

    def health(self) -> dict[str, Any]:
        return self._health


def test_readiness_names_each_obstacle_of_a_client() -> None:
    failed = Client(state="failed", failure="RuntimeError: bug")
    assert liveness(failed) == ["Client 'shop' is failed: RuntimeError: bug"]
    full = Client(senders_waiting_for_memory=2, metadata_error="no answer")
    assert readiness(full) == [
        "Client 'shop' cannot read the metadata: no answer",
        "Client 'shop' has 2 calls of send() that wait for buffer_memory",
    ]
    stalled = Client(
        partitions={"orders-0": {"stands_still_for": 61.0}, "orders-1": {"stands_still_for": 59.0}}
    )
    assert readiness(stalled) == ["Client 'shop' has not advanced in orders-0 for 61 s"]
    assert readiness(stalled, longest_stall=100.0) == []
