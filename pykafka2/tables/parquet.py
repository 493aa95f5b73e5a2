"""Writes the batches of a scan to a Parquet file, which appears under its name when it is complete."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP_BYTES = 32 << 20


def write_parquet(reader: pa.RecordBatchReader, path: str, options: dict[str, Any]) -> int:
    """Write the file, and return its number of rows; an error or Ctrl-C leaves no part of it.

    options: those of `pyarrow.parquet.ParquetWriter`; the compression is zstd by default.
    """
    partial = f"{path}.{os.getpid()}.part"
    try:
        with pq.ParquetWriter(partial, reader.schema, **{"compression": "zstd", **options}) as writer:
            rows = _write(reader, writer)
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            os.remove(partial)
        raise
    finally:
        reader.close()
    return rows


def _write(reader: pa.RecordBatchReader, writer: pq.ParquetWriter) -> int:
    """Write row groups of some size: each costs space and time in a reader."""
    rows = size = 0
    pending: list[pa.RecordBatch] = []
    for batch in reader:
        pending.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if size >= ROW_GROUP_BYTES:
            writer.write_table(pa.Table.from_batches(pending))
            pending, size = [], 0
    if pending:
        writer.write_table(pa.Table.from_batches(pending))
    return rows
