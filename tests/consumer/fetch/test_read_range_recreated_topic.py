"""`read_range` if the topic was deleted, created again or extended after the client's last metadata."""

from __future__ import annotations

import time

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.consumer.fetch import range_reader
from pykafka2.errors import UnknownTopicOrPartition
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pykafka2.testing import KafkaCluster, Simulation
from tests.spark.kafka_data import add_partitions

T0 = TopicPartition("t", 0)


def send(cluster: KafkaCluster, *values: bytes) -> None:
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send("t", value=value, partition=0)
            producer.flush()


def consumer_of(cluster: KafkaCluster) -> KafkaConsumer:
    return KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, allow_auto_create_topics=False)


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_read_range_reads_the_recreated_topic(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, b"old", b"old")
    with consumer_of(kafka_cluster) as consumer:
        assert [one.values for one in consumer.read_range(T0, 0, 2)] == [[b"old", b"old"]]
        kafka_cluster.delete_topic("t")
        kafka_cluster.create_topic("t")
        send(kafka_cluster, b"new")
        assert [one.values for one in consumer.read_range(T0, 0, 1)] == [[b"new"]]


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_a_partition_that_was_added_is_read(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, b"old")
    with consumer_of(kafka_cluster) as consumer:
        assert [one.values for one in consumer.read_range(T0, 0, 1)] == [[b"old"]]
        add_partitions(kafka_cluster, "t", 2)
        with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers) as producer:
            producer.send("t", value=b"new", partition=1)
        assert [one.values for one in consumer.read_range(TopicPartition("t", 1), 0, 1)] == [[b"new"]]


@pytest.mark.kafka(brokers=1, topics={"t": 1})
@pytest.mark.parametrize("was_known", [True, False], ids=["known", "never known"])
def test_read_range_of_a_deleted_topic_fails_long_before_the_timeout(
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
        assert time.monotonic() - began < 30


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
        with pytest.raises(UnknownTopicOrPartition, match="the topic was deleted and created again"):
            found.extend(value for piece in pieces for value in piece.values)
    assert set(found) == {b"old"}


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_a_topic_with_another_id_is_not_read(kafka_cluster: KafkaCluster) -> None:
    with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
        old = admin.describe_topics(["t"])["t"].topic_id
        kafka_cluster.delete_topic("t")
        kafka_cluster.create_topic("t")
        new = admin.describe_topics(["t"])["t"].topic_id
    send(kafka_cluster, b"new", b"new")
    with consumer_of(kafka_cluster) as consumer:
        (piece,) = consumer.read_range(T0, 0, 2, topic_id=new)
        assert list(piece.values) == [b"new", b"new"]
        assert consumer.topic_id("t") == new != old
        assert consumer.topic_id("missing") is None
        with pytest.raises(UnknownTopicOrPartition, match="the topic was deleted and created again"):
            list(consumer.read_range(T0, 0, 2, topic_id=old))


def without_topic(request: MetadataRequest, response: MetadataResponse) -> MetadataResponse:
    for topic in response.topics:
        topic.error_code = UnknownTopicOrPartition.code
        topic.partitions.clear()
    return response


def test_one_broker_that_does_not_know_the_topic_yet_ends_no_read(simulation: Simulation) -> None:
    """It has just started, say; what a slow leader is about to answer is good all the same."""
    cluster = simulation.cluster(brokers=2, topics={"t": 2})
    producer = simulation.producer(cluster)
    for number in range(2):
        producer.send("t", b"value", partition=number)
    producer.close()
    consumer = simulation.consumer(cluster, metadata_max_age_ms=4500, retry_backoff_ms=1000)
    for number in range(2):  # so that both are connected
        assert [one.values for one in consumer.read_range(TopicPartition("t", number), 0, 1)] == [[b"value"]]
    cluster.controls.delay(FetchRequest, 7.0)
    doubtful = cluster.controls.rule(api="Metadata", times=1, then="replace_reply", reply=without_topic)
    assert [one.values for one in consumer.read_range(T0, 0, 1)] == [[b"value"]]
    assert doubtful.fired == 1
