"""Values of the producer's metrics, in virtual time; tests/docs checks that each name exists."""

from __future__ import annotations

import math

import pytest

from pykafka2.compression import libraries
from pykafka2.errors import (
    BufferExhausted,
    DeliveryTimeout,
    InvalidRecord,
    KafkaError,
    KafkaTimeoutError,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.compression.using import using
from tests.gate import rest_in_gate
from tests.producer.transactions.transactional import a_cluster, a_producer


def test_batches_and_requests_are_measured(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, linger_ms=20)
    assert math.isnan(producer.metrics()["batch-size-avg"])
    for _ in range(10):
        producer.send("orders", b"x" * 100)
    producer.flush(10)
    metrics = producer.metrics()
    [batch] = cluster.log("orders", 0).batches()
    assert metrics["batch-size-avg"] == metrics["batch-size-max"] == batch.size_bytes
    assert metrics["record-size-avg"] == 109
    assert metrics["records-per-request-avg"] == metrics["record-send-total"] == 10
    assert metrics["compression-rate-avg"] == 1
    assert 0 < metrics["request-latency-avg"] < 100, "milliseconds"
    assert metrics["record-error-total"] == metrics["record-retry-total"] == 0
    assert metrics["connection-count"] >= 1


def test_times_of_batches_are_in_milliseconds(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, linger_ms=200)
    producer.partitions_for("orders")
    cluster.controls.delay(ProduceRequest, 0.5, times=1)
    producer.send("orders", b"1").result(10)
    metrics = producer.metrics()
    assert 200 <= metrics["record-queue-time-avg"] <= metrics["record-queue-time-max"] < 300
    assert 500 <= metrics["request-latency-avg"] <= metrics["request-latency-max"] < 600


def test_records_that_fail_are_counted(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    cluster.controls.fail_next(ProduceRequest, InvalidRecord)
    with pytest.raises(InvalidRecord):
        producer.send_many("orders", [b"x"] * 7).result(10)
    assert producer.metrics()["record-error-total"] == 7


def test_waiting_records_and_requests_are_shown_in_the_metrics(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, buffer_memory=20_000, batch_size=16_000)
    producer.send("orders", b"1").result(10)
    cluster.controls.hold(ProduceRequest)
    cluster.controls.hold(MetadataRequest)
    producer.send("orders", b"x" * 15_000)
    waiting = simulation.spawn(lambda: producer.send("orders", b"x" * 15_000))
    producer._core.client.metadata.request_update("the test says so")
    simulation.sleep(7)
    metrics, health = producer.metrics(), producer.health()
    assert metrics["waiting-threads"] == health["senders_waiting_for_memory"] == 1
    assert metrics["buffer-available-bytes"] == health["buffer_available_bytes"] == 4_000
    assert metrics["buffer-total-bytes"] == 20_000
    assert metrics["requests-in-flight"] == health["requests_in_flight"] == 1
    assert 7 <= metrics["metadata-age"] < 8, "the last request has no answer"
    assert "Calls of send() waiting for buffer_memory: 1" in producer.explain()
    cluster.controls.clear()
    waiting.result()
    producer.flush(10)


def test_explain_names_the_blocker_of_each_partition(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, max_in_flight_requests_per_connection=1)
    producer.send("orders", b"1").result(10)
    leader = cluster.partition("orders", 0).leader
    cluster.controls.hold(ProduceRequest)
    for _ in range(2):
        producer.send("orders", b"2")
        simulation.sleep(1)
    assert f"orders-0 waits for responses of node {leader} to 1 requests." in producer.explain()
    cluster.controls.clear()
    producer.flush(10)
    assert "waits" not in producer.explain().replace("Nothing waits", "")


def test_explain_names_first_sends_that_block_while_the_broker_is_down(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, max_block_ms=60_000)
    cluster.controls.hold(MetadataRequest)
    first, second, third = (
        simulation.spawn(lambda topic=topic: producer.send(topic, b"1"))
        for topic in ("orders", "orders", "others")
    )
    simulation.sleep(7)
    shown = producer.explain()
    assert "Nothing waits" not in shown
    assert "Calls of send() waiting for the metadata of topic 'orders': 2, the longest for 7.0 s." in shown
    assert "Calls of send() waiting for the metadata of topic 'others': 1, the longest for 7.0 s." in shown
    assert len(producer.health()["senders_waiting_for_metadata"]) == 2
    cluster.controls.clear()
    for sending in (first, second, third):
        sending.result()
    producer.flush(10)
    assert producer.explain() == "Nothing waits: every record sent was written or has failed."
    assert producer.health()["senders_waiting_for_metadata"] == {}


def test_explain_names_the_longest_of_sends_that_began_and_end_at_different_times(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, max_block_ms=10_000)
    cluster.controls.hold(MetadataRequest)

    def send(topic: str) -> None:
        with pytest.raises(KafkaError):
            producer.send(topic, b"1")

    sending = []
    for _ in range(2):
        sending += [simulation.spawn(lambda topic=topic: send(topic)) for topic in ("orders", "others")]
        simulation.sleep(3)
    for topic in ("orders", "others"):
        waits = f"Calls of send() waiting for the metadata of topic {topic!r}: 2, the longest for 6.0 s."
        assert waits in producer.explain()
    for one in sending[:2]:
        one.result()
    for topic in ("orders", "others"):
        assert (
            f"Calls of send() waiting for the metadata of topic {topic!r}: 1, the longest"
            in producer.explain()
        )
    for one in sending[2:]:
        one.result()
    assert producer.health()["senders_waiting_for_metadata"] == {}


def test_explain_names_sends_that_wait_for_the_memory_of_an_expired_batch(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """Its last attempt is still on the wire, so its bytes cannot be given to others."""
    producer = simulation.producer(
        cluster,
        buffer_memory=20_000,
        batch_size=16_000,
        request_timeout_ms=10_000,
        delivery_timeout_ms=12_000,
        retry_backoff_ms=8_000,
        retry_backoff_max_ms=8_000,
    )
    producer.send("orders", b"1").result(10)
    cluster.controls.fail_next(ProduceRequest, NotLeaderOrFollower)
    expired = producer.send("orders", b"x" * 15_000)
    simulation.sleep(1)
    cluster.controls.hold(ProduceRequest)
    waiting = simulation.spawn(lambda: producer.send("orders", b"x" * 15_000))
    simulation.sleep(12)
    assert isinstance(expired.exception(0), DeliveryTimeout)
    assert producer.health()["records_waiting"] == 0
    shown = producer.explain()
    assert "Calls of send() waiting for buffer_memory: 1." in shown
    assert "Nothing waits" not in shown
    cluster.controls.clear()
    waiting.result()
    producer.flush(10)


def test_explain_reports_no_connected_broker_while_the_first_send_blocks(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, max_block_ms=60_000)
    for number in range(3):
        cluster.controls.kill_broker(number)
    sending = simulation.spawn(lambda: producer.send("orders", b"1"))
    simulation.sleep(5)
    shown = producer.explain()
    assert "Calls of send() waiting for the metadata of topic 'orders': 1," in shown
    assert "No broker is connected: " in shown
    for number in range(3):
        cluster.controls.restart_broker(number)
    sending.result()


@pytest.mark.gate
def test_explain_names_a_send_that_blocks_for_a_missing_partition(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, max_block_ms=10_000)
    producer.send("orders", b"1").result(10)
    sending = simulation.spawn(lambda: producer.send("orders", b"1", partition=9))
    simulation.sleep(4)
    shown = producer.explain()
    words = "Calls of send() waiting for partition 9 of topic 'orders' to be added: 1, the longest for 4.0 s"
    assert words in shown
    with pytest.raises(UnknownTopicOrPartition):
        sending.result()


def test_compression_is_measured(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, compression_type="zstd")
    producer.send_many("orders", [b"the same words " * 10] * 1000).result(10)
    assert producer.metrics()["compression-rate-avg"] < 0.1


def test_a_throttle_is_in_milliseconds(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    cluster.controls.throttle(None, ProduceRequest, 3.0, times=1)
    producer.send("orders", b"1").result(10)
    assert producer.metrics()["produce-throttle-time-max"] == 3000


def test_waits_of_callers_are_timed(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, buffer_memory=20_000, max_block_ms=2000, batch_size=16_000)
    cluster.controls.delay(MetadataRequest, 0.5, times=1)
    producer.send("orders", b"1").result(10)
    assert producer.metrics()["metadata-wait-time-ns-total"] >= 5e8
    cluster.controls.hold(ProduceRequest)
    producer.send("orders", b"x" * 15_000)
    with pytest.raises(BufferExhausted):
        producer.send("orders", b"x" * 15_000)
    metrics = producer.metrics()
    assert metrics["buffer-exhausted-total"] == 1
    assert 1.9e9 < metrics["bufferpool-wait-time-ns-total"] < 2.5e9
    with pytest.raises(KafkaTimeoutError):
        producer.flush(1)
    assert 0.9e9 < producer.metrics()["flush-time-ns-total"] < 1.5e9
    cluster.controls.clear()
    producer.flush(10)


def test_records_sent_again_are_counted(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    cluster.controls.fail_next(ProduceRequest, NotLeaderOrFollower)
    producer.send_many("orders", [b"x" * 100] * 1000).result(10)
    assert producer.metrics()["record-retry-total"] == 1000


def test_transactions_are_timed(simulation: Simulation) -> None:
    producer = a_producer(simulation, a_cluster(simulation, 2))
    with producer.transaction():
        producer.send("orders", b"1")
    metrics = producer.metrics()
    assert metrics["txn-init-time-ns-total"] > 0
    assert metrics["txn-commit-time-ns-total"] > 0
    assert metrics["txn-abort-time-ns-total"] == 0


@pytest.mark.gate
def test_rates_are_those_of_the_last_minute(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)

    def rate() -> float:
        return producer.metrics()["record-send-rate"]

    assert rate() == 0
    for _ in range(90):  # ten a second, for longer than the window
        producer.send_many("orders", [b"v"] * 10)
        producer.flush()
        simulation.run_for(1)
    assert rate() == pytest.approx(10, rel=0.05)
    simulation.run_for(29)
    assert 0 < rate() < 10, "what was sent before is still in it"
    simulation.run_for(61)
    assert rate() == 0
    producer.send_many("orders", [b"v"] * 300)
    producer.flush()
    assert rate() == pytest.approx(10, rel=0.05), "as if half a minute of nothing had gone before"


@pytest.mark.gate
def test_the_share_of_time_that_sends_wait_for_memory(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, buffer_memory=40_000)
    producer.send("orders", b"first").result(10)
    simulation.run_for(60)
    cluster.controls.hold("Produce")
    producer.send("orders", b"x" * 30_000)
    waiting = simulation.spawn(lambda: producer.send("orders", b"x" * 30_000))
    simulation.run_for(15)
    cluster.controls.clear()
    waiting.result()
    producer.flush(timeout=10)
    assert producer.metrics()["bufferpool-wait-ratio"] == pytest.approx(
        15 / 45, rel=0.1
    )  # a window and a half


def test_health_counts_records_and_batches_by_partition(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, linger_ms=60_000, delivery_timeout_ms=120_000)
    assert producer.health()["partitions"] == {}
    for partition in (0, 0, 1):
        producer.send("spread", b"x" * 100, partition=partition)
    producer.flush(timeout=10)
    producer.send("spread", b"x", partition=2)
    simulation.run_for(0.1)
    shown = producer.health()["partitions"]
    assert {
        name: (one["records"], one["batches"], one["batches_waiting"]) for name, one in shown.items()
    } == {
        "spread-0": (2, 1, 0),
        "spread-1": (1, 1, 0),
        "spread-2": (0, 0, 1),
    }
    assert 200 < shown["spread-0"]["bytes"] < 400


def test_health_names_the_library_of_each_codec(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster)
    assert producer.health()["codec_libraries"] == {
        name: libraries.library(name).package for name in ("gzip", "snappy", "lz4", "zstd")
    }
    for name, packages in libraries.CANDIDATES.items():
        for package in {*packages} & {"lz4", "python-snappy", "zstandard", "cramjam"}:
            with using(name, package):
                assert producer.health()["codec_libraries"][name] == package


@pytest.mark.gate
@pytest.mark.parametrize(("hot", "is_listed"), rest_in_gate([(90, True), (40, False)]))
def test_explain_names_a_partition_that_takes_much_more_than_its_share(
    simulation: Simulation, cluster: KafkaCluster, hot: int, is_listed: bool
) -> None:
    producer = simulation.producer(cluster, batch_size=0, linger_ms=0)
    for number in range(200):
        producer.send("spread", b"v", partition=3 if number % 100 < hot else number % 6)
    producer.flush(timeout=30)
    words = "spread-3 took "
    assert (words in producer.explain()) == is_listed
