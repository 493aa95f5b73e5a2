"""One record at a time for `benchmarks.producer`: sent, and waited for, without linger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.producer.runs import Run

Close = Callable[[], object]
SendOne = Callable[[bytes], object]


def pykafka2(run: Run) -> tuple[SendOne, Close]:
    from pykafka2 import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=run.bootstrap_servers, linger_ms=0)
    return (lambda value: producer.send(run.topic, value).result(10)), producer.close


def confluent(run: Run) -> tuple[SendOne, Close]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": run.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "socket.nagle.disable": True,
        }
    )

    def send(value: bytes) -> None:
        producer.produce(run.topic, value)
        producer.flush(10)

    return send, lambda: producer.flush(10)


def kafka_python(run: Run) -> tuple[SendOne, Close]:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=run.bootstrap_servers, linger_ms=0, enable_idempotence=True)
    return (lambda value: producer.send(run.topic, value).get(10)), producer.close


def aiokafka(run: Run) -> tuple[SendOne, Close]:
    import asyncio

    from aiokafka import AIOKafkaProducer

    loop = asyncio.new_event_loop()

    async def start() -> Any:
        made = AIOKafkaProducer(bootstrap_servers=run.bootstrap_servers, linger_ms=0, enable_idempotence=True)
        await made.start()
        return made

    producer = loop.run_until_complete(start())

    def close() -> None:
        loop.run_until_complete(producer.stop())
        loop.close()

    return (lambda value: loop.run_until_complete(producer.send_and_wait(run.topic, value))), close


WAITING: dict[str, Callable[[Run], tuple[SendOne, Close]]] = {
    "pykafka2, one at a time": pykafka2,
    "confluent-kafka, one at a time": confluent,
    "kafka-python, one at a time": kafka_python,
    "aiokafka, one at a time": aiokafka,
}
