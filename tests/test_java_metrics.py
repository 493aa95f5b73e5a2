"""The same scripted work gives the same metrics as in Java's clients: names, tags and determined values.

java_metrics.json has those of Apache Kafka 4.4.0's clients on the bundled broker; a value is null there if
it depends on time or on the client's requests. `python -m tests.conformance.client_metrics` records them
again (Java 17 and Maven).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    KafkaShareConsumer,
    Metric,
    TopicPartition,
)
from pykafka2.admin import ConfigResource
from pykafka2.metric_table import ADMIN, CONSUMER_ALL, PRODUCER
from pykafka2.testing import QUICK, KafkaCluster
from tests.broker.share.live import SMALL
from tests.docs.metric_pages import LEFT_OUT

GOLDEN = Path(__file__).parent / "java_metrics.json"
CLIENT_ID = "app"
PRODUCER_RECORDS = 9
SHARE_GROUP = "group-share"

ZERO = ("record-error-total", "record-retry-total", "batch-split-total", "buffer-exhausted-total")
AUTHENTICATION = (
    "failed-authentication-total",
    "failed-reauthentication-total",
    "successful-authentication-no-reauth-total",
    "successful-authentication-total",
    "successful-reauthentication-total",
)
DETERMINED = {
    *ZERO,
    *AUTHENTICATION,
    "acknowledgements-error-total",
    "acknowledgements-send-total",
    "assigned-partitions",
    "batch-size-avg",
    "batch-size-max",
    "buffer-available-bytes",
    "buffer-total-bytes",
    "bufferpool-wait-time-ns-total",
    "byte-total",
    "commit-total",
    "committed-time-ns-total",
    "compression-rate",
    "compression-rate-avg",
    "fetch-throttle-time-avg",
    "fetch-throttle-time-max",
    "join-total",
    "preferred-read-replica",
    "produce-throttle-time-avg",
    "produce-throttle-time-max",
    "rebalance-total of classic",
    "rebalance-total of consumer",
    "record-send-total",
    "records-lag",
    "records-lead",
    "records-consumed-total of share",
    "records-per-request-avg of producer",
    "requests-in-flight",
    "sync-total",
    "txn-abort-time-ns-total",
    "txn-begin-time-ns-total",
    "txn-commit-time-ns-total",
    "txn-init-time-ns-total",
    "txn-send-offsets-time-ns-total",
    "waiting-threads",
}
"""Metrics whose values the work determines, in any client."""


def produce(servers: str) -> list[Metric]:
    with KafkaProducer(bootstrap_servers=servers, client_id=CLIENT_ID, linger_ms=0) as producer:
        for _ in range(5):
            producer.send("orders", bytes(100), partition=1).result(60)
        for _ in range(2):
            producer.send("orders", bytes(50), partition=0).result(60)
            producer.send("clicks", bytes(10), partition=0).result(60)
        producer.flush()
        return producer.metric_rows()


def consume(group_protocol: str, servers: str) -> list[Metric]:
    with KafkaConsumer(
        "orders",
        bootstrap_servers=servers,
        client_id=CLIENT_ID,
        group_id=f"group-{group_protocol}",
        group_protocol=group_protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=3,
        fetch_max_wait_ms=50,
    ) as consumer:
        poll(consumer, 7)
        consumer.commit()
        consumer.pause(TopicPartition("orders", 0))
        consumer.seek(TopicPartition("orders", 1), 0)
        poll(consumer, 3)
        return consumer.metric_rows()


def poll(consumer: KafkaConsumer | KafkaShareConsumer[Any, Any], wanted: int) -> None:
    while wanted > 0:
        wanted -= sum(map(len, consumer.poll(100).values()))


def take_from_queue(servers: str) -> list[Metric]:
    with KafkaShareConsumer(
        "orders",
        bootstrap_servers=servers,
        client_id=CLIENT_ID,
        group_id=SHARE_GROUP,
        fetch_max_wait_ms=50,
    ) as consumer:
        poll(consumer, 7)
        consumer.commit()
        return consumer.metric_rows()


def administer(servers: str) -> list[Metric]:
    with KafkaAdminClient(bootstrap_servers=servers, client_id=CLIENT_ID) as admin:
        admin.create_topics({"created": {"num_partitions": 2}})
        admin.list_topics()
        admin.describe_cluster()
        return admin.metric_rows()


WORK: Mapping[str, Callable[[str], list[Metric]]] = {
    "producer": produce,
    "classic": lambda servers: consume("classic", servers),
    "consumer": lambda servers: consume("consumer", servers),
    "share": take_from_queue,
    "admin": administer,
}
"""The work of each client, in this order: the consumers read what the producer has sent."""


@contextmanager
def work_cluster() -> Iterator[KafkaCluster]:
    """Start the cluster for the work: the partitions 0 and 1 of each topic have different leaders."""
    config = {**QUICK, **SMALL}
    with KafkaCluster(brokers=2, topics={"orders": 2, "clicks": 2}, config=config) as cluster:
        with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            group = ConfigResource("GROUP", SHARE_GROUP)
            admin.alter_configs({group: {"share.auto.offset.reset": "earliest"}})
        yield cluster


def kept(client: str, rows: Iterable[tuple[str, str, Mapping[str, str], float | None]]) -> dict[str, Any]:
    """Return group, name and tags of each row with its value, None unless the work determines it.

    Bootstrap connections are left out, because the addresses are tried in a random order, and so is the
    broker that an admin client uses.
    """
    found = {}
    for group, name, tags, value in rows:
        node = tags.get("node-id", "")
        if node and client == "admin":
            shown = {"node-id": "node-*"}
        elif node.startswith("node--"):
            continue
        else:
            shown = dict(sorted(tags.items()))
        is_determined = name in DETERMINED or f"{name} of {client}" in DETERMINED
        place = f"{group} {name} {json.dumps(shown)}"
        found[place] = None if not is_determined or value is None else float(value)
    return dict(sorted(found.items()))


def of_java(client: str) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))[client]
    return recorded


@pytest.fixture(scope="module")
def ours() -> dict[str, dict[str, Any]]:
    """The metrics of our clients after the work."""
    with work_cluster() as cluster:
        return {
            client: kept(
                client,
                [(row.group, row.name, dict(row.tags), row.value) for row in work(cluster.bootstrap_servers)],
            )
            for client, work in WORK.items()
        }


OMITTED = {name for names in LEFT_OUT for name in names.split()}
OWN = {(metric.group, metric.name) for metric in (*PRODUCER, *CONSUMER_ALL, *ADMIN) if not metric.is_kafka}


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("client", WORK)
def test_metrics_have_the_groups_names_tags_and_values_of_java(
    client: str, ours: dict[str, dict[str, Any]]
) -> None:
    java = {place: value for place, value in of_java(client).items() if place.split()[1] not in OMITTED}
    found = {place: value for place, value in ours[client].items() if tuple(place.split()[:2]) not in OWN}
    assert found == java


@pytest.mark.slow
def test_the_work_determines_values_of_each_client() -> None:
    for client in WORK:
        assert sum(value is not None for value in of_java(client).values()) >= len(AUTHENTICATION)
    places = [place for client in WORK for place in of_java(client)]
    assert {place.split()[1] for place in places} >= OMITTED


def test_most_metrics_of_java_have_a_counterpart() -> None:
    for client, least in (("producer", 60), ("classic", 66), ("consumer", 66), ("share", 60), ("admin", 28)):
        names = {place.split()[1] for place in of_java(client)} - OMITTED
        assert len(names) >= least, client
