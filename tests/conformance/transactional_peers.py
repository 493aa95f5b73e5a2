"""Transactional producers and read_committed readers of other libraries, behind one face.

A producer's steps are those of every client: init (when it is made), begin, send, offset, commit, abort.
Each raises `Fenced` where a newer producer has its transactional id.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Protocol

from .bridge import Bridge, b64, unb64
from .peers import TIMEOUT, _kafka_python

NAMES = count(1)


class Fenced(Exception):
    """A newer producer has taken over the transactional id."""


class TransactionalPeer(Protocol):
    """One transactional producer; it has initialised its transactions when it is there."""

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Send one record and wait until it is acknowledged."""

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Commit a group's offset with the transaction."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class ConfluentTransactions:
    """confluent-kafka, that is librdkafka: transaction.version 1."""

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        from confluent_kafka import Producer

        self._servers = bootstrap_servers
        self._errors: list[Any] = []
        self._producer: Any = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": transactional_id,
                "log_level": 0,
                "error_cb": self._errors.append,
            }
        )
        with self._fencing():
            self._producer.init_transactions(TIMEOUT)

    def begin(self) -> None:
        with self._fencing():
            self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        from confluent_kafka import KafkaException

        failures: list[Any] = []

        def on_delivery(error: Any, _message: Any) -> None:
            if error is not None:
                self._errors.append(error)
                failures.append(error)

        with self._fencing():
            self._producer.produce(topic, value, partition=partition, on_delivery=on_delivery)
            self._producer.flush(TIMEOUT)
            if failures:
                raise KafkaException(failures.pop())

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer: Any = Consumer(
            {"bootstrap.servers": self._servers, "group.id": group, "enable.auto.commit": False}
        )
        try:
            with self._fencing():
                self._producer.send_offsets_to_transaction(
                    [TopicPartition(topic, partition, offset)], consumer.consumer_group_metadata(), TIMEOUT
                )
        finally:
            consumer.close()

    def commit(self) -> None:
        with self._fencing():
            self._producer.commit_transaction(TIMEOUT)

    def abort(self) -> None:
        with self._fencing():
            self._producer.abort_transaction(TIMEOUT)

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(1)

    @contextlib.contextmanager
    def _fencing(self) -> Iterator[None]:
        from confluent_kafka import KafkaException

        try:
            yield
        except KafkaException as error:
            if _is_fencing(error.args[0]):
                raise Fenced from error
            raise
        except SystemError as error:
            # A fatal error breaks flush() in ways of its own; a callback has seen which it was.
            if any(map(_is_fencing, self._errors)):
                raise Fenced from error
            raise


def _is_fencing(error: Any) -> bool:
    from confluent_kafka import KafkaError

    fencing = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    return error.code() in fencing or "fenced" in str(error).lower()


class AiokafkaTransactions:
    """aiokafka, on a loop of its own, which goes round at its end until closed transports are closed."""

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        from aiokafka import AIOKafkaProducer

        self._runner = asyncio.Runner()

        async def start() -> Any:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap_servers, transactional_id=transactional_id
            )
            await producer.start()
            return producer

        self._producer = self._run(start())

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        from aiokafka import TopicPartition

        offsets = {TopicPartition(topic, partition): offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        with self._runner, contextlib.suppress(Fenced):
            self._run(self._producer.stop())

    def _run(self, work: Any) -> Any:
        from aiokafka.errors import IllegalOperation, ProducerFenced

        try:
            return self._runner.run(asyncio.wait_for(work, TIMEOUT))
        except ProducerFenced as error:
            raise Fenced from error
        except IllegalOperation as error:
            if "fenced" in str(error).lower():
                raise Fenced from error
            raise


class KafkaPythonTransactions:
    """kafka-python: transaction.version 1."""

    def __init__(self, bootstrap_servers: str, transactional_id: str) -> None:
        self._kafka = _kafka_python()
        self._producer = self._kafka.KafkaProducer(
            bootstrap_servers=bootstrap_servers, transactional_id=transactional_id
        )
        self._run(self._producer.init_transactions)

    def begin(self) -> None:
        self._run(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._run(lambda: self._producer.send(topic, value, partition=partition).get(TIMEOUT))

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        place = self._kafka.TopicPartition(topic, partition)
        found = self._kafka.structs.OffsetAndMetadata(offset, "", -1)
        self._run(lambda: self._producer.send_offsets_to_transaction({place: found}, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction)

    def abort(self) -> None:
        self._run(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=1)

    def _run(self, step: Callable[[], Any]) -> None:
        errors = self._kafka.errors
        try:
            step()
        except (errors.ProducerFencedError, errors.InvalidProducerEpochError) as error:
            raise Fenced from error


class JavaTransactions:
    """kafka-clients 4.4.0 in the bridge's JVM: transaction.version 2."""

    def __init__(self, bridge: Bridge, bootstrap_servers: str, transactional_id: str) -> None:
        self._bridge = bridge
        self._servers = bootstrap_servers
        self._name = f"producer-{next(NAMES)}"
        self._step("init", transactional_id=transactional_id)

    def begin(self) -> None:
        self._step("begin")

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._step("send", topic=topic, partition=partition, value=b64(value))

    def offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._step("offset", group=group, topic=topic, partition=partition, offset=offset)

    def commit(self) -> None:
        self._step("commit")

    def abort(self) -> None:
        self._step("abort")

    def close(self) -> None:
        self._step("close")

    def _step(self, step: str, **arguments: Any) -> None:
        item = {"name": self._name, "step": step, "bootstrap_servers": self._servers, **arguments}
        (answer,) = self._bridge("transaction_step", [item])
        if answer == "fenced":
            raise Fenced


ReadCommitted = Callable[[str, str, bytes], list[bytes]]
"""(bootstrap servers, topic, last value) -> what a read_committed consumer shows of partition 0 up to it."""


def confluent_reads(bootstrap_servers: str, topic: str, last: bytes) -> list[bytes]:
    from confluent_kafka import Consumer, TopicPartition

    values: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while last not in values:
            assert time.monotonic() < deadline, f"{last!r} did not come after {values}"
            values += [message.value() for message in consumer.consume(100, timeout=0.2)]
    finally:
        consumer.close()
    return values


def aiokafka_reads(bootstrap_servers: str, topic: str, last: bytes) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def consume() -> list[bytes]:
        values: list[bytes] = []
        async with AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            while last not in values:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    values += [one.value for one in records]
        return values

    return asyncio.run(asyncio.wait_for(consume(), TIMEOUT))


def java_reads(
    bridge: Bridge, bootstrap_servers: str, topic: str, count_of_values: int
) -> list[bytes | None]:
    """The first so many values of partition 0."""
    item = {
        "bootstrap_servers": bootstrap_servers,
        "topic": topic,
        "count": count_of_values,
        "config": {"isolation.level": "read_committed"},
    }
    (records,) = bridge("consume", [item])
    return [unb64(record["value"]) for record in records]
