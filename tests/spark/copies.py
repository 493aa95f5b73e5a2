"""A query that copies a topic to another one, stopped and started again by tests of its checkpoint."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from pykafka2 import KafkaAdminClient, KafkaProducer
from pykafka2.testing import ClusterApi
from tests.spark.committed import committed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

LOCATION = "spark.sql.streaming.checkpointLocation"
Change = Callable[["DataFrame"], "DataFrame"]


@attrs.define
class Copy:
    """A query that copies a topic to another one."""

    spark: SparkSession
    cluster: ClusterApi
    folder: Path
    delivery: str
    sees_offsets: bool = True
    """Whether the sink knows the checkpoint's location."""
    name: str = attrs.field(factory=lambda: f"copy{uuid.uuid4().hex[:8]}")
    sent: int = 0
    partitions: int = 2

    def __attrs_post_init__(self) -> None:
        for topic in (self.name, self.output):
            self.cluster.create_topic(topic, partitions=self.partitions)

    @property
    def output(self) -> str:
        return f"{self.name}-out"

    @property
    def checkpoint(self) -> Path:
        return self.folder / self.name

    def send(self, count: int) -> None:
        values = [b"%d" % number for number in range(self.sent, self.sent + count)]
        self.sent += count
        self.send_values(values, [0, 1] * (count // 2))

    def send_values(self, values: Sequence[bytes], partitions: Sequence[int]) -> None:
        with KafkaProducer(bootstrap_servers=self.cluster.bootstrap_servers) as producer:
            producer.send_many(self.name, values, partitions=partitions).result(30)

    def start(
        self, change: Change | None = None, conf: Mapping[str, str] | None = None, **more: str
    ) -> StreamingQuery:
        """Run to the end of the topic, in one micro-batch.

        change: of the rows, which have the column value.  conf: of the session.  more: options of the source.
        """
        spark = self.spark
        if conf:
            spark = self.spark.newSession()
            for name, value in conf.items():
                spark.conf.set(name, value)
        servers = {"kafka.bootstrap.servers": self.cluster.bootstrap_servers}
        read = spark.readStream.format("pykafka2").options(**servers, subscribe=self.name, **more)
        rows = read.option("startingOffsets", "earliest").load().select("value")
        if change is not None:
            rows = change(rows)
        writer = (
            rows.writeStream.format("pykafka2").queryName(self.name).options(**servers, topic=self.output)
        )
        writer = writer.option("delivery", self.delivery)
        if self.delivery != "at_least_once":
            writer = writer.option("ledgerTopic", f"{self.name}-ledger")
        if self.sees_offsets:
            writer = writer.option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(availableNow=True).start()

    def entries(self, log: str) -> list[int]:
        """Return the batches in `offsets` or `commits`."""
        return sorted(int(one.name) for one in (self.checkpoint / log).iterdir() if one.name.isdecimal())

    def remove(self, log: str, number: int) -> None:
        (self.checkpoint / log / str(number)).unlink(missing_ok=True)
        (self.checkpoint / log / f".{number}.crc").unlink(missing_ok=True)

    def roll_back(self, batches: int, of: Path) -> None:
        """Put back a copy of the checkpoint, without the last batches."""
        shutil.rmtree(self.checkpoint)
        shutil.copytree(of, self.checkpoint)
        for number in self.entries("offsets")[-batches:]:
            for log in ("offsets", "commits"):
                self.remove(log, number)

    def forget_commit(self) -> None:
        """Leave what a kill leaves just before Spark notes the last batch."""
        self.remove("commits", self.entries("commits")[-1])

    def lose_ledger(self) -> None:
        with KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
            admin.delete_topics([f"{self.name}-ledger"])

    def written(self, *, waits: bool = True) -> Counter[str]:
        """Return the committed rows.  waits: for open transactions to end, which a failed batch can leave."""
        return committed(self.cluster.bootstrap_servers, self.output, waits=waits)


def all_of(count: int) -> Counter[str]:
    return Counter(str(number) for number in range(count))


def finish(*queries: StreamingQuery) -> list[str]:
    """Wait for the queries; return their errors."""
    errors = []
    for query in queries:
        try:
            assert query.awaitTermination(120)
            errors.append("")
        except Exception as error:
            errors.append(str(error))
    return errors


@contextmanager
def checkpoints_in(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Have queries keep their checkpoints there by the session's configuration, which sinks do not see."""
    before = spark.conf.get(LOCATION, None)
    spark.conf.set(LOCATION, str(folder))
    yield
    if before is None:
        spark.conf.unset(LOCATION)
    else:
        spark.conf.set(LOCATION, before)
