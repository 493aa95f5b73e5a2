"""The consumers of `benchmarks.consumer`, each in the way its documentation recommends.

A client is a function of a run that returns an iterator over the numbers of records that it reads at a time,
and closes the consumer when it is closed. Each reads the value of every record, as a program does. None
requests more records than are left, because the wait for its timeout would be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.consumer.runs import PARTITIONS, Run
from benchmarks.side_by_side.turns import with_compiled

CONFLUENT_TUNED = {
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 2,
    "queued.max.messages.kbytes": 262_144,
}
COLUMN_RECORDS = 20_000


def pykafka2_consumer(run: Run) -> Any:
    from pykafka2 import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(**run.for_pykafka2(), auto_offset_reset="earliest")
    consumer.assign([TopicPartition(run.topic, number) for number in range(PARTITIONS)])
    return consumer


def pykafka2_poll(run: Run) -> Iterator[int]:
    with pykafka2_consumer(run) as consumer:
        while True:
            count = 0
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    count += record.value is not None
            yield count


def pykafka2_iteration(run: Run) -> Iterator[int]:
    with pykafka2_consumer(run) as consumer:
        count, left = 0, run.records
        for record in consumer:
            count += record.value is not None
            if count == 1000 or count == left:
                yield count
                count, left = 0, left - count


def pykafka2_columns(run: Run) -> Iterator[int]:
    with pykafka2_consumer(run) as consumer:
        while True:
            polled = consumer.poll_columns(timeout_ms=1000, max_records=COLUMN_RECORDS)
            yield sum(len(columns.values) for columns in polled.values())


def pykafka2_arrow(run: Run) -> Iterator[int]:
    with pykafka2_consumer(run) as consumer:
        while True:
            polled = consumer.poll_columns(timeout_ms=1000, max_records=COLUMN_RECORDS)
            yield sum(columns.to_arrow().num_rows for columns in polled.values())


def confluent_consumer(run: Run, options: dict[str, Any]) -> Any:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            **run.for_confluent(),
            "group.id": "benchmark",
            "enable.auto.commit": False,
            **options,
        }
    )
    consumer.assign([TopicPartition(run.topic, one, OFFSET_BEGINNING) for one in range(PARTITIONS)])
    return consumer


def confluent_consume(run: Run, options: dict[str, Any] | None = None) -> Iterator[int]:
    consumer = confluent_consumer(run, options or {})
    try:
        left = run.records
        while left > 0:
            count = 0
            for message in consumer.consume(min(1000, left), timeout=1.0):
                count += message.value() is not None
            yield count
            left -= count
    finally:
        consumer.close()


def confluent_tuned(run: Run) -> Iterator[int]:
    return confluent_consume(run, CONFLUENT_TUNED)


def confluent_poll(run: Run) -> Iterator[int]:
    consumer = confluent_consumer(run, CONFLUENT_TUNED)
    poll = consumer.poll
    try:
        left = run.records
        while left > 0:
            count = 0
            for _ in range(min(1000, left)):
                message = poll(1.0)
                if message is None:
                    break
                count += message.value() is not None
            yield count
            left -= count
    finally:
        consumer.close()


def kafka_python(run: Run) -> Iterator[int]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=run.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(run.topic, number) for number in range(PARTITIONS)])
    try:
        while True:
            count = 0
            for records in consumer.poll(timeout_ms=1000).values():
                for record in records:
                    count += record.value is not None
            yield count
    finally:
        consumer.close()


def aiokafka(run: Run) -> Iterator[int]:
    import asyncio

    from aiokafka import AIOKafkaConsumer, TopicPartition

    loop = asyncio.new_event_loop()

    async def start() -> Any:
        made = AIOKafkaConsumer(bootstrap_servers=run.bootstrap_servers, auto_offset_reset="earliest")
        await made.start()
        made.assign([TopicPartition(run.topic, number) for number in range(PARTITIONS)])
        return made

    async def get(left: int) -> int:
        count = 0
        for _ in range(20):
            for records in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
                for record in records:
                    count += record.value is not None
            if count >= min(5000, left):
                break
        return count

    consumer = loop.run_until_complete(start())
    try:
        left = run.records
        while left > 0:
            count = loop.run_until_complete(get(left))
            yield count
            left -= count
    finally:
        loop.run_until_complete(consumer.stop())
        loop.close()


PYTHON_CLIENTS: dict[str, Callable[[Run], Iterator[int]]] = {
    "pykafka2 poll": pykafka2_poll,
    "pykafka2 iteration": pykafka2_iteration,
    "pykafka2 poll_columns": pykafka2_columns,
    "pykafka2 to_arrow": pykafka2_arrow,
    "confluent-kafka consume": confluent_consume,
    "confluent-kafka consume, tuned": confluent_tuned,
    "confluent-kafka poll, tuned": confluent_poll,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}
CLIENTS = with_compiled(PYTHON_CLIENTS, "pykafka2 poll", "pykafka2 iteration", "pykafka2 poll_columns")
