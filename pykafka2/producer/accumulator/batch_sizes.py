"""Sizes of batches, on the wire and in memory, and the compression ratio per topic.

batch.py uses the sizes under its queue's lock. The size of a record is an upper bound until its place in
the batch is known. Callers' threads read the ratio when they open a batch, and the IO thread updates it
when a batch is closed: each value is one float, so there is no lock. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykafka2.native import compiled
from pykafka2.producer.delivery.callbacks import HAS_GIL
from pykafka2.records.encoder import (
    ESTIMATION_FACTOR,
    MAX_RECORD_OVERHEAD,
    NO_HEADERS,
    SHORT,
    SHORT_RECORD_OVERHEAD,
)
from pykafka2.records.rows import FIELDS, Fields

if TYPE_CHECKING:
    from pykafka2.compression import Codec

SMALLEST_RECORD_BYTES = SHORT_RECORD_OVERHEAD + len(NO_HEADERS)
LONGER_OVERHEAD_BYTES = MAX_RECORD_OVERHEAD - SHORT_RECORD_OVERHEAD
"""Bytes that a record can take beyond its short size if some of its numbers are long."""

STEP_RECORDS = 256
"""Records like those before that can be appended until their overhead is charged, approximately."""
LARGEST_STEP_BYTES = 2 * SHORT - 1
"""Bytes of a step at most, so that one record in it at most has long lengths. 16 KiB are one step."""
LONG_LENGTHS = 2
"""Bytes reserved for that record: its length, and that of its key or value."""

MANY_RECORDS = 1_000_000
"""From this count on every append takes the lock, as the offset can take four bytes."""

# Memory of CPython's objects. A record: its places in a list, its timestamp; value, key and headers: the head
# of an object and rounding; a batch: its objects, empty.
ROW_BYTES = 80
OBJECT_BYTES = 41
BATCH_OVERHEAD_BYTES = 1200
CALLBACK_BYTES = 330
"""A function that exists for one record, with one variable."""
LARGEST_RECORD_OVERHEAD_BYTES = ROW_BYTES + 3 * OBJECT_BYTES + CALLBACK_BYTES


class BatchPlan(NamedTuple):
    """How batches of a partition are filled and written."""

    codec: Codec
    level: int | None
    max_bytes: int
    """Largest size of a batch, as estimated; a first record is accepted whatever its size."""
    ratio: float = 1.0
    """Compressed over raw bytes, as seen in earlier batches."""

    @property
    def expansion(self) -> float:
        """Bytes on the wire for a byte of records."""
        # As in the Java client, a little more is expected than the ratio says.
        return self.ratio * ESTIMATION_FACTOR if self.codec.id else 1.0


def next_step(left_bytes: int, used_bytes: int, count: int) -> tuple[int, int]:
    """Return the bytes that can be appended without the lock, after `count` records of `used_bytes`.

    Also returns how many of these bytes are reserved for numbers that get longer.
    """
    # Without the global lock every append in Python takes the queue's lock (open_batch.py).
    may_join = (HAS_GIL or compiled is not None) and count < MANY_RECORDS
    step_bytes = min(left_bytes, used_bytes // count * STEP_RECORDS, LARGEST_STEP_BYTES)
    step_bytes = max(0, step_bytes) if may_join else 0
    # The largest number of records; from SHORT on each takes one more byte for its offset.
    records = step_bytes // SMALLEST_RECORD_BYTES
    reserved_bytes = records if count + records > SHORT else 0
    return step_bytes, reserved_bytes + LONG_LENGTHS if step_bytes >= SHORT else reserved_bytes


def overhead_of(fields: Fields) -> int:
    """Return a batch's memory besides the bytes of its records and its callbacks."""
    if not fields:
        return BATCH_OVERHEAD_BYTES
    # Records of one partition are usually alike.
    value, key, _, headers, on_delivery = fields[-FIELDS:]
    objects = (value is not None) + (key is not None) + (headers is not NO_HEADERS)
    record_bytes = ROW_BYTES + objects * OBJECT_BYTES
    if on_delivery is not None and len(fields) > FIELDS and on_delivery is not fields[-1 - FIELDS]:
        record_bytes += CALLBACK_BYTES
    return BATCH_OVERHEAD_BYTES + len(fields) // FIELDS * record_bytes


START = 1.0
IMPROVING_STEP = 0.005
DETERIORATING_STEP = 0.05


class CompressionRatios:
    """Compressed over raw bytes by topic; as in Java, it improves slowly and deteriorates fast."""

    __slots__ = ("_by_topic",)

    def __init__(self) -> None:
        self._by_topic: dict[str, float] = {}

    def ratio(self, topic: str) -> float:
        """Return the expected compression ratio of the topic's next batch."""
        return self._by_topic.get(topic, START)

    def observe(self, topic: str, raw_bytes: int, compressed_bytes: int) -> None:
        """Record the size of a batch before and after compression, without its header."""
        if raw_bytes <= 0:
            return
        # The codec's frame around a few small records is larger than they are, unlike that of a full batch.
        before, seen = self.ratio(topic), min(START, compressed_bytes / raw_bytes)
        if seen > before:
            self._by_topic[topic] = min(START, max(before + DETERIORATING_STEP, seen))
        elif seen < before:
            self._by_topic[topic] = max(before - IMPROVING_STEP, seen)
