"""Data sources on confluent-kafka, as one would write them with its documentation beside: the peers.

Arrow on Spark's side, like pykafka2's; clients are kept by each worker process, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from spark_connector.source.arrow import arrow_schema
from spark_connector.source.schema import spark_schema

FIRST = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
ROWS_PER_BATCH = 10_000

_kept: dict[tuple[object, ...], Any] = {}


def producer(servers: str) -> Producer:
    """This process's; settings as librdkafka has them, with the idempotence of the others."""
    key = (os.getpid(), "producer", servers)
    if key not in _kept:
        _kept[key] = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "queue.buffering.max.messages": 2_000_000,
                "delivery.report.only.error": True,  # much cheaper than a call back for each
                "partitioner": "murmur2_random",
            }
        )
    return _kept[key]


def consumer(servers: str) -> Consumer:
    key = (os.getpid(), "consumer", servers)
    if key not in _kept:
        _kept[key] = Consumer(
            {"bootstrap.servers": servers, "group.id": "not-joined", "enable.auto.commit": False}
        )
    return _kept[key]


class Writer(DataSourceArrowWriter):
    def __init__(self, options: dict[str, str]) -> None:
        self._servers = options["servers"]
        self._topic = options["topic"]
        self._is_bulk = options.get("bulk") == "true"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        client = producer(self._servers)
        failed: list[object] = []

        def on_delivery(error: object, message: object) -> None:
            if error is not None:
                failed.append(error)

        for batch in iterator:
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            send = self._send_bulk if self._is_bulk else self._send
            send(client, {name: column.to_pylist() for name, column in columns.items()}, on_delivery)
        client.flush()
        if failed:
            raise KafkaException(failed[0])
        return WriterCommitMessage()

    def _send(self, client: Producer, columns: dict[str, list[Any]], on_delivery: Any) -> None:
        topic, produce = self._topic, client.produce
        if len(columns) == 1:
            for value in columns["value"]:
                produce(topic, value, on_delivery=on_delivery)
        else:
            for key, value, headers in zip(columns["key"], columns["value"], columns["headers"], strict=True):
                pairs = [(one["key"], one["value"]) for one in headers]
                produce(topic, value, key, on_delivery=on_delivery, headers=pairs)
        client.poll(0)

    def _send_bulk(self, client: Producer, columns: dict[str, list[Any]], on_delivery: Any) -> None:
        """Take no headers."""
        keys = columns.get("key")
        if keys is None:
            messages = [{"value": value} for value in columns["value"]]
        else:
            messages = [
                {"key": key, "value": value} for key, value in zip(keys, columns["value"], strict=True)
            ]
        client.produce_batch(self._topic, messages, on_delivery=on_delivery)
        client.poll(0)


class Range(InputPartition):
    pass


class Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._servers = options["servers"]
        self._topic = options["topic"]
        self._has_headers = options.get("headers") == "true"

    def partitions(self) -> list[InputPartition]:
        client = consumer(self._servers)
        found = client.list_topics(self._topic, timeout=10).topics[self._topic].partitions
        return [
            Range((number, *client.get_watermark_offsets(TopicPartition(self._topic, number), timeout=10)))
            for number in found
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        number, start, end = partition.value
        client = consumer(self._servers)
        client.assign([TopicPartition(self._topic, number, start)])
        left = end - start
        schema = arrow_schema((*FIRST, "headers") if self._has_headers else FIRST)
        while left:
            messages = client.consume(min(left, ROWS_PER_BATCH), timeout=10)
            if not messages:
                raise TimeoutError(f"{self._topic}-{number} brought nothing for 10 s")
            left -= len(messages)
            yield self._batch(messages, number, schema)
        client.unassign()

    def _batch(self, messages: list[Any], number: int, schema: pa.Schema) -> pa.RecordBatch:
        count = len(messages)
        times = [message.timestamp() for message in messages]
        arrays = [
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
            pa.repeat(pa.scalar(self._topic, pa.string()), count),
            pa.repeat(pa.scalar(number, pa.int32()), count),
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([1000 * time for _, time in times], pa.int64()).cast(schema.field("timestamp").type),
            pa.array([kind - 1 for kind, _ in times], pa.int32()),
        ]
        if self._has_headers:
            rows = [
                [{"key": name, "value": value} for name, value in message.headers() or ()]
                for message in messages
            ]
            arrays.append(pa.array(rows, schema.field("headers").type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class ConfluentDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "confluent"

    def schema(self) -> StructType:
        has_headers = self.options.get("headers") == "true"
        return spark_schema((*FIRST, "headers") if has_headers else FIRST)

    def reader(self, schema: StructType) -> DataSourceReader:
        return Reader(dict(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return Writer(dict(self.options))
