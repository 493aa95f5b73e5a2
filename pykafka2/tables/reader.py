"""Reads ranges of several partitions at a time, within a limit of memory.

Runs on the thread that iterates. The consumer's IO thread fetches ahead for each open range, from all leaders
in parallel; decoding needs Python's lock, so more threads would not be faster. Ending the iteration early
cancels the fetches.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Literal

import attrs

from pykafka2.errors import LogTruncated, OffsetOutOfRange
from pykafka2.tables.bounds import OffsetRange

if TYPE_CHECKING:
    from pykafka2.consumer.consumer import KafkaConsumer
    from pykafka2.records.columns import Columns

logger = logging.getLogger(__name__)

Order = Literal["arrival", "timestamp"]

MAX_OPEN = 8
"""Ranges that are fetched at a time in order of arrival; each has a piece at hand and one on its way."""
MIN_FETCH_BYTES = 16 << 10
MAX_FETCH_BYTES = 2 << 20


@attrs.frozen
class Limits:
    """How many ranges are open at a time, and how much each of them fetches."""

    open_ranges: int
    fetch_bytes: int


def limits_of(ranges: int, order: Order, max_bytes_in_flight: int) -> Limits:
    """Return the limits; an order by timestamp needs all ranges at a time."""
    most = max(max_bytes_in_flight // (2 * MIN_FETCH_BYTES), 1)
    count = ranges if order == "timestamp" else min(ranges, MAX_OPEN, most)
    return Limits(
        count, min(max(max_bytes_in_flight // (2 * max(count, 1)), MIN_FETCH_BYTES), MAX_FETCH_BYTES)
    )


def pieces_of(consumer: KafkaConsumer, wanted: OffsetRange, max_bytes: int) -> Iterator[Columns]:
    """Read one range. Records that retention deletes meanwhile are left out, with a warning in the log.

    A truncated log (an unclean leader election) is an error, because records that were returned are gone,
    and so is a topic that was created again.
    """
    partition, start = wanted.topic_partition, wanted.start
    while start < wanted.end:
        try:
            with closing(  # type: ignore[type-var]
                consumer.read_range(
                    partition, start, wanted.end, max_bytes=max_bytes, topic_id=wanted.topic_id
                )
            ) as pieces:
                for piece in pieces:
                    start = piece.last_offset + 1
                    yield piece
            return
        except LogTruncated:
            raise
        except OffsetOutOfRange:
            first = consumer.beginning_offsets([partition])[partition]
            if first <= start:
                raise
            logger.warning(
                "scan: offsets %d to %d of %s were deleted before they were read",
                start,
                min(first, wanted.end) - 1,
                partition,
            )
            start = first


def arriving(consumer: KafkaConsumer, ranges: Iterable[OffsetRange], limits: Limits) -> Iterator[Columns]:
    """Read the ranges, a piece of one after a piece of another; each range keeps the order of its offsets."""
    waiting = deque(one for one in ranges if one)
    with ExitStack() as stack:
        opened: deque[Iterator[Columns]] = deque()
        while waiting or opened:
            while waiting and len(opened) < limits.open_ranges:
                pieces = pieces_of(consumer, waiting.popleft(), limits.fetch_bytes)
                stack.callback(pieces.close)  # type: ignore[attr-defined]
                opened.append(pieces)
            current = opened.popleft()
            piece = next(current, None)
            if piece is not None:
                opened.append(current)
                yield piece
