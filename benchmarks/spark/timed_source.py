"""pykafka2's stream source, with the time of what it does for each micro-batch on the driver written down."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from spark_connector import KafkaDataSource
from spark_connector.options.source_options import source_options
from spark_connector.source.limited_stream import LimitedStreamReader
from spark_connector.source.schema import chosen_columns

FILE = "PYKAFKA2_BENCHMARK_TIMES"
"""The name of the variable that says where; a line is `what seconds`."""


class TimedReader(LimitedStreamReader):
    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: N802
        return _timed("latestOffset", lambda: super(TimedReader, self).latestOffset(start, limit))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return _timed("partitions", lambda: super(TimedReader, self).partitions(start, end))


class TimedDataSource(KafkaDataSource):
    @classmethod
    def name(cls) -> str:
        return "timed_pykafka2"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = source_options(self.options, streaming=True)
        return TimedReader(options, chosen_columns(schema, options.column_names))


def _timed(what: str, call: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    found = call()
    with open(os.environ[FILE], "a", encoding="ascii") as file:
        file.write(f"{what} {time.perf_counter() - began}\n")
    return found
