"""Batch writing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_connector.sink.rows import RowWriter, row_writer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class KafkaBatchWriter(DataSourceArrowWriter):
    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._rows.write(iterator)


def batch_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> KafkaBatchWriter:
    return KafkaBatchWriter(row_writer(given))
