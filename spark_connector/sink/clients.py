"""The sink's clients: producers, and the clients that look up offsets and end transactions.

Used in any process of Spark: in the workers of tasks and in the helper processes on the driver.  Neighbor:
connections.py keeps them from task to task.
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
from spark_connector.options.kafka_options import NOT_OF_ADMINS, OF_PRODUCERS

CLIENT_ID = "pykafka2-spark"

_offset_lookup = threading.Lock()
"""A consumer serves one thread at a time, and several queries of a program can share a consumer."""


def shared_options(kafka: Mapping[str, str]) -> dict[str, str]:
    """Return the options that every client accepts."""
    others = OF_PRODUCERS | NOT_OF_ADMINS
    shared = {name: value for name, value in kafka.items() if _dotted(name) not in others}
    return {"client.id": CLIENT_ID, **shared}


def new_producer(kafka: Mapping[str, str], transactional_id: str | None = None) -> KafkaProducer:
    """Return a producer with options `kafka.*` (without that prefix); send nothing yet.

    Raises:
        UnknownOption, ConfigurationError: an option is unknown or illegal.
    """
    options: dict[str, object] = {"client.id": CLIENT_ID, **kafka}
    options.pop("default.api.timeout.ms", None)  # only the other clients have it
    if transactional_id is not None:
        options["transactional.id"] = transactional_id
    else:
        options.pop("transaction.timeout.ms", None)
    try:
        return KafkaProducer(options)
    except UnknownOption as error:
        raise UnknownOption(f"kafka.*: {error}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"kafka.*: {error}") from None


def kept_producer(kafka: Mapping[str, str]) -> KafkaProducer:
    """Return this process's idempotent producer for these options."""
    return connections.kept("producer", kafka, lambda: new_producer(kafka))


def discard(producer: KafkaProducer) -> None:
    """Drop the records that a failed task left in a kept producer, so that no later task sends them."""
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
    """Return a consumer for `read_range` and for log end offsets that include open transactions."""
    return connections.consumer({**shared_options(kafka), "isolation.level": "read_uncommitted"})


def ends_of(
    kafka: Mapping[str, str], partition: TopicPartition, timeout_ms: float | None = None
) -> tuple[int, int]:
    """Return the first offset of a partition and the offset after its last record.  Thread-safe."""
    consumer = kept_consumer(kafka)
    with _offset_lookup:
        first = consumer.beginning_offsets([partition], timeout_ms)[partition]
        return first, consumer.end_offsets([partition], timeout_ms)[partition]


def committed_end_of(kafka: Mapping[str, str], partition: TopicPartition) -> int:
    """Return the last stable offset: the start of the oldest open transaction.  Thread-safe."""
    consumer = connections.consumer({**shared_options(kafka), "isolation.level": "read_committed"})
    with _offset_lookup:
        return consumer.end_offsets([partition])[partition]


def end_all(
    kafka: Mapping[str, str], handles: Iterable[TransactionHandle], *, commit: bool, timeout: float
) -> dict[TransactionHandle, KafkaError]:
    """Call `end_transactions` with these options."""
    options = {name.replace(".", "_"): value for name, value in shared_options(kafka).items()}
    return end_transactions(handles, commit=commit, timeout=timeout, **options)  # type: ignore[arg-type]


def _renew_lock() -> None:
    """In the child of a fork: another thread of the parent may have held the lock, and would never release
    it.
    """
    global _offset_lookup
    _offset_lookup = threading.Lock()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew_lock)


def _dotted(name: str) -> str:
    return name.replace("_", ".")
