"""Records out of a batch of format 2 as plain tuples, for the broker, for old formats' readers and for tests.

Any thread; lazy.  The lines of the loop are those of decoder.py, which makes objects; a property test keeps
the two alike.  Whatever a peer sends, the outcome is rows or CorruptData.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import CorruptData
from pykafka2.records.batch import RecordBatch
from pykafka2.records.headers import header_count, read_headers, skip_headers
from pykafka2.records.opening import (
    check_count,
    open_batch,
    raise_corrupt,
    raise_leftover,
    raise_out_of_order,
    sizes_of_offsets,
)
from pykafka2.records.varint import MAX_VARLONG_BYTES, read_raw
from pykafka2.types import LOG_APPEND_TIME, Headers

RecordTuple = tuple[int, int, "bytes | None", "bytes | None", Headers]
"""Offset, timestamp, key, value, headers: a record without the names of where it came from."""

STILL_READING: RecordTuple = (-1, -1, None, None, [])
"""Yielded instead of a record while headers are skipped, so that the caller can do something else."""

# So many headers are skipped at once, in some 5 ms.
HEADERS_AT_ONCE = 20_000


def decode_tuples(
    batch: RecordBatch,
    where: str = "records",
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    read_offsets: bool = True,
    keeps_headers: bool = True,
    buffer: bytes | None = None,
) -> Iterator[RecordTuple]:
    """The batch's records as plain tuples; lazy, and raises, as `decoder.decode_records` does.

    where names topic and partition in errors.  read_offsets takes every offset from its record, even where
    the header says that there are no gaps; the broker, which verifies just that, needs it, a reader does not.
    Without it, offsets that are not ascending within the batch's range are CorruptData.

    Without keeps_headers all headers are checked and left out, since each of 2 bytes takes 70 as an object;
    behind many of them `STILL_READING` is yielded.  buffer is the body of a batch that is open already.

    Hot: 0.6 us a record of 100 bytes, in the broker, which looks into every batch that it appends.
    """
    if buffer is None:
        buffer = open_batch(batch, where, check_crcs, max_output_bytes)
    else:
        check_count(batch, where, len(buffer))
    base_offset, count = batch.base_offset, batch.count
    has_create_time = batch.timestamp_type != LOG_APPEND_TIME
    base_timestamp = timestamp = batch.base_timestamp if has_create_time else batch.max_timestamp
    last_delta = 0
    offset_sizes = repeat(0) if read_offsets else sizes_of_offsets(batch)
    position, end = 0, len(buffer)
    room = HEADERS_AT_ONCE
    offset, previous = base_offset, base_offset - 1
    try:
        for offset, size in zip(range(base_offset, base_offset + count), offset_sizes, strict=False):
            length = buffer[position]
            if length < 0x80:
                position += 1
            elif (byte := buffer[position + 1]) < 0x80:
                length = length & 0x7F | byte << 7
                position += 2
            else:
                length, position = read_raw(buffer, position)
            start = position

            # One byte of attributes, which have no meaning yet, and the timestamp.
            delta = buffer[position + 1]
            if delta < 0x80:
                position += 2
            elif (byte := buffer[position + 2]) < 0x80:
                delta = delta & 0x7F | byte << 7
                position += 3
            else:
                delta, position = read_raw(buffer, position + 1, MAX_VARLONG_BYTES)
            if delta != last_delta and has_create_time:
                timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
                last_delta = delta

            if size:
                position += size
            else:
                raw_offset, position = read_raw(buffer, position)
                if raw_offset & 1:
                    raise CorruptData("a negative offset delta")
                offset = base_offset + (raw_offset >> 1)
                if not (read_offsets or previous < offset <= batch.last_offset):
                    raise_out_of_order(offset, previous, batch)
                previous = offset

            size = buffer[position]
            if size == 1:
                key = None
                position += 1
            else:
                if size < 0x80:
                    position += 1
                elif (byte := buffer[position + 1]) < 0x80:
                    size = size & 0x7F | byte << 7
                    position += 2
                else:
                    size, position = read_raw(buffer, position)
                if size & 1:
                    raise CorruptData("a key of negative length")
                key = buffer[position : position + (size >> 1)]
                position += size >> 1

            size = buffer[position]
            if size == 1:
                value = None
                position += 1
            else:
                if size < 0x80:
                    position += 1
                elif (byte := buffer[position + 1]) < 0x80:
                    size = size & 0x7F | byte << 7
                    position += 2
                else:
                    size, position = read_raw(buffer, position)
                if size & 1:
                    raise CorruptData("a value of negative length")
                value = buffer[position : position + (size >> 1)]
                position += size >> 1

            headers: Headers = []
            if not buffer[position]:
                position += 1
            elif keeps_headers:
                position = read_headers(buffer, position, headers)
            else:
                left, position = header_count(buffer, position)
                while left > room:
                    position = skip_headers(buffer, position, room)
                    left, room = left - room, HEADERS_AT_ONCE
                    yield STILL_READING
                position = skip_headers(buffer, position, left)
                room -= left
            # Everything was read within the buffer, or an IndexError was raised; an odd length is negative.
            if (position - start) << 1 != length:
                raise CorruptData("its fields do not end where its length says")
            yield offset, timestamp, key, value, headers
    except (IndexError, CorruptData) as error:
        raise_corrupt(batch, offset, where, error)
    if position != end:
        raise_leftover(batch, end - position, where)
