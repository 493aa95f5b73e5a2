"""Clients above their quotas: throttle times, muted connections, rejected topics; in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2.admin.admin import KafkaAdminClient
from pykafka2.admin.values import NewTopic
from pykafka2.errors import ThrottlingQuotaExceeded, name_of
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from pykafka2.testing import KafkaCluster, Simulation, Topic
from tests.broker.support.admin_requests import topic_of
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch_request, produce_request
from tests.broker.support.raw_client import RawClient

METADATA = MetadataRequest(topics=[])
THROTTLED = ThrottlingQuotaExceeded.code


class Scene:
    """Two simulated brokers, of which each leads a partition of the topic."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(brokers=2, topics={"t": 2})
        self.wires: list[RawClient] = []

    def connect(self, partition: int = 0, client_id: str = "app") -> RawClient:
        leader = self.cluster.partition("t", partition).leader
        self.wires.append(
            RawClient(self.cluster.broker(leader).address, client_id, simulation=self.simulation)
        )
        return self.wires[-1]

    def produce(self, wire: RawClient, size: int, partition: int = 0) -> int:
        """Produce a record of this size and return the throttle time."""
        request = produce_request("t", partition, batch([b"x" * size]), acks=1)
        return wire.call(request, 12).throttle_time_ms

    def seconds(self, wire: RawClient, request: Any, version: int) -> float:
        """Return how long a request takes."""
        began = self.simulation.now
        wire.call(request, version)
        return self.simulation.now - began


@pytest.fixture
def scene(simulation: Simulation) -> Iterator[Scene]:
    scene = Scene(simulation)
    yield scene
    for wire in scene.wires:
        wire.close()


def test_produce_above_the_quota_gets_its_response_at_once_and_mutes_the_connection(scene: Scene) -> None:
    scene.cluster.controls.set_quota(client_id="app", producer_byte_rate=1000)
    wire, second = scene.connect(), scene.connect()
    assert scene.produce(wire, 5000) == 0
    began = scene.simulation.now
    throttle_ms = scene.produce(wire, 10_000)
    assert 5000 <= throttle_ms <= 5400
    assert scene.simulation.now - began < 1
    # The other connection of the client is read, and counts for the same quota.
    assert scene.seconds(second, METADATA, 12) < 1
    assert scene.produce(second, 1000) > throttle_ms
    assert scene.seconds(wire, METADATA, 12) == pytest.approx(throttle_ms / 1000, abs=0.5)
    assert scene.seconds(wire, METADATA, 12) < 1


def test_other_client_ids_and_other_brokers_have_a_rate_of_their_own(scene: Scene) -> None:
    scene.cluster.controls.set_quota(client_id="<default>", producer_byte_rate=1000)
    assert scene.produce(scene.connect(), 11_000) > 0
    assert scene.produce(scene.connect(client_id="other"), 9000) == 0
    assert scene.produce(scene.connect(partition=1), 9000, partition=1) == 0
    assert scene.produce(scene.connect(client_id="other"), 9000) > 0


def test_the_quota_of_a_client_id_replaces_the_default_one(scene: Scene) -> None:
    scene.cluster.controls.set_quota(client_id="<default>", producer_byte_rate=1000)
    scene.cluster.controls.set_quota(client_id="app", producer_byte_rate=1_000_000)
    assert scene.produce(scene.connect(), 100_000) == 0
    scene.cluster.controls.set_quota(client_id="app", producer_byte_rate=None)
    assert scene.produce(scene.connect(), 1000) > 0


def test_produce_with_acks_0_mutes_the_connection_without_a_response(scene: Scene) -> None:
    scene.cluster.controls.set_quota(client_id="app", producer_byte_rate=1000)
    wire = scene.connect()
    wire.send(produce_request("t", 0, batch([b"x" * 20_000]), acks=0), 12)
    assert scene.seconds(wire, METADATA, 12) > 5


