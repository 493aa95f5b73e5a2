"""Collectors and probes with hostile names, closed and forked clients, and brokers that hang."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from pykafka2 import KafkaAdminClient, KafkaProducer, KafkaShareConsumer, TopicPartition, aio
from pykafka2.contrib import prometheus
from pykafka2.contrib.probes import liveness, readiness
from pykafka2.contrib.prometheus import ClientCollector, ClusterCollector
from pykafka2.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    IllegalArgument,
    TopicAuthorizationFailed,
)
from pykafka2.testing import KafkaCluster, Simulation
from tests.admin.worlds import World
from tests.contrib.test_prometheus_clients import scraped
from tests.contrib.test_prometheus_cluster import values

pytestmark = [
    pytest.mark.gate,
    pytest.mark.kafka(brokers=2, topics={"orders": 2}, config={"group.initial.rebalance.delay.ms": 0}),
]
NOWHERE = "127.0.0.1:1"
NAMES = ['a "quoted" name', "back\\slash", 'x"} 1\nkafka_up 7', "ä€😀", "shop#2", " ", "{}", "a b"]


# ---------------------------------------------------------------------- clients


def test_any_client_id_is_one_label_value() -> None:
    clients = [KafkaProducer(bootstrap_servers=NOWHERE, client_id=name) for name in [*NAMES, "shop", "shop"]]
    samples = scraped(ClientCollector(*clients))
    for client in clients:
        client.close()
    names = [labels["client_id"] for labels, _ in samples["kafka_producer_record_send_total"]]
    assert names == [*NAMES, "shop", "shop#3"]  # shop#2 is the name of another client
    assert "kafka_up" not in samples


def test_metrics_without_a_value_are_not_exported() -> None:
    with KafkaProducer(bootstrap_servers=NOWHERE) as producer:
        (sizes,) = [row for row in producer.metric_rows() if row.name == "batch-size-avg"]
        samples = scraped(ClientCollector(producer))
    assert sizes.value != sizes.value  # nan: nothing was sent
    assert "kafka_producer_batch_size_avg" not in samples


def test_help_of_times_names_seconds() -> None:
    families = {family.name: family.documentation for family in ClientCollector().describe()}
    assert families["kafka_producer_flush_time_seconds"].endswith("Unit: seconds.")
    assert not [name for name, text in families.items() if "nanosecond" in text.lower()]


def test_closed_client_that_is_added_is_not_exported() -> None:
    closed = KafkaProducer(bootstrap_servers=NOWHERE, client_id="shop")
    closed.close()
    collector = ClientCollector(closed)
    assert scraped(collector) == {}
    with KafkaProducer(bootstrap_servers=NOWHERE, client_id="shop") as producer:
        collector.add(producer)
        samples = scraped(collector)
    assert samples["kafka_producer_record_send_total"] == [({"client_id": "shop"}, 0.0)]


def test_share_consumers_are_collected_and_probed() -> None:
    options: Any = {"bootstrap_servers": NOWHERE, "group_id": "s", "client_id": "share"}
    consumers = KafkaShareConsumer(**options), KafkaShareConsumer(**options)
    samples = scraped(ClientCollector(*consumers))
    assert liveness(*consumers) == []
    (reason, _) = readiness(*consumers)
    for consumer in consumers:
        consumer.close()
    assert reason.startswith("KafkaShareConsumer 'share' is not connected")
    assert liveness(*consumers) == ["KafkaShareConsumer 'share' is closed"] * 2
    assert [labels for labels, _ in samples["kafka_consumer_share_fetch_manager_fetch_total"]] == [
        {"client_id": "share"},
        {"client_id": "share#2"},
    ]


def test_probes_of_asyncio_clients_need_no_loop() -> None:
    async def program() -> tuple[Any, ...]:
        producer = aio.KafkaProducer(bootstrap_servers=NOWHERE, client_id="shop")
        consumer = aio.KafkaConsumer(bootstrap_servers=NOWHERE, client_id="billing")
        found = await asyncio.to_thread(readiness, producer, consumer)
        await producer.close()
        await consumer.close()
        return found, producer, consumer

    found, *clients = asyncio.run(program())
    assert [reason.partition(" is ")[0] for reason in found] == [
        "KafkaProducer 'shop'",
        "KafkaConsumer 'billing'",
    ]
    assert liveness(*clients) == ["KafkaProducer 'shop' is closed", "KafkaConsumer 'billing' is closed"]


FORKING = """
import os
from prometheus_client import CollectorRegistry, generate_latest
from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.contrib import prometheus
from pykafka2.contrib.probes import liveness, readiness
from pykafka2.contrib.prometheus import ClientCollector, ClusterCollector

