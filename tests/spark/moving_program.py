"""Streams that go on from one another's checkpoints: Spark's own Kafka connector, and pykafka2.

    python -m tests.spark.moving_program SERVERS TOPIC FOLDER JARS

Prints one line of JSON: of each story, what every run was shown, batch by batch.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pykafka2 import KafkaAdminClient, KafkaProducer, NewTopic
from spark_connector.testing import local_session

OURS, THEIRS = "pykafka2", "kafka"
ROWS = 50
PER_BATCH = 30
STORIES = {"theirs first": (THEIRS, OURS, THEIRS), "ours first": (OURS, THEIRS, OURS)}
"""Which connector each run of a query has; the last batch of the run before is played again."""


class Story:
    """One query with its checkpoint; every run finds more records in the topic."""

    def __init__(self, spark: Any, servers: str, topic: str, folder: Path) -> None:
        self._spark = spark
        self._servers = servers
        self._topic = topic
        self._checkpoint = folder / topic
        self._sent = 0

    def send(self) -> None:
        with KafkaProducer(bootstrap_servers=self._servers) as producer:
            values = [b"%d" % number for number in range(self._sent, self._sent + ROWS)]
            partitions = [number % 2 for number in range(ROWS)]
            producer.send_many(self._topic, values, partitions=partitions).result(30)
        self._sent += ROWS

    def run(self, connector: str) -> dict[int, list[int]]:
        """Read what there is; by number of the batch, what was in it."""
        found: dict[int, list[int]] = {}

        def keep(frame: Any, number: int) -> None:
            found[number] = sorted(int(row.value) for row in frame.select("value").collect())

        options = {"kafka.bootstrap.servers": self._servers, "subscribe": self._topic}
        source = self._spark.readStream.format(connector).options(
            **options, startingOffsets="earliest", maxOffsetsPerTrigger=PER_BATCH
        )
        query = (
            source.load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return found

    def forget_last_commit(self) -> None:
        """The run looks as if it had been killed in its last batch: it has begun and is not done."""
        last = max(int(one.name) for one in (self._checkpoint / "commits").iterdir() if one.name.isdigit())
        for name in (f"{last}", f".{last}.crc"):
            (self._checkpoint / "commits" / name).unlink(missing_ok=True)


def play(story: Story, connectors: Iterable[str]) -> list[dict[int, list[int]]]:
    runs = []
    for number, connector in enumerate(connectors):
        if number:
            story.forget_last_commit()
        story.send()
        runs.append(story.run(connector))
    return runs


def main() -> None:
    servers, topic, folder, jars = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = local_session(spark_jars=jars)
    answer = {}
    for number, (name, connectors) in enumerate(STORIES.items()):
        own = f"{topic}-{number}"
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(own, 2, 1)])
            admin.wait_for_topics([own])
        answer[name] = play(Story(spark, servers, own, Path(folder)), connectors)
    answers.write(json.dumps(answer) + "\n")
    answers.close()
    spark.stop()


if __name__ == "__main__":
    main()
