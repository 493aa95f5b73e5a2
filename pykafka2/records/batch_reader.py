"""Reads the batches of a fetch, of any format: the entry point of all decoding for the consumer.

Runs on the application's thread. Records of format 2 are decoded one by one (decoder.py), unless the first
of them have one layout: then column_decoder.py finds the fields of all records at once, and only keys, values
and objects are made for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.compression.steps import Steps, finish
from pykafka2.errors import CorruptData
from pykafka2.native import RECORD
from pykafka2.native import compiled as native
from pykafka2.records.batch import (
    MAGIC_AT,
    MAX_OFFSET,
    NO_LEADER_EPOCH,
    Buffer,
    RecordBatch,
    has_gaps,
    open_in_steps,
    open_view,
    slices,
)
from pykafka2.records.column_decoder import ColumnDecoder, decode_columns
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.decoder import RecordTuple, decode_opened_records, decode_tuples, raise_leftover
from pykafka2.records.legacy import (
    STEP_RECORDS,
    LegacyBatch,
    decode_legacy_tuples,
    legacy_tuples_in_steps,
)
from pykafka2.records.runs import Rows, Run, UniformRun
from pykafka2.types import LOG_APPEND_TIME, ConsumerRecord

MOST_RECORDS = 500
"""Records that are made at once, and wait if fewer are wanted."""
ALIKE_AT_FIRST = 16
"""Records of one length with which a batch must start to be taken for one of a single layout."""
STEP_BYTES = 1 << 19
"""The bytes that one step decodes or skips at most, because records of many headers take longer."""

if native is not None:
    native.bind(RECORD, ConsumerRecord)

AnyBatch = RecordBatch | LegacyBatch

Opened = tuple[Iterator[ConsumerRecord], int]
"""The records of a batch, and the number of its bytes that are kept decompressed."""


def any_batches(buffer: Buffer, where: object = "records") -> Iterator[AnyBatch]:
    """Yield batches like `batch.batches`, also of formats 0 and 1, and mixed as in old logs."""
    for offset, view in slices(buffer, where):
        magic = view[MAGIC_AT]
        if magic == 2:
            yield open_view(view, where)
        elif magic < 2:
            if offset >= MAX_OFFSET:
                raise CorruptData(f"{where} at offset {offset}: offsets of more than 64 bits")
            yield LegacyBatch(view)
        else:
            raise CorruptData(f"{where} at offset {offset}: magic {magic} is not one of Kafka's formats")


def decode_any_records(
    batch: AnyBatch,
    topic: str,
    partition: int,
    first_offset: int = 0,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Iterator[ConsumerRecord]:
    """Decode the same records, and raise the same errors, as `decoder.decode_records`, in any format.

    But the batch is opened, and skipped up to first_offset, by the call itself, not when the first record is
    read.
    """
    return finish(decode_any_in_steps(batch, topic, partition, first_offset, check_crcs, max_output_bytes))[0]


def decode_any_in_steps(
    batch: AnyBatch,
    topic: str,
    partition: int,
    first_offset: int = 0,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Steps[Opened]:
    """Decode records like `decode_any_records` in short steps: a large batch is decompressed, and skipped up
    to first_offset, in parts."""
    where = f"{topic}-{partition}"
    if not isinstance(batch, RecordBatch):
        tuples, size_bytes = yield from legacy_tuples_in_steps(batch, where, check_crcs, max_output_bytes)
        old = _legacy_records(batch, tuples, topic, partition)
        return (yield from skip_records(old, first_offset, size_bytes, STEP_RECORDS)), size_bytes
    body = bytes((yield from open_in_steps(batch, where, check_crcs, max_output_bytes)))
    step = max(1, min(STEP_RECORDS, STEP_BYTES * batch.count // (len(body) + 1)))
    if native is None and not looks_uniform(batch, body):
        records = decode_opened_records(batch, body, topic, partition)
        if first_offset > batch.base_offset:
            records = yield from skip_records(records, first_offset, len(body), step)
        return records, len(body)
    if native is None:
        decoder = ColumnDecoder(batch, body, GrowingColumns(), where, first_offset)
        parts = _parts_of(decoder, batch, topic, partition, step)
    else:
        parts = _compiled_parts(native.decode_records, batch, body, topic, partition, first_offset, step)
    for part in parts:
        if part:
            return chain(part, chain.from_iterable(parts)), len(body)
        yield len(body)
    return iter(()), len(body)


def decode_any_tuples(
    batch: AnyBatch,
    where: str = "records",
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Iterator[RecordTuple]:
    """Decode a batch of any format like `decoder.decode_tuples`."""
    if isinstance(batch, RecordBatch):
        return decode_tuples(batch, where, check_crcs, max_output_bytes, read_offsets=False)
    return decode_legacy_tuples(batch, where, check_crcs, max_output_bytes)


def decode_any_columns(
    batch: AnyBatch,
    columns: GrowingColumns,
    where: str = "records",
    first_offset: int = 0,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> None:
    """Decode a batch of any format like `column_decoder.decode_columns`."""
    if isinstance(batch, RecordBatch):
        decode_columns(batch, columns, where, first_offset, None, check_crcs, max_output_bytes)
        return
    columns.count_batch(batch.last_offset, batch.size_bytes, batch.timestamp_type)
    rows: list[RecordTuple] = []
    try:
        for row in decode_legacy_tuples(batch, where, check_crcs, max_output_bytes):
            rows.append(row)  # noqa: PERF402 (an error must leave the rows before it)
    finally:
        columns.extend([row for row in rows if row[0] >= first_offset])


def looks_uniform(batch: RecordBatch, buffer: bytes) -> bool:
    """Return whether a few bytes of the first records show one length, no gaps and no headers."""
    if batch.count < ALIKE_AT_FIRST or batch.last_offset_delta != batch.count - 1 or not buffer:
        return False
    length = buffer[0]
    if length < 0x80:
        stride = 1 + (length >> 1)
    elif len(buffer) > 1 and buffer[1] < 0x80:
        stride = 2 + ((length & 0x7F | buffer[1] << 7) >> 1)
    else:
        return False
    if buffer[stride - 1 : stride] != b"\0":
        return False  # the last byte is the number of headers, if there are none
    return stride > 1 and buffer[: ALIKE_AT_FIRST * stride : stride] == buffer[:1] * ALIKE_AT_FIRST


def skip_records(
    records: Iterator[ConsumerRecord], first_offset: int, size_bytes: int, step: int
) -> Steps[Iterator[ConsumerRecord]]:
    """Return the records from first_offset on; those before it are skipped in steps, which yield the size."""
    for count, record in enumerate(records, 1):
        if record.offset >= first_offset:
            return chain((record,), records)
        if not count % step:
            yield size_bytes
    return iter(())


def _parts_of(
    decoder: ColumnDecoder, batch: RecordBatch, topic: str, partition: int, step: int
) -> Iterator[list[ConsumerRecord]]:
    """Iterate over lists of records, some of them empty; an error is raised after the records before it."""
    while not decoder.is_done:
        columns, error = GrowingColumns(), None
        decoder.fill(columns)
        try:
            decoder.run(step)
        except CorruptData as corrupt:
            error = corrupt.with_traceback(None)
        for run in columns.runs():
            for start in range(0, len(run), MOST_RECORDS):
                part = run if len(run) <= MOST_RECORDS else run.cut(start, start + MOST_RECORDS)
                yield _records_of(part, batch, topic, partition)
        if error is not None:
            try:
                raise error
            finally:
                del error  # a frame in the traceback would refer to it, and both would stay in memory
        if not columns:
            yield []


def _compiled_parts(
    decode: Callable[..., Any],
    batch: RecordBatch,
    body: bytes,
    topic: str,
    partition: int,
    first_offset: int,
    step: int,
) -> Iterator[list[ConsumerRecord]]:
    """Yield lists of the records from first_offset on, and an empty one after `step` records without any.

    Skipping fewer records takes no step, as in `skip_records`: a poll without a timeout returns those behind
    them. The Python code decodes the rest of a batch from the first record on that the compiled code refuses.
    """
    position, index, count, previous = 0, 0, batch.count, batch.base_offset - 1
    timestamp_type = batch.timestamp_type
    has_create_time = timestamp_type != LOG_APPEND_TIME
    base_timestamp = batch.base_timestamp if has_create_time else batch.max_timestamp
    gaps = has_gaps(batch)
    skipped = 0 if gaps else first_offset - batch.base_offset
    while index < count:
        at_once = skipped - index if skipped > index else MOST_RECORDS
        stop = min(index + min(at_once, step - index % step), count)
        records, index, position, previous = decode(
            body,
            topic,
            partition,
            timestamp_type,
            batch.partition_leader_epoch,
            index,
            stop,
            position,
            batch.base_offset,
            previous,
            batch.last_offset,
            base_timestamp,
            has_create_time,
            gaps,
            first_offset,
        )
        if records or (index == stop and not index % step):
            yield records
        if index < stop:
            rest = decode_opened_records(batch, body, topic, partition, index, position, previous)
            for number, record in enumerate(rest, index + 1):
                if record.offset >= first_offset:
                    yield [record]
                elif not number % step:
                    yield []
            return
    if position != len(body):
        raise_leftover(batch, len(body) - position, f"{topic}-{partition}")


def _records_of(run: Run, batch: RecordBatch, topic: str, partition: int) -> list[ConsumerRecord]:
    """Make the records of a run: 0.2 us for one of 100 bytes, most of it for the object."""
    leader_epoch, timestamp_type = batch.partition_leader_epoch, batch.timestamp_type
    records = list(map(ConsumerRecord.__new__, repeat(ConsumerRecord, len(run))))
    rows = zip(records, run.offsets, run.timestamps, run.keys, run.values, strict=True)
    if isinstance(run, UniformRun):
        key_size, value_size = run.key.size, run.value.size
        # No headers are set: see ConsumerRecord.
        for record, offset, timestamp, key, value in rows:
            record.topic = topic
            record.partition = partition
            record.offset = offset
            record.timestamp = timestamp
            record.timestamp_type = timestamp_type
            record.key = key
            record.value = value
            record.leader_epoch = leader_epoch
            record.serialized_key_size = key_size
            record.serialized_value_size = value_size
        return records
    for record, offset, timestamp, key, value in rows:
        record.topic = topic
        record.partition = partition
        record.offset = offset
        record.timestamp = timestamp
        record.timestamp_type = timestamp_type
        record.key = key
        record.value = value
        record.leader_epoch = leader_epoch
        record.serialized_key_size = -1 if key is None else len(key)
        record.serialized_value_size = -1 if value is None else len(value)
    if isinstance(run, Rows):
        for index, headers in run.headers.items():
            records[index].headers_slot = headers  # type: ignore[attr-defined]
    return records


def _legacy_records(
    batch: LegacyBatch, tuples: Iterator[RecordTuple], topic: str, partition: int
) -> Iterator[ConsumerRecord]:
    timestamp_type = batch.timestamp_type
    for offset, timestamp, key, value, headers in tuples:
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        yield ConsumerRecord(
            topic,
            partition,
            offset,
            timestamp,
            timestamp_type,
            key,
            value,
            headers,
            NO_LEADER_EPOCH,
            key_size,
            value_size,
        )
