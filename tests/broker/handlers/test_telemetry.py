"""GetTelemetrySubscriptions and PushTelemetry (KIP-714): rules of Apache Kafka's ClientMetricsManager."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2 import KafkaAdminClient
from pykafka2.admin import ConfigResource
from pykafka2.broker.client_metrics import subscription_id
from pykafka2.compression.codec import NAMES, codec
from pykafka2.errors import (
    InvalidRecord,
    InvalidRequest,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
)
from pykafka2.otlp import MetricPoint, encode_metrics
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest
from pykafka2.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
)
from pykafka2.protocol.primitives import uuid_to_text
from pykafka2.testing import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.raw_client import RawClient

MAX_BYTES = 10_000
METRICS = encode_metrics([MetricPoint("a.total", 2.0, {"topic": "t"}, "sum", True, 1, 2)], {"rack": "r"})
ID = bytes(range(1, 17))


class Bench:
    """A cluster in virtual time, and connections to one of its brokers."""

    def __init__(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        self.simulation = simulation
        self.cluster = cluster
        self.admin = KafkaAdminClient(
            bootstrap_servers=cluster.bootstrap_servers, runtime=simulation.runtime.at("admin")
        )
        self._wires: list[RawClient] = []
        self.wire = self.connect()

    def connect(self, client_id: str = "app", software: str = "lib") -> RawClient:
        wire = RawClient(self.cluster.broker(0).address, client_id, simulation=self.simulation)
        wire.call(ApiVersionsRequest(client_software_name=software, client_software_version="1.2"), 3)
        self._wires.append(wire)
        return wire

    def subscribe(self, name: str, **options: str) -> None:
        changed = {key.replace("_", "."): value for key, value in options.items()}
        self.admin.alter_configs({ConfigResource("CLIENT_METRICS", name): changed})

    def get(
        self, instance_id: bytes = bytes(16), wire: RawClient | None = None
    ) -> GetTelemetrySubscriptionsResponse:
        request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
        return (wire or self.wire).call(request, 0)

    def push(
        self,
        to: GetTelemetrySubscriptionsResponse,
        metrics: bytes = METRICS,
        compression: int = 0,
        *,
        terminating: bool = False,
        instance_id: bytes | None = None,
    ) -> int:
        """Push for a subscription. Return the error code."""
        request = PushTelemetryRequest(
            client_instance_id=bytes(to.client_instance_id) if instance_id is None else instance_id,
            subscription_id=to.subscription_id,
            terminating=terminating,
            compression_type=compression,
            metrics=metrics,
        )
        return self.wire.call(request, 0).error_code

    def close(self) -> None:
        self.admin.close()
        for wire in self._wires:
            wire.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    config = {"client.telemetry": True, "telemetry.max.bytes": MAX_BYTES}
    with Simulation(seed=714) as simulation:
        bench = Bench(simulation, simulation.cluster(brokers=2, config=config))
        yield bench
        bench.close()


def code(error: type[KafkaError]) -> int:
    return int(getattr(error, "code"))  # noqa: B009 - not every KafkaError has one


def test_without_a_subscription_nothing_is_requested(bench: Bench) -> None:
    got = bench.get()
    assert (got.error_code, got.requested_metrics, got.push_interval_ms) == (0, [], 300_000)
    assert (got.accepted_compression_types, got.telemetry_max_bytes) == ([4, 3, 1, 2], MAX_BYTES)
    assert got.delta_temporality
    first, second = bytes(got.client_instance_id), bytes(bench.get().client_instance_id)
    assert len({first, second, bytes(16)}) == 3


def test_matching_subscriptions_are_combined(bench: Bench) -> None:
    bench.subscribe(
        "fast", metrics="b.,a.", interval_ms="1000", match="client_id=ap+,client_software_name=l.*"
    )
    bench.subscribe("slow", metrics="a.,c.", interval_ms="2000", match="client_source_port=[0-9]+")
    bench.subscribe("foreign", metrics="*", interval_ms="100", match="client_software_version=1")
    got = bench.get()
    assert (got.requested_metrics, got.push_interval_ms) == (["a.", "b.", "c."], 1_000)
    other = bench.get(wire=bench.connect("other"))
    assert (other.requested_metrics, other.push_interval_ms) == (["a.", "c."], 2_000)
    bench.subscribe("all", metrics="*,x.")
    assert bench.get(bytes(got.client_instance_id)).requested_metrics == ["*"]


def test_patterns_match_the_instance_id_and_whole_texts(bench: Bench) -> None:
    bench.subscribe("one", metrics="a.", match=f"client_instance_id={uuid_to_text(ID)}")
    bench.subscribe("part", metrics="b.", match="client_id=ap")
    bench.subscribe("lookahead", metrics="c.", match="client_id=(?=a)app")
    assert bench.get(ID).requested_metrics == ["a."]
    assert bench.get().requested_metrics == []


def test_pushes_are_decoded_in_every_compression(bench: Bench) -> None:
    bench.subscribe("all", metrics="*", interval_ms="1000")
    got = bench.get()
    for number in range(len(NAMES)):
        data = codec(number).compress(METRICS)
        assert bench.push(got, data, number) == 0
        push = bench.cluster.telemetry("app")[-1]
        assert (push.compression, push.size_bytes, push.broker) == (NAMES[number], len(data), 0)
        bench.simulation.run_for(1.0)
    assert push.client_instance_id == uuid_to_text(got.client_instance_id)
    assert push.software == "lib 1.2"
    (point,) = push.metrics
    assert (point.kind, point.is_delta, point.resource) == ("sum", True, {"rack": "r"})
    assert push.value("a.total", topic="t") == 2.0
    with pytest.raises(KeyError, match=r"a\.total"):
        push.value("a.total", topic="u")
    assert len(bench.cluster.telemetry()) == len(NAMES)
    assert bench.cluster.telemetry("other") == []
    bench.cluster.forget()
    assert bench.cluster.telemetry() == []


def test_requests_before_the_push_interval_are_throttled(bench: Bench) -> None:
    bench.subscribe("all", metrics="*", interval_ms="1000")
    got = bench.get(ID)
    assert bench.get(ID).error_code == code(ThrottlingQuotaExceeded)
    assert bench.push(got) == 0  # the first one after a subscription
    assert bench.push(got) == code(ThrottlingQuotaExceeded)
    assert bench.get(ID).error_code == code(ThrottlingQuotaExceeded)
    bench.simulation.run_for(1.0)
    assert bench.push(got) == 0
    assert bench.push(got, terminating=True) == 0  # never throttled


def test_a_changed_subscription_makes_pushes_unknown_until_it_is_requested(bench: Bench) -> None:
    bench.subscribe("all", metrics="*", interval_ms="1000")
    got = bench.get(ID)
    bench.subscribe("all", metrics="a.")
    assert bench.push(got) == code(UnknownSubscriptionId)
    renewed = bench.get(ID)
    assert (renewed.error_code, renewed.requested_metrics) == (0, ["a."])
    assert renewed.subscription_id != got.subscription_id
    assert bench.push(renewed) == code(ThrottlingQuotaExceeded)  # the interval since the rejected push
    bench.simulation.run_for(1.0)
    assert bench.push(renewed) == 0


def test_unknown_compression_is_rejected_and_the_client_can_ask_at_once(bench: Bench) -> None:
    got = bench.get(ID)
    assert bench.push(got, compression=9) == code(UnsupportedCompressionType)
    assert bench.get(ID).error_code == 0


def test_least_recently_used_client_is_forgotten_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka2.broker.client_metrics.MAX_INSTANCES", 2)
    one, two = bench.get(ID), bench.get(bytes(range(2, 18)))
    for got in (one, two):
        assert bench.push(got, terminating=True) == 0
    assert bench.push(one, terminating=True) == code(InvalidRequest)  # used after the other
    bench.get(bytes(range(3, 19)))
    assert bench.push(one, terminating=True) == code(InvalidRequest)
    assert bench.push(two) == 0


def test_accepted_push_ends_the_right_to_subscribe_at_once(bench: Bench) -> None:
    bench.subscribe("all", metrics="*", interval_ms="1000")
    got = bench.get(ID)
    assert bench.push(got, compression=9) == code(UnsupportedCompressionType)
    bench.simulation.run_for(1.0)
    assert bench.push(got) == 0
    assert bench.get(ID).error_code == code(ThrottlingQuotaExceeded)


def test_pushes_larger_than_the_limit_are_rejected(bench: Bench) -> None:
    assert bench.push(bench.get(), b"x" * (MAX_BYTES + 1)) == code(TelemetryTooLarge)
    bomb = codec("gzip").compress(bytes(MAX_BYTES + 2))  # an even number of zeros can be decoded
    assert bench.push(bench.get(), bomb, 1) == code(InvalidRecord)
    assert bench.push(bench.get(), b"\xff") == code(InvalidRecord)
    assert bench.push(bench.get(), b"no gzip", 1) == code(InvalidRecord)
    assert bench.push(bench.get(), b"") == 0
    assert bench.cluster.telemetry() == []


def test_nothing_is_accepted_after_the_last_push_of_a_connection(bench: Bench) -> None:
    bench.subscribe("all", metrics="*", interval_ms="100")
    got = bench.get(ID)
    assert bench.push(got, terminating=True) == 0
    bench.simulation.run_for(1.0)
    assert bench.push(got) == code(InvalidRequest)
    assert [push.is_terminating for push in bench.cluster.telemetry()] == [True]
    bench.wire.close()
    bench.simulation.run_for(1.0)
    bench.wire = bench.connect()
    assert bench.push(got) == 0


@pytest.mark.parametrize("instance_id", [bytes(16), bytes(15) + b"\x01"])
def test_reserved_instance_ids_are_rejected(bench: Bench, instance_id: bytes) -> None:
    assert bench.push(bench.get(), instance_id=instance_id) == code(InvalidRequest)


def test_silent_clients_are_forgotten(bench: Bench) -> None:
    bench.subscribe("all", metrics="*", interval_ms="30000")
    got = bench.get(ID)
    assert bench.push(got, terminating=True) == 0
    bench.simulation.run_for(89.0)
    assert bench.push(got) == code(InvalidRequest)
    bench.simulation.run_for(90.0)
    assert bench.push(got) == 0


@pytest.mark.parametrize(
    ("metrics", "interval_ms", "number"),
    [(["*"], 1_000, 848016041), ([], 300_000, -725132338), (["org.apache.kafka."], 5_000, -2004759151)],
)
def test_the_subscription_id_is_the_checksum_of_kafka(
    metrics: list[str], interval_ms: int, number: int
) -> None:
    # Computed by the classes of Apache Kafka 4.4.0 and Java.
    assert subscription_id(metrics, interval_ms, ID) == number


def test_brokers_without_the_option_serve_no_telemetry() -> None:
    with KafkaCluster(brokers=1) as cluster, RawClient(cluster.bootstrap_servers) as wire:
        keys = {one.api_key for one in wire.call(ApiVersionsRequest(), 0).api_keys}
        assert not keys & {71, 72}
        wire.send(GetTelemetrySubscriptionsRequest(client_instance_id=ID), 0)
        assert wire.is_closed_by_broker()
