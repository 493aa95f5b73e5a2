"""Records out of a batch of format 2, one after the other, on the thread that asks for them.

poll() runs these on the application's thread; the broker and tests use the tuples.  Whatever a peer sends,
the outcome is records or CorruptData: nothing is allocated by a number that the bytes cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile
from typing import NoReturn

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import CorruptData
from pykafka2.records.batch import MIN_RECORD_BYTES, RecordBatch
from pykafka2.records.varint import MAX_VARLONG_BYTES, read_raw
from pykafka2.types import LOG_APPEND_TIME, ConsumerRecord, Headers

RecordTuple = tuple[int, int, "bytes | None", "bytes | None", Headers]
"""Offset, timestamp, key, value, headers: a record without the names of where it came from."""


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


def _records(
    batch: RecordBatch, topic: str, partition: int, check_crcs: bool, max_output_bytes: int
) -> Iterator[ConsumerRecord]:
    """Hot: 0.9 us a record of 100 bytes, of which 0.3 is the object; `benchmarks.micro` guards it.

    Varints of one and two bytes are read in line: they hold any length below 8192.  The lines are those of
    `decode_tuples`; a property test keeps the two alike.
    """
    buffer = open_batch(batch, f"{topic}-{partition}", check_crcs, max_output_bytes)
    base_offset, count = batch.base_offset, batch.count
    base_timestamp, timestamp_type = batch.base_timestamp, batch.timestamp_type
    log_append_time = batch.max_timestamp if timestamp_type == LOG_APPEND_TIME else None
    leader_epoch = batch.partition_leader_epoch
    record_type, new = ConsumerRecord, ConsumerRecord.__new__
    position, end = 0, len(buffer)
    index = 0
    try:
        for index in range(count):  # noqa: B007 (the error names it)
            length = buffer[position]
            if length < 0x80:
                position += 1
            elif (byte := buffer[position + 1]) < 0x80:
                length = length & 0x7F | byte << 7
                position += 2
            else:
                length, position = read_raw(buffer, position)
            stop = position + (length >> 1)
            if stop > end or length & 1:
                raise wrong_length(length, end - position)

            # The attributes byte before the delta has no meaning yet.
            delta = buffer[position + 1]
            if delta < 0x80:
                position += 2
            elif (byte := buffer[position + 2]) < 0x80:
                delta = delta & 0x7F | byte << 7
                position += 3
            else:
                delta, position = read_raw(buffer, position + 1, MAX_VARLONG_BYTES)
            if log_append_time is None:
                timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
            else:
                timestamp = log_append_time

            offset = buffer[position]
            if offset < 0x80:
                position += 1
            elif (byte := buffer[position + 1]) < 0x80:
                offset = offset & 0x7F | byte << 7
                position += 2
            else:
                offset, position = read_raw(buffer, position)
            if offset & 1:
                raise CorruptData("a negative offset delta")

            size = buffer[position]
            if size < 0x80:
                position += 1
            elif (byte := buffer[position + 1]) < 0x80:
                size = size & 0x7F | byte << 7
                position += 2
            else:
                size, position = read_raw(buffer, position)
            if size & 1:
                if size != 1:
                    raise CorruptData("a key of negative length")
                key, key_size = None, -1
            else:
                key_size = size >> 1
                key = buffer[position : position + key_size]
                position += key_size

            size = buffer[position]
            if size < 0x80:
                position += 1
            elif (byte := buffer[position + 1]) < 0x80:
                size = size & 0x7F | byte << 7
                position += 2
            else:
                size, position = read_raw(buffer, position)
            if size & 1:
                if size != 1:
                    raise CorruptData("a value of negative length")
                value, value_size = None, -1
            else:
                value_size = size >> 1
                value = buffer[position : position + value_size]
                position += value_size

            headers: Headers = []
            if buffer[position]:
                position = read_headers(buffer, position, stop, headers)
            else:
                position += 1
            if position != stop:
                raise CorruptData("its fields do not end where its length says")

            # Setting the slots costs two thirds of calling the class.
            record = new(record_type)
            record.topic = topic
            record.partition = partition
            record.offset = base_offset + (offset >> 1)
            record.timestamp = timestamp
            record.timestamp_type = timestamp_type
            record.key = key
            record.value = value
            record.headers = headers
            record.leader_epoch = leader_epoch
            record.serialized_key_size = key_size
            record.serialized_value_size = value_size
            yield record
    except (IndexError, CorruptData) as error:
        raise_corrupt(batch, index, f"{topic}-{partition}", error)
    if position != end:
        raise_leftover(batch, end - position, f"{topic}-{partition}")


def decode_tuples(
    batch: RecordBatch,
    where: str = "records",
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Iterator[RecordTuple]:
    """The batch's records as plain tuples; lazy, and raises, as `decode_records` does.

    where names topic and partition in errors.  Hot: 0.65 us a record of 100 bytes; columns.py is built on it.
    """
    buffer = open_batch(batch, where, check_crcs, max_output_bytes)
    base_offset, count, base_timestamp = batch.base_offset, batch.count, batch.base_timestamp
    log_append_time = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    position, end = 0, len(buffer)
    index = 0
    try:
        for index in range(count):  # noqa: B007 (the error names it)
            length = buffer[position]
            if length < 0x80:
                position += 1
            elif (byte := buffer[position + 1]) < 0x80:
                length = length & 0x7F | byte << 7
                position += 2
            else:
                length, position = read_raw(buffer, position)
            stop = position + (length >> 1)
            if stop > end or length & 1:
                raise wrong_length(length, end - position)

            delta = buffer[position + 1]
            if delta < 0x80:
                position += 2
            elif (byte := buffer[position + 2]) < 0x80:
                delta = delta & 0x7F | byte << 7
                position += 3
            else:
                delta, position = read_raw(buffer, position + 1, MAX_VARLONG_BYTES)
            if log_append_time is None:
                timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
            else:
                timestamp = log_append_time

            offset = buffer[position]
            if offset < 0x80:
                position += 1
            elif (byte := buffer[position + 1]) < 0x80:
                offset = offset & 0x7F | byte << 7
                position += 2
            else:
                offset, position = read_raw(buffer, position)
            if offset & 1:
                raise CorruptData("a negative offset delta")

            size = buffer[position]
            if size < 0x80:
                position += 1
            elif (byte := buffer[position + 1]) < 0x80:
                size = size & 0x7F | byte << 7
                position += 2
            else:
                size, position = read_raw(buffer, position)
            if size & 1:
                if size != 1:
                    raise CorruptData("a key of negative length")
                key = None
            else:
                start = position
                position += size >> 1
                key = buffer[start:position]

            size = buffer[position]
            if size < 0x80:
                position += 1
            elif (byte := buffer[position + 1]) < 0x80:
                size = size & 0x7F | byte << 7
                position += 2
            else:
                size, position = read_raw(buffer, position)
            if size & 1:
                if size != 1:
                    raise CorruptData("a value of negative length")
                value = None
            else:
                start = position
                position += size >> 1
                value = buffer[start:position]

            headers: Headers = []
            if buffer[position]:
                position = read_headers(buffer, position, stop, headers)
            else:
                position += 1
            if position != stop:
                raise CorruptData("its fields do not end where its length says")

            yield base_offset + (offset >> 1), timestamp, key, value, headers
    except (IndexError, CorruptData) as error:
        raise_corrupt(batch, index, where, error)
    if position != end:
        raise_leftover(batch, end - position, where)


def open_batch(batch: RecordBatch, where: str, check_crcs: bool, max_output_bytes: int) -> bytes:
    """The encoded records, after all checks that need no parsing: checksum, codec, count."""
    if check_crcs:
        batch.verify_crc(where)
    try:
        buffer = batch.records_bytes(max_output_bytes)
    except CorruptData as error:
        raise CorruptData(f"{where} at offset {batch.base_offset}: {error}") from error
    if batch.count * MIN_RECORD_BYTES > len(buffer):
        raise CorruptData(
            f"{where} at offset {batch.base_offset}: {batch.count} records cannot be in {len(buffer)} bytes"
        )
    return buffer


def read_headers(buffer: bytes, position: int, stop: int, headers: Headers) -> int:
    """Read the headers at position into the list; where they end.  stop bounds their count and lengths."""
    raw, position = read_raw(buffer, position)
    if raw & 1 or raw >> 1 > (stop - position) // 2:
        raise CorruptData(f"{(raw >> 1) ^ -(raw & 1)} headers in {stop - position} bytes")
    for _ in range(raw >> 1):
        size, position = read_raw(buffer, position)
        end = position + (size >> 1)
        if size & 1 or end > stop:
            raise CorruptData("a header's name is longer than its record, or of negative length")
        name = buffer[position:end].decode("utf-8", "surrogateescape")
        size, position = read_raw(buffer, end)
        if size & 1:
            if size != 1:
                raise CorruptData("a header of negative length")
            headers.append((name, None))
        else:
            end = position + (size >> 1)
            if end > stop:
                raise CorruptData("a header is longer than its record")
            headers.append((name, buffer[position:end]))
            position = end
    return position


def wrong_length(raw: int, left: int) -> CorruptData:
    return CorruptData(f"a record of length {(raw >> 1) ^ -(raw & 1)} where {left} bytes are left")


def raise_corrupt(batch: RecordBatch, index: int, where: str, error: Exception) -> NoReturn:
    why = "the batch ends within a record" if isinstance(error, IndexError) else error
    raise CorruptData(
        f"{where} at offset {batch.base_offset}, record {index} of {batch.count}: {why}"
    ) from error


def raise_leftover(batch: RecordBatch, left: int, where: str) -> NoReturn:
    raise CorruptData(
        f"{where} at offset {batch.base_offset}: {left} bytes are left after its {batch.count} records"
    )
