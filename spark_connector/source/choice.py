"""Chooses the reader of a query by its options and the version of Spark."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from pykafka2.errors import ConfigurationError
from spark_connector.offsets import from_spark, to_spark
from spark_connector.options.source_options import SourceOptions, source_options
from spark_connector.source.batch import KafkaBatchReader
from spark_connector.source.schema import chosen_columns
from spark_connector.source.stream import StreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HAS_LIMITS = "limit" in inspect.signature(DataSourceStreamReader.latestOffset).parameters
"""Whether Spark passes the start of a batch when it requests its end (4.2 and later)."""


class UnlimitedStreamReader(StreamReader):
    """For Spark 4.1, which passes neither the start of a batch nor the trigger, so batches have no limits."""

    def latestOffset(self, *nothing: Any, **at_all: Any) -> dict[str, Any]:  # noqa: N802
        return to_spark(self._batches().end_of_next(None, takes_all=False))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._batches().check_losses(
            from_spark(start), from_spark(end)
        )  # latestOffset does not know the start
        return super().partitions(start, end)


def batch_reader(user_options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Return a reader.  Raise ConfigurationError, UnknownOption or WrongSchema for illegal arguments."""
    options = source_options(user_options, streaming=False)
    columns = chosen_columns(schema, options.column_names)
    if options.pushdown:
        from spark_connector.source.pushing_batch import PushingBatchReader  # filters need Spark 4.1

        return PushingBatchReader(options, columns)
    return KafkaBatchReader(options, columns)


def stream_reader(user_options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Return a reader.  Raise the errors of `batch_reader`."""
    options = source_options(user_options, streaming=True)
    columns = chosen_columns(schema, options.column_names)
    if HAS_LIMITS:
        from spark_connector.source.limited_stream import (
            LimitedStreamReader,
        )  # its base classes need Spark 4.2

        return LimitedStreamReader(options, columns)
    for name, value in limits_of(options).items():
        if value is not None:
            raise ConfigurationError(
                f"{name} needs Spark 4.2 or later, but this is {pyspark.__version__}. Remove the "
                "option or upgrade."
            )
    return UnlimitedStreamReader(options, columns)


def limits_of(options: SourceOptions) -> dict[str, int | None]:
    return {
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minOffsetsPerTrigger": options.min_offsets_per_trigger,
        "maxBytesPerTrigger": options.max_bytes_per_trigger,
    }
