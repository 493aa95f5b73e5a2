"""The producers of `benchmarks.producer`, each in the way its documentation recommends.

A client is a function of a run and its inputs that returns a `Sending`: begin it once, send so many records,
wait until all are acknowledged, end it.  Failures are counted by delivery callbacks, as a real program does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import cycle
from typing import Any, Protocol

from benchmarks.producer.inputs import CHUNK, Inputs
from benchmarks.producer.runs import (
    BUFFER_BYTES,
    BULK_BATCH_BYTES,
    LINGER_MS,
    Run,
)
from benchmarks.side_by_side.turns import with_compiled

TIMEOUT = 120.0


class Sending(Protocol):
    """A producer at work; `failed` is how many records it lost."""

    failed: int

    def send(self, count: int) -> None:
        """Hand over so many records and wait for their acknowledgements."""

    def close(self) -> None: ...


class _Base:
    def __init__(self, run: Run, inputs: Inputs) -> None:
        self.run = run
        self.inputs = inputs
        self.failed = 0
        self.delivered = 0
        self._values = cycle(inputs.values)
        self._keys = cycle(inputs.keys) if inputs.keys is not None else None


class Pykafka2(_Base):
    """`send(on_delivery=...)`."""

    def __init__(self, run: Run, inputs: Inputs) -> None:
        super().__init__(run, inputs)
        from pykafka2 import KafkaProducer

        options: dict[str, Any] = {"compression_type": run.cell.codec}
        if run.cell.mode == "equal":
            options |= {
                "linger_ms": LINGER_MS,
                "batch_size": run.cell.batch_bytes,
                "buffer_memory": BUFFER_BYTES,
            }
        self.producer = KafkaProducer(**run.for_pykafka2(), **options)

    def _on_delivery(self, metadata: object, error: object) -> None:
        if error is not None:
            self.failed += 1

    def send(self, count: int) -> None:
        send, topic, on_delivery = self.producer.send, self.run.topic, self._on_delivery
        values, keys = self._values, self._keys
        if keys is None:
            for _ in range(count):
                send(topic, next(values), on_delivery=on_delivery)
        else:
            for _ in range(count):
                send(topic, next(values), key=next(keys), on_delivery=on_delivery)
        self.producer.flush(TIMEOUT)

    def close(self) -> None:
        self.producer.close(TIMEOUT)


class Pykafka2Futures(Pykafka2):
    """`send()` with `add_callback` and `add_errback`, kafka-python's way."""

    def _failed(self, error: object) -> None:
        self.failed += 1

    def _written(self, metadata: object) -> None:
        self.delivered += 1

    def send(self, count: int) -> None:
        send, topic, written, failed = self.producer.send, self.run.topic, self._written, self._failed
        values, keys = self._values, self._keys
        for _ in range(count):
            key = None if keys is None else next(keys)
            send(topic, next(values), key=key).add_callback(written).add_errback(failed)
        self.producer.flush(TIMEOUT)


class Pykafka2Many(Pykafka2):
    """`send_many` of lists, CHUNK rows a call."""

    def __init__(self, run: Run, inputs: Inputs) -> None:
        super().__init__(run, inputs)
        self.values, self.keys = self._columns()

    def _columns(self) -> tuple[Any, Any]:
        return self.inputs.chunk()

    def send(self, count: int) -> None:
        topic, values, keys = self.run.topic, self.values, self.keys
        send_many, on_delivery = self.producer.send_many, self._on_delivery
        while count > 0:
            if count < CHUNK:
                values, keys = values[:count], None if keys is None else keys[:count]
            send_many(topic, values, keys=keys, on_delivery=on_delivery)
            count -= CHUNK
        self.producer.flush(TIMEOUT)


class Pykafka2Plain(Pykafka2Many):
    """The same where numpy is not installed: keys are hashed by long numbers."""

    def __init__(self, run: Run, inputs: Inputs) -> None:
        sys.modules["numpy"] = None  # type: ignore[assignment]
        super().__init__(run, inputs)


class Pykafka2Arrow(Pykafka2Many):
    """`send_many` of Arrow's columns, CHUNK rows a call."""

    def _columns(self) -> tuple[Any, Any]:
        import pyarrow as pa

        values, keys = super()._columns()
        return pa.array(values, pa.binary()), None if keys is None else pa.array(keys, pa.binary())


