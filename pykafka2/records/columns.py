"""The records of batches column by column, without record objects.

Runs on the application's thread, for `poll_columns` and Spark.  Plain Python lists; whoever wants numpy or
Arrow makes them from these.
"""

from __future__ import annotations

from itertools import dropwhile, islice

import attrs

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.records.batch import RecordBatch
from pykafka2.records.decoder import RecordTuple, decode_tuples
from pykafka2.types import Headers


@attrs.define
class Columns:
    """Records of one partition as lists of equal length: row n of each is one record.

    Timestamps are in milliseconds since the epoch; keys and values are bytes or None.
    """

    offsets: list[int] = attrs.Factory(list)
    timestamps: list[int] = attrs.Factory(list)
    keys: list[bytes | None] = attrs.Factory(list)
    values: list[bytes | None] = attrs.Factory(list)
    headers: list[Headers] = attrs.Factory(list)

    def __len__(self) -> int:
        return len(self.offsets)

    def extend(self, rows: list[RecordTuple]) -> None:
        """Add rows; all columns grow alike, or none does if memory runs out before the first."""
        if not rows:
            return
        offsets, timestamps, keys, values, headers = zip(*rows, strict=True)
        self.offsets += offsets
        self.timestamps += timestamps
        self.keys += keys
        self.values += values
        self.headers += headers


def decode_columns(
    batch: RecordBatch,
    columns: Columns | None = None,
    where: str = "records",
    first_offset: int = 0,
    max_records: int | None = None,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Columns:
    """Add the batch's records from first_offset on, at most max_records of them, to columns (new if None).

    The records before a damaged one are in the columns when the error is raised, for a caller that gave them.

    Raises:
        CorruptMessage, CorruptData, UnsupportedCompressionType, CodecUnavailable: as `decode_tuples` does.
    """
    columns = Columns() if columns is None else columns
    records = decode_tuples(batch, where, check_crcs, max_output_bytes, read_offsets=False)
    if first_offset > batch.base_offset:
        records = dropwhile(lambda row: row[0] < first_offset, records)
    rows: list[RecordTuple] = []
    try:
        rows.extend(islice(records, max_records))
    finally:
        columns.extend(rows)
    return columns