options = {"bootstrap_servers": "127.0.0.1:1"}
clients = KafkaProducer(options), KafkaConsumer(options), KafkaAdminClient(options)
registry = CollectorRegistry()
collector = ClientCollector(*clients)
registry.register(collector)
registry.register(ClusterCollector(clients[2], timeout=0.1))
child = os.fork()
if child == 0:
    assert len(liveness(*clients)) == len(readiness(*clients)) == 3, liveness(*clients)
    assert "ForkedClientError" in liveness(*clients)[0]
    own = KafkaProducer(options)
    collector.add(own)
    page = generate_latest(registry).decode()
    assert "kafka_up 0.0" in page
    lines = [line for line in page.splitlines() if line.startswith("kafka_producer_record_send_total")]
    assert lines == ['kafka_producer_record_send_total{client_id="pykafka2-producer"} 0.0'], lines
    own.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0
assert liveness(*clients) == []
for client in clients:
    client.close()
"""


@pytest.mark.slow
def test_clients_of_the_parent_process_are_dropped_in_the_child_of_a_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------------- the cluster


@pytest.fixture
def admin(kafka_cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
        yield admin


def commit(admin: KafkaAdminClient, *groups: str) -> None:
    for group in groups:
        admin.alter_group_offsets(group, {TopicPartition("orders", 0): 0})


def test_one_pattern_can_be_a_text(admin: KafkaAdminClient) -> None:
    commit(admin, "billing", "audit")
    found = values("kafka_consumergroup_lag", ClusterCollector(admin, groups="bill*", topics="orders"))
    assert {group for group, *_ in found} == {"billing"}


def test_brokers_and_internal_topics_are_named(kafka_cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    commit(admin, "billing")
    collector = ClusterCollector(admin)
    expected = {(str(one.id), one.address): 1.0 for one in kafka_cluster.brokers}
    assert values("kafka_broker_info", collector) == expected
    assert ("__consumer_offsets",) in values("kafka_topic_partitions", collector)


@pytest.mark.slow
def test_lost_replica_is_shown_as_not_in_sync(kafka_cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    replicas = [one.replicas for one in admin.describe_topics(["orders"])["orders"].partitions]
    kafka_cluster.controls.crash_broker(1)
    kafka_cluster.wait_until(
        lambda: all(kafka_cluster.partition("orders", number).isr == (0,) for number in (0, 1)),
        timeout=30,
        what="an ISR without broker 1",
    )
    collector = ClusterCollector(admin, topics="orders")
    preferred = values("kafka_topic_partition_leader_is_preferred", collector)
    assert [preferred["orders", str(number)] for number in (0, 1)] == [ids[0] == 0 for ids in replicas]
    behind = values("kafka_topic_partition_under_replicated_partition", collector)
    assert set(behind.values()) == {1.0}


def test_offset_after_the_end_has_no_lag(admin: KafkaAdminClient) -> None:
    admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 5})
    assert values("kafka_consumergroup_lag", ClusterCollector(admin)) == {("billing", "orders", "0"): 0}


def test_offsets_of_other_topics_are_left_out(admin: KafkaAdminClient) -> None:
    commit(admin, "billing")
    collector = ClusterCollector(admin, topics="bills")
    assert values("kafka_consumergroup_current_offset", collector) == {}
    assert values("kafka_consumergroup_members", collector) == {("billing",): 0}


@pytest.mark.slow
def test_share_groups_are_neither_read_nor_errors(
    kafka_cluster: KafkaCluster, admin: KafkaAdminClient
) -> None:
    commit(admin, "billing")
    with KafkaShareConsumer(
        "orders", bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="share"
    ) as consumer:
        while not consumer.health()["group"]["assigned"]:
            consumer.poll(timeout_ms=100)
        samples = scraped(ClusterCollector(admin))
    assert samples["kafka_scrape_errors"] == [({}, 0.0)]
    assert samples["kafka_consumergroup_members"] == [({"consumergroup": "billing"}, 0.0)]


def test_brackets_in_patterns_stand_for_themselves(admin: KafkaAdminClient) -> None:
    commit(admin, "billing[eu]", "billinge")
    found = values("kafka_consumergroup_members", ClusterCollector(admin, groups=["billing[eu]"]))
    assert {group for (group,) in found} == {"billing[eu]"}


def test_any_group_name_is_one_label_value(admin: KafkaAdminClient) -> None:
    names = ['x"} 1\nkafka_up 7', "back\\slash", "ä😀", "a b", ".", "g" * 1_000]
    commit(admin, *names)
    collector = ClusterCollector(admin)
    assert {group for group, *_ in values("kafka_consumergroup_lag", collector)} == {*names}
    assert values("kafka_up", collector) == {(): 1}


@pytest.mark.slow
def test_many_groups_need_no_more_requests(kafka_cluster: KafkaCluster, admin: KafkaAdminClient) -> None:
    counts = []
    for number in (1, 60):
        commit(admin, *(f"g{one}" for one in range(number)))
        before = len(kafka_cluster.history.entries())
        assert len(values("kafka_consumergroup_lag", ClusterCollector(admin))) == number
        counts.append(len(kafka_cluster.history.entries()) - before)
    assert counts[1] <= counts[0] + 4  # the second broker coordinates some of the groups


def test_invalid_isolation_level_is_rejected_at_once(admin: KafkaAdminClient) -> None:
    with pytest.raises(IllegalArgument, match="isolation_level"):
        ClusterCollector(admin, isolation_level="commited")


def test_closed_admin_client_is_up_0_without_a_warning(
    admin: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    collector = ClusterCollector(admin)
    admin.close()
    for _ in range(2):
        assert scraped(collector) == {"kafka_up": [({}, 0.0)], "kafka_scrape_errors": [({}, 1.0)]}
    assert caplog.text == ""  # its owner closed it, possibly during a scrape


class Recording:
    """An admin client that notes the timeouts of its calls."""

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._admin = admin
        self.timeouts: list[float] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._admin, name)

        def call(*arguments: Any, timeout: float, **options: Any) -> Any:
            self.timeouts.append(timeout)
            return method(*arguments, timeout=timeout, **options)

        return call


@pytest.fixture
def virtual(simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A cluster of two brokers and its admin client, whose scrapes take virtual time."""
    monkeypatch.setattr(prometheus, "SystemClock", simulation.runtime.clock)
    world = World(simulation, topics={"orders": 2})
    yield world
    world.close()


