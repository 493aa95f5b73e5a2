"""The asyncio clients have the metrics of the sync clients, which share their core."""

from __future__ import annotations

import asyncio

import pytest

from pykafka2 import Metric, TopicPartition
from pykafka2.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.metric_table import ADMIN, CONSUMER_ALONE, PRODUCER
from pykafka2.metrics import Definition
from pykafka2.testing import KafkaCluster, Simulation
from tests.aio.running import run


def named(rows: list[Metric]) -> set[tuple[str, str]]:
    return {(row.group, row.name) for row in rows}


def declared(table: tuple[Definition, ...]) -> set[tuple[str, str]]:
    return {(metric.group, metric.name) for metric in table}


@pytest.mark.kafka(brokers=1, topics={"orders": 2})
def test_asyncio_clients_return_a_row_for_each_declared_metric(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers

    async def program() -> None:
        async with KafkaProducer(bootstrap_servers=servers) as producer:
            for partition in (0, 1):
                await producer.send_and_wait("orders", b"v", partition=partition)
            assert named(producer.metric_rows()) == declared(PRODUCER)
            assert producer.metrics()["record-send-total"] == 2
        async with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", partition) for partition in (0, 1)])
            count = 0
            while count < 2:
                count += sum(map(len, (await consumer.getmany(timeout_ms=1000)).values()))
            rows = consumer.metric_rows()
            assert named(rows) == declared(CONSUMER_ALONE)
            lags = {row.tags["partition"]: row.value for row in rows if row.name == "records-lag"}
            assert lags == {"0": 0, "1": 0}
            await consumer.getmany(timeout_ms=0)
            assert consumer.metrics()["time-between-poll-max"] > 0
        async with KafkaAdminClient(bootstrap_servers=servers) as admin:
            await admin.list_topics()
            assert named(admin.metric_rows()) == declared(ADMIN)

    run(program())


def test_wakes_of_a_waiting_read_do_not_count_as_polls(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 2})
    options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g"}

    async def program() -> None:
        async with KafkaConsumer("orders", runtime=simulation.runtime.at("shop"), **options) as consumer:
            for seconds in (1, 3, 2):
                await consumer.getmany(timeout_ms=1000)
                await asyncio.sleep(seconds)
            await consumer.getmany(timeout_ms=0)
            metrics = consumer.metrics()
            assert metrics["time-between-poll-avg"] == pytest.approx(3000, rel=0.05)
            assert metrics["time-between-poll-max"] == pytest.approx(4000, rel=0.05)
            assert metrics["poll-idle-ratio-avg"] == pytest.approx(1 / 3, rel=0.05)

    simulation.run(program)
