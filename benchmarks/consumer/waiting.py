"""From `send` to `poll`, one record at a time, for `benchmarks.consumer`: linger 0 for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.consumer.clients import confluent_consumer, pykafka2_consumer
from benchmarks.consumer.runs import Run

Close = Callable[[], object]
Turn = Callable[[bytes], object]


def pykafka2(run: Run) -> tuple[Turn, Close]:
    from pykafka2 import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=run.bootstrap_servers, linger_ms=0)
    consumer = pykafka2_consumer(run)
    _skip(lambda: consumer.poll(timeout_ms=300))

    def turn(value: bytes) -> None:
        producer.send(run.topic, value)
        while not consumer.poll(timeout_ms=1000):
            pass

    return turn, lambda: (consumer.close(), producer.close())


def confluent(run: Run) -> tuple[Turn, Close]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": run.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "socket.nagle.disable": True,
        }
    )
    consumer = confluent_consumer(run, {"socket.nagle.disable": True, "fetch.queue.backoff.ms": 2})
    _skip(lambda: consumer.poll(0.3))

    def turn(value: bytes) -> None:
        producer.produce(run.topic, value)
        producer.poll(0)
        while consumer.poll(1.0) is None:
            pass

    return turn, lambda: (consumer.close(), producer.flush(10))


def _skip(poll: Callable[[], Any]) -> None:
    """Read what is there."""
    empty = 0
    while empty < 5:
        empty = 0 if poll() else empty + 1


WAITING: dict[str, Callable[[Run], tuple[Turn, Close]]] = {
    "pykafka2, send to poll": pykafka2,
    "confluent-kafka, send to poll": confluent,
}
