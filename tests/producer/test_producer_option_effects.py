"""Every option of the producer does something that its default does not, seen by the brokers or in time."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import (
    KafkaError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
)
from pykafka2.producer.options import PRODUCER_OPTIONS
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.gate import rest_in_gate
from tests.shown_options import SHARED_SHOWN_BY, assert_shown, connections_to

HERE = "tests/producer/test_producer_option_effects.py"
IN_TIME = "tests/producer/test_producer.py"
STICKY = "tests/producer/partitioning/test_sticky.py"
RACK = "test_producer_sends_to_its_rack_and_elsewhere_while_that_has_no_leader"
NAMED = "tests/producer/partitioning/test_partitioners.py"

SHOWN_BY: dict[str, tuple[str, str]] = {
    "acks": (HERE, "test_acks"),
    "allow_auto_create_topics": (HERE, "test_allow_auto_create_topics"),
    "batch_size": (HERE, "test_batch_size"),
    "buffer_memory": (IN_TIME, "test_a_full_buffer_raises_after_max_block_ms_and_loses_no_memory"),
    "bulk_batch_size": (
        "tests/producer/bulk/test_send_many.py",
        "test_column_is_sent_in_batches_of_bulk_batch_size",
    ),
    "client_id": (HERE, "test_client_id"),
    "compression_gzip_level": (HERE, "test_compression_levels"),
    "compression_lz4_level": (HERE, "test_compression_levels"),
    "compression_type": (IN_TIME, "test_every_codec_arrives"),
    "compression_zstd_level": (HERE, "test_compression_levels"),
    "connections_max_idle_ms": (HERE, "test_connections_max_idle_ms"),
    "delivery_timeout_ms": (
        IN_TIME,
        "test_delivery_timeout_fails_the_batch_and_warns_that_it_may_be_in_the_log",
    ),
    "enable_idempotence": (HERE, "test_enable_idempotence"),
    "interceptors": (IN_TIME, "test_interceptors_see_records_and_outcomes"),
    "key_serializer": (IN_TIME, "test_serializers_make_the_bytes"),
    "linger_ms": (IN_TIME, "test_a_batch_lingers_for_company"),
    "max_block_ms": (IN_TIME, "test_no_broker_raises_within_max_block_ms"),
    "max_in_flight_requests_per_connection": (HERE, "test_max_in_flight_requests_per_connection"),
    "max_request_size": (HERE, "test_max_request_size"),
    "metadata_max_age_ms": (HERE, "test_metadata_max_age_ms"),
    "metadata_max_idle_ms": (HERE, "test_metadata_max_idle_ms"),
    "partitioner": (NAMED, "test_a_name_gives_its_strategy"),
    "partitioner_adaptive_partitioning_enable": (
        STICKY,
        "test_a_slow_broker_gets_fewer_records_by_default_only",
    ),
    "partitioner_availability_timeout_ms": (
        STICKY,
        "test_a_broker_that_stands_still_is_avoided_after_the_availability_timeout",
    ),
    "partitioner_rack_aware": (STICKY, RACK),
    "client_rack": (STICKY, RACK),
    "partitioner_ignore_keys": (STICKY, "test_partitioner_ignore_keys_spreads_records_with_a_key"),
    "receive_message_max_bytes": (HERE, "test_receive_message_max_bytes"),
    "reconnect_backoff_max_ms": (HERE, "test_reconnect_backoff"),
    "reconnect_backoff_ms": (HERE, "test_reconnect_backoff"),
    "request_timeout_ms": (HERE, "test_request_timeout_ms"),
    "retries": (IN_TIME, "test_retries_are_counted"),
    "retry_backoff_max_ms": (HERE, "test_retry_backoff"),
    "retry_backoff_ms": (HERE, "test_retry_backoff"),
    **SHARED_SHOWN_BY,
    "socket_connection_setup_timeout_max_ms": (HERE, "test_socket_connection_setup_timeout"),
    "socket_connection_setup_timeout_ms": (HERE, "test_socket_connection_setup_timeout"),
    "transaction_timeout_ms": (HERE, "test_transaction_timeout_ms"),
    "transactional_id": (HERE, "test_transaction_timeout_ms"),
    "value_serializer": (IN_TIME, "test_serializers_make_the_bytes"),
}


def test_every_option_is_shown_by_a_test_that_there_is() -> None:
    assert_shown(SHOWN_BY, [option.name for option in PRODUCER_OPTIONS.options.values()])


def batches(cluster: KafkaCluster, topic: str = "orders") -> list[Any]:
    return list(cluster.log(topic, 0).batches())


def link_failures(producer: KafkaProducer) -> int:
    return producer._core.client.nodes.failures


@pytest.mark.parametrize(("acks", "expected"), [(0, 0), (1, 1), ("all", -1)])
def test_acks(simulation: Simulation, cluster: KafkaCluster, acks: int | str, expected: int) -> None:
    producer = simulation.producer(cluster, acks=acks)
    producer.send("orders", b"v").result(10)
    simulation.sleep(0.1)
    [request] = cluster.history.requests(ProduceRequest)
    assert request.acks == expected


@pytest.mark.parametrize("wanted", [True, False])
def test_allow_auto_create_topics(simulation: Simulation, cluster: KafkaCluster, wanted: bool) -> None:
    producer = simulation.producer(cluster, allow_auto_create_topics=wanted, max_block_ms=1000)
    with contextlib.suppress(KafkaError):  # an illegal name is not created, requested or not
        producer.send("not there yet", b"v")
    assert {request.allow_auto_topic_creation for request in cluster.history.requests(MetadataRequest)} == {
        wanted
    }


@pytest.mark.parametrize(("batch_size", "expected"), [(16_384, 1), (1000, 4), (0, 12)])
def test_batch_size(simulation: Simulation, cluster: KafkaCluster, batch_size: int, expected: int) -> None:
    producer = simulation.producer(cluster, batch_size=batch_size, linger_ms=100)
    for _ in range(12):
        producer.send("orders", b"x" * 250)
    producer.flush(10)
    assert len(batches(cluster)) == expected


def test_client_id(simulation: Simulation, cluster: KafkaCluster) -> None:
    simulation.producer(cluster, client_id="till-7").send("orders", b"v").result(10)
    assert {entry.client_id for entry in cluster.history.entries("Produce")} == {"till-7"}


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 12), ("zstd", -50, 19)])
def test_compression_levels(
    simulation: Simulation, cluster: KafkaCluster, codec: str, low: int, high: int
) -> None:
    # KIP-390.
    sizes = []
    for level in (low, high):
        producer = simulation.producer(
            cluster, compression_type=codec, linger_ms=50, **{f"compression_{codec}_level": level}
        )
        for number in range(400):
            producer.send("orders", b"order %d of %d" % (number * 7919 % 1000, number % 13))
        producer.flush(10)
        sizes.append(sum(len(bytes(data.records or b"")) for data in sent_data(cluster)))
        cluster.history.clear()
    assert sizes[1] < sizes[0] * 0.95


def sent_data(cluster: KafkaCluster) -> list[Any]:
    requests = cluster.history.requests(ProduceRequest)
    return [data for request in requests for topic in request.topic_data for data in topic.partition_data]


@pytest.mark.parametrize(("idle_ms", "connections"), [(540_000, 1), (1000, 2)])
def test_connections_max_idle_ms(
    simulation: Simulation, cluster: KafkaCluster, idle_ms: float, connections: int
) -> None:
    producer = simulation.producer(cluster, connections_max_idle_ms=idle_ms)
    producer.send("orders", b"v").result(10)
    leader = cluster.partition("orders", 0).leader
    before = len(connections_to(cluster, leader))
    simulation.sleep(3)
    producer.send("orders", b"v").result(10)
    assert len(connections_to(cluster, leader)) - before + 1 == connections


@pytest.mark.parametrize("wanted", [True, False])
def test_enable_idempotence(simulation: Simulation, cluster: KafkaCluster, wanted: bool) -> None:
    simulation.producer(cluster, enable_idempotence=wanted).send("orders", b"v").result(10)
    assert (cluster.history.count("InitProducerId") == 1) == wanted
    assert (batches(cluster)[0].producer_id >= 0) == wanted


@pytest.mark.parametrize("most", [1, 3, 5])
def test_max_in_flight_requests_per_connection(
    simulation: Simulation, cluster: KafkaCluster, most: int
) -> None:
    producer = simulation.producer(
        cluster, max_in_flight_requests_per_connection=most, batch_size=0, linger_ms=0
    )
    producer.send("orders", b"first").result(10)
    cluster.controls.pause_followers()  # so that acknowledgements wait
    for _ in range(10):
        producer.send("orders", b"v")
    simulation.sleep(0.1)
    cluster.controls.resume_followers()
    producer.flush(10)
    assert cluster.history.in_flight_max("Produce") == most


def test_max_request_size(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"spread": 6})
    requests = []
    for size in (1_048_576, 2000):
        producer = simulation.producer(cluster, max_request_size=size, linger_ms=20)
        producer.partitions_for("spread")
        for partition in range(6):
            producer.send("spread", b"x" * 800, partition=partition)
        producer.flush(10)
        requests.append(cluster.history.count("Produce"))
        cluster.history.clear()
    assert requests[0] < 3 <= requests[1]


@pytest.mark.parametrize(("age_ms", "requests"), [(300_000, 1), (1000, 4)])
def test_metadata_max_age_ms(
    simulation: Simulation, cluster: KafkaCluster, age_ms: float, requests: int
) -> None:
    producer = simulation.producer(cluster, metadata_max_age_ms=age_ms)
    producer.send("orders", b"v").result(10)
    simulation.sleep(3.5)
    assert cluster.history.count("Metadata") == requests


@pytest.mark.parametrize(("idle_ms", "is_still_requested"), [(300_000, True), (5000, False)])
def test_metadata_max_idle_ms(
    simulation: Simulation, cluster: KafkaCluster, idle_ms: float, is_still_requested: bool
) -> None:
    producer = simulation.producer(cluster, metadata_max_idle_ms=idle_ms, metadata_max_age_ms=4000)
    producer.send("spread", b"v").result(10)
    for _ in range(6):
        producer.send("orders", b"v").result(10)
        simulation.sleep(2)
    last = cluster.history.requests(MetadataRequest)[-1]
    assert ("spread" in {topic.name for topic in last.topics or ()}) == is_still_requested


@pytest.mark.gate
@pytest.mark.parametrize("by_column", [False, True])
def test_a_topic_in_use_is_not_forgotten_between(
    simulation: Simulation, cluster: KafkaCluster, by_column: bool
) -> None:
    """Or every metadata_max_idle_ms a send would wait for metadata that were known."""
    producer = simulation.producer(cluster, metadata_max_idle_ms=5000, batch_size=100)
    for _ in range(8):
        if by_column:
            producer.send_many("orders", [b"x" * 100] * 10).result(10)
        else:
            producer.send("orders", b"v").result(10)
        simulation.sleep(2)
    assert cluster.history.count("Metadata") == 1


def test_receive_message_max_bytes(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"wide": 60})
    assert len(simulation.producer(cluster).partitions_for("wide")) == 60
    producer = simulation.producer(cluster, receive_message_max_bytes=1024, max_block_ms=1000)
    with pytest.raises(KafkaError, match="1024"):
        producer.partitions_for("wide")


@pytest.mark.parametrize(
    ("backoff_ms", "backoff_max_ms", "least", "most"),
    rest_in_gate([(50, 1000, 32, 80), (1000, 1000, 6, 30), (50, 50, 200, 700)]),
)
def test_reconnect_backoff(
    simulation: Simulation,
    cluster: KafkaCluster,
    backoff_ms: float,
    backoff_max_ms: float,
    least: int,
    most: int,
) -> None:
    producer = simulation.producer(
        cluster, reconnect_backoff_ms=backoff_ms, reconnect_backoff_max_ms=backoff_max_ms
    )
    producer.send("orders", b"v").result(10)
    for broker in range(3):
        cluster.controls.crash_broker(broker)
    before = link_failures(producer)
    producer.send("orders", b"v")
    simulation.sleep(4)
    assert least <= link_failures(producer) - before <= most


@pytest.mark.gate
@pytest.mark.parametrize(("timeout_ms", "attempts"), [(30_000, 1), (1000, 3)])
def test_request_timeout_ms(
    simulation: Simulation, cluster: KafkaCluster, timeout_ms: float, attempts: int
) -> None:
    producer = simulation.producer(cluster, request_timeout_ms=timeout_ms)
    producer.send("orders", b"v").result(10)
    rule = cluster.controls.rule(api=ProduceRequest, then="swallow")
    delivery = producer.send("orders", b"w")
    simulation.sleep(3)
    assert rule.fired == attempts
    cluster.controls.clear()
    delivery.result(60)


@pytest.mark.parametrize(
    ("backoff_ms", "backoff_max_ms", "seconds"), [(100, 1000, 0.7), (1000, 1000, 3.0), (1000, 9000, 7.0)]
)
def test_retry_backoff(
    simulation: Simulation,
    cluster: KafkaCluster,
    backoff_ms: float,
    backoff_max_ms: float,
    seconds: float,
) -> None:
    # KIP-580: doubled each time, up to the maximum, 20 % more or less.
    producer = simulation.producer(cluster, retry_backoff_ms=backoff_ms, retry_backoff_max_ms=backoff_max_ms)
    producer.send("orders", b"v").result(10)
    cluster.controls.fail_next(ProduceRequest, NotEnoughReplicas, times=3)
    started = simulation.now
    producer.send("orders", b"w").result(60)
    assert seconds * 0.8 <= simulation.now - started <= seconds * 1.2 + 0.1


@pytest.mark.parametrize(
    ("timeout_ms", "maximum_ms", "least", "most"), [(10_000, 30_000, 0, 2), (500, 500, 4, 60)]
)
def test_socket_connection_setup_timeout(
    simulation: Simulation,
    cluster: KafkaCluster,
    timeout_ms: float,
    maximum_ms: float,
    least: int,
    most: int,
) -> None:
    producer = simulation.producer(
        cluster,
        socket_connection_setup_timeout_ms=timeout_ms,
        socket_connection_setup_timeout_max_ms=maximum_ms,
        max_block_ms=5000,
    )
    cluster.controls.rule(api="ApiVersions", then="swallow")
    with pytest.raises(KafkaError):
        producer.send("orders", b"v")
    assert least <= link_failures(producer) <= most
    cluster.controls.clear()


@pytest.mark.slow
def test_transaction_timeout_ms(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, transactional_id="till", transaction_timeout_ms=12_345)
    producer.init_transactions()
    requests = cluster.history.requests("InitProducerId")
    assert {(one.transactional_id, one.transaction_timeout_ms) for one in requests} == {("till", 12_345)}


# ------------------------------------------------------------------ what the sender does without an option


def test_throttled_broker_gets_no_request_for_the_throttle_time(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, client_id="me")
    producer.send("orders", b"v").result(10)
    cluster.controls.throttle("me", ProduceRequest, 2.0, times=1)
    producer.send("orders", b"w").result(10)
    started = simulation.now
    delivery = producer.send("orders", b"x")
    simulation.sleep(1)
    assert producer.metrics()["requests-in-flight"] == 0  # not sent, let alone read
    delivery.result(10)
    assert 1.9 < simulation.now - started < 2.5
    assert producer.metrics()["produce-throttle-time-max"] == 2000  # milliseconds, as in Java


def test_a_record_that_acks_0_sent_to_the_wrong_broker_is_lost_and_the_next_is_not(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, acks=0)
    producer.send("orders", b"0").result(10)
    simulation.sleep(0.1)
    old = cluster.partition("orders", 0)
    cluster.controls.move_leader(("orders", 0), next(node for node in old.isr if node != old.leader))
    # The broker can only close the connection; that makes the producer look up the leader.
    assert producer.send("orders", b"lost").result(10).offset == -1
    simulation.sleep(1)
    producer.send("orders", b"1").result(10)
    simulation.sleep(1)
    assert cluster.log("orders", 0).values() == [b"0", b"1"]


def test_a_leader_named_in_the_answer_is_sent_to_at_once(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    # KIP-951: no back-off and no question for metadata in between.
    producer = simulation.producer(cluster, retry_backoff_ms=5000, retry_backoff_max_ms=5000)
    producer.send("orders", b"0").result(10)
    old = cluster.partition("orders", 0)
    cluster.controls.move_leader(("orders", 0), next(node for node in old.isr if node != old.leader))
    simulation.sleep(0.5)
    requests = cluster.history.count("Metadata")
    started = simulation.now
    assert producer.send("orders", b"1").result(10).offset == 1
    assert simulation.now - started < 1
    assert cluster.history.count("Metadata") == requests


@pytest.mark.gate
def test_a_refusal_without_a_hint_is_followed_by_a_question_and_a_pause(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, retry_backoff_ms=2000, retry_backoff_max_ms=2000)
    producer.send("orders", b"0").result(10)
    cluster.controls.fail_next(ProduceRequest, NotLeaderOrFollower)
    requests = cluster.history.count("Metadata")
    started = simulation.now
    assert producer.send("orders", b"1").result(10).offset == 1
    assert simulation.now - started > 1.5
    assert cluster.history.count("Metadata") > requests
