"""The sink's clients: producers, and those that ask and end with the options that all clients share.

Any process of Spark's: tasks' workers and the helper processes on the driver.  Neighbour: connections.py
keeps them from task to task.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress

from pykafka2 import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    TopicPartition,
    TransactionHandle,
    end_transactions,
)
from pykafka2.errors import ConfigurationError, KafkaError, UnknownOption
from spark_connector import connections

CLIENT_ID = "pykafka2-spark"

OF_PRODUCERS = frozenset(
    {
        "acks",
        "batch.size",
        "buffer.memory",
        "bulk.batch.size",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delivery.timeout.ms",
        "linger.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "metadata.max.idle.ms",
        "partitioner",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.ignore.keys",
        "retries",
        "transaction.timeout.ms",
    }
)
"""What only producers know; the rest is for all clients."""

_asking = threading.Lock()
"""A consumer answers one thread at a time, and several queries of a program may share one."""


def shared_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """The options that every client takes."""
    shared = {name: value for name, value in kafka.items() if _dotted(name) not in OF_PRODUCERS}
    return {"client.id": CLIENT_ID, **shared}


def new_producer(kafka: Mapping[str, str], transactional_id: str | None = None) -> KafkaProducer:
    """A producer of options `kafka.*` (without that prefix); nothing is sent yet.

    Raises:
        UnknownOption, ConfigurationError: the clients do not know or refuse an option.
    """
    options: dict[str, object] = {"client.id": CLIENT_ID, **kafka}
    options.pop("default.api.timeout.ms", None)  # of the other clients, for sinks and sources alike
    if transactional_id is not None:
        options["transactional.id"] = transactional_id
    else:
        options.pop("transaction.timeout.ms", None)
    try:
        return KafkaProducer(options)
    except UnknownOption as error:
        raise UnknownOption(f"among the options kafka.*: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"among the options kafka.*: {error}") from None


def kept_producer(kafka: Mapping[str, str]) -> KafkaProducer:
    """This process's idempotent producer of these options."""
    return connections.kept("producer", kafka, lambda: new_producer(kafka))


def discard(producer: KafkaProducer) -> None:
    """Give up what a failed task left in a kept producer, so that no later task sends it."""
    with suppress(KafkaError):
        producer.purge()
    with suppress(KafkaError):
        producer.close(0)
    with suppress(KafkaError):
        connections.drop(producer)


def kept_admin(kafka: Mapping[str, str]) -> KafkaAdminClient:
    shared = shared_options(kafka)
    return connections.kept("admin", shared, lambda: KafkaAdminClient(shared))


def kept_consumer(kafka: Mapping[str, str]) -> KafkaConsumer:
    """For `read_range`, and for ends of logs as they are, whatever is open in them."""
    return connections.consumer({**shared_options(kafka), "isolation.level": "read_uncommitted"})


def ends_of(
    kafka: Mapping[str, str], partition: TopicPartition, timeout_ms: float | None = None
) -> tuple[int, int]:
    """The first offset of a partition, and the one behind its last record.  Any thread."""
    consumer = kept_consumer(kafka)
    with _asking:
        first = consumer.beginning_offsets([partition], timeout_ms)[partition]
        return first, consumer.end_offsets([partition], timeout_ms)[partition]


def committed_end_of(kafka: Mapping[str, str], partition: TopicPartition) -> int:
    """How far readers of committed records come: where the oldest open transaction began.  Any thread."""
    consumer = connections.consumer({**shared_options(kafka), "isolation.level": "read_committed"})
    with _asking:
        return consumer.end_offsets([partition])[partition]


def end_all(
    kafka: Mapping[str, str], handles: Iterable[TransactionHandle], *, commit: bool, timeout: float
) -> dict[TransactionHandle, KafkaError]:
    """`end_transactions` with these options."""
    options = {name.replace(".", "_"): value for name, value in shared_options(kafka).items()}
    return end_transactions(handles, commit=commit, timeout=timeout, **options)  # type: ignore[arg-type]


def _renew_lock() -> None:
    """In the child of a fork another thread may have held the lock; that thread is not there."""
    global _asking
    _asking = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _dotted(name: str) -> str:
    return name.replace("_", ".")
