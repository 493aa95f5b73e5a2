"""Damage, bad records and good ones in any order, read by polls of any size: each is reported once, in order.

Every seed makes another log and reads it in another way. Damage may be reported in one piece or in several;
no other record may be missing, come twice or keep the consumer waiting.
"""

from __future__ import annotations

import random

import pytest

from pykafka2 import BadRecord
from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.errors import SerializationError
from pykafka2.types import TopicPartition
from tests.consumer.logs import LogCluster
from tests.consumer.poll.test_corrupt_data import damage
from tests.consumer.sessions import SessionCluster

BAD = b"bad"


def refuse_bad(data: bytes) -> bytes:
    if data == BAD:
        raise ValueError("it is bad")
    return data


class Story:
    """One log of a few partitions, and the records and errors that came from it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        count = self.random.choice([1, 2, 3])
        self.cluster = self.random.choice([LogCluster, SessionCluster])({"orders": [0] * count}, brokers=1)
        self.partitions = [TopicPartition("orders", number) for number in range(count)]
        self.expected: dict[TopicPartition, list[tuple[str, int]]] = {one: [] for one in self.partitions}
        self.calls: dict[TopicPartition, list[tuple[str, int]]] = {one: [] for one in self.partitions}
        self.fails = self.random.random() < 0.5
        for one in self.partitions:
            for _ in range(self.random.randint(0, 15)):
                self.append(one)

    def append(self, partition: TopicPartition) -> None:
        values = self.random.choices([b"good", b"good", BAD], k=self.random.choice([1, 1, 2, 5]))
        log = self.cluster.log(*partition)
        base = log.append(*values)
        if self.random.random() < 0.15:
            log.batches[-1] = damage(log.batches[-1], self.random.choice(["value", "codec", "magic"]))
        else:
            kinds = [("bad" if value == BAD else "good", base + at) for at, value in enumerate(values)]
            self.expected[partition] += kinds
        self.cluster.arrive()

    def take(self, bad: BadRecord) -> None:
        if self.fails and self.random.random() < 0.3:
            raise OSError("no call returns it now")
        if bad.batch is None:
            self.calls[bad.topic_partition].append(("bad", bad.offset))

    def poll(self, consumer: KafkaConsumer, timeout_ms: float) -> None:
        try:
            found = consumer.poll(timeout_ms)
        except SerializationError:
            return  # not returned yet; it comes again
        for partition, records in found.items():
            self.calls[partition] += [("good", record.offset) for record in records]

    def is_through(self, consumer: KafkaConsumer) -> bool:
        return all(consumer.position(one) == self.cluster.log(*one).end for one in self.partitions)


@pytest.mark.parametrize("seed", range(10))
def test_each_record_is_returned_or_reported_once(seed: int) -> None:
    story = Story(seed)
    options = {
        "max_poll_records": story.random.choice([1, 2, 3, 500]),
        "max_partition_fetch_bytes": story.random.choice([100, 250, 10_000]),
        "enable_incremental_fetch_sessions": isinstance(story.cluster, SessionCluster),
    }
    with story.cluster.consumer(
        value_deserializer=refuse_bad, on_bad_record=story.take, **options
    ) as consumer:
        consumer.assign(story.partitions)
        for _ in range(20):
            what = story.random.random()
            if what < 0.7:
                story.poll(consumer, story.random.choice([0, 0, 5, 300]))
            elif what < 0.85:
                story.cluster.runtime.run_for(story.random.choice([0.001, 0.1, 1.0]))
            else:
                story.append(story.random.choice(story.partitions))
        began = story.cluster.now
        while not story.is_through(consumer):
            story.poll(consumer, 500)
            assert story.cluster.now - began < 25, consumer.explain()
    for partition, expected in story.expected.items():
        for kind in ("good", "bad"):
            calls = [one for one in story.calls[partition] if one[0] == kind]
            assert calls == [one for one in expected if one[0] == kind]
