"""Records of a batch whose records are laid out alike, as `poll` hands them out.

Runs on the application's thread.  column_decoder.py finds where everything lies for all of them at once; what
is left to do for each record is to cut out key and value and to make the object.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.compression.steps import Steps, finish
from pykafka2.errors import CorruptData
from pykafka2.records.batch import RecordBatch
from pykafka2.records.column_decoder import ColumnDecoder
from pykafka2.records.columns import Columns
from pykafka2.records.decoder import decode_opened_records
from pykafka2.records.layouts import looks_uniform
from pykafka2.records.opening import open_in_steps
from pykafka2.records.runs import Rows, Run, UniformRun
from pykafka2.types import ConsumerRecord

# So many records are made at once, and wait where fewer are asked for.
MOST_RECORDS = 500
# So many records are decoded, or passed over, in one step: some 10 ms of work.
STEP_RECORDS = 1 << 14
# And no more than about so many bytes: records of many headers take longer.
STEP_RECORDS_BYTES = 1 << 19

Opened = tuple[Iterator[ConsumerRecord], int]
"""The records of a batch, and how many bytes of it are kept decompressed."""


def decode_records(
    batch: RecordBatch,
    topic: str,
    partition: int,
    first_offset: int = 0,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Iterator[ConsumerRecord]:
    """Decode the same records, and raise the same errors, as `decoder.decode_records`.

    But the batch is opened and looked through when this is called, not when the first record is asked for.
    """
    return finish(decode_in_steps(batch, topic, partition, first_offset, check_crcs, max_output_bytes))[0]


def decode_in_steps(
    batch: RecordBatch,
    topic: str,
    partition: int,
    first_offset: int = 0,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Steps[Opened]:
    """Decode records in short steps: a large batch is decompressed, and skipped up to `first_offset`, in
    parts."""
    where = f"{topic}-{partition}"
    body = bytes((yield from open_in_steps(batch, where, check_crcs, max_output_bytes)))
    step = max(1, min(STEP_RECORDS, STEP_RECORDS_BYTES * batch.count // (len(body) + 1)))
    if not looks_uniform(batch, body):
        records = decode_opened_records(batch, body, topic, partition)
        if first_offset <= batch.base_offset:
            return records, len(body)
        return (yield from pass_over(records, first_offset, len(body), step)), len(body)
    decoder = ColumnDecoder(batch, body, Columns(), where, first_offset)
    parts = _parts_of(decoder, batch, topic, partition, step)
    for part in parts:
        if part:
            return chain(part, chain.from_iterable(parts)), len(body)
        yield len(body)
    return iter(()), len(body)


def pass_over(
    records: Iterator[ConsumerRecord], first_offset: int, size_bytes: int, step: int = STEP_RECORDS
) -> Steps[Iterator[ConsumerRecord]]:
    """The records from `first_offset` on; those before it are passed over in steps, which yield the size."""
    for count, record in enumerate(records, 1):
        if record.offset >= first_offset:
            return chain((record,), records)
        if not count % step:
            yield size_bytes
    return iter(())


def _parts_of(
    decoder: ColumnDecoder, batch: RecordBatch, topic: str, partition: int, step: int
) -> Iterator[list[ConsumerRecord]]:
    """Records in lists, one of which may be empty; an error is raised behind the records before it."""
    while not decoder.is_done:
        columns, failed = Columns(), None
        decoder.fill(columns)
        try:
            decoder.run(step)
        except CorruptData as error:
            failed = error.with_traceback(None)
        for run in columns.runs():
            for part in _parts(run):
                yield _made(part, batch, topic, partition)
        if failed is not None:
            try:
                raise failed
            finally:
                del failed  # a frame in the traceback would lead back to it, and both would stay
        if not columns:
            yield []


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
