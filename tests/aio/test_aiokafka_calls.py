"""Calls of aiokafka's consumer that the sync consumer does not have, and `wakeup`."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pykafka2 import TopicPartition
from pykafka2.aio import KafkaConsumer
from pykafka2.errors import ConsumerStopped, ConsumerWakeup, IllegalState, TopicAuthorizationFailed
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster
from tests.aio.running import run
from tests.aio.test_consumer import FIRST, SECOND, consumer_of, fill

pytestmark = pytest.mark.kafka(
    brokers=1, topics={"orders": 2}, config={"group.initial.rebalance.delay.ms": 0}
)


def values(records: list[object]) -> list[int]:
    return [int(record.value) for record in records]  # type: ignore[attr-defined]


@pytest.mark.parametrize("group", [None, "billing"])
def test_reads_of_named_partitions_leave_the_records_of_others(
    kafka_cluster: KafkaCluster, group: str | None
) -> None:
    fill(kafka_cluster, 20, partition=0)
    fill(kafka_cluster, 20, partition=1, first=100)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders", group_id=group) as consumer:
            found = [int((await consumer.getone(SECOND)).value or b"") for _ in range(5)]
            polled = await consumer.getmany(SECOND, timeout_ms=5000, max_records=5)
            assert list(polled) == [SECOND]
            assert found + values(polled[SECOND]) == list(range(100, 110))
            assert await consumer.position(FIRST) == 0
            assert await consumer.position(SECOND) == 10

            by_partition: dict[int, list[int]] = {0: [], 1: []}
            for _ in range(3):  # some of them wait in the queue of the iteration afterwards
                record = await consumer.getone()
                by_partition[record.partition].append(int(record.value or b""))
            for partition in (FIRST, SECOND) * 4:
                record = await consumer.getone(partition)
                by_partition[record.partition].append(int(record.value or b""))
            while sum(map(len, by_partition.values())) < 30:
                for partition, records in (await consumer.getmany(FIRST, SECOND, timeout_ms=5000)).items():
                    by_partition[partition.partition] += values(records)
            assert by_partition == {0: list(range(20)), 1: list(range(110, 120))}

    run(program())


def test_getone_of_a_partition_waits_for_its_records(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 5, partition=0)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            assert await consumer.getmany(SECOND, timeout_ms=100) == {}
            waiting = asyncio.create_task(consumer.getone(SECOND))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await asyncio.to_thread(fill, kafka_cluster, 1, 1, 7)
            assert (await waiting).value == b"7"
            assert (await consumer.getone()).value == b"0"

    run(program())


def test_partition_that_assign_did_not_name_raises(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with consumer_of(kafka_cluster) as consumer:
            consumer.assign([FIRST])
            with pytest.raises(IllegalState, match="orders-1 is not assigned"):
                await consumer.getone(SECOND)
            with pytest.raises(TypeError, match="TopicPartition"):
                await consumer.getmany("orders")  # type: ignore[arg-type]

    run(program())


def test_buffer_full_of_other_partitions_does_not_starve_the_named_one(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 3000, partition=0)

    async def program() -> None:
        options = {"queued_max_bytes": 1024, "max_partition_fetch_bytes": 1024, "fetch_max_wait_ms": 10}
        async with consumer_of(kafka_cluster, **options) as consumer:
            consumer.assign([FIRST])
            assert (await consumer.getone()).value == b"0"
            await kafka_cluster.wait_until_async(consumer._core.fetcher.is_full)
            await asyncio.to_thread(fill, kafka_cluster, 3, 1, 7)
            consumer.incremental_assign([SECOND])
            async with asyncio.timeout(20):  # the stall detector would help after 30 s
                assert [(await consumer.getone(SECOND)).value for _ in range(3)] == [b"7", b"8", b"9"]
            assert [(await consumer.getone()).value for _ in range(3)] == [b"1", b"2", b"3"]

    run(program())


def test_unread_partition_is_not_taken_for_stalled(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 5, partition=0)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            detector = consumer._core.poller.stall_detector
            await consumer.getone(FIRST)
            for _ in range(3):
                detector._checked_at = detector.due_at = 0.0  # a check is due
                assert await consumer.getmany(SECOND, timeout_ms=0) == {}
            assert detector._checked_at > 0
            assert FIRST not in detector.stalled_for()

    run(program())


def test_wakeup_ends_each_read_and_loses_no_record(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            await consumer.poll(0)

            async def woken(read: object) -> object:
                task = asyncio.ensure_future(read)  # type: ignore[call-overload]
                await asyncio.sleep(0.02)
                assert not task.done()
                threading.Thread(target=consumer.wakeup).start()
                return await asyncio.wait_for(task, 30)

            assert await woken(consumer.poll(60_000)) == {}
            assert await woken(consumer.getmany(FIRST, timeout_ms=60_000)) == {}
            assert await woken(consumer.poll_columns(60_000)) == {}
            for read in (consumer.getone(), consumer.getone(SECOND)):
                with pytest.raises(ConsumerWakeup):
                    await woken(read)

            async def iterate() -> list[object]:
                return [record async for record in consumer]

            assert await woken(iterate()) == []
            await asyncio.to_thread(fill, kafka_cluster, 2)
            consumer.wakeup()  # before a read: ends the next one, also if records are there
            assert await consumer.poll(60_000) == {}
            assert [(await consumer.getone()).value for _ in range(2)] == [b"0", b"1"]

    run(program())


def test_started_consumer_without_a_group_has_its_assignment(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 5)

    async def program() -> None:
        consumer = consumer_of(kafka_cluster, "orders", "missing", allow_auto_create_topics=False)
        await consumer.start()
        assert consumer.assignment() == {FIRST, SECOND}
        consumer.seek(FIRST, 3)
        await consumer.seek_to_end(SECOND)
        assert (await consumer.getone()).value == b"3"
        await consumer.stop()
        by_pattern = consumer_of(kafka_cluster)
        by_pattern.subscribe(pattern="ord.*")
        await by_pattern.start()
        assert (await by_pattern.getone()).value == b"0"
        await by_pattern.stop()

    run(program())


def test_start_raises_if_a_topic_cannot_be_read() -> None:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER}  # no ACL allows anything
    with KafkaCluster(1, {"secret": 1}, config=config) as cluster:

        async def program() -> None:
            consumer = consumer_of(cluster, "secret")
            with pytest.raises(TopicAuthorizationFailed, match="secret"):
                await consumer.start()
            with pytest.raises(ConsumerStopped):
                await consumer.getone()

        run(program())


def test_seek_calls_can_be_awaited_as_in_aiokafka(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 5)

    async def program() -> None:
        async with consumer_of(kafka_cluster, group_id="billing") as consumer:
            consumer.assign([FIRST, SECOND])
            assert await consumer.seek_to_end(FIRST) is True
            assert await consumer.position(FIRST) == 5
            assert await consumer.seek_to_beginning(FIRST) is True
            assert (await consumer.getone()).value == b"0"
            await consumer.commit({FIRST: 3})
            assert await consumer.seek_to_committed() == {FIRST: 3, SECOND: None}
            assert (await consumer.getone()).value == b"3"
            assert await consumer.seek_to_committed(FIRST) == {FIRST: 3}
            with pytest.raises(IllegalState, match="not assigned"):
                await consumer.seek_to_committed(TopicPartition("orders", 7))

    run(program())


@pytest.mark.parametrize(("isolation", "offset"), [("read_committed", 5), ("read_uncommitted", None)])
def test_last_stable_offset_is_that_of_the_last_fetch(
    kafka_cluster: KafkaCluster, isolation: str, offset: int | None
) -> None:
    fill(kafka_cluster, 5)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders", isolation_level=isolation) as consumer:
            assert consumer.last_stable_offset(FIRST) is None
            await consumer.getone()
            assert consumer.last_stable_offset(FIRST) == offset
            assert consumer.highwater(FIRST) == 5

    run(program())


def test_cancelled_read_of_a_partition_takes_no_record(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 3)

    async def program() -> None:
        async with consumer_of(kafka_cluster, "orders") as consumer:
            kafka_cluster.controls.hold(FetchRequest)
            waiting = asyncio.create_task(consumer.getone(FIRST))
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            kafka_cluster.controls.release(FetchRequest)
            assert [(await consumer.getone(FIRST)).value for _ in range(3)] == [b"0", b"1", b"2"]

    run(program())


def test_closed_consumer_ignores_wakeup(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        consumer: KafkaConsumer[bytes, bytes] = consumer_of(kafka_cluster, "orders")
        await consumer.close()
        consumer.wakeup()

    run(program())


def test_next_offsets_are_after_the_records_that_getone_has_returned(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 3, partition=0)

    async def program() -> None:
        async with consumer_of(kafka_cluster) as consumer:
            consumer.assign([FIRST, SECOND])
            assert consumer.next_offsets() == {}
            record = await consumer.getone(FIRST)
            assert consumer.next_offsets()[FIRST].offset == record.offset + 1

    run(program())