def test_fetch_above_the_quota_returns_an_empty_response(scene: Scene) -> None:
    for _ in range(4):
        scene.produce(scene.connect(client_id="writer"), 4000)
    scene.simulation.run_for(1)
    scene.cluster.controls.set_quota(client_id="app", consumer_byte_rate=1000)
    wire = scene.connect()
    first = wire.call(fetch_request("t", 0, 0), 12)
    # Without the cap at ten seconds' worth of bytes it would be throttled for ever.
    assert first.throttle_time_ms == 0
    assert 8000 < len(first.responses[0].partitions[0].records) < 10_000
    second = wire.call(fetch_request("t", 0, 2), 12)
    assert (second.throttle_time_ms > 0, second.responses) == (True, [])
    assert scene.seconds(wire, METADATA, 12) == pytest.approx(second.throttle_time_ms / 1000, abs=0.5)
    scene.simulation.run_for(20)
    third = wire.call(fetch_request("t", 0, 2), 12)
    assert (third.throttle_time_ms, len(third.responses)) == (0, 1)


def test_a_throttled_fetch_keeps_its_session(scene: Scene) -> None:
    scene.cluster.controls.set_quota(client_id="app", consumer_byte_rate=1000)
    wire, writer = scene.connect(), scene.connect(client_id="writer")
    first = fetch_request("t", 0, 0)
    first.session_epoch = 0
    session_id = wire.call(first, 12).session_id
    assert session_id != 0

    def fetch(epoch: int) -> Any:
        again = FetchRequest(
            max_wait_ms=0, min_bytes=1, session_id=session_id, session_epoch=epoch, topics=[]
        )
        return wire.call(again, 12)

    scene.produce(writer, 6000)
    assert len(fetch(1).responses) == 1
    throttled = fetch(2)  # of the same offset again
    assert (throttled.throttle_time_ms > 0, throttled.session_id) == (True, session_id)
    assert throttled.responses == []
    scene.simulation.run_for(20)
    assert len(fetch(3).responses) == 1


def test_a_fetch_waits_for_no_more_bytes_than_the_quota_allows(scene: Scene) -> None:
    scene.produce(scene.connect(client_id="writer"), 12_000)
    scene.cluster.controls.set_quota(client_id="app", consumer_byte_rate=1000)
    wire = scene.connect()
    request = fetch_request("t", 0, 0, max_wait_ms=30_000)
    request.min_bytes = 1_000_000
    assert scene.seconds(wire, request, 12) < 1


def test_a_throttled_fetch_of_a_session_closed_meanwhile_gets_its_error(scene: Scene) -> None:
    scene.produce(scene.connect(client_id="writer"), 9000)
    scene.cluster.controls.set_quota(client_id="app", consumer_byte_rate=1000)
    wire, other = scene.connect(), scene.connect()
    first = fetch_request("t", 0, 1)
    first.session_epoch = 0
    session_id = wire.call(first, 12).session_id
    assert other.call(fetch_request("t", 0, 0), 12).throttle_time_ms == 0
    scene.cluster.controls.set_quota(client_id="app", consumer_byte_rate=100)
    waiting = FetchRequest(max_wait_ms=2000, min_bytes=1, session_id=session_id, session_epoch=1, topics=[])
    wire.send(waiting, 12)
    scene.simulation.run_for(0.5)
    final = FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session_id, session_epoch=-1, topics=[])
    other.call(final, 12)
    _, response = wire.receive(FetchRequest, 12)
    assert name_of(response.error_code) == "FETCH_SESSION_ID_NOT_FOUND"
    assert response.throttle_time_ms > 0


def test_followers_are_not_subject_to_quotas(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2, topics={"t": Topic(1, 2)})
    cluster.controls.set_quota(client_id="<default>", consumer_byte_rate=1, request_percentage=1)
    cluster.controls.set_quota(user="<default>", consumer_byte_rate=1)
    producer = simulation.producer(cluster, acks="all")
    began = simulation.now
    for _ in range(3):
        producer.send("t", bytes(50_000)).result(timeout=60)
    assert simulation.now - began < 5


