"""Record batches with headers of every codec, both ways with Java; damage is reported.

Every codec with headers written by us is read by the Java consumer, and the reverse; a batch whose checksum
does not fit is reported with topic, partition and offset.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import attrs
import pytest

from pykafka2 import KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.errors import CorruptMessage

from .brokers import Cluster
from .peers import TIMEOUT, Peer
from .real_kafka import RealKafka
from .test_other_clients import CODECS, rows_for


@pytest.mark.parametrize("codec", CODECS)
def test_java_consumer_reads_our_batches(apache: Cluster, peer_of: Callable[[str], Peer], codec: str) -> None:
    topic, rows = apache.new_topic(), rows_for("ours", "java")
    assert any(headers for *_, headers in rows)
    peer_of("ours").produce(apache.bootstrap_servers, topic, rows, codec)
    assert peer_of("java").consume(apache.bootstrap_servers, topic, len(rows)) == rows


@pytest.mark.parametrize("codec", CODECS)
def test_our_consumer_reads_batches_of_java(
    apache: Cluster, peer_of: Callable[[str], Peer], codec: str
) -> None:
    topic, rows = apache.new_topic(), rows_for("java", "ours")
    assert any(headers for *_, headers in rows)
    peer_of("java").produce(apache.bootstrap_servers, topic, rows, codec)
    assert peer_of("ours").consume(apache.bootstrap_servers, topic, len(rows)) == rows


@pytest.mark.parametrize("codec", CODECS)
def test_damage_in_the_brokers_log_is_reported_with_its_place(
    real_kafka: RealKafka, apache: Cluster, codec: str
) -> None:
    """One bit is flipped on Kafka's disk, which it serves without looking: our checksum must notice."""
    topic = attrs.evolve(apache, replicas=1).new_topic()
    partition = TopicPartition(topic, 0)
    with KafkaProducer(bootstrap_servers=apache.bootstrap_servers, compression_type=codec) as producer:
        for offset in range(3):
            delivery = producer.send(topic, b"value-%d" % offset, key=b"key", headers=[("h", b"1")])
            assert delivery.result(timeout=TIMEOUT).offset == offset
    segment = real_kafka.segment(topic, 0)
    log = bytearray(segment.read_bytes())
    log[-1] ^= 1  # the last byte of the batch at offset 2
    with segment.open("r+b") as file:
        file.write(log)

    values: list[bytes | None] = []
    with KafkaConsumer(bootstrap_servers=apache.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        with pytest.raises(CorruptMessage, match=rf"{re.escape(topic)}-0 .*offset 2\b"):
            _read_into(values, consumer)
        assert values == [b"value-0", b"value-1"]
        assert consumer.position(partition) == 2


def _read_into(values: list[bytes | None], consumer: KafkaConsumer) -> None:
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=200).values():
            values += [record.value for record in records]
