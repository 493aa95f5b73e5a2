"""Keys go where Java's producer and librdkafka put them, so that mixed fleets agree."""

from __future__ import annotations

import random
import time

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition

from .bridge import Bridge, b64
from .brokers import TIMEOUT, Cluster

PARTITIONS = 7
NAMES = ("consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random")
GIVE_NO_KEY_A_HOME = ("consistent", "murmur2", "fnv1a")
"""The others spread records without a key, and may put one anywhere."""


def keys_for(partitioner: str) -> list[bytes | None]:
    rng = random.Random("keys")
    keys: list[bytes | None] = [rng.randbytes(length) for length in (*range(1, 40), 100, 1000)]
    keys += [b"order-%d" % number for number in range(60)]
    if partitioner != "consistent_random":
        keys.append(b"")
    if partitioner in GIVE_NO_KEY_A_HOME:
        keys.append(None)
    return keys


@pytest.mark.parametrize("partitioner", NAMES)
def test_keyed_records_go_to_the_same_partitions_as_with_librdkafka(
    cluster: Cluster, partitioner: str
) -> None:
    from confluent_kafka import Producer

    topic, keys = cluster.new_topic(PARTITIONS), keys_for(partitioner)
    theirs: dict[bytes | None, int] = {}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "partitioner": partitioner})
    for key in keys:
        producer.produce(
            topic,
            b"v",
            key,
            on_delivery=lambda error, message: theirs.update({message.key(): message.partition()}),
        )
    assert producer.flush(TIMEOUT) == 0
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, partitioner=partitioner) as own:
        deliveries = {key: own.send(topic, b"v", key) for key in keys}
        ours = {key: delivery.result(TIMEOUT).partition for key, delivery in deliveries.items()}
    assert ours == theirs
    assert len({*ours.values()}) == PARTITIONS


def test_keys_go_where_the_java_producer_places_them(cluster: Cluster, java: Bridge) -> None:
    """The log is read for all three writers: where Java's records are, and where ours are."""
    rng = random.Random("java")
    keys = [*{rng.randbytes(rng.randrange(40)) for _ in range(400)}, *(b"order-%d" % n for n in range(100))]
    topic = cluster.new_topic(PARTITIONS)
    records = [{"key": b64(key), "value": b64(b"java")} for key in keys]
    servers = cluster.bootstrap_servers
    java("produce", [{"bootstrap_servers": servers, "topic": topic, "partition": None, "records": records}])
    with KafkaProducer(bootstrap_servers=servers) as producer:
        for key in keys:
            producer.send(topic, b"send", key)
        producer.send_many(topic, [b"send_many"] * len(keys), keys=keys)
    placed: dict[bytes | None, dict[bytes | None, int]] = {}
    deadline = time.monotonic() + TIMEOUT
    with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        while sum(map(len, placed.values())) < 3 * len(keys):
            assert time.monotonic() < deadline, {name: len(found) for name, found in placed.items()}
            for found in consumer.poll(200).values():
                for record in found:
                    placed.setdefault(record.value, {})[record.key] = record.partition
    assert {*placed} == {b"java", b"send", b"send_many"}
    assert {*placed[b"java"].values()} == {*range(PARTITIONS)}
    assert placed[b"send"] == placed[b"send_many"] == placed[b"java"]