def test_connections_above_the_rate_of_their_address_are_closed_after_the_throttle_time(scene: Scene) -> None:
    scene.cluster.controls.set_quota(ip="<default>", connection_creation_rate=1)
    began = scene.simulation.now
    for _ in range(30):
        wire = scene.connect()
        connected = scene.simulation.now
        try:
            wire.call(METADATA, 12)
        except ConnectionError:
            break
    else:
        pytest.fail("thirty connections in a moment must be above the rate")
    assert scene.simulation.now - began < 5
    assert 0.5 < scene.simulation.now - connected <= 1.1


def test_request_quota_counts_handling_but_not_waiting(scene: Scene) -> None:
    scene.cluster.controls.set_quota(client_id="app", request_percentage=0.001)
    wire = scene.connect()
    response = wire.call(fetch_request("t", 0, 0, max_wait_ms=5000), 12)
    assert response.throttle_time_ms == 0


def test_topics_above_the_mutation_quota_are_rejected_on_any_broker(scene: Scene) -> None:
    scene.cluster.controls.set_quota(client_id="app", controller_mutation_rate=1)
    for partition in (0, 1):
        first, second = f"a{partition}", f"b{partition}"
        client_id = f"app{partition}"
        scene.cluster.controls.set_quota(client_id=client_id, controller_mutation_rate=1)
        wire = scene.connect(partition, client_id)
        request = CreateTopicsRequest(topics=[topic_of(first, 15)], timeout_ms=5000)
        assert wire.call(request, 7).topics[0].error_code == 0
        request = CreateTopicsRequest(topics=[topic_of(second)], timeout_ms=5000)
        response = wire.call(request, 7)
        assert (response.topics[0].error_code, 3000 < response.throttle_time_ms <= 4000) == (THROTTLED, True)
        # The broker that received the request mutes the connection.
        assert scene.seconds(wire, METADATA, 12) == pytest.approx(response.throttle_time_ms / 1000, abs=0.5)
        assert wire.call(request, 7).topics[0].error_code == 0


def creation(name: str, partitions: int) -> Any:
    return CreateTopicsRequest(topics=[topic_of(name, partitions)], timeout_ms=5000)


def deletion(name: str, partitions: int) -> Any:
    return DeleteTopicsRequest(topic_names=[name], timeout_ms=5000)


def addition(name: str, partitions: int) -> Any:
    topic = CreatePartitionsTopic(name=name, count=1 + partitions, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=5000, validate_only=False)


@pytest.mark.parametrize(
    ("change", "strict_since"), [(creation, 6), (deletion, 5), (addition, 3)], ids=["create", "delete", "add"]
)
def test_older_versions_of_topic_changes_are_throttled_and_not_rejected(
    scene: Scene, change: Any, strict_since: int
) -> None:
    """KIP-599: clients that do not know the error are only throttled."""
    if change is not creation:
        for name, partitions in (("large", 15), ("next", 1)):
            made = creation(name, partitions if change is deletion else 1)
            assert scene.connect(client_id="maker").call(made, 6).topics[0].error_code == 0
        scene.simulation.run_for(1)
    scene.cluster.controls.set_quota(client_id="app", controller_mutation_rate=1)

    def outcome(request: Any, version: int) -> tuple[int, str | None, int]:
        response = scene.connect().call(request, version)
        results: Any = (
            getattr(response, "topics", None) or getattr(response, "results", None) or response.responses
        )
        message = getattr(results[0], "error_message", None)
        return results[0].error_code, message, response.throttle_time_ms

    assert outcome(change("large", 15), strict_since) == (0, None, 0)
    code, message, throttle_ms = outcome(change("next", 1), strict_since)
    assert (code, message) == (THROTTLED, None)
    assert 3000 < throttle_ms <= 4000
    code, _, throttle_ms = outcome(change("next", 1), strict_since - 1)
    assert code == 0
    assert 4000 < throttle_ms <= 5000


