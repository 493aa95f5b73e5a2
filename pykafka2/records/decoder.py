"""Records out of a batch of format 2, one after the other, on the thread that asks for them.

poll() runs these on the application's thread; tuple_decoder.py has the same without the objects.  Whatever
a peer sends, the outcome is records or CorruptData: nothing is allocated by a number that the bytes cannot
hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import CorruptData
from pykafka2.records.batch import RecordBatch
from pykafka2.records.headers import read_headers
from pykafka2.records.opening import (
    open_batch,
    raise_corrupt,
    raise_leftover,
    raise_out_of_order,
    sizes_of_offsets,
)
from pykafka2.records.varint import MAX_VARLONG_BYTES, read_raw
from pykafka2.types import LOG_APPEND_TIME, ConsumerRecord, Headers

# With so many different headers in a batch, those of its other records are not looked for among them.
MOST_HEADERS_KEPT = 16


def decode_records(
    batch: RecordBatch,
    topic: str,
    partition: int,
    first_offset: int = 0,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Iterator[ConsumerRecord]:
    """The batch's records from first_offset on, as `poll` hands them out (keys and values are bytes).

    Lazy: checksum, decompression and decoding happen when the first record is asked for.  A record that is
    damaged raises when its turn comes, so `list.extend(islice(...))` keeps those before it.

    Raises:
        CorruptMessage: the checksum does not fit; names topic, partition and offset.
        CorruptData: the bytes are not records; names topic, partition and offset.
        UnsupportedCompressionType, CodecUnavailable: the batch's codec is not known, or not installed.
    """
    records = _records(batch, topic, partition, check_crcs, max_output_bytes)
    if first_offset > batch.base_offset:
        return dropwhile(lambda record: record.offset < first_offset, records)
    return records


def decode_opened_records(
    batch: RecordBatch, buffer: bytes, topic: str, partition: int
) -> Iterator[ConsumerRecord]:
    """All records of a batch whose bytes are checked and decompressed."""
    return _records(batch, topic, partition, buffer=buffer)


def _records(
    batch: RecordBatch,
    topic: str,
    partition: int,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    buffer: bytes | None = None,
) -> Iterator[ConsumerRecord]:
    """Hot: 0.75 us a record of 100 bytes, of which 0.2 is the object; `benchmarks.micro` guards it.

    Varints of one and two bytes are read in line: they hold any length below 8192.  Offsets of a batch
    without gaps are counted, not read.  Records of one millisecond share its number.  The lines are those
    of `tuple_decoder.decode_tuples`; a property test keeps the two alike.
    """
    if buffer is None:
        buffer = open_batch(batch, f"{topic}-{partition}", check_crcs, max_output_bytes)
    base_offset, count = batch.base_offset, batch.count
    has_create_time = batch.timestamp_type != LOG_APPEND_TIME
    base_timestamp = timestamp = batch.base_timestamp if has_create_time else batch.max_timestamp
    last_delta = 0
    offset_sizes = sizes_of_offsets(batch)
    leader_epoch, timestamp_type = batch.partition_leader_epoch, batch.timestamp_type
    record_type, new = ConsumerRecord, ConsumerRecord.__new__
    known_headers: dict[bytes, Headers] = {}  # many records say the same: their lists are copies
    keeps_headers = True
    position, end = 0, len(buffer)
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
                if not previous < offset <= batch.last_offset:
                    raise_out_of_order(offset, previous, batch)
                previous = offset

            size = buffer[position]
            if size == 1:
                key, key_size = None, -1
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
                key_size = size >> 1
                key = buffer[position : position + key_size]
                position += key_size

            size = buffer[position]
            if size == 1:
                value, value_size = None, -1
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
                value_size = size >> 1
                value = buffer[position : position + value_size]
                position += value_size

            headers: Headers | None = None
            if buffer[position]:
                if keeps_headers:
                    record_end = start + (length >> 1)
                    raw_headers = buffer[position:record_end]
                    same = known_headers.get(raw_headers) if record_end <= end else None
                    if same is not None:
                        headers, position = same.copy(), record_end
                    else:
                        position = read_headers(buffer, position, headers := [])
                        if position == record_end:
                            known_headers[raw_headers] = headers.copy()
                            keeps_headers = len(known_headers) < MOST_HEADERS_KEPT
                else:
                    position = read_headers(buffer, position, headers := [])
            else:
                position += 1
            # Everything was read within the buffer, or an IndexError was raised; an odd length is negative.
            if (position - start) << 1 != length:
                raise CorruptData("its fields do not end where its length says")

            # Setting the slots costs two thirds of calling the class.
            record = new(record_type)
            record.topic = topic
            record.partition = partition
            record.offset = offset
            record.timestamp = timestamp
            record.timestamp_type = timestamp_type
            record.key = key
            record.value = value
            if headers:
                record.headers = headers  # otherwise ConsumerRecord makes a list where it is asked for
            record.leader_epoch = leader_epoch
            record.serialized_key_size = key_size
            record.serialized_value_size = value_size
            yield record
    except (IndexError, CorruptData) as error:
        raise_corrupt(batch, offset, f"{topic}-{partition}", error)
    if position != end:
        raise_leftover(batch, end - position, f"{topic}-{partition}")
