"""`health()` of all clients has the same base, and shows the loss of the last broker within a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2 import (
    AdminHealth,
    ClientHealth,
    ConsumerHealth,
    KafkaAdminClient,
    KafkaConsumer,
    ProducerHealth,
)
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.docs.test_guides import functions_of_guide
from tests.gate import rest_in_long

CLIENTS = ("producer", "consumer", "admin")


@pytest.fixture(params=[1, 3], ids=["one broker", "three brokers"])
def cluster(simulation: Simulation, request: pytest.FixtureRequest) -> KafkaCluster:
    return simulation.cluster(brokers=request.param, topics={"orders": 3})


in_400_seconds = pytest.mark.parametrize(
    "cluster", rest_in_long([1, 3]), indirect=True, ids=["one broker", "three brokers"]
)
"""Three brokers fetch from each other all the time."""


@pytest.fixture
def clients(simulation: Simulation, cluster: KafkaCluster) -> Iterator[dict[str, Any]]:
    """The three clients; all are connected and idle."""
    producer = simulation.producer(cluster)
    producer.send("orders", b"1").result(timeout=10)
    consumer = simulation.consumer(cluster, "orders", group_id="billing", auto_offset_reset="earliest")
    while not consumer.poll(1000):
        pass
    admin = KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_servers, runtime=simulation.runtime.at("admin")
    )
    admin.list_topics()
    yield {"producer": producer, "consumer": consumer, "admin": admin}
    admin.close()


def crash_all(cluster: KafkaCluster) -> None:
    for broker in range(len(cluster.brokers)):
        cluster.controls.crash_broker(broker)


def restart_all(cluster: KafkaCluster) -> None:
    for broker in range(len(cluster.brokers)):
        cluster.controls.restart_broker(broker)


def test_health_has_the_fields_of_its_type(clients: dict[str, Any]) -> None:
    types = {"producer": ProducerHealth, "consumer": ConsumerHealth, "admin": AdminHealth}
    for name, client in clients.items():
        health = client.health()
        assert health.keys() == types[name].__annotations__.keys()
        assert ClientHealth.__annotations__.keys() <= health.keys()
        assert (health["state"], health["connected"], health["unreachable"]) == ("open", True, {})
        assert (health["metadata_age"] is None) == (health["metadata_version"] == 0)
        assert (health["metadata_request_age"] is None) == (health["metadata_version"] == 0)
        client.close()
        assert client.health()["state"] == "closed"


@pytest.mark.gate
@pytest.mark.slow
@in_400_seconds
def test_age_of_metadata_grows_while_requests_for_it_have_no_response(
    simulation: Simulation, cluster: KafkaCluster, clients: dict[str, Any]
) -> None:
    cluster.controls.hold(MetadataRequest)
    simulation.sleep(400)  # beyond metadata_max_age_ms
    for name in ("producer", "consumer"):
        health = clients[name].health()
        assert health["metadata_age"] >= 400, name
        assert health["metadata_request_age"] < 200, name


@pytest.mark.gate
def test_health_of_a_failed_client_has_its_failure(
    clients: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, client in clients.items():
        core = client._cluster if name == "admin" else client._core
        driver = core.cluster.driver if name == "consumer" else core.driver
        with monkeypatch.context() as patch:
            patch.setattr(driver, "failure", ValueError("a bug"))
            health = client.health()
        assert (health["state"], health["failure"]) == ("failed", "ValueError('a bug')"), name
        assert client.health()["failure"] is None


@pytest.mark.gate
@in_400_seconds
def test_producer_that_has_sent_nothing_stays_connected_after_its_first_call(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster)
    assert not producer.health()["connected"]
    producer.partitions_for("orders")
    for seconds in (1, 400, 200):  # beyond metadata_max_age_ms and connections_max_idle_ms
        simulation.sleep(seconds)
        assert producer.health()["connected"]
    producer.send("orders", b"1").result(timeout=10)
    simulation.sleep(1)
    bootstrap = [
        link for link in map(producer._core.client.nodes.known_link, (-1, -2, -3)) if link is not None
    ]
    assert not any(link.is_connected for link in bootstrap)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_health_shows_the_loss_of_the_last_broker_within_a_second(
    simulation: Simulation, cluster: KafkaCluster, clients: dict[str, Any], name: str
) -> None:
    client = clients[name]
    crash_all(cluster)
    for seconds in (1.0, 4.0, 10.0, 45.0):  # after 1, 5, 15 and 60 s
        simulation.sleep(seconds)
        health = client.health()
        assert not health["connected"]
        # An admin client connects when it is called.
        assert len(health["unreachable"]) == (0 if name == "admin" else len(cluster.brokers)), health
        assert health["state"] == "open"
    restart_all(cluster)
    simulation.sleep(5)
    if name == "admin":
        client.list_topics()
    assert client.health()["connected"]


@pytest.mark.gate
@pytest.mark.slow
def test_readiness_of_the_guide_is_false_a_second_after_the_last_broker_died(
    simulation: Simulation, cluster: KafkaCluster, clients: dict[str, Any]
) -> None:
    guide = functions_of_guide("operating.md")
    producer, consumer = clients["producer"], clients["consumer"]

    def ready() -> tuple[bool, bool]:
        return guide["is_producer_ready"](producer), guide["is_consumer_ready"](consumer)

    assert ready() == (True, True)
    crash_all(cluster)
    for seconds in (1.0, 4.0, 10.0, 45.0):
        simulation.sleep(seconds)
        assert ready() == (False, False)
        assert guide["is_alive"](producer)
        assert guide["is_alive"](consumer)
    restart_all(cluster)
    simulation.sleep(5)
    assert ready() == (True, True)
    if len(cluster.brokers) > 1:
        cluster.controls.crash_broker(0)
        for _ in range(5):
            simulation.sleep(1)
            assert ready() == (True, True)


def test_unreachable_address_is_named_once_in_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with (
        KafkaConsumer("orders", bootstrap_servers="127.0.0.1:1") as consumer,
        caplog.at_level("WARNING", logger="pykafka2.cluster.link"),
    ):
        while not caplog.messages:
            consumer.poll(50)
        assert [message.count("127.0.0.1:1") for message in caplog.messages] == [1]
        assert "bootstrap broker 127.0.0.1:1: nothing listens there" in caplog.messages[0]
