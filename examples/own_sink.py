"""Write from PySpark with a sink of your own: pykafka2 as the transport.

Shows: a data source with writers for batches and streams, where the driver commits the transactions of all
tasks together; `foreachBatch` with `foreachPartition`; and an object for `foreach`.  Clients are created in
the tasks, because they own threads and connections and cannot be copied to a worker:

    python examples/own_sink.py
"""

from __future__ import annotations

import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pykafka2 import KafkaConsumer, KafkaProducer, TransactionHandle, end_transactions
from pykafka2.testing import KafkaCluster
from spark_connector.testing import local_session, why_no_spark

TOPICS = ("by-writer", "by-stream-writer", "by-foreach-batch", "by-foreach")
ROWS = 150
TASKS = 3


# ------------------------------------------------------------------------- a data source with writers


@dataclass
class Open(WriterCommitMessage):
    """The transaction of a task, complete and still open, which the driver commits."""

    transaction: TransactionHandle


class Transactions:
    """Written by the tasks, ended by the driver.  Copied to the workers, so it holds options only."""

    def __init__(self, options: dict[str, str], job: str) -> None:
        self.servers, self.topic, self.job = options["servers"], options["topic"], job

    def write(self, rows: Iterator[Row], batch: str = "") -> Open:
        context = TaskContext.get()
        assert context is not None
        # Each attempt has its own id: a second one must not fence the first, which may be committed.
        name = f"{self.job}/{batch}/{context.partitionId()}/{context.taskAttemptId()}"
        with KafkaProducer(
            bootstrap_servers=self.servers,
            transactional_id=name,
            transaction_timeout_ms=900_000,  # it stays open until the last task of the job has ended
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send_many(self.topic, [row.value.encode() for row in rows])
            return Open(producer.detach_transaction())  # sends the rest, and raises if a row failed

    def end(self, messages: Sequence[WriterCommitMessage | None], *, commit: bool) -> None:
        handles = [message.transaction for message in messages if isinstance(message, Open)]
        failed = end_transactions(handles, commit=commit, bootstrap_servers=self.servers)
        if failed and commit:
            raise RuntimeError(f"{len(failed)} of {len(handles)} transactions were lost: {failed}")


class OwnWriter(DataSourceWriter):
    """A batch: all of it becomes visible, or nothing."""

    def __init__(self, transactions: Transactions) -> None:
        self.transactions = transactions

    def write(self, iterator: Iterator[Row]) -> Open:
        return self.transactions.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.transactions.end(messages, commit=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.transactions.end(messages, commit=False)


class OwnStreamWriter(DataSourceStreamWriter):
    """Micro-batches.  If the driver dies between commit and checkpoint, Spark writes the batch again."""

    def __init__(self, transactions: Transactions) -> None:
        self.transactions = transactions

    def write(self, iterator: Iterator[Row]) -> Open:
        context = TaskContext.get()
        batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
        return self.transactions.write(iterator, batch or "")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.transactions.end(messages, commit=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.transactions.end(messages, commit=False)


class OwnSink(DataSource):
    """`format("own-sink")` with the options servers and topic."""

    @classmethod
    def name(cls) -> str:
        return "own-sink"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return OwnWriter(Transactions(dict(self.options), f"own-{uuid.uuid4().hex}"))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return OwnStreamWriter(Transactions(dict(self.options), f"own-{uuid.uuid4().hex}"))


# ------------------------------------------------------------------------- foreachBatch and foreach


@dataclass
class EachPartition:
    """For `foreachBatch`: every task sends its rows.  At least once."""

    servers: str
    topic: str

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        batch.foreachPartition(self.send)

    def send(self, rows: Iterator[Row]) -> None:
        with KafkaProducer(bootstrap_servers=self.servers) as producer:
            producer.send_many(self.topic, [row.value.encode() for row in rows]).result(60)


class EachRow:
    """For `foreach`: Spark copies the object to the task, and calls open, process for each row, and close."""

    def __init__(self, servers: str, topic: str) -> None:
        self.servers, self.topic = servers, topic

    def open(self, partition_id: int, epoch_id: int) -> bool:
        self.producer = KafkaProducer(bootstrap_servers=self.servers)
        self.deliveries: list[Any] = []
        return True

    def process(self, row: Row) -> None:
        self.deliveries.append(self.producer.send(self.topic, row.value.encode()))

    def close(self, error: Exception | None) -> None:
        with self.producer:
            if error is None:
                self.producer.flush()
                for delivery in self.deliveries:
                    delivery.result(0)  # raises if the record was not written


# ------------------------------------------------------------------------- all four


def write_all(spark: SparkSession, servers: str, checkpoints: str) -> None:
    spark.dataSource.register(OwnSink)
    rows = spark.range(ROWS, numPartitions=TASKS).selectExpr("cast(id as string) as value")
    batch = rows.write.format("own-sink").mode("append")
    batch.options(servers=servers, topic="by-writer").save()
    rows.write.mode("overwrite").parquet(f"{checkpoints}/rows")

    def stream() -> Any:
        return spark.readStream.schema("value string").parquet(f"{checkpoints}/rows").writeStream

    writers = {
        "by-stream-writer": stream().format("own-sink").options(servers=servers, topic="by-stream-writer"),
        "by-foreach-batch": stream().foreachBatch(EachPartition(servers, "by-foreach-batch")),
        "by-foreach": stream().foreach(EachRow(servers, "by-foreach")),
    }
    for name, writer in writers.items():
        query = (
            writer.option("checkpointLocation", f"{checkpoints}/{name}").trigger(availableNow=True).start()
        )
        query.awaitTermination()


def count(servers: str, topic: str) -> tuple[int, int]:
    """Return how many records a reader of committed records sees, and how many different ones."""
    found: list[bytes | None] = []
    with KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=2_000,
    ) as consumer:
        found += [record.value for record in consumer]
    return len(found), len(set(found))


def main() -> int:
    reason = why_no_spark()
    if reason is not None:
        print(f"this example needs Spark: {reason}", file=sys.stderr)
        return 2
    spark = local_session()
    try:
        with (
            KafkaCluster(brokers=1, topics=dict.fromkeys(TOPICS, 2), process=True) as cluster,
            tempfile.TemporaryDirectory() as checkpoints,
        ):
            write_all(spark, cluster.bootstrap_servers, checkpoints)
            for topic in TOPICS:
                records, different = count(cluster.bootstrap_servers, topic)
                print(f"{topic}: {records} records, {different} different ones")
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
