"""`ClientCollector`: names, labels and values of the clients' metrics in Prometheus's text format."""

from __future__ import annotations

import asyncio
import gc
import shutil
import subprocess
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, aio
from pykafka2.contrib.prometheus import FINEST, ClientCollector, ClusterCollector, exported_name
from pykafka2.metric_table import ADMIN, CONSUMER_ALL, PRODUCER, SHARE_CONSUMER
from pykafka2.testing import KafkaCluster
from pykafka2.types import MetricKind

pytestmark = pytest.mark.kafka(
    brokers=2, topics={"orders": 2, "bills": 1}, config={"group.initial.rebalance.delay.ms": 0}
)
Labels = dict[str, str]


def scraped(*collectors: ClientCollector | ClusterCollector) -> dict[str, list[tuple[Labels, float]]]:
    """Return labels and value of each sample by name, parsed from the text that Prometheus reads."""
    registry = CollectorRegistry()
    for collector in collectors:
        registry.register(collector)
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@pytest.fixture
def producer(kafka_cluster: KafkaCluster) -> Iterator[KafkaProducer[bytes, bytes]]:
    """A producer that has written three records to `orders` and two to `bills`."""
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, client_id="shop") as producer:
        for number in range(3):
            producer.send("orders", b"x", partition=number % 2)
        for _ in range(2):
            producer.send("bills", b"x")
        producer.flush()
        yield producer


def test_counter_of_topics_has_the_labels_of_micrometer(producer: KafkaProducer[bytes, bytes]) -> None:
    samples = scraped(ClientCollector(producer))
    assert samples["kafka_producer_record_send_total"] == [({"client_id": "shop"}, 5.0)]
    assert samples["kafka_producer_topic_record_send_total"] == [
        ({"client_id": "shop", "topic": "orders"}, 3.0),
        ({"client_id": "shop", "topic": "bills"}, 2.0),
    ]


def test_lag_has_client_topic_and_partition(
    kafka_cluster: KafkaCluster, producer: KafkaProducer[bytes, bytes]
) -> None:
    with KafkaConsumer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, client_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("orders", 0), TopicPartition("orders", 1)])
        count = 0
        while count < 3:
            count += sum(map(len, consumer.poll(1000).values()))
        consumer.seek(TopicPartition("orders", 0), 0)
        samples = scraped(ClientCollector(consumer, producer))
    lags = {
        (labels["client_id"], labels["topic"], labels["partition"]): value
        for labels, value in samples["kafka_consumer_fetch_manager_records_lag"]
    }
    assert lags == {("billing", "orders", "0"): 2, ("billing", "orders", "1"): 0}


def test_metric_of_several_levels_is_exported_once_so_that_sums_are_right(
    kafka_cluster: KafkaCluster, producer: KafkaProducer[bytes, bytes]
) -> None:
    with KafkaConsumer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, client_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition("orders", 0), TopicPartition("bills", 0)])
        count = 0
        while count < 4:
            count += sum(map(len, consumer.poll(1000).values()))
        consumed = scraped(ClientCollector(consumer))["kafka_consumer_fetch_manager_records_consumed_total"]
    assert sorted((labels["topic"], value) for labels, value in consumed) == [("bills", 2.0), ("orders", 2.0)]


@pytest.mark.gate
def test_two_clients_with_the_same_client_id_have_series_of_their_own(
    kafka_cluster: KafkaCluster, producer: KafkaProducer[bytes, bytes]
) -> None:
    options = {"bootstrap_servers": kafka_cluster.bootstrap_servers, "client_id": "shop"}
    with (
        KafkaProducer(options) as second,
        KafkaConsumer(options) as consumer,
        KafkaAdminClient(options) as admin,
    ):
        collector = ClientCollector(producer, second, consumer, admin)
        collector.add(second)
        second.send("bills", b"x").result()
        samples = scraped(collector)
    assert samples["kafka_producer_record_send_total"] == [
        ({"client_id": "shop"}, 5.0),
        ({"client_id": "shop#2"}, 1.0),
    ]
    assert [labels for labels, _ in samples["kafka_consumer_select_total"]] == [{"client_id": "shop"}]
    assert [labels for labels, _ in samples["kafka_admin_client_select_total"]] == [{"client_id": "shop"}]