def test_broker_that_hangs_takes_the_time_of_one_scrape_and_leaves_the_rest(virtual: World) -> None:
    virtual.admin.list_groups()  # connects to both brokers
    for api in ("ListOffsets", "ListGroups", "DescribeGroups", "OffsetFetch"):
        virtual.cluster.controls.hold(api, broker=1)
    recording: Any = Recording(virtual.admin)
    samples = scraped(ClusterCollector(recording, timeout=1.0))
    virtual.cluster.controls.clear()
    assert samples["kafka_up"] == [({}, 1.0)]
    assert len(samples["kafka_topic_partition_current_offset"]) == 1
    assert samples["kafka_scrape_errors"][0][1] >= 1
    first, *_, last = recording.timeouts
    assert len(recording.timeouts) == 8
    assert 0.5 < first <= 1.0
    assert last == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("api", "error"),
    [("ListOffsets", TopicAuthorizationFailed), ("ListGroups", ClusterAuthorizationFailed)],
)
def test_each_thing_that_cannot_be_read_is_one_error(
    kafka_cluster: KafkaCluster, admin: KafkaAdminClient, api: str, error: type[BrokerError]
) -> None:
    kafka_cluster.controls.rule(api=api, then=error, broker=1)
    samples = scraped(ClusterCollector(admin, topics="orders"))
    kafka_cluster.controls.clear()
    assert samples["kafka_scrape_errors"] == [({}, 1.0)]  # one of two partitions, or of two brokers


class Late(Recording):
    """An admin client whose list of topics is not that of now."""

    def __init__(self, admin: KafkaAdminClient, *topics: str) -> None:
        super().__init__(admin)
        self._topics = topics

    def list_topics(self, **options: Any) -> list[str]:
        return [*self._topics]


def test_offset_of_a_topic_that_is_not_listed_has_no_lag(admin: KafkaAdminClient) -> None:
    commit(admin, "billing")
    late: Any = Late(admin)
    samples = scraped(ClusterCollector(late))
    assert len(samples["kafka_consumergroup_current_offset"]) == 1
    assert "kafka_consumergroup_lag" not in samples


def test_topic_that_was_deleted_since_it_was_listed_is_one_error(virtual: World) -> None:
    late: Any = Late(virtual.admin, "orders", "deleted")
    samples = scraped(ClusterCollector(late, timeout=0.5))
    assert samples["kafka_scrape_errors"] == [({}, 1.0)]
    assert [labels["topic"] for labels, _ in samples["kafka_topic_partitions"]] == ["orders"]


# ---------------------------------------------------------------------- the command


def test_scrapes_that_hang_up_print_no_traceback(kafka_cluster: KafkaCluster) -> None:
    command = [sys.executable, "-m", "pykafka2", "metrics", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "-b", kafka_cluster.bootstrap_servers], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().decode().rpartition(":")[2].partition("/")[0])
        for request in (b"GET /metrics HTTP/1.1\r\n\r\n", b"GET /met", b"nonsense\r\n\r\n", b"\x00\xff\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as caller:
                caller.sendall(request)
                # A reset instead of an orderly end.
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with socket.create_connection(("127.0.0.1", port), 30) as caller:
            caller.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            assert b"200 OK" in caller.recv(1000)
        process.terminate()
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert errors.decode() == ""
    assert process.returncode == 0
