"""Records as `send` hands them to the accumulator."""

from __future__ import annotations

from pykafka2.compression import codec
from pykafka2.producer.accumulator.batch import BatchHooks, ProducerBatch
from pykafka2.producer.accumulator.batch_sizes import SMALLEST_RECORD_BYTES, BatchPlan
from pykafka2.producer.accumulator.buffer_pool import Permit
from pykafka2.producer.delivery.delivery import Delivery, OnDelivery
from pykafka2.records.encoder import NO_HEADERS, Row

PLAN = BatchPlan(codec("none"), None, 16384)
HOOKS = BatchHooks(lambda predicate, timeout, *queues: predicate())


def a_row(
    value: bytes | None = b"v",
    key: bytes | None = None,
    timestamp: int = 0,
    headers: bytes = NO_HEADERS,
    on_delivery: OnDelivery | None = None,
) -> tuple[Row, int]:
    """A row and its size."""
    size_bytes = SMALLEST_RECORD_BYTES - len(NO_HEADERS) + len(value or b"") + len(key or b"") + len(headers)
    return (value, key, timestamp, headers, on_delivery), size_bytes


def a_batch(
    topic: str = "orders",
    partition: int = 3,
    *,
    order: int = 0,
    created_at: float = 0.0,
    plan: BatchPlan = PLAN,
    hooks: BatchHooks = HOOKS,
    permit: Permit | None = None,
) -> ProducerBatch:
    """An open batch without memory of a pool."""
    batch = ProducerBatch(topic, partition, plan, hooks, permit=permit or Permit(0), created_at=created_at)
    batch.order = order
    return batch


def appended(
    batch: ProducerBatch,
    timestamp: int = 1,
    *,
    key: bytes | None = b"key",
    value: bytes | None = None,
    on_delivery: OnDelivery | None = None,
) -> Delivery:
    """The delivery of a record that was added to the batch."""
    assert batch.open is not None
    delivery = batch.open.append(*a_row(value, key, timestamp, on_delivery=on_delivery))
    assert delivery is not None
    return delivery