def test_closed_and_forgotten_clients_are_dropped(
    kafka_cluster: KafkaCluster, producer: KafkaProducer[bytes, bytes]
) -> None:
    closed = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, client_id="closed")
    collector = ClientCollector(producer, closed)
    closed.close()
    samples = scraped(collector)
    assert samples["kafka_producer_record_send_total"] == [({"client_id": "shop"}, 5.0)]
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, client_id="closed") as successor:
        collector.add(successor)
        names = [labels["client_id"] for labels, _ in scraped(collector)["kafka_producer_record_send_total"]]
    assert names == ["shop", "closed"]
    del closed, successor
    gc.collect()
    assert len(scraped(collector)["kafka_producer_record_send_total"]) == 1


def test_asyncio_clients_are_collected(kafka_cluster: KafkaCluster) -> None:
    async def run() -> dict[str, list[tuple[Labels, float]]]:
        servers = kafka_cluster.bootstrap_servers
        async with (
            aio.KafkaProducer(bootstrap_servers=servers, client_id="shop") as producer,
            aio.KafkaConsumer("orders", bootstrap_servers=servers, client_id="billing") as consumer,
            aio.KafkaAdminClient(bootstrap_servers=servers, client_id="tool") as admin,
        ):
            await producer.send_and_wait("orders", b"x")
            return scraped(ClientCollector(producer, consumer, admin))

    samples = asyncio.run(run())
    assert samples["kafka_producer_record_send_total"] == [({"client_id": "shop"}, 1.0)]
    assert "kafka_consumer_coordinator_assigned_partitions" in samples
    assert "kafka_admin_client_request_total" in samples


def test_times_are_seconds_and_names_keep_promtools_rules(producer: KafkaProducer[bytes, bytes]) -> None:
    samples = scraped(ClientCollector(producer))
    rows = {row.name: row for row in producer.metric_rows()}
    ((_, flushed),) = samples["kafka_producer_flush_time_seconds_total"]
    assert flushed == pytest.approx(rows["flush-time-ns-total"].value / 1e9)
    ((_, connections),) = samples["kafka_producer_connections"]
    assert connections >= 1
    for definition in FINEST.values():
        name = exported_name(definition)
        assert (definition.kind is MetricKind.COUNTER) == name.endswith("_total"), name
        assert not name.endswith(("_count", "_sum", "_bucket", "_info")), name
        assert "_ns_" not in name


def test_no_two_metrics_share_a_name() -> None:
    names = [exported_name(definition) for definition in FINEST.values()]
    assert len(names) == len(set(names))
    tables = (*PRODUCER, *CONSUMER_ALL, *SHARE_CONSUMER, *ADMIN)
    keys = {(definition.group, definition.name) for definition in tables}
    assert FINEST.keys() == keys


def test_second_collector_in_a_registry_is_rejected(producer: KafkaProducer[bytes, bytes]) -> None:
    registry = CollectorRegistry()
    registry.register(ClientCollector(producer))
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry.register(ClientCollector(producer))


@pytest.mark.gate
@pytest.mark.slow
def test_clients_can_be_added_and_closed_while_others_scrape(kafka_cluster: KafkaCluster) -> None:
    collector = ClientCollector()
    failures: list[BaseException] = []
    is_done = threading.Event()

    def scrape() -> None:
        try:
            while not is_done.is_set():
                for _ in collector.collect():
                    pass
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=scrape) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            collector.add(producer)
            producer.send("orders", b"x")
    is_done.set()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool of Debian's package prometheus")
@pytest.mark.gate
def test_promtool_accepts_all_metrics(
    kafka_cluster: KafkaCluster, producer: KafkaProducer[bytes, bytes]
) -> None:
    servers = kafka_cluster.bootstrap_servers
    with (
        KafkaConsumer(
            "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest"
        ) as consumer,
        KafkaAdminClient(bootstrap_servers=servers) as admin,
    ):
        while not consumer.poll(1000):
            pass
        consumer.commit()
        registry = CollectorRegistry()
        registry.register(ClientCollector(producer, consumer, admin))
        registry.register(ClusterCollector(admin))
        text = generate_latest(registry)
    ended = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert b"kafka_consumergroup_lag{" in text
