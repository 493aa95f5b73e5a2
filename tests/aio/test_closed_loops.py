"""Clients whose event loop has closed while a call was under way: another loop closes them."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import closing
from typing import Any

import pytest

from pykafka2.aio import KafkaConsumer, KafkaProducer
from pykafka2.errors import ClientClosed, ConsumerStopped
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.protocol.messages.transaction import EndTxnRequest
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

pytestmark = pytest.mark.kafka(
    brokers=1, topics={"orders": 1}, config={"group.initial.rebalance.delay.ms": 0}
)


def test_close_that_outlives_its_loop_is_awaited_in_another_loop(kafka_cluster: KafkaCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers)

    async def first() -> None:
        await producer.send_and_wait("orders", b"a")
        kafka_cluster.controls.hold(ProduceRequest)
        await producer.send("orders", b"b")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])

    async def again() -> None:
        asyncio.get_running_loop().call_later(0.05, kafka_cluster.controls.release, ProduceRequest)
        await producer.close()
        with pytest.raises(ClientClosed):
            await producer.send("orders", b"c")

    run(first())
    run(again())
    assert kafka_cluster.log("orders", 0).values() == [b"a", b"b"]


def test_transaction_with_an_end_that_outlives_its_loop_is_closed_in_another_loop(
    kafka_cluster: KafkaCluster,
) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t")

    async def first() -> None:
        await producer.start()
        await producer.begin_transaction()
        await producer.send("orders", b"a")
        kafka_cluster.controls.hold(EndTxnRequest)
        committing = asyncio.create_task(producer.commit_transaction())
        await asyncio.to_thread(kafka_cluster.wait_until, lambda: kafka_cluster.log("orders", 0).values())
        committing.cancel()
        await asyncio.wait([committing])

    async def again() -> None:
        kafka_cluster.controls.release(EndTxnRequest)
        await producer.close()
        with pytest.raises(ClientClosed):
            await producer.begin_transaction()

    run(first())
    run(again())
    kafka_cluster.wait_until(lambda: not any(one.is_open for one in kafka_cluster.transactions()))


@pytest.mark.parametrize("ends", [True, False], ids=["cancelled with its loop", "left behind"])
def test_consumer_with_a_listener_that_outlives_its_loop_is_closed_in_another_loop(
    kafka_cluster: KafkaCluster, ends: bool
) -> None:
    """asyncio.run cancels the listener; a loop that is closed by hand leaves it as it is."""
    consumer: KafkaConsumer[bytes, bytes] = KafkaConsumer(
        bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="billing"
    )
    started = threading.Event()

    async def hanging(assigned: Any) -> None:
        started.set()
        await asyncio.sleep(3600)

    consumer.subscribe(["orders"], on_assigned=hanging)

    async def first() -> None:
        reading = asyncio.create_task(consumer.getone())
        await asyncio.to_thread(started.wait)
        reading.cancel()
        await asyncio.wait([reading])

    async def again() -> None:
        await consumer.close()
        for call in (consumer.getone(), consumer.commit(), consumer.committed([])):
            with pytest.raises(ClientClosed):
                await call
        with pytest.raises(ConsumerStopped):
            await consumer.poll()

    with closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(first())
        if ends:
            for task in asyncio.all_tasks(loop):
                task.cancel()
                loop.run_until_complete(asyncio.wait([task]))
    began = time.monotonic()
    run(again())
    assert time.monotonic() - began < 30  # not max_poll_interval_ms
