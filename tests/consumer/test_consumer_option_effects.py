"""Every option of the consumer does something that its default does not, seen by the brokers or in time."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import KafkaConsumer
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.errors import KafkaError, LeaderNotAvailable, UnknownTopicOrPartition
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.offsets import ListOffsetsRequest
from pykafka2.testing import KafkaCluster, Simulation
from pykafka2.types import TopicPartition
from tests.gate import rest_in_gate
from tests.internal_topics import FEW_PARTITIONS
from tests.shown_options import SHARED_SHOWN_BY, assert_shown, connections_to

HERE = "tests/consumer/test_consumer_option_effects.py"
CONSUMER = "tests/consumer/test_consumer.py"
FAILURES = "tests/consumer/poll/test_read_errors.py"
MEMBER = "tests/consumer/group/test_member_options.py"
AUTOMATIC = "tests/consumer/commit/test_automatic_commits.py"

SHOWN_BY: dict[str, tuple[str, str]] = {
    "allow_auto_create_topics": (HERE, "test_allow_auto_create_topics"),
    "auto_commit_interval_ms": (AUTOMATIC, "test_automatic_commits_are_at_least_the_interval_apart"),
    "auto_offset_reset": (CONSUMER, "test_an_offset_that_is_not_in_the_log"),
    "check_crcs": (FAILURES, "test_damaged_value_is_returned_without_check_crcs"),
    "client_id": (HERE, "test_client_id"),
    "client_rack": (
        "tests/consumer/fetch/test_nearest_replica.py",
        "test_follower_is_read_until_the_leader_redirects_again",
    ),
    "connections_max_idle_ms": (HERE, "test_connections_max_idle_ms"),
    "consumer_timeout_ms": (CONSUMER, "test_iteration_hands_out_one_by_one_and_ends_when_nothing_comes"),
    "default_api_timeout_ms": (HERE, "test_default_api_timeout_ms"),
    "default_offset_commit_callback": (
        "tests/consumer/commit/test_async_commits.py",
        "test_default_offset_commit_callback_is_called",
    ),
    "enable_auto_commit": (AUTOMATIC, "test_switched_off_nothing_is_committed"),
    "enable_auto_offset_store": (AUTOMATIC, "test_only_marks_are_committed"),
    "enable_incremental_fetch_sessions": (
        "tests/consumer/fetch/test_fetch_sessions.py",
        "test_fetch_sessions_can_be_disabled",
    ),
    "exclude_internal_topics": (HERE, "test_exclude_internal_topics"),
    "fetch_max_bytes": (HERE, "test_fetch_max_bytes"),
    "fetch_max_wait_ms": (HERE, "test_fetch_min_bytes_and_fetch_max_wait_ms"),
    "fetch_min_bytes": (HERE, "test_fetch_min_bytes_and_fetch_max_wait_ms"),
    "group_id": (
        "tests/consumer/group/classic/test_members.py",
        "test_members_share_the_partitions_as_they_come_and_go",
    ),
    "group_instance_id": (
        "tests/consumer/group/classic/test_cooperative_rebalance.py",
        "test_a_static_member_restarts_without_a_rebalance",
    ),
    "group_protocol": (
        "tests/consumer/group/kip848/test_members.py",
        "test_a_new_member_asks_in_this_order",
    ),
    "group_remote_assignor": (
        "tests/consumer/group/kip848/test_members.py",
        "test_the_assignor_is_the_brokers_and_chosen_by_name",
    ),
    "heartbeat_interval_ms": (MEMBER, "test_heartbeats_follow_heartbeat_interval_ms"),
    "interceptors": (
        "tests/consumer/poll/test_on_consume_interceptors.py",
        "test_interceptors_see_every_record_and_decide_which_are_returned",
    ),
    "isolation_level": (FAILURES, "test_read_committed_hides_aborted_records"),
    "key_deserializer": (FAILURES, "test_deserializers_see_topic_and_headers_and_none_stays_none"),
    "max_decompressed_bytes": (FAILURES, "test_a_batch_that_decompresses_to_more_than_allowed_is_refused"),
    "max_partition_fetch_bytes": (HERE, "test_max_partition_fetch_bytes"),
    "max_poll_interval_ms": (
        "tests/consumer/group/classic/test_members.py",
        "test_member_past_max_poll_interval_leaves_and_its_commit_names_the_gap",
    ),
    "max_poll_records": (CONSUMER, "test_max_poll_records_makes_many_polls_of_one_fetch"),
    "metadata_max_age_ms": (HERE, "test_metadata_max_age_ms"),
    "on_bad_record": (
        "tests/consumer/poll/test_bad_records.py",
        "test_skip_passes_over_undeserializable_records_and_logs_them",
    ),
    "partition_assignment_strategy": (MEMBER, "test_join_request_has_the_member_options"),
    "queued_max_bytes": (CONSUMER, "test_fetching_ahead_stays_within_its_budget"),
    "receive_message_max_bytes": (HERE, "test_receive_message_max_bytes"),
    "reconnect_backoff_max_ms": (HERE, "test_reconnect_backoff"),
    "reconnect_backoff_ms": (HERE, "test_reconnect_backoff"),
    "request_timeout_ms": (HERE, "test_request_timeout_ms"),
    "retry_backoff_max_ms": (HERE, "test_retry_backoff"),
    "retry_backoff_ms": (HERE, "test_retry_backoff"),
    **SHARED_SHOWN_BY,
    "session_timeout_ms": (MEMBER, "test_join_request_has_the_member_options"),
    "socket_connection_setup_timeout_max_ms": (HERE, "test_socket_connection_setup_timeout"),
    "socket_connection_setup_timeout_ms": (HERE, "test_socket_connection_setup_timeout"),
    "value_deserializer": (FAILURES, "test_deserializers_see_topic_and_headers_and_none_stays_none"),
}

ORDERS_0 = TopicPartition("orders", 0)


def test_every_option_is_shown_by_a_test_that_there_is() -> None:
    assert_shown(SHOWN_BY, [option.name for option in CONSUMER_OPTIONS.options.values()])


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    """Three brokers; `orders` has one partition with three batches of 1 kB, `spread` six with one each."""
    cluster = simulation.cluster(brokers=3, topics={"orders": 1, "spread": 6}, config=FEW_PARTITIONS)
    with simulation.producer(cluster, batch_size=0, linger_ms=0) as producer:
        for topic, partitions in (("orders", [0, 0, 0]), ("spread", range(6))):
            for number in partitions:
                producer.send(topic, b"x" * 1000, partition=number).result(10)
    cluster.history.clear()
    return cluster


def consumer_of(simulation: Simulation, cluster: KafkaCluster, *topics: str, **options: Any) -> KafkaConsumer:
    return simulation.consumer(cluster, *topics, **{"auto_offset_reset": "earliest", **options})


# ---------------------------------------------------------------------------------------- fetching


@pytest.mark.parametrize(
    ("min_bytes", "wait_ms", "seconds"), [(1, 500, 0.1), (100_000, 500, 0.5), (100_000, 3000, 3.0)]
)
def test_fetch_min_bytes_and_fetch_max_wait_ms(
    simulation: Simulation, cluster: KafkaCluster, min_bytes: int, wait_ms: float, seconds: float
) -> None:
    consumer = consumer_of(simulation, cluster, fetch_min_bytes=min_bytes, fetch_max_wait_ms=wait_ms)
    consumer.assign([ORDERS_0])
    assert consumer.position(ORDERS_0) == 0
    began = simulation.now
    assert consumer.poll(10_000)
    assert seconds * 0.9 - 0.1 <= simulation.now - began <= seconds + 0.1


@pytest.mark.parametrize(("max_bytes", "fetches"), [(52_428_800, 1), (1500, 3)])
def test_fetch_max_bytes(simulation: Simulation, cluster: KafkaCluster, max_bytes: int, fetches: int) -> None:
    assert fetches_that_bring(simulation, cluster, fetch_max_bytes=max_bytes) == fetches
    requests = cluster.history.requests(FetchRequest)
    assert {request.max_bytes for request in requests} == {max_bytes}


@pytest.mark.parametrize(("max_bytes", "fetches"), [(1_048_576, 1), (1500, 3)])
def test_max_partition_fetch_bytes(
    simulation: Simulation, cluster: KafkaCluster, max_bytes: int, fetches: int
) -> None:
    assert fetches_that_bring(simulation, cluster, max_partition_fetch_bytes=max_bytes) == fetches


def fetches_that_bring(simulation: Simulation, cluster: KafkaCluster, **options: Any) -> int:
    """How many fetches it takes to read the three batches of `orders`."""
    consumer = consumer_of(simulation, cluster, **options)
    consumer.assign([ORDERS_0])
    read = 0
    while read < 3:
        read += sum(map(len, consumer.poll(5000).values()))
    return len({fetch_offset for fetch_offset in requested_offsets(cluster) if fetch_offset < 3})


def requested_offsets(cluster: KafkaCluster) -> list[int]:
    return [
        partition.fetch_offset
        for request in cluster.history.requests(FetchRequest)
        for topic in request.topics
        for partition in topic.partitions
    ]


# ---------------------------------------------------------------------------------------- topics


@pytest.mark.parametrize("wanted", [True, False])
def test_allow_auto_create_topics(simulation: Simulation, cluster: KafkaCluster, wanted: bool) -> None:
    consumer = consumer_of(simulation, cluster, "notthereyet", allow_auto_create_topics=wanted)
    consumer.poll(3000)
    requests = cluster.history.requests(MetadataRequest)
    assert {request.allow_auto_topic_creation for request in requests} == {wanted}
    assert ("notthereyet" in consumer.topics()) == wanted


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("excluded", [True, False])
def test_exclude_internal_topics(simulation: Simulation, cluster: KafkaCluster, excluded: bool) -> None:
    with consumer_of(simulation, cluster, "orders", group_id="makes-the-topic-of-offsets") as member:
        member.poll(5000)
    consumer = consumer_of(simulation, cluster, exclude_internal_topics=excluded)
    consumer.subscribe(pattern="(orders|__consumer_offsets)$")
    consumer.poll(3000)
    internal = {"__consumer_offsets"} if not excluded else set()
    assert consumer.subscription() == {"orders"} | internal
    assert {name for name in consumer.topics() if name.startswith("__")} == internal


@pytest.mark.gate
@pytest.mark.parametrize(("age_ms", "requests"), [(300_000, 1), (1000, 4)])
def test_metadata_max_age_ms(
    simulation: Simulation, cluster: KafkaCluster, age_ms: float, requests: int
) -> None:
    consumer = consumer_of(simulation, cluster, metadata_max_age_ms=age_ms)
    consumer.assign([ORDERS_0])
    consumer.poll(100)
    simulation.sleep(3.5)
    assert cluster.history.count("Metadata") == requests


# ---------------------------------------------------------------------------------------- requests


def test_client_id(simulation: Simulation, cluster: KafkaCluster) -> None:
    consumer_of(simulation, cluster, "orders", client_id="till-7").poll(1000)
    assert {entry.client_id for entry in cluster.history.entries("Fetch")} == {"till-7"}


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("timeout_ms", [60_000, 2000])
def test_default_api_timeout_ms(simulation: Simulation, cluster: KafkaCluster, timeout_ms: float) -> None:
    consumer = consumer_of(simulation, cluster, default_api_timeout_ms=timeout_ms)
    began = simulation.now
    with pytest.raises(UnknownTopicOrPartition):
        consumer.beginning_offsets([TopicPartition("orders", 77)])
    assert simulation.now - began == pytest.approx(timeout_ms / 1000, abs=0.2)


@pytest.mark.gate
@pytest.mark.parametrize(("timeout_ms", "attempts"), [(30_000, 1), (1000, 3)])
def test_request_timeout_ms(
    simulation: Simulation, cluster: KafkaCluster, timeout_ms: float, attempts: int
) -> None:
    consumer = consumer_of(simulation, cluster, request_timeout_ms=timeout_ms, default_api_timeout_ms=3500)
    consumer.topics()
    rule = cluster.controls.rule(api=ListOffsetsRequest, then="swallow")
    with pytest.raises(KafkaError):
        consumer.beginning_offsets([ORDERS_0])
    assert rule.fired == attempts


@pytest.mark.gate
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
    consumer = consumer_of(
        simulation, cluster, retry_backoff_ms=backoff_ms, retry_backoff_max_ms=backoff_max_ms
    )
    consumer.beginning_offsets([ORDERS_0])
    cluster.controls.fail_next(ListOffsetsRequest, LeaderNotAvailable, times=3)
    began = simulation.now
    consumer.beginning_offsets([ORDERS_0])
    assert seconds * 0.8 <= simulation.now - began <= seconds * 1.2 + 0.1


# ---------------------------------------------------------------------------------------- connections


@pytest.mark.parametrize(("idle_ms", "connections"), [(540_000, 1), (1000, 2)])
def test_connections_max_idle_ms(
    simulation: Simulation, cluster: KafkaCluster, idle_ms: float, connections: int
) -> None:
    consumer = consumer_of(simulation, cluster, connections_max_idle_ms=idle_ms)
    consumer.beginning_offsets([ORDERS_0])
    leader = cluster.partition("orders", 0).leader
    before = len(connections_to(cluster, leader))
    simulation.sleep(3)
    consumer.beginning_offsets([ORDERS_0])
    assert len(connections_to(cluster, leader)) - before + 1 == connections


def test_receive_message_max_bytes(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"wide": 60})
    assert len(consumer_of(simulation, cluster).partitions_for_topic("wide") or ()) == 60
    consumer = consumer_of(simulation, cluster, receive_message_max_bytes=1024, default_api_timeout_ms=1000)
    with pytest.raises(KafkaError, match="1024"):
        consumer.partitions_for_topic("wide")


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("backoff_ms", "backoff_max_ms", "least", "most"),
    rest_in_gate([(50, 1000, 30, 80), (1000, 1000, 9, 24), (50, 50, 100, 700)]),
)
def test_reconnect_backoff(
    simulation: Simulation,
    cluster: KafkaCluster,
    backoff_ms: float,
    backoff_max_ms: float,
    least: int,
    most: int,
) -> None:
    consumer = consumer_of(
        simulation,
        cluster,
        "orders",
        reconnect_backoff_ms=backoff_ms,
        reconnect_backoff_max_ms=backoff_max_ms,
    )
    consumer.poll(1000)
    for broker in range(3):
        cluster.controls.crash_broker(broker)
    before = link_failures(consumer)
    consumer.poll(4000)
    assert least <= link_failures(consumer) - before <= most


def link_failures(consumer: KafkaConsumer) -> int:
    return consumer._core.cluster.nodes.failures


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
    consumer = consumer_of(
        simulation,
        cluster,
        socket_connection_setup_timeout_ms=timeout_ms,
        socket_connection_setup_timeout_max_ms=maximum_ms,
        default_api_timeout_ms=5000,
    )
    cluster.controls.rule(api="ApiVersions", then="swallow")
    with pytest.raises(KafkaError):
        consumer.topics()
    assert least <= link_failures(consumer) <= most
