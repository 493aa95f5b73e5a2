"""Ranges of acquired offsets, the batches that contain them, and batches of aborted transactions.

Pure functions of batches, whose headers alone are read (KIP-932).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.records.batch import RecordBatch
from pykafka2.records.control import read_marker


@attrs.define
class AcquiredRange:
    """Consecutive offsets with the same delivery count."""

    first_offset: int
    last_offset: int
    delivery_count: int

    def __len__(self) -> int:
        return self.last_offset - self.first_offset + 1


def merged(ranges: Iterable[AcquiredRange]) -> list[AcquiredRange]:
    """Return these ranges, with adjacent ones of the same delivery count as one."""
    result: list[AcquiredRange] = []
    for one in ranges:
        last = result[-1] if result else None
        if (
            last is not None
            and one.first_offset == last.last_offset + 1
            and one.delivery_count == last.delivery_count
        ):
            last.last_offset = one.last_offset
        else:
            result.append(attrs.evolve(one))
    return result


def without(ranges: Iterable[AcquiredRange], removed: Sequence[RecordBatch]) -> list[AcquiredRange]:
    """Return the parts of these ranges that are outside the removed batches; both are in order."""
    result: list[AcquiredRange] = []
    for one in ranges:
        first = one.first_offset
        for batch in removed:
            if batch.last_offset < first or batch.base_offset > one.last_offset:
                continue
            if first < batch.base_offset:
                result.append(AcquiredRange(first, batch.base_offset - 1, one.delivery_count))
            first = batch.next_offset
        if first <= one.last_offset:
            result.append(AcquiredRange(first, one.last_offset, one.delivery_count))
    return result


def covering(batches: Sequence[RecordBatch], first_offset: int, last_offset: int) -> Sequence[RecordBatch]:
    """Return the batches that contain these offsets, and at least one."""
    start = 0
    for index, batch in enumerate(batches):
        if batch.base_offset > last_offset:
            return batches[start:index]
        if batch.base_offset <= first_offset:
            start = index
    return batches[start:]


def end_of_batch_with(batches: Iterable[RecordBatch], offset: int) -> int:
    """Return the last offset of the batch that contains an offset, or the offset if none does."""
    for batch in batches:
        if batch.base_offset <= offset <= batch.last_offset:
            return batch.last_offset
    return offset


def aborted_batches(
    batches: Iterable[RecordBatch], aborted: Iterable[AbortedTransaction]
) -> list[RecordBatch]:
    """Return the batches of aborted transactions, which read_committed members do not get."""
    waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    producers: set[int] = set()
    found: list[RecordBatch] = []
    for batch in batches:
        if not batch.has_producer_id:
            continue
        while waiting and waiting[-1].first_offset <= batch.last_offset:
            producers.add(waiting.pop().producer_id)
        if batch.is_control:
            # A marker without a record was emptied by compaction.
            if batch.count and read_marker(batch).is_abort:
                producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            found.append(batch)
    return found