class Confluent(_Base):
    """confluent-kafka's `produce` with a delivery callback, served between records."""

    def __init__(self, run: Run, inputs: Inputs) -> None:
        super().__init__(run, inputs)
        from confluent_kafka import Producer

        options: dict[str, Any] = {
            **run.for_confluent(),
            "enable.idempotence": True,
            "compression.type": run.cell.codec,
        }
        if run.cell.mode == "equal":
            options |= {
                "linger.ms": LINGER_MS,
                "batch.size": self._batch_bytes(),
                "batch.num.messages": 1_000_000,
                "queue.buffering.max.kbytes": BUFFER_BYTES // 1024,
                "queue.buffering.max.messages": 1_000_000,
                "partitioner": "murmur2_random",
            }
        self.producer = Producer(options)

    def _batch_bytes(self) -> int:
        return self.run.cell.batch_bytes

    def _on_delivery(self, error: object, message: object) -> None:
        if error is not None:
            self.failed += 1

    def send(self, count: int) -> None:
        produce, poll, topic, on_delivery = (
            self.producer.produce,
            self.producer.poll,
            self.run.topic,
            self._on_delivery,
        )
        values, keys = self._values, self._keys
        for _ in range(count):
            key = None if keys is None else next(keys)
            value = next(values)
            while True:
                try:
                    produce(topic, value, key, on_delivery=on_delivery)
                    break
                except BufferError:
                    poll(0.01)
            poll(0)
        self.failed += self.producer.flush(TIMEOUT)

    def close(self) -> None:
        self.producer.flush(TIMEOUT)


class ConfluentLarge(Confluent):
    """The same with batches as large as those of columns."""

    def _batch_bytes(self) -> int:
        return BULK_BATCH_BYTES


class KafkaPython(_Base):
    """kafka-python's `send` with `add_callback` and `add_errback`."""

    def __init__(self, run: Run, inputs: Inputs) -> None:
        super().__init__(run, inputs)
        from kafka import KafkaProducer

        codec = None if run.cell.codec == "none" else run.cell.codec
        options: dict[str, Any] = {"enable_idempotence": True, "compression_type": codec}
        if run.cell.mode == "equal":
            options |= {"linger_ms": LINGER_MS, "batch_size": run.cell.batch_bytes}
        self.producer = KafkaProducer(bootstrap_servers=run.bootstrap_servers, **options)

    def _failed(self, error: object) -> None:
        self.failed += 1

    def _written(self, metadata: object) -> None:
        self.delivered += 1

    def send(self, count: int) -> None:
        send, topic, written, failed = self.producer.send, self.run.topic, self._written, self._failed
        for _ in range(count):
            key = None if self._keys is None else next(self._keys)
            send(topic, next(self._values), key=key).add_callback(written).add_errback(failed)
        self.producer.flush(TIMEOUT)

    def close(self) -> None:
        self.producer.close(TIMEOUT)


class Aiokafka(_Base):
    """aiokafka's `send` with a callback on its future; its event loop is the process's only one."""

    def __init__(self, run: Run, inputs: Inputs) -> None:
        super().__init__(run, inputs)
        import asyncio

        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self._start())

    async def _start(self) -> None:
        from aiokafka import AIOKafkaProducer

        codec = None if self.run.cell.codec == "none" else self.run.cell.codec
        options: dict[str, Any] = {"enable_idempotence": True, "compression_type": codec}
        if self.run.cell.mode == "equal":
            options |= {"linger_ms": LINGER_MS, "max_batch_size": self.run.cell.batch_bytes}
        self.producer = AIOKafkaProducer(bootstrap_servers=self.run.bootstrap_servers, **options)
        await self.producer.start()

    def _on_delivery(self, future: Any) -> None:
        if future.exception() is not None:
            self.failed += 1

    async def _send(self, count: int) -> None:
        send, topic, on_delivery = self.producer.send, self.run.topic, self._on_delivery
        for _ in range(count):
            key = None if self._keys is None else next(self._keys)
            (await send(topic, next(self._values), key=key)).add_done_callback(on_delivery)
        await self.producer.flush()

    def send(self, count: int) -> None:
        self.loop.run_until_complete(self._send(count))

    def close(self) -> None:
        self.loop.run_until_complete(self.producer.stop())
        self.loop.close()


PYTHON_CLIENTS: dict[str, Callable[[Run, Inputs], Sending]] = {
    "pykafka2 send": Pykafka2,
    "pykafka2 send, add_callback": Pykafka2Futures,
    "pykafka2 send_many": Pykafka2Many,
    "pykafka2 send_many, no numpy": Pykafka2Plain,
    "pykafka2 send_many, Arrow": Pykafka2Arrow,
    "confluent-kafka": Confluent,
    "confluent-kafka, 1 MiB batches": ConfluentLarge,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
CLIENTS = with_compiled(PYTHON_CLIENTS, "pykafka2 send", "pykafka2 send, add_callback", "pykafka2 send_many")

EQUAL_ONLY = frozenset({"confluent-kafka, 1 MiB batches"})
"""At its defaults it would be the same client again."""


def is_played(client: str, mode: str) -> bool:
    return mode == "equal" or client not in EQUAL_ONLY