def test_an_admin_client_waits_for_the_mutation_quota(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=2)
    cluster.controls.set_quota(client_id="<default>", controller_mutation_rate=2)
    began = simulation.now
    with KafkaAdminClient(
        bootstrap_servers=cluster.bootstrap_servers, runtime=simulation.runtime.at("admin")
    ) as admin:
        admin.create_topics([NewTopic("a", 40)])
        admin.create_topics([NewTopic("b", 1)])
    assert set(cluster.topics()) >= {"a", "b"}
    assert 8 <= simulation.now - began < 20


def test_a_producer_above_its_quota_slows_down_and_loses_nothing(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"t": 1})
    cluster.controls.set_quota(client_id="app", producer_byte_rate=10_000)
    producer = simulation.producer(cluster, client_id="app", linger_ms=0, max_request_size=20_000)
    futures = [producer.send("t", b"x" * 9000) for _ in range(40)]
    for future in futures[:20]:
        future.result(timeout=120)
    simulation.wait_until(lambda: bool(producer.health()["throttled"]), 30)
    assert producer.metrics()["produce-throttle-time-max"] > 1000
    health = producer.health()["throttled"]
    assert min(health.values()) > 0
    assert "throttles this client" in str(producer.explain())
    for future in futures:
        future.result(timeout=120)
    assert simulation.now > 20  # 360 kB at 10 kB/s, of which the first 100 kB are a burst
    assert len(cluster.log("t", 0).values()) == 40


def test_a_consumer_above_its_quota_slows_down_and_reads_everything(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"t": 1})
    producer = simulation.producer(cluster)
    for _ in range(40):
        producer.send("t", b"x" * 9000)
    producer.flush()
    cluster.controls.set_quota(client_id="app", consumer_byte_rate=10_000)
    consumer = simulation.consumer(cluster, "t", client_id="app", group_id=None, auto_offset_reset="earliest")
    began = simulation.now
    values: list[Any] = []
    was_throttled = False
    while len(values) < 40:
        for records in consumer.poll(timeout_ms=1000).values():
            values += [record.offset for record in records]
        was_throttled = was_throttled or bool(consumer.health()["throttled"])
        assert simulation.now - began < 120, len(values)
    assert values == list(range(40))
    assert was_throttled
    metrics = consumer.metrics()
    assert metrics["fetch-throttle-time-max"] > 1000
    assert 0 < metrics["fetch-throttle-time-avg"] < metrics["fetch-throttle-time-max"]
    assert simulation.now - began > 20


@pytest.mark.gate
def test_throttled_clients_behave_the_same_with_the_same_seed() -> None:
    def run(seed: int) -> tuple[str, float]:
        with Simulation(seed) as simulation:
            cluster = simulation.cluster(brokers=2, topics={"t": 2})
            cluster.controls.set_quota(client_id="<default>", producer_byte_rate=1000, request_percentage=1)
            producers = [simulation.producer(cluster, client_id=f"app-{number}") for number in range(2)]
            for producer in producers:
                for partition in (0, 1):
                    producer.send("t", bytes(12_000), partition=partition)
            for producer in producers:
                producer.flush()
                producer.send("t", b"last", partition=0).result(timeout=60)
            return simulation.trace_hash, simulation.now

    first, again = run(5), run(5)
    assert first == again
    assert first[1] > 1


def test_topics_that_metadata_requests_create_count_for_the_mutation_quota(simulation: Simulation) -> None:
    """Above the quota they are not created, and the response is not throttled, as in Apache Kafka 4.3.1."""
    config = {"auto.create.topics.enable": True, "num.partitions": 20}
    cluster = simulation.cluster(brokers=2, config=config)
    cluster.controls.set_quota(client_id="app", controller_mutation_rate=1)
    for client_id, name in (("app", "first"), ("app", "second"), ("other", "third")):
        for broker in cluster.brokers:
            wire = RawClient(broker.address, client_id, simulation=simulation)
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
            )
            assert wire.call(request, 12).throttle_time_ms == 0
            wire.close()
    simulation.run_for(1)
    assert set(cluster.topics()) == {"first", "third"}
