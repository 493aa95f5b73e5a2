"""The core of the asyncio clients on brokers that respond like older releases of Apache Kafka."""

from __future__ import annotations

import pytest

from pykafka2 import NewTopic, TopicPartition
from pykafka2.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.testing import QUICK, KafkaCluster
from tests.aio.running import run

COUNT = 20


@pytest.mark.parametrize("release", ["2.8", "3.9", "4.0"])
def test_records_groups_and_transactions_work_on_each_release(release: str) -> None:
    async def program(servers: str) -> None:
        async with KafkaAdminClient(bootstrap_servers=servers) as admin:
            await admin.create_topics([NewTopic("orders", partitions=2, replication_factor=2)])
            await admin.wait_for_topics(["orders"])
        async with KafkaProducer(bootstrap_servers=servers) as producer:
            for number in range(COUNT):
                await producer.send("orders", b"%d" % number, partition=number % 2)
        async with KafkaProducer(bootstrap_servers=servers, transactional_id="copies") as producer:
            await producer.init_transactions()
            for is_kept in (True, False):
                try:
                    async with producer.transaction():
                        await producer.send("orders", b"kept" if is_kept else b"aborted", partition=0)
                        if not is_kept:
                            raise ValueError("abort")
                except ValueError:
                    pass
        options = {"bootstrap_servers": servers, "group_id": "readers", "auto_offset_reset": "earliest"}
        read = []
        async with KafkaConsumer("orders", isolation_level="read_committed", **options) as consumer:
            while len(read) < COUNT + 1:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    read += [record.value for record in records]
            await consumer.commit()
            partitions = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
            committed = await consumer.committed(*partitions)
        assert sorted(read, key=str) == sorted(
            [b"kept", *(b"%d" % number for number in range(COUNT))], key=str
        )
        assert committed is not None
        async with KafkaAdminClient(bootstrap_servers=servers) as admin:
            assert (await admin.describe_groups(["readers"]))["readers"].group_id == "readers"
            assert await admin.list_topics() == ["orders"]

    with KafkaCluster(brokers=2, as_version=release, config=dict(QUICK)) as cluster:
        run(program(cluster.bootstrap_servers))
