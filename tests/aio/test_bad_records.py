"""`on_bad_record` of the asyncio consumer: coroutine functions, and functions that return an awaitable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pykafka2 import BadRecord, TopicPartition
from pykafka2 import KafkaConsumer as SyncConsumer
from pykafka2 import KafkaProducer as SyncProducer
from pykafka2.aio import KafkaConsumer, KafkaProducer
from pykafka2.errors import ConsumerStopped, IllegalState, SerializationError
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

FIRST = TopicPartition("orders", 0)
GOOD = [0, 1, 2, 4, 5, 6, 7, 8, 9]

pytestmark = pytest.mark.kafka(
    brokers=1, topics={"orders": 1, "dead": 1}, config={"group.initial.rebalance.delay.ms": 0}
)

Handler = Callable[[BadRecord], Any]
Reader = Callable[[KafkaConsumer[Any, Any]], Coroutine[Any, Any, list[int]]]


def fill(cluster: KafkaCluster, count: int = 10) -> None:
    with SyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(count):
            producer.send("orders", b"%d" % number)


def number_of(data: bytes) -> int:
    if b"3" in data:
        raise ValueError("three")
    return int(data)


def consumer_of(cluster: KafkaCluster, handler: Handler, **options: Any) -> KafkaConsumer[Any, Any]:
    chosen = {"auto_offset_reset": "earliest", "value_deserializer": number_of, **options}
    return KafkaConsumer(
        "orders", bootstrap_servers=cluster.bootstrap_servers, on_bad_record=handler, **chosen
    )


async def by_getone(consumer: KafkaConsumer[Any, Any]) -> list[int]:
    return [(await consumer.getone()).value for _ in GOOD]


async def by_getmany(consumer: KafkaConsumer[Any, Any]) -> list[int]:
    found: list[int] = []
    while len(found) < len(GOOD):
        for records in (await consumer.getmany(timeout_ms=1000, max_records=2)).values():
            found += [record.value for record in records]
    return found


async def by_iteration(consumer: KafkaConsumer[Any, Any]) -> list[int]:
    found: list[int] = []
    async for record in consumer:
        found.append(record.value)
        if len(found) == len(GOOD):
            break
    return found


@pytest.mark.parametrize("read", [by_getone, by_getmany, by_iteration])
@pytest.mark.parametrize("kind", ["coroutine function", "returns a coroutine", "returns a delivery"])
def test_dead_letters_are_delivered_before_the_record_is_skipped(
    kafka_cluster: KafkaCluster, read: Reader, kind: str
) -> None:
    fill(kafka_cluster)

    async def program() -> tuple[list[int], float]:
        async with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, linger_ms=0) as producer:

            async def to_dead_letters(bad: BadRecord) -> None:
                await producer.send_and_wait("dead", bad.value)

            handlers: dict[str, Handler] = {
                "coroutine function": to_dead_letters,
                "returns a coroutine": lambda bad: to_dead_letters(bad),
                "returns a delivery": lambda bad: producer.send("dead", bad.value),
            }
            async with consumer_of(kafka_cluster, handlers[kind]) as consumer:
                found = await read(consumer)
                assert kafka_cluster.log("dead", 0).values() == [b"3"]
                return found, consumer.metrics()["bad-records-total"]

    assert run(program()) == (GOOD, 1)


def test_coroutine_that_raises_leaves_the_position_at_the_record(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    is_broken = True
    calls: list[int] = []

    async def handle(bad: BadRecord) -> None:
        calls.append(bad.offset)
        await asyncio.sleep(0.01)
        if is_broken:
            raise ConnectionError("no dead letters")

    async def program() -> list[int]:
        nonlocal is_broken
        async with consumer_of(kafka_cluster, handle) as consumer:
            found = [(await consumer.getone()).value for _ in range(3)]
            for _ in range(2):
                with pytest.raises(SerializationError, match=r"on_bad_record failed.*no dead letters"):
                    await consumer.getone()
                assert await consumer.position(FIRST) == 3
            is_broken = False
            return found + [(await consumer.getone()).value for _ in range(6)]

    assert run(program()) == GOOD
    assert calls == [3, 3, 3]


def test_read_returns_in_time_while_the_coroutine_runs(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    calls: list[int] = []

    async def program() -> list[int]:
        may_end = asyncio.Event()

        async def handle(bad: BadRecord) -> None:
            calls.append(bad.offset)
            await may_end.wait()

        async with consumer_of(kafka_cluster, handle) as consumer:
            found = [(await consumer.getone()).value for _ in range(3)]
            for _ in range(3):
                assert await consumer.getmany(timeout_ms=50) == {}
            reading = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0.05)
            reading.cancel()
            await asyncio.wait([reading])
            assert await consumer.position(FIRST) == 3
            reading = asyncio.create_task(consumer.getone())
            await asyncio.sleep(0.05)
            may_end.set()
            return [*found, (await reading).value, *[(await consumer.getone()).value for _ in range(5)]]

    assert run(program()) == GOOD
    assert calls == [3], "a cancelled read leaves the coroutine running"


@pytest.mark.gate
def test_waiting_for_the_coroutine_uses_no_processor(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    passes = 0

    def counted(data: bytes) -> int:
        nonlocal passes
        passes += data == b"3"
        return number_of(data)

    async def handle(bad: BadRecord) -> None:
        await asyncio.sleep(0.5)

    async def program() -> list[int]:
        async with consumer_of(
            kafka_cluster, handle, value_deserializer=counted, fetch_max_wait_ms=20_000
        ) as consumer:
            async with asyncio.timeout(
                8
            ):  # the end of the coroutine wakes the read; nothing else does for 10 s
                return await by_getone(consumer)

    assert run(program()) == GOOD
    assert passes < 10


def test_stop_cancels_the_coroutine_and_the_record_is_read_again(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    ends: list[str] = []

    async def program() -> list[int]:
        async def hang(bad: BadRecord) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        consumer = consumer_of(kafka_cluster, hang, group_id="billing")
        found = [(await consumer.getone()).value for _ in range(3)]
        reading = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0.05)
        await consumer.stop()
        with pytest.raises(ConsumerStopped):
            await reading
        handled: list[bytes | None] = []

        async def handle(bad: BadRecord) -> None:
            handled.append(bad.value)

        async with consumer_of(kafka_cluster, handle, group_id="billing") as consumer:
            found += [(await consumer.getone()).value for _ in range(6)]
        assert handled == [b"3"]
        return found

    assert run(program()) == GOOD
    assert ends == ["cancelled"]


def test_read_without_a_timeout_continues_after_a_coroutine_that_ended_between_two_reads(
    kafka_cluster: KafkaCluster,
) -> None:
    fill(kafka_cluster)

    async def program() -> list[int]:
        may_end, has_ended = asyncio.Event(), asyncio.Event()

        async def handle(bad: BadRecord) -> None:
            await may_end.wait()
            has_ended.set()

        async with consumer_of(kafka_cluster, handle) as consumer:
            found: list[int] = []
            while len(found) < 3:
                found += [
                    one.value for many in (await consumer.getmany(timeout_ms=1000)).values() for one in many
                ]
            may_end.set()
            await has_ended.wait()
            await asyncio.sleep(0.01)
            found += [one.value for many in (await consumer.getmany(timeout_ms=0)).values() for one in many]
            return found

    assert run(program()) == GOOD


def test_coroutine_that_is_cancelled_leaves_the_position_at_the_record(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 4)

    async def handle(bad: BadRecord) -> None:
        raise asyncio.CancelledError

    async def program() -> None:
        async with consumer_of(kafka_cluster, handle) as consumer:
            for _ in range(3):
                await consumer.getone()
            with pytest.raises(SerializationError, match="coroutine was cancelled"):
                await consumer.getone()
            assert await consumer.position(FIRST) == 3

    run(program())


def test_bad_records_at_one_offset_of_two_partitions_are_both_handled(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("two", 2)
    with SyncProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
        for partition in range(2):
            for value in (b"3", b"4"):
                producer.send("two", value, partition=partition)
    handled: list[TopicPartition] = []

    async def handle(bad: BadRecord) -> None:
        await asyncio.sleep(0.01)
        handled.append(bad.topic_partition)

    async def program() -> list[int]:
        async with consumer_of(kafka_cluster, handle) as consumer:
            consumer.subscribe(["two"])
            return [(await consumer.getone()).value for _ in range(2)]

    assert run(program()) == [4, 4]
    assert sorted(handled) == [TopicPartition("two", 0), TopicPartition("two", 1)]


def test_stop_inside_the_coroutine_lets_it_end(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    ends: list[str] = []

    async def program() -> None:
        async def handle(bad: BadRecord) -> None:
            try:
                await consumer.stop()
                await asyncio.sleep(0)
                ends.append("stopped")
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        consumer = consumer_of(kafka_cluster, handle)
        with pytest.raises(ConsumerStopped):
            await by_getone(consumer)
        while not ends:
            await asyncio.sleep(0.01)

    run(program())
    assert ends == ["stopped"]


def test_calls_inside_the_coroutine_work_and_a_read_raises(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster)
    errors: list[BaseException] = []
    committed: list[Any] = []

    async def program() -> list[int]:
        async def handle(bad: BadRecord) -> None:
            await consumer.commit()
            committed.append(await consumer.committed(FIRST))
            try:
                await consumer.getone()
            except IllegalState as error:
                errors.append(error)

        async with consumer_of(kafka_cluster, handle, group_id="billing") as consumer:
            return await by_getone(consumer)

    assert run(program()) == GOOD
    assert "on_bad_record" in str(errors[0])
    assert committed[0] in (1, 2, 3), "the records that getone has returned"


def test_task_of_the_coroutine_can_read_after_it_has_ended(kafka_cluster: KafkaCluster) -> None:
    fill(kafka_cluster, 6)
    tasks: list[asyncio.Task[int]] = []

    async def program() -> tuple[list[int], int]:
        may_read = asyncio.Event()

        async def read_later() -> int:
            await may_read.wait()
            (records,) = (await consumer.getmany(timeout_ms=10_000)).values()
            value: int = records[0].value
            return value

        async def handle(bad: BadRecord) -> None:
            tasks.append(asyncio.create_task(read_later()))

        async with consumer_of(kafka_cluster, handle) as consumer:
            found = [(await consumer.getone()).value for _ in range(4)]
            may_read.set()
            return found, await tasks[0]

    assert run(program()) == ([0, 1, 2, 4], 5)


def test_sync_function_that_returns_an_awaitable_does_not_skip_the_record(
    kafka_cluster: KafkaCluster,
) -> None:
    fill(kafka_cluster, 4)

    async def later(bad: BadRecord) -> None:
        raise AssertionError("not awaited")

    servers = kafka_cluster.bootstrap_servers
    with SyncProducer(bootstrap_servers=servers) as producer:
        kafka_cluster.controls.hold(ProduceRequest)
        handlers: list[Handler] = [lambda bad: later(bad), lambda bad: producer.send("dead", bad.value)]
        for handler, name in zip(handlers, ("coroutine", "Delivery"), strict=True):
            with SyncConsumer(
                "orders",
                bootstrap_servers=servers,
                auto_offset_reset="earliest",
                value_deserializer=number_of,
                on_bad_record=handler,
            ) as consumer:
                found: list[int] = []
                while len(found) < 3:
                    found += [record.value for records in consumer.poll(1000).values() for record in records]
                for _ in range(2):
                    with pytest.raises(
                        SerializationError, match=f"returned a {name}, which this consumer does not await"
                    ):
                        consumer.poll(1000)
                assert found == [0, 1, 2]
                assert consumer.position(FIRST) == 3
        kafka_cluster.controls.release(ProduceRequest)


@pytest.mark.gate
def test_damaged_batch_is_skipped_after_the_coroutine_has_ended(tmp_path: Path) -> None:
    with (
        KafkaCluster(1, {"orders": 1}, data_dir=tmp_path) as cluster,
        SyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer,
    ):
        for value in (b"0", b"damaged", b"2"):
            producer.send("orders", value).result(30)
    (segment,) = tmp_path.rglob("orders-0/*.log")
    segment.write_bytes(segment.read_bytes().replace(b"damaged", b"DAMAGED"))
    handled: list[BadRecord] = []

    async def handle(bad: BadRecord) -> None:
        await asyncio.sleep(0.05)
        handled.append(bad)

    async def program(cluster: KafkaCluster) -> list[int]:
        async with consumer_of(cluster, handle) as consumer:
            return [(await consumer.getone()).value for _ in range(2)]

    with KafkaCluster(1, data_dir=tmp_path) as cluster:
        assert run(program(cluster)) == [0, 2]
    (bad,) = handled
    assert (bad.offset, bad.next_offset) == (1, 2)
    assert b"DAMAGED" in (bad.batch or b"")
