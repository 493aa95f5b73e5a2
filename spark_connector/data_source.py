"""`KafkaDataSource`: the class behind `format("pykafka2")`, which creates readers and writers.

Spark creates it in helper processes on the driver, never in the user's process.  Options and schema are
checked there, before any task starts.  Neighbors: source/ and sink/.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

NAME = "pykafka2"
PACKAGES = ("numpy", "pyarrow")
"""Packages that every task imports."""


class KafkaDataSource(DataSource):
    """Kafka topics as tables and streams.  The guide "Spark" lists the options.

    Methods import what they need: Spark imports every data source when a session uses its first one, and this
    one should add no cost.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """Called by load() of a batch and of a stream, unless the user gives a schema.

        Raises:
            ModuleNotFoundError: a package that every task needs is not installed.
            UnknownOption, ConfigurationError: an option is illegal for batch and stream alike.
            NoBrokersAvailable: no broker responds within kafka.default.api.timeout.ms.
        """
        _check_packages()
        from spark_connector.options.source_options import source_options
        from spark_connector.source.schema import spark_schema
        from spark_connector.source.topics import check_brokers

        options = source_options(self.options)
        check_brokers(options)
        return spark_schema(options.column_names)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Called once for each DataFrame, when Spark plans its first query."""
        _check_packages()
        from spark_connector.source.choice import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Called after start(), before the first micro-batch."""
        _check_packages()
        from spark_connector.source.choice import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        _check_packages()
        from spark_connector.sink.writers import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        _check_packages()
        from spark_connector.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite)


def _check_packages() -> None:
    """Raise ModuleNotFoundError if a package that tasks need is not installed on the driver."""
    for name in PACKAGES:
        if find_spec(name) is None:
            raise ModuleNotFoundError(
                f"format('pykafka2') needs {name} on the driver and on every worker. "
                "Run: pip install 'pykafka2[spark]'",
                name=name,
            )


def register(spark: SparkSession) -> None:
    """Register `format("pykafka2")` with a session; needed only if the package is not installed."""
    spark.dataSource.register(KafkaDataSource)
