"""Rebalance listeners that fail, are left behind, or use other clients."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from typing import Any

import pytest

from pykafka2 import KafkaProducer, TopicPartition
from pykafka2.aio import KafkaConsumer
from pykafka2.aio.bridge import Bridge
from pykafka2.aio.listeners import Listeners
from pykafka2.errors import IllegalState, KafkaTimeoutError
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

FIRST = TopicPartition("orders", 0)

pytestmark = pytest.mark.kafka(
    brokers=1, topics={"orders": 1}, config={"group.initial.rebalance.delay.ms": 0}
)


def fill(cluster: KafkaCluster, *values: bytes) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send("orders", value)


def consumer_of(cluster: KafkaCluster, group: str | None = "billing") -> KafkaConsumer[bytes, bytes]:
    return KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, group_id=group, auto_offset_reset="earliest"
    )


def test_stop_iteration_of_a_listener_is_raised_by_the_read_as_a_runtime_error(
    kafka_cluster: KafkaCluster,
) -> None:
    fill(kafka_cluster, b"a")

    def failing(assigned: Any) -> None:
        next(iter(()))

    async def program() -> None:
        async with consumer_of(kafka_cluster) as consumer:
            consumer.subscribe(["orders"], on_assigned=failing)
            with pytest.raises(RuntimeError, match="StopIteration"):
                await consumer.getone()
            assert (await consumer.getone()).value == b"a"

    run(program())


def test_listener_reads_from_another_consumer(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, b"a")
    found = []

    async def program() -> None:
        async with consumer_of(kafka_cluster) as consumer, consumer_of(kafka_cluster, None) as other:
            other.assign([FIRST])

            async def restore(assigned: Any) -> None:
                found.append((await other.getone()).value)
                await other.close()

            consumer.subscribe(["orders"], on_assigned=restore)
            found.append((await consumer.getone()).value)

    run(program())
    assert found == [b"a", b"a"]


def test_task_that_a_listener_started_reads_after_the_listener_has_ended(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, b"a", b"b")

    async def program() -> None:
        consumer = consumer_of(kafka_cluster)
        tasks = []
        has_read = asyncio.Event()

        async def work() -> bytes | None:
            with pytest.raises(IllegalState, match="inside a rebalance listener"):
                await consumer.getone()
            await has_read.wait()
            value = (await consumer.getone()).value
            await consumer.close()
            return value

        async def assigned(partitions: Any) -> None:
            tasks.append(asyncio.create_task(work()))
            await asyncio.sleep(0)

        consumer.subscribe(["orders"], on_assigned=assigned)
        assert (await consumer.getone()).value == b"a"
        has_read.set()
        assert await tasks[0] == b"b"

    run(program())
    assert not kafka_cluster.group("billing").members


def test_timeout_of_close_ends_a_listener_that_never_returns(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async def hanging(revoked: Any) -> None:
            await asyncio.sleep(3600)

        consumer = consumer_of(kafka_cluster)
        consumer.subscribe(["orders"], on_revoked=hanging)
        while not consumer.assignment():
            await consumer.poll(50)
        async with asyncio.timeout(30):  # less than max_poll_interval_ms
            with pytest.raises(KafkaTimeoutError, match="the listener was cancelled"):
                await consumer.close(2.0)

    run(program())
    kafka_cluster.wait_until(lambda: not kafka_cluster.group("billing").members)


def test_cancelled_unsubscribe_cancels_the_listener_that_it_waits_for(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        started, ended = asyncio.Event(), asyncio.Event()

        async def hanging(revoked: Any) -> None:
            started.set()
            try:
                await asyncio.sleep(3600)
            finally:
                ended.set()

        async with consumer_of(kafka_cluster) as consumer:
            consumer.subscribe(["orders"], on_revoked=hanging)
            while not consumer.assignment():
                await consumer.poll(50)
            leaving = asyncio.create_task(consumer.unsubscribe())
            await started.wait()
            leaving.cancel()
            async with asyncio.timeout(30):
                await ended.wait()

    run(program())


def test_listener_that_starts_after_its_timeout_is_cancelled_at_its_first_await() -> None:
    """The loop is blocked until after the timeout, so it starts and cancels the coroutine in one turn."""
    events = []

    async def listener(partitions: Any) -> None:
        events.append("started")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    async def program() -> None:
        bridge = Bridge("KafkaConsumer", None)
        bridge.enter()
        call = Listeners(bridge, 0.01, None).function(listener)

        def wait() -> None:
            with pytest.raises(KafkaTimeoutError, match="did not return within"):
                call([])

        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            await asyncio.sleep(0.01)
            gc.collect()
        assert [str(one.message) for one in caught] == []

    run(program())
    assert events == ["started", "cancelled"]
