"""Client telemetry (KIP-714): what the clients push to the bundled brokers, and when."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.admin import ConfigResource
from pykafka2.broker.observed.telemetry import TelemetryPush
from pykafka2.errors import (
    BrokerError,
    IllegalState,
    InvalidRecord,
    InvalidRequest,
    KafkaTimeoutError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
    UnsupportedVersion,
)
from pykafka2.testing import KafkaCluster
from pykafka2.testing.simulation import Simulation

SENT = "org.apache.kafka.producer.record.send.total"
CONSUMED = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"


class Bench:
    """A cluster in virtual time whose brokers receive metrics, and its clients."""

    def __init__(self, simulation: Simulation, brokers: int = 1, max_bytes: int = 1 << 20) -> None:
        self.simulation = simulation
        config = {"client.telemetry": True, "telemetry.max.bytes": max_bytes, "threads": "shared"}
        self.cluster = simulation.cluster(brokers, topics={"a": 2, "b": 1}, config=config)
        self.servers = self.cluster.bootstrap_servers
        self._admin = KafkaAdminClient(
            bootstrap_servers=self.servers,
            runtime=simulation.runtime.at("setup"),
            client_id="setup",
        )

    def subscribe(self, metrics: str = "org.apache.kafka.", interval_ms: int = 10_000) -> None:
        options = {"metrics": metrics, "interval.ms": str(interval_ms)}
        self._admin.alter_configs({ConfigResource("CLIENT_METRICS", "all"): options})

    def producer(self, client_id: str = "app", **options: Any) -> KafkaProducer[Any, Any]:
        return self.simulation.producer(self.cluster, client_id=client_id, **options)

    def pushes(self, client_id: str = "app") -> list[TelemetryPush]:
        return self.cluster.telemetry(client_id)

    def send(self, producer: KafkaProducer[Any, Any], count: int = 3) -> None:
        for number in range(count):
            producer.send("a", b"value %d" % number)
        producer.flush()

    def close(self) -> None:
        self._admin.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Simulation(seed=714) as simulation:
        bench = Bench(simulation)
        yield bench
        bench.close()


def api_counts(cluster: KafkaCluster, client_id: str = "app") -> dict[str, int]:
    counts: dict[str, int] = {}
    for entry in cluster.history.entries(client_id=client_id):
        if "Telemetry" in entry.api:
            counts[entry.api] = counts.get(entry.api, 0) + 1
    return counts


def test_producer_pushes_subscribed_metrics(bench: Bench) -> None:
    bench.subscribe()
    producer = bench.producer(transactional_id=None)
    bench.send(producer)
    bench.simulation.run_for(16)
    (push,) = bench.pushes()
    assert push.value(SENT) == 3
    assert push.value("org.apache.kafka.producer.topic.record.send.total", topic="a") == 3
    assert push.value("org.apache.kafka.producer.node.request.total", node_id="node-0") is not None
    assert push.compression == "zstd"
    assert not push.is_terminating
    assert all("client_id" not in point.attributes for point in push.metrics)
    assert {point.kind for point in push.metrics} == {"sum", "gauge"}
    assert not [point.name for point in push.metrics if not point.name.startswith("org.apache.kafka.")]
    assert push.client_instance_id == producer.client_instance_id()
    assert push.software.startswith("pykafka2")
    producer.close()


@pytest.mark.gate
@pytest.mark.slow
def test_totals_are_deltas_between_pushes(bench: Bench) -> None:
    bench.subscribe(SENT)
    producer = bench.producer()
    bench.send(producer, 3)
    bench.simulation.run_for(16)
    bench.send(producer, 2)
    bench.simulation.run_for(20)
    first, second, third = bench.pushes()[:3]
    assert [push.value(SENT) for push in (first, second, third)] == [3, 2, 0]
    (before,), (after,) = first.metrics, second.metrics
    assert after.is_delta
    assert after.started_ns == before.time_ns
    assert after.time_ns - before.time_ns == pytest.approx(10e9, rel=0.01)
    producer.close()


@pytest.mark.gate
@pytest.mark.slow
def test_first_push_is_spread_over_one_interval(bench: Bench) -> None:
    bench.subscribe()
    started = bench.simulation.runtime.clock.wall_ms()
    producers = [bench.producer(f"app{number}") for number in range(8)]
    for producer in producers:
        bench.send(producer, 1)
    bench.simulation.run_for(16)
    waits = [(bench.pushes(f"app{number}")[0].time_ms - started) / 1000 for number in range(len(producers))]
    assert 5 <= min(waits) < 9 < 11 < max(waits) <= 15.1
    for producer in producers:
        producer.close()


def test_close_pushes_for_the_last_time(bench: Bench) -> None:
    bench.subscribe()
    one, two = bench.producer("one"), bench.producer("two")
    bench.send(one, 4)
    bench.send(two, 5)
    one.close()
    assert [push.is_terminating for push in bench.pushes("one")] == [True]
    assert bench.pushes("one")[0].value(SENT) == 4
    assert bench.pushes("two") == []
    two.close()
    assert bench.pushes("two")[0].value(SENT) == 5


@pytest.mark.gate
@pytest.mark.slow
def test_close_is_not_delayed_by_a_silent_broker(bench: Bench) -> None:
    bench.subscribe()
    producer = bench.producer()
    bench.send(producer)
    bench.cluster.controls.hold("PushTelemetry")
    began = bench.simulation.now
    producer.close()
    assert bench.simulation.now - began < 1.0
    bench.cluster.controls.clear()


@pytest.mark.gate
@pytest.mark.slow
def test_consumer_and_admin_client_push(bench: Bench) -> None:
    bench.subscribe("*")
    producer = bench.producer()
    bench.send(producer, 3)
    consumer = bench.simulation.consumer(
        bench.cluster,
        "a",
        client_id="reader",
        group_id="g",
        group_instance_id="i",
        client_rack="r1",
        auto_offset_reset="earliest",
    )
    polls = [consumer.poll(timeout_ms=1_000) for _ in range(6)]
    assert sum(len(records) for poll in polls for records in poll.values()) == 3
    admin = KafkaAdminClient(
        bootstrap_servers=bench.servers,
        runtime=bench.simulation.runtime.at("ops"),
        client_id="ops",
        enable_metrics_push=True,
    )
    admin.list_topics()
    ids = {consumer.client_instance_id(), admin.client_instance_id(), producer.client_instance_id()}
    assert len(ids) == 3
    group = consumer.health()["group"]
    assert group is not None
    bench.simulation.run_for(16)
    consumer.close()
    admin.close()
    before, read, ops = bench.pushes("reader")[0], bench.pushes("reader")[-1], bench.pushes("ops")[-1]
    assert before.value(CONSUMED) == 3
    assert before.value(CONSUMED, topic="a") == 3
    assert read.is_terminating
    labels = {"group_id": "g", "group_instance_id": "i", "client_rack": "r1"}
    assert read.metrics[0].resource == labels
    assert before.metrics[0].resource == {**labels, "group_member_id": group["member_id"]}
    connections = "org.apache.kafka.admin.client.connection.creation.total"
    assert sum(push.value(connections) or 0 for push in bench.pushes("ops")) >= 1
    assert ops.value("pykafka2.admin.client.calls.in.progress") == 0
    producer.close()


@pytest.mark.gate
@pytest.mark.slow
def test_empty_subscription_pushes_nothing_and_is_renewed(bench: Bench) -> None:
    producer = bench.producer()
    bench.send(producer)
    bench.simulation.run_for(299)
    assert api_counts(bench.cluster) == {"GetTelemetrySubscriptions": 1}
    bench.subscribe()
    bench.simulation.run_for(20)
    assert 1 <= len(bench.pushes()) <= 2  # the first after half an interval or more
    producer.close()


@pytest.mark.gate
@pytest.mark.slow
def test_changed_subscription_is_fetched_at_the_next_push(bench: Bench) -> None:
    bench.subscribe("org.apache.kafka.producer.")
    producer = bench.producer()
    bench.send(producer)
    bench.simulation.run_for(16)
    bench.subscribe(SENT)
    bench.simulation.run_for(40)
    assert len(bench.pushes()[0].metrics) > 20
    assert [point.name for point in bench.pushes()[-1].metrics] == [SENT]
    assert len({push.client_instance_id for push in bench.pushes()}) == 1
    producer.close()


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("metrics", ["org.apache.kafka.consumer.", "unknown"])
def test_only_subscribed_prefixes_are_pushed(bench: Bench, metrics: str) -> None:
    bench.subscribe(metrics)
    producer = bench.producer()
    bench.send(producer)
    bench.simulation.run_for(16)
    assert [push.metrics for push in bench.pushes()] == [()]
    producer.close()


@pytest.mark.gate
@pytest.mark.slow
def test_metrics_above_the_limit_are_pushed_without_those_with_most_tags() -> None:
    with Simulation(seed=5) as simulation:
        bench = Bench(simulation, max_bytes=8_000)
        bench.subscribe()
        producer = bench.producer()
        bench.send(producer)
        simulation.run_for(16)
        push = bench.pushes()[0]
        assert push.value(SENT) == 3
        assert all(point.attributes == {} for point in push.metrics)
        producer.close()
        bench.close()


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (ThrottlingQuotaExceeded, {"GetTelemetrySubscriptions": 2, "PushTelemetry": 1}),
        (TelemetryTooLarge, {"GetTelemetrySubscriptions": 2, "PushTelemetry": 1}),
        (UnknownSubscriptionId, {"GetTelemetrySubscriptions": 2, "PushTelemetry": 1}),
        (UnsupportedCompressionType, {"GetTelemetrySubscriptions": 2, "PushTelemetry": 1}),
        (InvalidRequest, {"GetTelemetrySubscriptions": 1, "PushTelemetry": 1}),
        (InvalidRecord, {"GetTelemetrySubscriptions": 1, "PushTelemetry": 1}),
    ],
)
def test_errors_of_a_push_have_the_effects_of_the_java_client(
    bench: Bench, error: type[BrokerError], counts: dict[str, int]
) -> None:
    bench.subscribe(SENT)
    producer = bench.producer()
    bench.send(producer)
    bench.cluster.controls.fail_next("PushTelemetry", error)
    bench.simulation.wait_until(lambda: "PushTelemetry" in api_counts(bench.cluster), 16)
    at_once = error in (UnknownSubscriptionId, UnsupportedCompressionType)
    bench.simulation.run_for(1 if at_once else 11)
    assert api_counts(bench.cluster) == counts
    bench.simulation.run_for(26)
    ends = error in (InvalidRequest, InvalidRecord)
    assert [push.value(SENT) for push in bench.pushes()][:1] == ([] if ends else [3])
    producer.close()


def test_brokers_without_telemetry_get_no_request() -> None:
    with Simulation(seed=3) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"a": 1})
        producer = simulation.producer(cluster, client_id="app")
        producer.send("a", b"v").result()
        with pytest.raises(UnsupportedVersion, match="metrics of clients"):
            producer.client_instance_id()
        admin = KafkaAdminClient(
            bootstrap_servers=cluster.bootstrap_servers,
            runtime=simulation.runtime.at("ops"),
            enable_metrics_push=True,
        )
        with pytest.raises(UnsupportedVersion, match="GetTelemetrySubscriptions"):
            admin.client_instance_id()
        assert api_counts(cluster) == {}
        admin.close()
        producer.close()


def test_telemetry_can_be_switched_off(bench: Bench) -> None:
    bench.subscribe()
    producer = bench.producer(enable_metrics_push=False)
    bench.send(producer)
    with pytest.raises(IllegalState, match="enable_metrics_push"):
        producer.client_instance_id()
    bench.simulation.run_for(1)
    assert api_counts(bench.cluster) == {}
    producer.close()


@pytest.mark.gate
@pytest.mark.slow
def test_client_instance_id_opens_the_first_connection_and_times_out(bench: Bench) -> None:
    consumer = bench.simulation.consumer(bench.cluster, client_id="idle")
    bench.cluster.controls.hold("GetTelemetrySubscriptions")
    with pytest.raises(KafkaTimeoutError, match="GetTelemetrySubscriptions"):
        consumer.client_instance_id(timeout_ms=2_000)
    bench.cluster.controls.clear()
    assert len(consumer.client_instance_id()) == 22
    consumer.close()


@pytest.mark.parametrize("lead_ms", [-10, 0, 10], ids=["call first", "together", "request first"])
def test_client_instance_id_times_out_alike_whether_it_or_its_request_ends_first(
    bench: Bench, lead_ms: int
) -> None:
    """The request's timeout closes the only connection, but its broker was reached."""
    bench.cluster.controls.hold("GetTelemetrySubscriptions")
    consumer = bench.simulation.consumer(bench.cluster, client_id="idle", request_timeout_ms=2_000)
    with pytest.raises(KafkaTimeoutError, match="GetTelemetrySubscriptions"):
        consumer.client_instance_id(timeout_ms=2_000 + lead_ms)
    consumer.close()


@pytest.mark.gate
@pytest.mark.slow
def test_a_crashed_broker_is_replaced_by_another() -> None:
    with Simulation(seed=9) as simulation:
        bench = Bench(simulation, brokers=2)
        bench.subscribe(SENT)
        producer = bench.producer()
        bench.send(producer)
        simulation.run_for(16)
        (push,) = bench.pushes()
        bench.cluster.controls.kill_broker(push.broker)
        simulation.run_for(60)
        later = bench.pushes()[-1]
        assert later.broker != push.broker
        assert later.client_instance_id == push.client_instance_id
        producer.close()
        bench.close()


@pytest.mark.gate
@pytest.mark.slow
def test_consumers_take_part_without_a_group(bench: Bench) -> None:
    bench.subscribe(CONSUMED)
    consumer: KafkaConsumer[Any, Any] = bench.simulation.consumer(bench.cluster, client_id="reader")
    assert consumer.client_instance_id()
    consumer.close()
    assert bench.pushes("reader")[0].metrics[0].resource == {}
