"""A producer of the producers' scenario: its options, drawn from the seed, and what was sent with it.

Written by the workers (producer_work.py), read by the promises (producer_promises.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.errors import DeliveryTimeout, KafkaError
from pykafka2.testing.simulation.history import FAILED, OPEN, UNKNOWN, Sent

if TYPE_CHECKING:
    from pykafka2.producer.bulk.delivery import BulkDelivery
    from pykafka2.producer.producer import KafkaProducer

MOST_LIVES = 4
ALL = "all"


def drawn_options(draw: Random) -> dict[str, Any]:
    """Among them delivery timeouts that faults outlast, windows of one, buffers that fill."""
    is_idempotent = draw.random() < 0.6
    linger_ms = draw.choice([0, 5, 50, 300])
    request_timeout_ms = draw.choice([500, 1000, 3000, 10_000])
    options: dict[str, Any] = {
        "enable_idempotence": is_idempotent,
        "acks": ALL if is_idempotent else draw.choice([ALL, ALL, 1, 0]),
        "max_in_flight_requests_per_connection": draw.choice([1, 2, 5] if is_idempotent else [1, 1, 5, 20]),
        "compression_type": draw.choice(["none", "none", "none", "gzip", "snappy", "lz4", "zstd"]),
        "linger_ms": linger_ms,
        "batch_size": draw.choice([0, 200, 2000, 16_384]),
        "bulk_batch_size": draw.choice([500, 1_048_576]),
        "buffer_memory": draw.choice([33_554_432, 33_554_432, 33_554_432, 60_000]),
        "max_block_ms": draw.choice([100, 2000, 60_000]),
        "request_timeout_ms": request_timeout_ms,
        "delivery_timeout_ms": linger_ms + request_timeout_ms + draw.choice([0, 1000, 10_000, 60_000]),
        "retry_backoff_ms": draw.choice([20, 100, 100]),
        "metadata_max_age_ms": draw.choice([1000, 300_000]),
    }
    retries = draw.choice([None, None, None, 1, 3] if is_idempotent else [None, None, 0, 2])
    if retries is not None:
        options["retries"] = retries
    return options


@attrs.define(eq=False)
class Bulk:
    """The rows of one call of `send_many`."""

    sent: list[Sent]
    delivery: BulkDelivery
    sent_at: float


@attrs.define(eq=False)
class Life:
    """One producer from its making to its close."""

    name: str
    options: dict[str, Any]
    producer: KafkaProducer
    sent: list[Sent] = attrs.field(factory=list)
    bulks: list[Bulk] = attrs.field(factory=list)
    """Records that `send_many` accepted and that have no outcome yet."""

    @property
    def is_idempotent(self) -> bool:
        return bool(self.options["enable_idempotence"])

    @property
    def acks(self) -> object:
        return self.options["acks"]

    @property
    def delivery_timeout(self) -> float:
        return float(self.options["delivery_timeout_ms"]) / 1000

    def open(self) -> Iterator[Sent]:
        return (sent for sent in self.sent if sent.outcome == OPEN)


def outcome_of(error: KafkaError) -> str:
    """The application's knowledge from the error of a delivery: none, unless the producer is certain."""
    is_sure = isinstance(error, DeliveryTimeout) and "was never sent" in str(error)
    return FAILED if is_sure else UNKNOWN
