"""The calls that taskiq-aio-kafka 1.0 and eventiq 1.1 make of aiokafka and kafka-python, with our names.

Neither package is installed for the tests. Both run on our clients if their names are replaced, and options
of aiokafka that the guide's table excludes are left out.
"""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, NewTopic, TopicPartition
from pykafka2.aio import KafkaConsumer, KafkaProducer
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

pytestmark = pytest.mark.kafka(brokers=1, config={"group.initial.rebalance.delay.ms": 0})


def test_taskiq_declares_its_topic_sends_tasks_and_listens(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers
    topic = NewTopic(name="taskiq_topic", num_partitions=1, replication_factor=1)

    async def program() -> None:
        # Its admin client is a sync one, called on the loop.
        admin = KafkaAdminClient(bootstrap_servers=servers, client_id="kafka-python-taskiq")
        assert set(admin.list_topics()) == set()
        admin.create_topics(new_topics=[topic], validate_only=False)
        producer: Any = KafkaProducer(
            bootstrap_servers=servers,
            loop=None,  # type: ignore[call-arg]
            client_id=None,
            metadata_max_age_ms=300_000,
            request_timeout_ms=40_000,
            acks="all",
            max_batch_size=16_384,
            max_request_size=1_048_576,
            linger_ms=0,
            retry_backoff_ms=100,
            connections_max_idle_ms=540_000,
            transactional_id=None,
        )
        await producer.start()
        consumer: Any = KafkaConsumer(
            "taskiq_topic",
            bootstrap_servers=servers,
            loop=None,  # type: ignore[call-arg]
            group_id=None,
            fetch_max_wait_ms=500,
            auto_offset_reset="earliest",
            rebalance_timeout_ms=None,
            max_poll_records=None,
        )
        await consumer.start()
        for task in (b"first", b"second"):
            await producer.send_and_wait(topic="taskiq_topic", value=task)
        found = []
        async for message in consumer:
            found.append(message.value)
            if len(found) == 2:
                break
        assert found == [b"first", b"second"]
        await producer.stop()
        await consumer.stop()
        admin.delete_topics(["taskiq_topic"])
        assert "taskiq_topic" not in admin.list_topics()
        admin.close()

    run(program())


def test_eventiq_subscribes_by_pattern_acknowledges_and_stops(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("events.orders", partitions=1)
    servers = kafka_cluster.bootstrap_servers

    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=servers)
        await producer.start()
        subscriber = KafkaConsumer(
            group_id="service:consumer",
            bootstrap_servers=servers,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        subscriber.subscribe(pattern=r"events.\w+")
        await subscriber.start()
        received: asyncio.Queue[Any] = asyncio.Queue()

        async def sender() -> None:
            try:
                while True:
                    result = await subscriber.getmany(timeout_ms=600)
                    for message in chain.from_iterable(result.values()):
                        await received.put(message)
            finally:
                await subscriber.stop()

        sending = asyncio.create_task(sender())
        await producer.send(
            topic="events.orders",
            value=b"{}",
            key=b"id-1",
            partition=None,
            timestamp_ms=1_700_000_000_000,
            headers=[("type", b"created")],
        )
        message = await received.get()
        assert (message.key, message.timestamp) == (b"id-1", 1_700_000_000_000)
        assert dict(message.headers) == {"type": b"created"}
        partition = TopicPartition(message.topic, message.partition)
        await subscriber.commit({partition: message.offset + 1})
        sending.cancel()
        await asyncio.wait([sending])
        await producer.stop()

    run(program())
    assert sum(kafka_cluster.group("service:consumer").offsets.values()) == 1
