"""`read_range` where the topic was deleted, or made anew, since the client heard of it."""

from __future__ import annotations

import time

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.consumer import range_reader
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
@pytest.mark.parametrize("was_known", [True, False], ids=["known", "never heard of"])
def test_a_topic_that_is_gone_is_given_up_long_before_the_timeout(
    kafka_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch, was_known: bool
) -> None:
    monkeypatch.setattr(range_reader, "PATIENCE_WITH_MISSING", 0.1)
    send(kafka_cluster, b"old")
    with consumer_of(kafka_cluster) as consumer:
        if was_known:
            assert len(list(consumer.read_range(T0, 0, 1))) == 1
        kafka_cluster.delete_topic("t")
        began = time.monotonic()
        with pytest.raises(UnknownTopicOrPartition, match="'t' does not exist"):
            list(consumer.read_range(T0, 0, 1))
        assert time.monotonic() - began < 10


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
