"""The clients of `benchmarks.aio`: coroutines that send, read or wait, with equal settings.

A client is a coroutine function of a run. It connects, warms up, and measures its own work.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.aio.runs import PARTITIONS, Run
from benchmarks.producer.inputs import inputs_of
from benchmarks.producer.runs import Cell as Sent
from benchmarks.side_by_side.measured import Measured, clock, peak_rss_mb
from benchmarks.side_by_side.turns import with_compiled

Client = Callable[[Run], Awaitable[Measured]]
Send = Callable[[bytes], Awaitable[Awaitable[Any]]]

LINGER_MS = 5
BATCH_BYTES = 16_384
AWAITED_TOGETHER = 10_000
AWAITED_WHILE_LAGGING = 1000
"""A loop over deliveries that are done does not yield: ten thousand of them would be the lag."""
WARM_UP_RECORDS = 2000
WARM_UP_WAITS = 50
LAG_PERIOD = 0.001


# ---------------------------------------------------------------------- connections


@asynccontextmanager
async def pykafka2_sender(run: Run, linger_ms: float) -> AsyncIterator[Send]:
    from pykafka2.aio import KafkaProducer

    async with KafkaProducer(
        bootstrap_servers=run.bootstrap_servers, linger_ms=linger_ms, batch_size=BATCH_BYTES
    ) as producer:
        yield lambda value: producer.send(run.topic, value)


@asynccontextmanager
async def pykafka2_bulk_sender(run: Run, linger_ms: float) -> AsyncIterator[Any]:
    from pykafka2.aio import KafkaProducer

    async with KafkaProducer(
        bootstrap_servers=run.bootstrap_servers, linger_ms=linger_ms, batch_size=BATCH_BYTES
    ) as producer:
        yield lambda values: producer.send_many(run.topic, values)


@asynccontextmanager
async def aiokafka_sender(run: Run, linger_ms: float) -> AsyncIterator[Send]:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=run.bootstrap_servers,
        linger_ms=linger_ms,
        max_batch_size=BATCH_BYTES,
        enable_idempotence=True,
    )
    await producer.start()
    try:
        yield lambda value: producer.send(run.topic, value)
    finally:
        await producer.stop()


@asynccontextmanager
async def confluent_sender(run: Run, linger_ms: float) -> AsyncIterator[Send]:
    from confluent_kafka.aio import AIOProducer

    options = {
        "bootstrap.servers": run.bootstrap_servers,
        "enable.idempotence": True,
        "linger.ms": linger_ms,
        "batch.size": BATCH_BYTES,
        "socket.nagle.disable": linger_ms == 0,
    }
    # Its own batches in front of librdkafka's: none where each record is awaited.
    producer = AIOProducer(
        options, batch_size=AWAITED_TOGETHER if linger_ms else 1, buffer_timeout=LINGER_MS / 1000
    )
    try:
        yield lambda value: producer.produce(run.topic, value)
    finally:
        await producer.close()


@asynccontextmanager
async def pykafka2_reader(run: Run) -> AsyncIterator[Any]:
    from pykafka2 import TopicPartition
    from pykafka2.aio import KafkaConsumer

    async with KafkaConsumer(
        bootstrap_servers=run.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(run.topic, number) for number in range(PARTITIONS)])
        yield consumer


@asynccontextmanager
async def aiokafka_reader(run: Run) -> AsyncIterator[Any]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=run.bootstrap_servers, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([TopicPartition(run.topic, number) for number in range(PARTITIONS)])
        yield consumer
    finally:
        await consumer.stop()


# ---------------------------------------------------------------------- what is measured


async def send_all(send: Send, values: list[bytes], count: int) -> int:
    """Send `count` records, and await the outcomes of ten thousand at a time; how many failed."""
    failed = 0
    for start in range(0, count, AWAITED_TOGETHER):
        together = [
            await send(values[number % len(values)])
            for number in range(start, min(start + AWAITED_TOGETHER, count))
        ]
        for delivery in together:  # cheaper for every client than asyncio.gather
            try:
                await delivery
            except Exception:
                failed += 1
    return failed


async def gather_all(send: Send, values: list[bytes], count: int) -> int:
    """Send like `send_all`, and await the outcomes with asyncio.gather."""
    failed = 0
    for start in range(0, count, AWAITED_TOGETHER):
        together = [
            await send(values[number % len(values)])
            for number in range(start, min(start + AWAITED_TOGETHER, count))
        ]
        outcomes = await asyncio.gather(*together, return_exceptions=True)
        failed += sum(isinstance(outcome, Exception) for outcome in outcomes)
    return failed


async def send_columns(send_many: Any, values: list[bytes], count: int) -> int:
    """Send ten thousand records with each call, and await their outcome."""
    failed = 0
    for start in range(0, count, AWAITED_TOGETHER):
        end = min(start + AWAITED_TOGETHER, count)
        bulk = await send_many([values[number % len(values)] for number in range(start, end)])
        try:
            await bulk
        except Exception:
            failed += sum(len(rows) for rows, _ in bulk.failures())
    return failed


def sending(connect: Callable[[Run, float], Any], send_all: Any = send_all) -> Client:
    async def play(run: Run) -> Measured:
        values = inputs_of(Sent(size=run.cell.size)).values
        async with connect(run, LINGER_MS) as send:
            await send_all(send, values, WARM_UP_RECORDS)
            started, cpu = clock()
            failed = await send_all(send, values, run.records)
            ended, cpu_ended = clock()
            return Measured(
                run.records / (ended - started), (cpu_ended - cpu) / run.records * 1e6, peak_rss_mb(), failed
            )

    return play


def waiting(connect: Callable[[Run, float], Any]) -> Client:
    """Return one record at a time, each awaited."""

    async def play(run: Run) -> Measured:
        value, times = bytes(run.cell.size), []
        async with connect(run, 0) as send:
            for _ in range(WARM_UP_WAITS):
                await (await send(value))
            started, cpu = clock()
            for _ in range(run.records):
                begun = time.perf_counter()
                await (await send(value))
                times.append(time.perf_counter() - begun)
            ended, cpu_ended = clock()
        return with_percentiles(times, run.records, ended - started, cpu_ended - cpu, 0.99)

    return play


def lagging(connect: Callable[[Run, float], Any], is_frozen: bool = False) -> Client:
    """Return a loop under full load for `run.records` milliseconds: how late its timers are (p50, p99.9).

    If `is_frozen`, full garbage collections skip what was there before, as in a service that needs short
    pauses.
    """

    async def play(run: Run) -> Measured:
        values, lags, sent = inputs_of(Sent(size=run.cell.size)).values, [], 0
        async with connect(run, LINGER_MS) as send:
            await send_all(send, values, WARM_UP_RECORDS)
            if is_frozen:
                gc.collect()
                gc.freeze()
            started, cpu = clock()
            until = started + run.records / 1000

            async def load() -> None:
                nonlocal sent
                while time.perf_counter() < until:
                    await send_all(send, values, AWAITED_WHILE_LAGGING)
                    sent += AWAITED_WHILE_LAGGING

            loading = asyncio.create_task(load())
            while not loading.done():
                begun = time.perf_counter()
                await asyncio.sleep(LAG_PERIOD)
                lags.append(max(0.0, time.perf_counter() - begun - LAG_PERIOD))
            await loading
            ended, cpu_ended = clock()
        return with_percentiles(lags, sent, ended - started, cpu_ended - cpu, 0.999)

    return play


def with_percentiles(times: list[float], count: int, seconds: float, cpu: float, high: float) -> Measured:
    """p99 is the percentile that the cell asks for."""
    times.sort()
    return Measured(
        count / seconds,
        cpu / count * 1e6,
        peak_rss_mb(),
        p50=times[len(times) // 2],
        p99=times[min(int(len(times) * high), len(times) - 1)],
    )


def reading(connect: Callable[[Run], Any], read: Callable[[Any, int], Awaitable[int]]) -> Client:
    """The clock begins with the first records: connecting is not measured."""

    async def play(run: Run) -> Measured:
        async with connect(run) as consumer:
            first = await read(consumer, 1)
            started, cpu = clock()
            count = await read(consumer, run.records - first)
            ended, cpu_ended = clock()
            return Measured(count / (ended - started), (cpu_ended - cpu) / count * 1e6, peak_rss_mb())

    return play


async def read_many(consumer: Any, at_least: int) -> int:
    count = 0
    while count < at_least:
        polled = await consumer.getmany(timeout_ms=1000, max_records=500)
        for records in polled.values():
            for record in records:
                count += record.value is not None
    return count


async def read_each(consumer: Any, at_least: int) -> int:
    count = 0
    async for record in consumer:
        count += record.value is not None
        if count >= at_least:
            break
    return count


# ---------------------------------------------------------------------- pykafka2 without asyncio


async def sync_send(run: Run) -> Measured:
    """Return the sync producer, which waits for the last outcome of each ten thousand."""
    from pykafka2 import KafkaProducer

    values = inputs_of(Sent(size=run.cell.size)).values
    with KafkaProducer(
        bootstrap_servers=run.bootstrap_servers, linger_ms=LINGER_MS, batch_size=BATCH_BYTES
    ) as producer:

        def send_all_sync(count: int) -> None:
            for start in range(0, count, AWAITED_TOGETHER):
                together = [
                    producer.send(run.topic, values[number % len(values)])
                    for number in range(start, min(start + AWAITED_TOGETHER, count))
                ]
                for delivery in together:
                    delivery.result(60)

        send_all_sync(WARM_UP_RECORDS)
        started, cpu = clock()
        send_all_sync(run.records)
        ended, cpu_ended = clock()
        return Measured(run.records / (ended - started), (cpu_ended - cpu) / run.records * 1e6, peak_rss_mb())


async def sync_poll(run: Run) -> Measured:
    """Return the sync consumer."""
    from pykafka2 import KafkaConsumer, TopicPartition

    with KafkaConsumer(bootstrap_servers=run.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(run.topic, number) for number in range(PARTITIONS)])

        def read(at_least: int) -> int:
            count = 0
            while count < at_least:
                for records in consumer.poll(timeout_ms=1000, max_records=500).values():
                    for record in records:
                        count += record.value is not None
            return count

        first = read(1)
        started, cpu = clock()
        count = read(run.records - first)
        ended, cpu_ended = clock()
        return Measured(count / (ended - started), (cpu_ended - cpu) / count * 1e6, peak_rss_mb())


SENDERS = with_compiled(
    {
        "pykafka2.aio": pykafka2_sender,
        "aiokafka": aiokafka_sender,
        "confluent_kafka.aio": confluent_sender,
    },
    "pykafka2.aio",
)
READERS = with_compiled({"pykafka2.aio": pykafka2_reader, "aiokafka": aiokafka_reader}, "pykafka2.aio")

CLIENTS: dict[str, dict[str, Client]] = {
    "send": {name: sending(connect) for name, connect in SENDERS.items()}
    | {
        "pykafka2.aio, gather": sending(pykafka2_sender, gather_all),
        "aiokafka, gather": sending(aiokafka_sender, gather_all),
        "pykafka2.aio send_many": sending(pykafka2_bulk_sender, send_columns),
        "pykafka2": sync_send,
    },
    "getmany": {name: reading(connect, read_many) for name, connect in READERS.items()}
    | {"pykafka2": sync_poll},
    "async for": {name: reading(connect, read_each) for name, connect in READERS.items()},
    "send and wait": {name: waiting(connect) for name, connect in SENDERS.items()},
    "loop lag": {name: lagging(connect) for name, connect in SENDERS.items()}
    | {f"{name}, gc.freeze": lagging(SENDERS[name], is_frozen=True) for name in ("pykafka2.aio", "aiokafka")},
}
"""By what is measured, then by client."""
