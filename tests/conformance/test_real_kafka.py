"""Our producer and consumer on Apache Kafka, and, by the same tests, on the bundled broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from pykafka2 import ConsumerRecord, KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.errors import KafkaError, KafkaTimeoutError, MessageTooLarge, UnknownTopicOrPartition

from .brokers import Cluster
from .peers import TIMEOUT, Peer
from .test_other_clients import CODECS, OTHERS, rows_for


@pytest.fixture
def consumer(cluster: Cluster) -> Iterator[KafkaConsumer]:
    with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        yield consumer


def values_of(consumer: KafkaConsumer, count: int) -> dict[TopicPartition, list[bytes | None]]:
    """The next `count` values, by partition."""
    read: dict[TopicPartition, list[bytes | None]] = {}
    deadline = time.monotonic() + TIMEOUT
    while sum(map(len, read.values())) < count:
        assert time.monotonic() < deadline, f"of {count} records only these arrived: {read}"
        for partition, records in consumer.poll(timeout_ms=200).items():
            read.setdefault(partition, []).extend(record.value for record in records)
    return read


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("reader", ["ours", *OTHERS])
def test_other_clients_read_our_records(
    cluster: Cluster, peer_of: Callable[[str], Peer], reader: str, codec: str
) -> None:
    topic, rows = cluster.new_topic(), rows_for("ours")
    peer_of("ours").produce(cluster.bootstrap_servers, topic, rows, codec)
    assert peer_of(reader).consume(cluster.bootstrap_servers, topic, len(rows)) == rows


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("writer", OTHERS)
def test_our_consumer_reads_records_of_other_clients(
    cluster: Cluster, peer_of: Callable[[str], Peer], writer: str, codec: str
) -> None:
    topic, rows = cluster.new_topic(), rows_for(writer)
    peer_of(writer).produce(cluster.bootstrap_servers, topic, rows, codec)
    assert peer_of("ours").consume(cluster.bootstrap_servers, topic, len(rows)) == rows


def test_idempotent_batches_in_flight_keep_their_order(cluster: Cluster, consumer: KafkaConsumer) -> None:
    topic = cluster.new_topic(partitions=3)
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, batch_size=500, linger_ms=0, compression_type="lz4"
    ) as producer:
        deliveries = [
            [producer.send(topic, b"%06d" % n, partition=partition) for n in range(2000)]
            for partition in range(3)
        ]
        producer.flush(timeout=TIMEOUT)
        for partition in range(3):
            offsets = [delivery.result(timeout=0).offset for delivery in deliveries[partition]]
            assert offsets == list(range(2000))
    partitions = [TopicPartition(topic, partition) for partition in range(3)]
    consumer.assign(partitions)
    expected: list[bytes | None] = [b"%06d" % n for n in range(2000)]
    assert values_of(consumer, 6000) == dict.fromkeys(partitions, expected)


@pytest.mark.parametrize(("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)])
def test_every_kind_of_acknowledgement(
    cluster: Cluster, consumer: KafkaConsumer, acks: int | str, idempotent: bool
) -> None:
    topic = cluster.new_topic()
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, acks=acks, enable_idempotence=idempotent
    ) as producer:
        deliveries = [producer.send(topic, b"%d" % n) for n in range(50)]
        producer.flush(timeout=TIMEOUT)
        offsets = [delivery.result(timeout=0).offset for delivery in deliveries]
    # Without acknowledgements there are no offsets.
    assert offsets == ([-1] * 50 if acks == 0 else list(range(50)))
    consumer.assign([TopicPartition(topic, 0)])
    assert values_of(consumer, 50) == {TopicPartition(topic, 0): [b"%d" % n for n in range(50)]}


def test_positions_and_bounds(cluster: Cluster, consumer: KafkaConsumer) -> None:
    topic = cluster.new_topic()
    partition = TopicPartition(topic, 0)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(20):
            producer.send(topic, b"%d" % n, partition=0)
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 20}
    consumer.assign([partition])
    consumer.seek(partition, 15)
    assert values_of(consumer, 5)[partition] == [b"15", b"16", b"17", b"18", b"19"]
    assert consumer.position(partition) == 20


def test_subscription_without_a_group_reads_all_partitions(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=4)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(40):
            producer.send(topic, b"%d" % n, partition=n % 4)
    with KafkaConsumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        read = values_of(consumer, 40)
    assert read == {TopicPartition(topic, p): [b"%d" % n for n in range(p, 40, 4)] for p in range(4)}


def test_log_append_time_is_the_brokers(cluster: Cluster, consumer: KafkaConsumer) -> None:
    topic = cluster.new_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        metadata = producer.send(topic, b"v", timestamp_ms=5).result(timeout=TIMEOUT)
    assert before <= metadata.timestamp <= int(time.time() * 1000)
    consumer.assign([TopicPartition(topic, 0)])
    deadline = time.monotonic() + TIMEOUT
    records: list[ConsumerRecord] = []
    while not records and time.monotonic() < deadline:
        records = [one for batch in consumer.poll(timeout_ms=200).values() for one in batch]
    assert [(one.timestamp, one.timestamp_type) for one in records] == [(metadata.timestamp, 1)]


def test_a_record_too_large_for_the_topic_is_refused_by_the_broker(cluster: Cluster) -> None:
    topic = cluster.new_topic(max_message_bytes="1000")
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        refused = producer.send(topic, bytes(5000))
        with pytest.raises(MessageTooLarge, match=topic):
            refused.result(timeout=TIMEOUT)
        assert producer.send(topic, b"small").result(timeout=TIMEOUT).offset == 0


def test_an_unknown_topic_is_a_typed_error_in_time(real_kafka: object, apache: Cluster) -> None:
    # Requests do not create topics here, so the wait ends with max_block_ms.
    with KafkaProducer(bootstrap_servers=apache.bootstrap_servers, max_block_ms=2000) as producer:
        started = time.monotonic()
        with pytest.raises((UnknownTopicOrPartition, KafkaTimeoutError), match="no-such-topic"):
            producer.send("no-such-topic", b"v").result(timeout=20)
        assert time.monotonic() - started < 10


def test_a_partition_that_does_not_exist_is_a_typed_error(cluster: Cluster) -> None:
    topic = cluster.new_topic(partitions=2)
    with (
        KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=2000) as producer,
        pytest.raises((KafkaError, ValueError), match=topic),
    ):
        producer.send(topic, b"v", partition=7).result(timeout=20)
