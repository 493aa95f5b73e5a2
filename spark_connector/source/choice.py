"""Which reader a query gets, by its options and the version of Spark: what the data source calls."""

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
"""Whether this Spark says where a batch begins when it asks for its end (4.2 and newer)."""


class UnlimitedStreamReader(StreamReader):
    """For Spark 4.1, which says neither where the batch begins nor how the query is triggered: no limits."""

    def latestOffset(self, *nothing: Any, **at_all: Any) -> dict[str, Any]:  # noqa: N802
        return to_spark(self._batches().end_of_next(None, takes_all=False))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._batches().check_losses(from_spark(start), from_spark(end))  # latestOffset could not
        return super().partitions(start, end)


def batch_reader(given: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Raises what is wrong with options and schema: ConfigurationError, UnknownOption, WrongSchema."""
    options = source_options(given, streaming=False)
    columns = chosen_columns(schema, options.column_names)
    if options.pushdown:
        from spark_connector.source.pushing_batch import PushingBatchReader  # its filters came with 4.1

        return PushingBatchReader(options, columns)
    return KafkaBatchReader(options, columns)


def stream_reader(given: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Raises as `batch_reader`."""
    options = source_options(given, streaming=True)
    columns = chosen_columns(schema, options.column_names)
    if HAS_LIMITS:
        from spark_connector.source.limited_stream import (
            LimitedStreamReader,
        )  # its base classes came with 4.2

        return LimitedStreamReader(options, columns)
    for name, value in limits_of(options).items():
        if value is not None:
            raise ConfigurationError(f"{name} takes Spark 4.2 or newer; this is {pyspark.__version__}")
    return UnlimitedStreamReader(options, columns)


def limits_of(options: SourceOptions) -> dict[str, int | None]:
    return {
        "maxOffsetsPerTrigger": options.max_offsets_per_trigger,
        "minOffsetsPerTrigger": options.min_offsets_per_trigger,
        "maxBytesPerTrigger": options.max_bytes_per_trigger,
    }
