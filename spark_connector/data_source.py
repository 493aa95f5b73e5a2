"""`KafkaDataSource`: what Spark makes of `format("pykafka2")`, and hands on to reader or writer.

Spark makes it in helper processes on the driver, never in the user's own; options and schema are checked
there, before any task starts.  Neighbours: source/ and sink/.
"""

from __future__ import annotations

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


class KafkaDataSource(DataSource):
    """Kafka's topics as tables and streams.  Options: see the guide "Spark".

    Imports inside the methods: Spark looks through all data sources when the first one is asked for, and this
    one should cost that nothing.
    """

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        from spark_connector.options.source_options import source_options
        from spark_connector.source.schema import spark_schema

        return spark_schema(source_options(self.options).column_names)

    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_connector.source.choice import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from spark_connector.source.choice import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark_connector.sink.batch import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from spark_connector.sink.stream import stream_writer

        return stream_writer(self.options, schema, overwrite)


def register(spark: SparkSession) -> None:
    """Make `format("pykafka2")` known to a session, where the package is not installed but importable."""
    spark.dataSource.register(KafkaDataSource)
