"""What is measured, for each client: a function of `Task` that returns figures by the name of the row."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import attrs

VALUE = bytes(100)
LAG_STEP = 0.001


@attrs.frozen
class Task:
    """One run: the brokers, a topic with `records` records, and their number."""

    servers: str
    topic: str
    records: int
    seconds: float
    """For the rows that last for a time."""


Figures = dict[str, float]
Play = Callable[[Task], Figures]


async def lag_during(work: Coroutine[Any, Any, Any]) -> tuple[float, float]:
    """Return by how much the loop was late while `work` ran: 99.9th percentile and maximum, in ms."""
    late: list[float] = []
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(work)
    while not task.done():
        due = loop.time() + LAG_STEP
        await asyncio.sleep(LAG_STEP)
        late.append(max(0.0, loop.time() - due))
    await task
    late.sort()
    return late[int(len(late) * 0.999) - 1] * 1000, late[-1] * 1000


async def one_at_a_time(send: Callable[[], Any], seconds: float) -> float:
    """Return the median of the microseconds that a record takes, from send to its outcome."""
    took: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        await send()
        took.append(time.perf_counter() - began)
    return sorted(took)[len(took) // 2] * 1e6


async def read_all(read: Callable[[], Any], count: int) -> float:
    """Return records per second, from the first one on; `read` returns how many it has read."""
    left = count - await read()
    began, counted = time.perf_counter(), left
    while left > 0:
        left -= await read()
    return counted / (time.perf_counter() - began)


async def iterate(consumer: Any, count: int) -> float:
    began, left = 0.0, count
    async for _ in consumer:
        if left == count:
            began = time.perf_counter()
        left -= 1
        if not left:
            break
    return count / (time.perf_counter() - began)


async def _of_asyncio(task: Task, producer_of: Callable[..., Any], consumer_of: Callable[[], Any]) -> Figures:
    """Measure a client with aiokafka's calls."""
    figures: Figures = {}
    producer = producer_of(linger_ms=5)
    await producer.start()
    await producer.send_and_wait(task.topic, VALUE)

    async def send(records: int) -> None:
        sent = [await producer.send(task.topic, VALUE) for _ in range(records)]
        for delivery in sent:
            await delivery

    began = time.perf_counter()
    await send(task.records)
    figures["send/s"] = task.records / (time.perf_counter() - began)

    async def load() -> None:
        until = time.perf_counter() + task.seconds
        while time.perf_counter() < until:
            await send(5000)

    figures["lag p99.9 ms"], figures["lag max ms"] = await lag_during(load())
    await producer.stop()
    producer = producer_of(linger_ms=0)
    await producer.start()
    figures["one at a time us"] = await one_at_a_time(
        lambda: producer.send_and_wait(task.topic, VALUE), task.seconds
    )
    await producer.stop()

    for row in ("getmany/s", "async for/s"):
        consumer = consumer_of()
        await consumer.start()

        async def many(consumer: Any = consumer) -> int:
            return sum(map(len, (await consumer.getmany(timeout_ms=1000, max_records=500)).values()))

        read = read_all(many, task.records) if row == "getmany/s" else iterate(consumer, task.records)
        figures[row] = await read
        await consumer.stop()
    return figures


def aiokafka(task: Task) -> Figures:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def program() -> Figures:
        return await _of_asyncio(
            task,
            lambda **options: AIOKafkaProducer(
                bootstrap_servers=task.servers, enable_idempotence=True, acks="all", **options
            ),
            lambda: AIOKafkaConsumer(
                task.topic, bootstrap_servers=task.servers, auto_offset_reset="earliest"
            ),
        )

    return asyncio.run(program())


def pykafka2_aio(task: Task) -> Figures:
    from pykafka2.aio import KafkaConsumer, KafkaProducer

    async def program() -> Figures:
        return await _of_asyncio(
            task,
            lambda **options: KafkaProducer(bootstrap_servers=task.servers, **options),
            lambda: KafkaConsumer(task.topic, bootstrap_servers=task.servers, auto_offset_reset="earliest"),
        )

    return asyncio.run(program())


def pykafka2_sync(task: Task) -> Figures:
    from pykafka2 import KafkaConsumer, KafkaProducer

    figures: Figures = {}
    with KafkaProducer(bootstrap_servers=task.servers, linger_ms=5) as producer:
        producer.send(task.topic, VALUE).result(10)
        began = time.perf_counter()
        sent = [producer.send(task.topic, VALUE) for _ in range(task.records)]
        for delivery in sent:
            delivery.result()
        figures["send/s"] = task.records / (time.perf_counter() - began)
    options: dict[str, Any] = {"bootstrap_servers": task.servers, "auto_offset_reset": "earliest"}
    for row in ("getmany/s", "async for/s"):
        with KafkaConsumer(task.topic, **options) as consumer:
            left = task.records
            began = 0.0
            if row == "getmany/s":
                while left > 0:
                    left -= sum(map(len, consumer.poll(1000).values()))
                    began = began or time.perf_counter()
            else:
                for _ in consumer:
                    began = began or time.perf_counter()
                    left -= 1
                    if not left:
                        break
            figures[row] = task.records / (time.perf_counter() - began)
    return figures


def confluent_aio(task: Task) -> Figures:
    from confluent_kafka.aio import AIOProducer

    async def program() -> Figures:
        producer = AIOProducer(
            {"bootstrap.servers": task.servers, "linger.ms": 5, "enable.idempotence": True}
        )
        await (await producer.produce(task.topic, VALUE))
        began = time.perf_counter()
        sent = [await producer.produce(task.topic, VALUE) for _ in range(task.records)]
        await producer.flush()
        for delivery in sent:
            await delivery
        figures = {"send/s": task.records / (time.perf_counter() - began)}
        await producer.close()
        return figures

    return asyncio.run(program())


CLIENTS: dict[str, Play] = {
    "pykafka2.aio": pykafka2_aio,
    "aiokafka": aiokafka,
    "confluent_kafka.aio": confluent_aio,
    "pykafka2": pykafka2_sync,
}
