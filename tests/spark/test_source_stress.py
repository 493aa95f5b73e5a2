"""Topics, partitions, restarts and losses at random while a stream reads: nothing twice, nothing passed over.

The stress tests of Spark's own connector, called as Spark calls them, against a broker and without Spark.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import attrs
import pyarrow as pa
import pytest

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.testing import KafkaCluster
from spark_connector import connections
from spark_connector.offsets import Offsets
from spark_connector.options.source_options import SourceOptions, source_options
from spark_connector.source.micro_batches import MicroBatches
from spark_connector.source.ranges import OffsetRange, tasks_of
from spark_connector.source.reading import RangeTask
from spark_connector.source.samples import Samples
from spark_connector.source.topics import Topics
from tests.gate import rest_in_long
from tests.spark.kafka_data import AGES, add_partitions, age_out, send

pytestmark = [pytest.mark.slow, pytest.mark.kafka(brokers=1)]

STEPS = 25
MOST_PARTITIONS = 4
Place = tuple[str, int, int]


@attrs.define
class Query:
    """A stream of topics s-0, s-1, ... whose batches are carried out at once."""

    _cluster: KafkaCluster
    _options: SourceOptions
    read: Counter[Place] = attrs.Factory(Counter)
    _at: Offsets | None = None
    _last: tuple[Offsets, Offsets] | None = None
    _batches: MicroBatches | None = None

    def start(self) -> None:
        """Also again: the last batch may be one that Spark did not see the end of."""
        kafka = self._options.kafka
        consumer = connections.consumer(kafka)
        topics = Topics(self._options, consumer, connections.admin(kafka))
        self._batches = MicroBatches(
            self._options, topics, Samples(consumer, self._options.isolation_level), lambda: 0.0
        )
        if self._at is None:
            self._at = self._batches.first_offsets()
        else:
            self._batches.begun()

    def trigger(self) -> bool:
        """One micro-batch; False if there is nothing."""
        assert self._batches is not None
        assert self._at is not None
        end = self._batches.end_of_next(dict(self._at), takes_all=False)
        if end == self._at:
            return False
        self._last, self._at = (self._at, end), end
        self.read += Counter(self.rows(*self._last))
        return True

    def replay(self) -> None:
        """The last batch once more, which has to be the same."""
        if self._last is not None:
            found = Counter(self.rows(*self._last))
            assert all(self.read[place] == count for place, count in found.items())

    def rows(self, start: Offsets, end: Offsets) -> Iterator[Place]:
        ranges = [OffsetRange(*one, start.get(one, 0), offset) for one, offset in end.items()]
        task = RangeTask(self._options, ("topic", "partition", "offset"))
        for one in tasks_of(ranges, self._options.min_partitions, None):
            for batch in task.read(one):
                found = pa.Table.from_batches([batch]).to_pydict()
                yield from zip(found["topic"], found["partition"], found["offset"], strict=True)


def there(cluster: KafkaCluster, partitions: list[TopicPartition]) -> set[Place]:
    with closing(KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)) as consumer:
        first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    return {(*one, offset) for one in partitions for offset in range(first[one], end[one])}


@pytest.mark.parametrize("loses", [False, True], ids=["all is there", "some is lost"])
@pytest.mark.parametrize("seed", rest_in_long(range(4), in_gate=2))
def test_each_record_is_read_once(kafka_cluster: KafkaCluster, seed: int, loses: bool) -> None:
    chance = random.Random(seed)
    settings = {
        "kafka.bootstrap.servers": kafka_cluster.bootstrap_servers,
        "subscribePattern": r"s-\d+",
        "startingOffsets": "earliest",
        "failOnDataLoss": str(not loses),
        "minPartitions": str(chance.randint(1, 6)),
        **({"maxOffsetsPerTrigger": str(chance.randint(1, 40))} if chance.random() < 0.7 else {}),
    }
    query = Query(kafka_cluster, source_options(settings, streaming=True))
    topics: dict[str, int] = {}
    made = 0

    def new_topic() -> None:
        nonlocal made
        topics[f"s-{made}"] = chance.randint(1, 3)
        kafka_cluster.create_topic(f"s-{made}", partitions=topics[f"s-{made}"], configs=AGES)
        made += 1

    def step() -> None:
        match chance.choice(
            ["send"] * 4 + ["trigger"] * 5 + ["restart", "replay", "topic", "grow", "lose", "delete"]
        ):
            case "send":
                name = chance.choice(sorted(topics))
                send(kafka_cluster, name, [chance.randint(0, 30) for _ in range(topics[name])])
            case "trigger":
                query.trigger()
            case "restart":
                query.start()
            case "replay" if not loses:
                query.replay()
            case "topic":
                new_topic()
            case "grow":
                name = chance.choice(sorted(topics))
                if topics[name] < MOST_PARTITIONS:
                    topics[name] += 1
                    add_partitions(kafka_cluster, name, topics[name])
            case "lose" if loses:
                name = chance.choice(sorted(topics))
                age_out(kafka_cluster, name, chance.randrange(topics[name]))
            case "delete" if loses and len(topics) > 1:
                name = topics.popitem()[0]
                kafka_cluster.delete_topic(name)

    new_topic()
    try:
        query.start()
        for _ in range(STEPS):
            step()
        while query.trigger():
            pass
    finally:
        connections.close_all()
    left = there(kafka_cluster, [TopicPartition(name, one) for name in topics for one in range(topics[name])])
    assert left <= set(query.read)
    assert {place: count for place, count in query.read.items() if count > 1} == {}
    assert loses or left == set(query.read)
