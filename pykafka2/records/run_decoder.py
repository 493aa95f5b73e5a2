"""Records of a batch whose records are laid out alike, as `poll` hands them out.

Runs on the application's thread.  column_decoder.py finds where everything lies for all of them at once; what
is left to do for each record is to cut out key and value and to make the object.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import CorruptData
from pykafka2.records.batch import RecordBatch
from pykafka2.records.column_decoder import decode_opened
from pykafka2.records.columns import Columns
from pykafka2.records.decoder import decode_opened_records
from pykafka2.records.layouts import looks_uniform
from pykafka2.records.opening import open_batch
from pykafka2.records.runs import Rows, Run, UniformRun
from pykafka2.types import ConsumerRecord

# So many records are made at once, and wait where fewer are asked for.
MOST_RECORDS = 500


def decode_records(
    batch: RecordBatch,
    topic: str,
    partition: int,
    first_offset: int = 0,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Iterator[ConsumerRecord]:
    """As `decoder.decode_records`: the same records, and the same is raised.

    But the batch is opened and looked through when this is called, not when the first record is asked for.
    """
    body = open_batch(batch, f"{topic}-{partition}", check_crcs, max_output_bytes)
    return decode_body(batch, body, topic, partition, first_offset)


def decode_body(
    batch: RecordBatch, body: bytes, topic: str, partition: int, first_offset: int = 0
) -> Iterator[ConsumerRecord]:
    """The same of a batch whose bytes are checked and decompressed."""
    if not looks_uniform(batch, body):
        return decode_opened_records(batch, body, topic, partition, first_offset)
    columns = Columns()
    try:
        decode_opened(batch, body, columns, f"{topic}-{partition}", first_offset)
    except CorruptData as error:
        return chain(_records(columns, batch, topic, partition), _Raising(error.with_traceback(None)))
    return _records(columns, batch, topic, partition)


class _Raising:
    """An iterator that raises an error when its turn comes, and keeps nothing of it."""

    def __init__(self, error: Exception) -> None:
        self._error: Exception | None = error

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        error, self._error = self._error, None
        if error is None:
            raise StopIteration
        try:
            raise error
        finally:
            del error  # a frame in the traceback would lead back to it, and both would stay


def _records(columns: Columns, batch: RecordBatch, topic: str, partition: int) -> Iterator[ConsumerRecord]:
    parts = (part for run in columns.runs() for part in _parts(run))
    return chain.from_iterable(_made(part, batch, topic, partition) for part in parts)


def _parts(run: Run) -> Iterator[Run]:
    if len(run) <= MOST_RECORDS:
        yield run
        return
    for start in range(0, len(run), MOST_RECORDS):
        yield run.cut(start, start + MOST_RECORDS)


def _made(run: Run, batch: RecordBatch, topic: str, partition: int) -> list[ConsumerRecord]:
    """Hot: 0.3 us a record of 100 bytes, most of it the object and its bytes."""
    leader_epoch, timestamp_type = batch.partition_leader_epoch, batch.timestamp_type
    records = list(map(ConsumerRecord.__new__, repeat(ConsumerRecord, len(run))))
    rows = zip(records, run.offsets, run.timestamps, run.keys, run.values, strict=True)
    if isinstance(run, UniformRun):
        key_size, value_size = run.key.size, run.value.size
        # Without headers: see ConsumerRecord.
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
            records[index].headers = headers
    return records
