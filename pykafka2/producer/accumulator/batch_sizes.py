"""Sizes of batches, on the wire and in memory, and the compression ratio per topic.

batch.py uses the sizes under its queue's lock. The size of a record is an upper bound until its place in
the batch is known. Callers' threads read the ratio when they open a batch, and the IO thread updates it
when a batch is closed: each value is one float, so there is no lock. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

from pykafka2.compression import Codec
from pykafka2.producer.delivery.callbacks import HAS_GIL
from pykafka2.records.encoder import (
    ESTIMATION_FACTOR,
    MAX_RECORD_OVERHEAD,
    NO_HEADERS,
    SHORT,
    SHORT_RECORD_OVERHEAD,
)
from pykafka2.records.rows import FIELDS, Fields

SMALLEST_RECORD_BYTES = SHORT_RECORD_OVERHEAD + len(NO_HEADERS)
LONGER_OVERHEAD_BYTES = MAX_RECORD_OVERHEAD - SHORT_RECORD_OVERHEAD
"""What a record may take beyond its short size where some of its numbers are long ones."""

STEP_RECORDS = 128
"""About so many records like those before may join until their overhead is charged, ..."""
LARGEST_STEP_BYTES = SHORT - 1
"""... and so many bytes at most, which keeps all lengths in a record short."""

MANY_RECORDS = 1_000_000
"""From here on each is looked at, as its offset may take four bytes."""

# What CPython takes beside the bytes.  A record: its places in a list, its time; value, key, headers
# each the head of an object and rounding; a batch: its objects, empty.
ROW_BYTES = 80
OBJECT_BYTES = 41
BATCH_OVERHEAD_BYTES = 1200
CALLBACK_BYTES = 330
"""A function that was made for its record alone, with a variable that it holds."""
LARGEST_RECORD_OVERHEAD_BYTES = ROW_BYTES + 3 * OBJECT_BYTES + CALLBACK_BYTES


class BatchPlan(NamedTuple):
    """How batches of a partition are filled and written."""

    codec: Codec
    level: int | None
    max_bytes: int
    """Of a whole batch, as far as can be told beforehand; a first record is taken whatever its size."""
    ratio: float = 1.0
    """Compressed over raw bytes, as seen in earlier batches."""

    @property
    def expansion(self) -> float:
        """Bytes on the wire for a byte of records."""
        # As in the Java client, a little more is expected than the ratio says.
        return self.ratio * ESTIMATION_FACTOR if self.codec.id else 1.0


def next_step(left_bytes: int, used_bytes: int, count: int) -> tuple[int, int]:
    """How many bytes of further records may join without being looked at, after `count` of `used_bytes`.

    And how many of these bytes are to be kept for numbers that get longer on the way.
    """
    # Without the global lock every record is looked at (partition_queue.py).
    may_join = HAS_GIL and count < MANY_RECORDS
    step_bytes = min(left_bytes, used_bytes // count * STEP_RECORDS, LARGEST_STEP_BYTES)
    step_bytes = max(0, step_bytes) if may_join else 0
    # So many may join at most; from SHORT on each takes a byte more for its offset.
    records = step_bytes // SMALLEST_RECORD_BYTES
    return step_bytes, records if count + records > SHORT else 0


def overhead_of(fields: Fields) -> int:
    """Return a batch's memory besides the bytes of its records and its callbacks."""
    if not fields:
        return BATCH_OVERHEAD_BYTES
    # Records of one partition are of one kind, as a rule.
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
    """Compressed over raw bytes, by topic; as in Java, slow to believe in better and quick in worse."""

    __slots__ = ("_by_topic",)

    def __init__(self) -> None:
        self._by_topic: dict[str, float] = {}

    def ratio(self, topic: str) -> float:
        """Return the expected compression ratio of the topic's next batch."""
        return self._by_topic.get(topic, START)

    def observe(self, topic: str, raw_bytes: int, compressed_bytes: int) -> None:
        """A batch of so many bytes of records became so many on the wire, without its header."""
        if raw_bytes <= 0:
            return
        # The frame around a few small records is larger than they are, and says nothing about a full batch.
        before, seen = self.ratio(topic), min(START, compressed_bytes / raw_bytes)
        if seen > before:
            self._by_topic[topic] = min(START, max(before + DETERIORATING_STEP, seen))
        elif seen < before:
            self._by_topic[topic] = max(before - IMPROVING_STEP, seen)
