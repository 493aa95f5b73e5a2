"""Rows of one task into a topic, at least once: what batch and stream share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import attrs
from pyspark.sql.datasource import WriterCommitMessage

from pykafka2 import KafkaProducer
from pykafka2.errors import ConfigurationError
from spark_connector import connections
from spark_connector.options.kafka_options import for_sink
from spark_connector.options.reading import read_options
from spark_connector.options.sink_options import SinkOptions
from spark_connector.options.source_options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa


@attrs.define
class Written(WriterCommitMessage):
    rows: int


@attrs.define
class RowWriter:
    """Travels to the tasks."""

    _topic: str
    _kafka: dict[str, str]

    def write(self, batches: Iterator[pa.RecordBatch]) -> Written:
        producer = connections.kept("producer", self._kafka, lambda: KafkaProducer(self._kafka))
        rows = 0
        for batch in batches:
            producer.send_many(self._topic, batch)
            rows += batch.num_rows
        producer.flush()
        return Written(rows)


def row_writer(given: Mapping[str, str]) -> RowWriter:
    values, kafka, _ = read_options(SinkOptions, given, elsewhere=SourceOptions, here="sink")
    options = SinkOptions(**values)
    if options.topic is None:
        raise ConfigurationError("topic is missing")
    return RowWriter(options.topic, for_sink(kafka))
