"""`read_range` and `bootstrap` of the asyncio consumer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, TopicPartition
from pykafka2 import KafkaConsumer as SyncConsumer
from pykafka2.aio import KafkaConsumer
from pykafka2.errors import ClientClosed, NoBrokersAvailable, OffsetOutOfRange
from pykafka2.records.columns import Columns
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)

pytestmark = pytest.mark.kafka(topics={"orders": 2})


def fill(cluster: KafkaCluster, count: int) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for partition in (0, 1):
            for number in range(count):
                producer.send("orders", b"%d" % number, partition=partition)
                if number % 10 == 9:
                    producer.flush()  # several batches


async def offsets_of(pieces: AsyncIterator[Columns]) -> list[int]:
    return [offset async for piece in pieces for offset in piece.offsets]


def test_two_ranges_are_read_at_the_same_time(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 30)

    async def program() -> None:
        async with KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
            ranges = [consumer.read_range(FIRST, 3, 28, max_bytes=100), consumer.read_range(SECOND, 0, 11)]
            first, second = await asyncio.gather(*map(offsets_of, ranges))
            assert (first, second) == (list(range(3, 28)), list(range(11)))
            assert await offsets_of(consumer.read_range(FIRST, 5, 5)) == []

    run(program())


def test_arguments_reach_the_sync_consumer(
    monkeypatch: pytest.MonkeyPatch, kafka_cluster: KafkaCluster
) -> None:
    calls: list[tuple[object, ...]] = []

    def read_range(
        self: object,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        isolation: str,
        max_bytes: int,
        topic_id: bytes | None,
    ) -> Iterator[Columns]:
        calls.append((partition, start, end, isolation, max_bytes, topic_id))
        return iter(())

    def bootstrap(self: object, timeout_ms: float | None, refresh: bool) -> None:
        calls.append((timeout_ms, refresh))

    monkeypatch.setattr(SyncConsumer, "read_range", read_range)
    monkeypatch.setattr(SyncConsumer, "bootstrap", bootstrap)

    async def program() -> None:
        async with KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
            calls.clear()
            pieces = consumer.read_range(
                FIRST, 3, 8, isolation="read_committed", max_bytes=100, topic_id=b"id"
            )
            assert await offsets_of(pieces) == []
            await consumer.bootstrap(7_000, refresh=True)

    run(program())
    assert calls == [(FIRST, 3, 8, "read_committed", 100, b"id"), (7_000, True)]


@pytest.mark.gate
def test_tasks_that_share_a_range_get_each_record_once(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 60)

    async def program() -> None:
        async with KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
            pieces = consumer.read_range(FIRST, 0, 60, max_bytes=100)
            found = await asyncio.gather(*(offsets_of(pieces) for _ in range(3)))
            assert sorted(offset for offsets in found for offset in offsets) == list(range(60))

    run(program())


def test_arguments_are_checked_before_the_iteration(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
            with pytest.raises(ValueError, match="start=-1"):
                consumer.read_range(FIRST, -1, 5)
            with pytest.raises(TypeError, match="TopicPartition"):
                consumer.read_range("orders", 0, 5)  # type: ignore[arg-type]

    run(program())


def test_error_of_the_sync_call_is_raised_by_the_iteration(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 20)
    with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
        admin.delete_records({FIRST: 10})

    async def program() -> None:
        async with KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
            with pytest.raises(OffsetOutOfRange):
                await offsets_of(consumer.read_range(FIRST, 0, 20))
            assert await offsets_of(consumer.read_range(FIRST, 10, 20)) == list(range(10, 20))

    run(program())


def test_cancelled_wait_for_a_piece_loses_no_record(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
            pieces = consumer.read_range(SECOND, 0, 20)
            for _ in range(2):
                with pytest.raises(TimeoutError):  # nothing is written yet
                    await asyncio.wait_for(anext(pieces), 0.05)
            await asyncio.to_thread(fill, kafka_cluster, 20)
            assert await offsets_of(pieces) == list(range(20))
            assert await offsets_of(pieces) == []

    run(program())


def test_close_ends_a_range_that_waits(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
            waiting = [
                asyncio.create_task(offsets_of(consumer.read_range(one, 0, 5))) for one in (FIRST, SECOND)
            ]
            await asyncio.sleep(0.05)
        for one in waiting:
            with pytest.raises(ClientClosed):
                await one
        with pytest.raises(ClientClosed):
            consumer.read_range(FIRST, 0, 5)

    run(program())


def test_bootstrap_connects_now_and_raises_without_brokers(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaConsumer(bootstrap_servers=kafka_cluster.bootstrap_servers) as consumer:
            assert not consumer.bootstrap_connected()
            await consumer.bootstrap()
            assert consumer.bootstrap_connected()
            await consumer.bootstrap(refresh=True)
        async with KafkaConsumer(bootstrap_servers="127.0.0.1:1") as consumer:
            with pytest.raises(NoBrokersAvailable):
                await consumer.bootstrap(timeout_ms=200)

    run(program())
