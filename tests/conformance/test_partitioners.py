"""Partitioners named as librdkafka's put every key where librdkafka puts it, so that mixed fleets agree."""

from __future__ import annotations

import random

import pytest

from pykafka2 import KafkaProducer

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
def test_a_key_goes_where_librdkafka_sends_it(cluster: Cluster, partitioner: str) -> None:
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
