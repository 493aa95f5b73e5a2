"""`read_range` where the topic was deleted, or made anew, since the client heard of it."""

from __future__ import annotations

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.errors import UnknownTopicOrPartition
from pykafka2.testing import KafkaCluster

T0 = TopicPartition("t", 0)


def send(cluster: KafkaCluster, *values: bytes) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send("t", value=value, partition=0)
            producer.flush()


def consumer_of(cluster: KafkaCluster) -> KafkaConsumer:
    return KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, allow_auto_create_topics=False)


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_what_the_new_one_has_is_read(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, b"old", b"old")
    with consumer_of(kafka_cluster) as consumer:
        assert [one.values for one in consumer.read_range(T0, 0, 2)] == [[b"old", b"old"]]
        kafka_cluster.delete_topic("t")
        kafka_cluster.create_topic("t")
        send(kafka_cluster, b"new")
        assert [one.values for one in consumer.read_range(T0, 0, 1)] == [[b"new"]]


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_half_a_range_of_each_is_never_read(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, *[b"old"] * 4)
    found = []
    with consumer_of(kafka_cluster) as consumer:
        pieces = consumer.read_range(T0, 0, 4, max_bytes=1)
        found += next(pieces).values
        kafka_cluster.delete_topic("t")
        kafka_cluster.create_topic("t")
        send(kafka_cluster, *[b"new"] * 4)
        with pytest.raises(UnknownTopicOrPartition, match="the topic was made anew"):
            found.extend(value for piece in pieces for value in piece.values)
    assert set(found) == {b"old"}
