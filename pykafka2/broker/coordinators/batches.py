"""Conversion between coordinators' records and record batches of a log.

`batch_of` builds the batch that the broker appends as leader for ShardLog.append; `entries_in` reads what a
runtime loads from a log's batches. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pykafka2.broker.coordinators.replay import Producer, Record
from pykafka2.broker.coordinators.runtime import Entry, Marker
from pykafka2.records.batch import RecordBatch
from pykafka2.records.control import read_marker
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import BatchBuilder


def batch_of(records: Sequence[Record], producer: Producer | None, at_ms: int, codec: int = 0) -> bytes:
    """Return one batch with all records, transactional if a producer is passed; without sequences."""
    builder = BatchBuilder(codec, max_bytes=2**31 - 1)
    for record in records:
        builder.append(at_ms, record.key, record.value)
    if producer is None:
        return builder.build()
    return builder.build(producer_id=producer.id, producer_epoch=producer.epoch, is_transactional=True)


def entries_in(batches: Iterable[RecordBatch]) -> Iterator[Entry | Marker]:
    """Iterate over the records and markers of a log; skip other control batches and keyless records.

    Raises:
        CorruptMessage, CorruptData: a batch is damaged.
    """
    for batch in batches:
        producer = Producer(batch.producer_id, batch.producer_epoch) if batch.is_transactional else None
        if batch.is_control:
            if not batch.count:
                continue  # compaction has emptied it
            marker = read_marker(batch)
            if producer is not None and (marker.is_commit or marker.is_abort):
                yield Marker(producer, marker.is_commit)
            continue
        for _, _, key, value, _ in decode_tuples(batch):
            if key is not None:
                yield Entry(bytes(key), None if value is None else bytes(value), producer)
